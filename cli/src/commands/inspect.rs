//! `sty inspect`: how a table is stored.

use clap::{Args, ValueEnum};

use super::paths::TablePath;

/// Show how a table is stored: per column its encodings, bytes, ratio and statistics
///
/// Examples:
///   sty inspect db/trips
///   sty inspect db/trips --segments
///   sty inspect db/trips --column fare --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    /// The table
    #[arg(value_name = "STORE/TABLE")]
    pub(crate) table: TablePath,
    /// For people, or one JSON document [default: table]
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: InspectFormat,
    /// This column only, with the encoding of each block; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Vec<String>,
    /// One line a segment
    #[arg(long)]
    pub(crate) segments: bool,
}

/// `--format` of `sty inspect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectFormat {
    /// For people.
    #[default]
    Table,
    /// One document.
    Json,
}
