//! `sty`: the command line of Stylobate, whose `main.rs` calls this library. It is for no other
//! programs: those use the crate `stylobate`.
//!
//! `main` reads the command line (`cli`), runs one command (`commands`), reports a failure on
//! stderr (`errors`) and leaves with its exit code (`exit`). Results go through `printers` to
//! `output`. Stdout carries data only.
//!
//! The modules below are in order: each imports only from those before it, and no command imports
//! another. `tests/it/layers.rs` holds them to that.

mod exit;
mod units;
mod memory;
mod terminal;
mod progress;
mod errors;
mod signals;
mod pager;
mod compressed;
mod output;
mod charts;
mod page;
mod printers;
mod partition_files;
mod context;
mod watch;
mod config;
mod args;
mod loading;
mod reports;
mod kept;
mod runner;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod commands;
mod help;
mod cli;

/// What reads the bytes of clients, for our own fuzzing.
#[doc(hidden)]
#[cfg(all(feature = "serve", any(test, feature = "fuzzing")))]
pub use serve::fuzzing;

use std::process::ExitCode;

/// With the pages of 2 MiB that the allocator asks for, a query that needs a few megabytes holds
/// tens of them, and no query is faster.
#[cfg(target_os = "linux")]
fn refuse_huge_pages() {
    // Where the system does not allow it, the process only takes more memory.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// The stack that a command has, whatever the system gives to a process (`ulimit -s`).
const STACK_BYTES: usize = 8 << 20;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    refuse_huge_pages();
    let own = std::thread::Builder::new().name("main".into()).stack_size(STACK_BYTES);
    match own.spawn(run) {
        // A panic has said what went wrong.
        Ok(command) => command.join().unwrap_or(ExitCode::from(101)),
        Err(_) => run(),
    }
}

#[inline(never)]
fn run() -> ExitCode {
    if cli::complete() {
        return exit::Exit::Done.into();
    }
    let (command, context) = match cli::parse() {
        Ok(parsed) => parsed,
        Err(exit) => return exit.into(),
    };
    if command.is_interactive() {
        signals::keep_session_on_interrupt();
    }
    let timeout = context.timeout.filter(|_| command.has_timeout());
    let result = watch::start(&context, timeout).and_then(|()| cli::run(command, &context));
    watch::end_command();
    match result {
        Ok(()) => exit::Exit::Done.into(),
        Err(failure) => {
            if let Some(command) = failure.needs_help_of {
                cli::print_help(command);
            }
            failure.report(context.error_format, context.color_stderr());
            failure.exit.into()
        }
    }
}
