//! `sty tables`: what is in a store.

use std::path::PathBuf;

use clap::Args;

use crate::printers::Format;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use stylobate::store::Store;

use crate::context::Context;
use crate::errors::Failure;
use crate::printers::Printer;

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
    print_one(&RecordBatch::try_from_iter(columns)?, args.format, context)
}

/// Prints one batch as a whole result on stdout.
pub(crate) fn print_one(
    batch: &RecordBatch,
    format: Option<Format>,
    context: &Context,
) -> Result<(), Failure> {
    let (output, format, options) = context.open_result(format, None, false)?;
    let mut printer = Printer::new(format, &batch.schema(), &options, output)?;
    let _ = printer.write(batch)?;
    printer.finish()?.output.commit()
}
