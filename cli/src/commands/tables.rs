//! `sty tables`: lists the tables of a store.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::Store;

use crate::args::choices::ListFormat;
use crate::context::Context;
use crate::errors::Failure;

/// List the tables of a store: rows, columns, segments, bytes
///
/// Examples:
///   sty tables db
///   sty tables db --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TablesArgs {
    /// The store's directory
    store: PathBuf,
    #[command(flatten)]
    list: ListFormat,
}

/// Runs `sty tables`.
pub(crate) fn run(args: &TablesArgs, context: &Context) -> Result<(), Failure> {
    let store = Store::open(&args.store);
    let names = store.tables()?;
    let mut counts: [Vec<u64>; 4] = Default::default();
    for name in &names {
        let snapshot = store.table(name)?.snapshot()?;
        let segments = snapshot.segments()?;
        let row = [
            snapshot.rows(),
            snapshot.schema().columns().len() as u64,
            segments.len() as u64,
            segments.iter().map(|segment| segment.length).sum(),
        ];
        for (column, value) in counts.iter_mut().zip(row) {
            column.push(value);
        }
    }
    let mut columns: Vec<(&str, ArrayRef)> = vec![("table", Arc::new(StringArray::from(names)))];
    for (name, values) in ["rows", "columns", "segments", "bytes"].into_iter().zip(counts) {
        columns.push((name, Arc::new(UInt64Array::from(values))));
    }
    context.print_batch(&RecordBatch::try_from_iter(columns)?, args.list.format)
}
