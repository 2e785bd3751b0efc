//! `sty tables`: lists the tables of a store.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use clap::Args;
use stylobate::internal::maintain::check_files;
use stylobate::{Error, Result, Store};

use crate::args::choices::ListFormat;
use crate::args::names;
use crate::args::table::all_tables;
use crate::context::{Context, Failures};
use crate::errors::Failure;
use crate::exit::Exit;

/// List the tables of a store: rows, columns, segments, bytes, state
///
/// The state is sound, damaged (exit code 3) or unreadable (for example without permission, 1); the
/// reason goes to stderr. Views come last, with the state view if they are sound, and no numbers.
/// Only the manifest and the lengths of the files that it names are looked at: `sty verify` reads
/// every byte.
///
/// Examples:
///   sty tables db
///   sty tables db --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TablesArgs {
    /// The store's directory
    #[arg(add = names::stores())]
    store: PathBuf,
    #[command(flatten)]
    list: ListFormat,
}

/// Runs `sty tables`.
pub(crate) fn run(args: &TablesArgs, context: &Context) -> Result<(), Failure> {
    let store = context.store(&args.store);
    let names = all_tables(&store)?;
    let mut counts: [Vec<Option<u64>>; 4] = Default::default();
    let (mut states, mut failures) = (Vec::new(), Failures::default());
    let mut listed = Vec::new();
    let add = |error: Error, failures: &mut Failures| -> Result<&str, Failure> {
        let failure = Failure::from(error);
        let state = if failure.exit == Exit::Corrupt { "damaged" } else { "unreadable" };
        failures.add(failure, context)?;
        Ok(state)
    };
    for name in names {
        let (row, checked) = match count(&store, &name) {
            Ok((row, checked)) => (row.map(Some), checked),
            // Another process has dropped it since the names were read.
            Err(Error::NotFound(_)) => continue,
            Err(error) => ([None; 4], Err(error)),
        };
        let state = match checked {
            Ok(()) => "sound",
            Err(error) => add(error, &mut failures)?,
        };
        for (column, value) in counts.iter_mut().zip(row) {
            column.push(value);
        }
        states.push(state);
        listed.push(name);
    }
    for name in store.views()? {
        let state = match store.view(&name) {
            // Another process has dropped it.
            Ok(None) => continue,
            Ok(Some(_)) => "view",
            Err(error) => add(error, &mut failures)?,
        };
        counts.iter_mut().for_each(|column| column.push(None));
        states.push(state);
        listed.push(name);
    }
    let mut columns: Vec<(&str, ArrayRef)> = vec![("table", Arc::new(StringArray::from(listed)))];
    for (name, values) in ["rows", "columns", "segments", "bytes"].into_iter().zip(counts) {
        columns.push((name, Arc::new(UInt64Array::from(values))));
    }
    columns.push(("state", Arc::new(StringArray::from(states))));
    context.print_batch(&RecordBatch::try_from_iter(columns)?, args.list.format)?;
    failures.finish()
}

/// Rows, columns, segments and bytes of a table, and whether its files are there.
fn count(store: &Store, name: &str) -> Result<([u64; 4], Result<()>)> {
    let snapshot = store.table(name)?.snapshot()?;
    let segments = snapshot.segments()?;
    let row = [
        snapshot.rows(),
        snapshot.schema().columns().len() as u64,
        segments.len() as u64,
        segments.iter().map(|segment| segment.length).sum(),
    ];
    Ok((row, check_files(&snapshot)))
}
