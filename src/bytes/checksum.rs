//! The one place where a computed checksum meets the stored one.

// A fuzzer reaches the parsers behind checksums because every checksum matches there: they must
// withstand any bytes too. A build that stores or reads anybody's data must not do that, so the
// switch exists only where debug assertions are on, as they are for cargo-fuzz.
#[cfg(all(fuzzing, not(debug_assertions)))]
compile_error!(
    "--cfg fuzzing accepts every checksum, and is refused without debug assertions: build fuzz \
     targets by cargo-fuzz, without its option --release"
);

/// Whether a checksum matches the stored one.
#[inline]
pub(crate) fn checksum_holds(computed: u32, stored: u32) -> bool {
    cfg!(all(fuzzing, debug_assertions)) || computed == stored
}
