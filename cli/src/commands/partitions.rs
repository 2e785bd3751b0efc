//! `sty partitions` and `sty drop-partition`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::maintain::{drop_partitions, partitions};
use stylobate::store::Store;

use super::paths::TablePath;
use super::tables::print_one;
use crate::context::Context;
use crate::errors::Failure;
use crate::printers::Format;
use crate::units::{show_counted, show_size};

/// List the partitions of a table: rows, segments, bytes
///
/// Examples:
///   sty partitions db/trips
///   sty partitions db/trips --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PartitionsArgs {
    /// The table
    #[arg(value_name = "STORE/TABLE")]
    table: TablePath,
    /// Format of the list [default: table on a terminal, else csv]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// Runs `sty partitions`.
pub(crate) fn run(args: &PartitionsArgs, context: &Context) -> Result<(), Failure> {
    let snapshot = Store::open(&args.table.store).table(&args.table.table)?.snapshot()?;
    let all = partitions(&snapshot)?;
    let paths: ArrayRef =
        Arc::new(StringArray::from_iter_values(all.iter().map(|partition| &*partition.path)));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("partition", paths)];
    let numbers = |of: fn(&stylobate::maintain::Partition) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(all.iter().map(of)))
    };
    columns.push(("rows", numbers(|partition| partition.rows)));
    columns.push(("segments", numbers(|partition| partition.segments)));
    columns.push(("bytes", numbers(|partition| partition.bytes)));
    print_one(&RecordBatch::try_from_iter(columns)?, args.format, context)
}

/// Drop partitions of a table, and those within them
///
/// No data is read or written; queries that have begun go on. The files go as soon as no query and
/// no kept generation needs them.
///
/// Examples:
///   sty drop-partition db/trips year=2009
///   sty drop-partition db/trips year=2009/month=1 year=2009/month=2
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DropPartitionArgs {
    /// The table
    #[arg(value_name = "STORE/TABLE")]
    table: TablePath,
    /// Partitions, as `sty partitions` names them
    #[arg(value_name = "PARTITION", required = true)]
    partitions: Vec<String>,
}

/// Runs `sty drop-partition`.
pub(crate) fn run_drop(args: &DropPartitionArgs, context: &Context) -> Result<(), Failure> {
    let table = Store::open(&args.table.store).table(&args.table.table)?;
    let (_, dropped) = drop_partitions(&table, &args.partitions)?;
    context.note(&format!(
        "{} dropped: {}, {}",
        show_counted(dropped.rows, "row"),
        show_counted(dropped.segments, "segment"),
        show_size(dropped.bytes)
    ));
    Ok(())
}
