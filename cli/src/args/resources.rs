//! Limits on what a command may use, and the bar that shows how far it is.

use clap::Args;

use crate::terminal::When;
use crate::units::parse_size;

/// `--threads`.
#[derive(Debug, Args)]
pub(crate) struct ThreadsArg {
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    #[arg(env = "STY_THREADS", hide_env = true)]
    pub(crate) threads: Option<usize>,
}

impl ThreadsArg {
    /// The number of threads asked for, or of all cores.
    pub(crate) fn count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(cores)
    }
}

/// `--threads` and `--memory-limit`.
#[derive(Debug, Args)]
pub(crate) struct ResourceArgs {
    #[command(flatten)]
    pub(crate) threads: ThreadsArg,
    /// Memory to use at most, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    #[arg(env = "STY_MEMORY_LIMIT", hide_env = true)]
    pub(crate) memory_limit: Option<u64>,
}

/// `--progress`.
#[derive(Debug, Args)]
pub(crate) struct ProgressArg {
    /// A progress bar on stderr; `auto` shows it on a terminal
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) progress: When,
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("a number from 1 to 1024 is needed".to_owned()),
    }
}
