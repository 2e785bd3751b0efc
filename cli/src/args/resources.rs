//! Limits on what a command may use, and the bar that shows how far it is.

use clap::{Args, ValueEnum};
use stylobate::{Io, Store};

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

/// `--io`.
#[derive(Debug, Args)]
pub(crate) struct IoArg {
    /// How data files are read: mapped, or read into memory, which counts against the limit
    ///
    /// Files that cannot be mapped are read in any case.
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    #[arg(env = "STY_IO", hide_env = true)]
    io: HowRead,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum HowRead {
    #[default]
    Mmap,
    Read,
}

impl IoArg {
    /// How data files are read.
    pub(crate) fn io(&self) -> Io {
        match self.io {
            HowRead::Mmap => Io::Mmap,
            HowRead::Read => Io::Read,
        }
    }
}

/// `--io` and `--memory-limit` of commands that only read.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    io: IoArg,
    /// Memory for decoded data to use at most, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    #[arg(env = "STY_MEMORY_LIMIT", hide_env = true)]
    memory_limit: Option<u64>,
}

impl ReadArgs {
    /// The store, read in this way.
    pub(crate) fn of(&self, store: Store) -> Store {
        let store = store.with_io(self.io.io());
        match self.memory_limit {
            Some(limit) => store.with_memory_limit(limit),
            None => store,
        }
    }
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
