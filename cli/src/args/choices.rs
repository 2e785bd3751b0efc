//! Options with a few named values.

use clap::{Args, ValueEnum};
use stylobate::Profile;

use crate::printers::Format;

/// `--profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    /// Fastest to read and write
    Fast,
    /// Small where it costs no query speed
    Balanced,
    /// Smallest
    Small,
}

impl From<ProfileArg> for Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Fast => Profile::Fast,
            ProfileArg::Balanced => Profile::Balanced,
            ProfileArg::Small => Profile::Small,
        }
    }
}

/// `--report`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One object in one line
    Json,
}

/// `--format` of a command that prints a list.
#[derive(Debug, Args)]
pub(crate) struct ListFormat {
    /// Format of the list [default: table on a terminal, else csv]
    #[arg(long, value_enum, env = "STY_FORMAT", hide_env = true)]
    pub(crate) format: Option<Format>,
}
