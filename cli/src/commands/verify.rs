//! `sty verify`: every byte of a store, checked.

use std::path::PathBuf;

use clap::Args;

use super::paths::Scope;
use crate::terminal::When;

/// Read every byte of a store or a table and check it
///
/// Every checksum is computed again and every block decoded. Exit code 3 if anything is damaged; each damage is named
/// with its file and offset.
///
/// Examples:
///   sty verify db
///   sty verify db/trips && echo sound
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct VerifyArgs {
    /// A store, or one table of it
    #[arg(value_name = "STORE[/TABLE]")]
    path: PathBuf,
    /// A progress bar on stderr; `auto` shows it on a terminal
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) progress: When,
}

impl VerifyArgs {
    /// What is to be checked.
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(&self.path)
    }
}
