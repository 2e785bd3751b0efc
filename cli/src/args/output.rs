//! Where a command writes its result.

use std::path::PathBuf;

use clap::Args;

/// `--output` and `--force`.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write to a file, which appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file of -o if it exists
    #[arg(long)]
    pub(crate) force: bool,
}
