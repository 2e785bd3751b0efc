//! `sty tables`: what is in a store.

use std::path::PathBuf;

use clap::Args;

use crate::printers::Format;

/// List the tables of a store: rows, columns, segments, bytes
///
/// Examples:
///   sty tables db
///   sty tables db --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TablesArgs {
    /// The store's directory
    pub(crate) store: PathBuf,
    /// Format of the list [default: table on a terminal, else csv]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}
