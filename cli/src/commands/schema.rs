//! `sty schema`: the columns of a table.

use clap::Args;

use super::paths::TablePath;
use crate::printers::Format;

/// List the columns of a table: name, type, permanent id
///
/// Examples:
///   sty schema db/trips
///   sty schema db/trips --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SchemaArgs {
    /// The table
    #[arg(value_name = "STORE/TABLE")]
    pub(crate) table: TablePath,
    /// Format of the list [default: table on a terminal, else csv]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}
