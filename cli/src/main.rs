//! `sty`: the command line of Stylobate.
//!
//! `main` reads the command line ([`args`]), runs one command ([`commands`]), reports a failure on
//! stderr ([`errors`]) and leaves with its exit code ([`exit`]). Results go through [`printers`] to
//! [`output`]; stdout carries data only.

mod args;
mod commands;
mod context;
mod errors;
mod exit;
mod r#gen;
mod output;
mod printers;
mod progress;
mod signals;
mod terminal;
mod units;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pages of 2 MiB, for which the allocator asks, make a query of a few megabytes hold tens of them,
/// and none faster.
#[cfg(target_os = "linux")]
fn refuse_huge_pages() {
    // Where that is not allowed, it only takes more memory.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    refuse_huge_pages();
    let (cli, context) = match args::parse() {
        Ok(parsed) => parsed,
        Err(exit) => return exit.into(),
    };
    match commands::run(cli, &context) {
        Ok(()) => exit::Exit::Done.into(),
        Err(failure) => {
            failure.report(context.error_format, context.color_stderr());
            failure.exit.into()
        }
    }
}
