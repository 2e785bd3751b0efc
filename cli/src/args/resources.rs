//! What a command may use.

use std::time::Duration;

use clap::{Args, ValueEnum};
use stylobate::{Io, Store};

use crate::context::Context;
use crate::units::{parse_duration, parse_size};

/// `--threads`, `--memory-limit` and `--timeout`, which all commands have.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Threads [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = parse_threads)]
    #[arg(env = "STY_THREADS", hide_env = true)]
    pub(crate) threads: Option<usize>,
    /// Memory to use at most, such as 1GiB [default: 70 % of what the machine or cgroup has]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    #[arg(env = "STY_MEMORY_LIMIT", hide_env = true)]
    pub(crate) memory_limit: Option<u64>,
    /// Give up after this long, such as 30s or 5m; exit code 5; 0 is no limit
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    #[arg(env = "STY_TIMEOUT", hide_env = true)]
    pub(crate) timeout: Option<Duration>,
}

/// `--wait`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct WaitArg {
    /// Wait for a table that another process writes, for at most this long if a time is given; exit
    /// code 5 if it passes
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_wait)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "forever")]
    #[arg(env = "STY_WAIT", hide_env = true)]
    wait: Option<Duration>,
}

impl WaitArg {
    /// How long to wait, where it is not said.
    pub(crate) fn or(self, time: Duration) -> Duration {
        self.wait.unwrap_or(time)
    }

    /// The context of a command whose writers wait.
    pub(crate) fn of(self, context: &Context) -> Context {
        Context { wait: self.wait.unwrap_or_default(), ..*context }
    }
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    if text == "forever" { Ok(Duration::MAX) } else { parse_duration(text) }
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

    /// The store, read in this way.
    pub(crate) fn of(&self, store: Store) -> Store {
        store.with_io(self.io())
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("a number from 1 to 1024 is needed".to_owned()),
    }
}
