//! `sty demo`: generates data, loads it and queries it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use stylobate::{
    CsvOptions, Input, LoadOptions, Parameters, Schema, Session, SessionOptions, Store,
    TableOptions, load,
};
use stylobate_gen::Generator;

use crate::context::Context;
use crate::errors::{Failure, IoResult};
use crate::printers::{Format, Printer};
use crate::reports::load::summary;
use crate::signals;
use crate::units::{show_counted, show_duration, show_size};
use crate::watch;

/// The nine queries, shared with benches/versus.
const QUERIES: &str = include_str!("../../../benches/versus/queries/nine.sql");
/// The rows of each answer that are shown.
const SHOWN_ROWS: u64 = 8;

/// Make taxi trips, ingest and query them
///
/// Shows answers, times and compression of nine queries.
///
/// Examples:
///   sty demo
///   sty demo --rows 4000000 -o taxi
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DemoArgs {
    /// Trips to make
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    rows: u64,
    /// Keep the files and the store in this directory [default: a temporary one, removed at the
    /// end]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs `sty demo`.
pub(crate) fn run(args: &DemoArgs, context: &Context) -> Result<(), Failure> {
    let temporary = match args.output {
        Some(_) => None,
        None => Some(tempfile::tempdir().with_path(std::env::temp_dir())?),
    };
    if let Some(temporary) = &temporary {
        watch::remove_directory_at_end(temporary.path());
    }
    let kept = args.output.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let directory = kept.unwrap_or(Path::new("."));
    let store = Store::open(directory.join("db"));

    context
        .note(&format!("Making {} of 51 columns as CSV …", show_counted(args.rows, "taxi trip")));
    context.start_threads()?;
    let generator = Generator::new(1, args.rows, 1);
    let (csv, cancelled) = (directory.join("csv"), signals::cancellation());
    let (paths, bytes) = stylobate_gen::write(
        &generator,
        stylobate_gen::Format::Csv,
        true,
        &csv,
        watch::remove_directory_at_end,
        &cancelled,
    )?;
    context.note(&format!("  {} in {}", show_size(bytes), csv.display()));

    context.note("Ingesting them: sty ingest db/trips csv/*.csv");
    let table = store.table("trips")?.writer(Some((Schema::default(), TableOptions::default())))?;
    let inputs = paths.into_iter().map(Input::path).collect();
    let options = LoadOptions {
        csv: CsvOptions { header: Some(true), ..CsvOptions::default() },
        cancelled,
        memory_limit: context.memory_limit,
        ..LoadOptions::default()
    };
    let options = LoadOptions { threads: context.threads.unwrap_or(options.threads), ..options };
    context.note(&format!("  {}", summary(&load(table, inputs, &options)?)));

    let session = SessionOptions {
        threads: context.threads,
        memory_limit: context.memory_limit,
        ..SessionOptions::default()
    };
    let session = Session::open(&store, &session)?;
    watch::remove_at_end(session.spill_directories());
    for statement in session.parse(QUERIES)? {
        let started = Instant::now();
        let stream = session.execute(&statement, &Parameters::default())?;
        let schema = stream.schema();
        let batches = stream.collect::<stylobate::Result<Vec<_>>>()?;
        let elapsed = started.elapsed();
        let rows: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();

        let (mut output, _, mut print) = context.open_result(None, None, false)?;
        writeln!(output, "\n{statement}").map_err(|error| output.failure(&error))?;
        print.max_rows = Some(SHOWN_ROWS);
        let mut printer = Printer::new(Format::Table, &schema, &print, output)?;
        for batch in &batches {
            if printer.write(batch)?.is_break() {
                break;
            }
        }
        let mut output = printer.finish()?.output;
        let line = writeln!(output, "{} in {}", show_counted(rows, "row"), show_duration(elapsed));
        line.map_err(|error| output.failure(&error))?;
        output.commit()?;
    }
    if args.output.is_some() {
        context.note(&format!(
            "\nKept in {}: try sty query {}",
            directory.display(),
            store.path().display()
        ));
    }
    Ok(())
}
