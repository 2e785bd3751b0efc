//! `sty schema`: lists the columns of a table.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array};
use clap::Args;

use crate::args::choices::ListFormat;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;

/// List the columns of a table: name, type, id, nullable
///
/// Examples:
///   sty schema db/trips
///   sty schema db/trips --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SchemaArgs {
    #[command(flatten)]
    table: TableArg,
    #[command(flatten)]
    list: ListFormat,
}

/// Runs `sty schema`.
pub(crate) fn run(args: &SchemaArgs, context: &Context) -> Result<(), Failure> {
    let snapshot = args.table.path.snapshot(None, context)?;
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
    context.print_batch(&batch, args.list.format)
}
