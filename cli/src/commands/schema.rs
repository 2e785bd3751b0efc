//! `sty schema`: the columns of a table.

use clap::Args;

use super::paths::TablePath;
use crate::printers::Format;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array};
use stylobate::store::Store;

use super::tables::print_one;
use crate::context::Context;
use crate::errors::Failure;

/// List the columns of a table: name, type, permanent id, whether rows may have no value there
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

/// Runs `sty schema`.
pub(crate) fn run(args: &SchemaArgs, context: &Context) -> Result<(), Failure> {
    let snapshot = Store::open(&args.table.store).table(&args.table.table)?.snapshot()?;
    let columns = snapshot.schema().columns();
    let names: ArrayRef =
        Arc::new(columns.iter().map(|c| Some(c.name.to_string())).collect::<StringArray>());
    let types: ArrayRef =
        Arc::new(columns.iter().map(|c| Some(c.data_type.to_string())).collect::<StringArray>());
    let ids: ArrayRef = Arc::new(columns.iter().map(|c| Some(c.id.0)).collect::<UInt32Array>());
    let nullable: ArrayRef =
        Arc::new(columns.iter().map(|c| Some(c.nullable)).collect::<BooleanArray>());
    let batch = RecordBatch::try_from_iter([
        ("column", names),
        ("type", types),
        ("id", ids),
        ("nullable", nullable),
    ])?;
    print_one(&batch, args.format, context)
}
