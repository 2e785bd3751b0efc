//! `sty partitions`: lists the partitions of a table.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::{Partition, partitions};

use crate::args::choices::ListFormat;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;

/// List the partitions of a table: rows, segments, bytes
///
/// Examples:
///   sty partitions db/trips
///   sty partitions db/trips --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PartitionsArgs {
    #[command(flatten)]
    table: TableArg,
    #[command(flatten)]
    list: ListFormat,
}

/// Runs `sty partitions`.
pub(crate) fn run(args: &PartitionsArgs, context: &Context) -> Result<(), Failure> {
    let snapshot = args.table.path.snapshot(None, context)?;
    let all = partitions(&snapshot)?;
    let paths: ArrayRef =
        Arc::new(StringArray::from_iter_values(all.iter().map(|partition| &*partition.path)));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("partition", paths)];
    let numbers = |number: fn(&Partition) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(all.iter().map(number)))
    };
    columns.push(("rows", numbers(|partition| partition.rows)));
    columns.push(("segments", numbers(|partition| partition.segments)));
    columns.push(("bytes", numbers(|partition| partition.bytes)));
    context.print_batch(&RecordBatch::try_from_iter(columns)?, args.list.format)
}
