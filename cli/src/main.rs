//! `sty`: the command line of Stylobate, which the library beside this file has.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sty::main()
}
