#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stylobate_fuzz::partition::run(bytes));
