//! `sty demo`: the whole thing, on data of its own.

use std::path::PathBuf;

use clap::Args;

/// Make taxi trips, ingest them, run nine queries, and show answers, times and compression
///
/// Examples:
///   sty demo
///   sty demo --rows 4000000 -o taxi
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DemoArgs {
    /// Trips to make
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub(crate) rows: u64,
    /// Keep the files and the store in this directory [default: a temporary one, removed at the end]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}
