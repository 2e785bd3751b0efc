//! `sty`: the command line of Stylobate.
//!
//! `main` reads the command line ([`args`]), runs one command ([`commands`]), reports a failure on stderr
//! ([`errors`]) and leaves with its exit code ([`exit`]). Results go through [`printers`] to [`output`]; stdout
//! carries data only.

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

fn main() -> ExitCode {
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
