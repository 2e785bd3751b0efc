//! `sty export`: writes a table to files that other programs read.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use stylobate::internal::ingest::{Partitions, partition_keys};
use stylobate::{BlockPlace, ColumnId, Snapshot, SqlExpressions, blocks, read_block};

use crate::args::arrange::{Expressions, parse_expressions};
use crate::args::names;
use crate::args::resources::IoArg;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;
use crate::partition_files::{Directory, PartitionFiles};
use crate::printers::{Format, PrintOptions, Printer};
use crate::progress::{Seen, Unit};
use crate::signals;
use crate::terminal::Look;
use crate::units::{show_count, show_counted, show_duration};

/// Write a table to files: Parquet, CSV, JSON lines or Arrow
///
/// To a file or to stdout (-), rows come in the order of the table. To a directory, which is made
/// if it does not exist, each segment becomes a file of its own, all threads write, and
/// --partition-by spreads rows over directories as Hive does. A file appears when it is complete,
/// and is compressed if its name ends with .gz or .zst.
///
/// Examples:
///   sty export db/trips -o trips.parquet
///   sty export db/trips -o out/ --partition-by 'year(pickup_datetime) AS year'
///   sty export db/trips -o trips.jsonl.gz
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    table: TableArg,
    /// A file, a directory (with / at its end, or one that exists), or - for stdout
    #[arg(short, long, value_name = "FILE|DIR|-")]
    output: PathBuf,
    /// Format [default: by the name of the file; parquet in a directory, csv on stdout]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Spread rows over directories by these expressions
    #[arg(long, value_name = "EXPR,…", value_parser = parse_expressions, add = names::column_lists())]
    partition_by: Option<Expressions>,
    /// A generation that is kept [default: the current one]
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    io: IoArg,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Parquet, zstd
    Parquet,
    /// Comma-separated, with a header
    Csv,
    /// Tab-separated, with a header
    Tsv,
    /// One array of JSON objects
    Json,
    /// One JSON object a line
    Jsonl,
    /// Arrow IPC
    Arrow,
}

impl ExportFormat {
    fn format(self) -> Format {
        match self {
            ExportFormat::Parquet => Format::Parquet,
            ExportFormat::Csv => Format::Csv,
            ExportFormat::Tsv => Format::Tsv,
            ExportFormat::Json => Format::Json,
            ExportFormat::Jsonl => Format::Jsonl,
            ExportFormat::Arrow => Format::Arrow,
        }
    }
}

/// Runs `sty export`.
pub(crate) fn run(args: &ExportArgs, context: &Context) -> Result<(), Failure> {
    let started = Instant::now();
    let store = args.io.of(context.store(&args.table.path.store));
    let snapshot = args.table.path.snapshot_in(&store, args.generation)?;
    context.start_threads()?;
    let output = args.output.to_string_lossy();
    let is_directory = output.ends_with('/') || args.output.is_dir() || args.partition_by.is_some();
    let written = Arc::<AtomicU64>::default();
    let (done, total) = (Arc::clone(&written), Some(snapshot.rows()));
    let progress = context.progress(move || {
        let done = done.load(Ordering::Relaxed);
        Some(Seen { done, total, unit: Unit::Rows, rows: None })
    });
    let files = match is_directory && output != "-" {
        true => DirectoryExport::new(args, &snapshot, &written)?.run()?,
        false if args.partition_by.is_some() => {
            return Err(Failure::usage("--partition-by needs a directory: -o DIR/"));
        }
        false => write_one_file(args, &snapshot, &written, context)?,
    };
    drop(progress);
    context.note(&format!(
        "{} in {}, {} ({} rows/s)",
        show_counted(snapshot.rows(), "row"),
        show_counted(files, "file"),
        show_duration(started.elapsed()),
        show_count((snapshot.rows() as f64 / started.elapsed().as_secs_f64().max(1e-9)) as u64)
    ));
    Ok(())
}

/// Writes all rows in order. All threads decode ahead while one prints; those of Parquet encode.
fn write_one_file(
    args: &ExportArgs,
    snapshot: &Snapshot,
    written: &AtomicU64,
    context: &Context,
) -> Result<u64, Failure> {
    let asked = args.format.map(ExportFormat::format);
    let (output, format, options) = context.open_result(asked, Some(&args.output), args.force)?;
    let options = PrintOptions { threads: context.thread_count(), ..options };
    let mut printer = Printer::new(format, &snapshot.schema().to_arrow(), &options, output)?;
    let places = blocks(snapshot)?;
    let (send, receive) = sync_channel::<Result<Vec<RecordBatch>, stylobate::Error>>(1);
    std::thread::scope(|scope| {
        let width = rayon::current_num_threads();
        let places = &places;
        let read_ahead = move || {
            for group in places.chunks(width) {
                let read = |place: &BlockPlace| read_block(snapshot, place);
                let batches = group.par_iter().map(read).collect();
                // The receiver is gone: the output was closed, or printing failed.
                if send.send(batches).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .spawn_scoped(scope, read_ahead)
            .map_err(stylobate::Error::too_few_threads)?;
        for batches in receive {
            for batch in batches? {
                signals::check()?;
                if printer.write(&batch)? == ControlFlow::Break(()) {
                    return Ok(());
                }
                written.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            }
        }
        Ok::<(), Failure>(())
    })?;
    printer.finish()?.output.commit()?;
    Ok(1)
}

/// Writes one file per segment, or one per segment and partition.
struct DirectoryExport<'a> {
    directory: Directory,
    partition_by: Option<&'a [String]>,
    snapshot: &'a Snapshot,
    schema: SchemaRef,
    files: AtomicU64,
    /// Rows.
    written: &'a AtomicU64,
}

impl<'a> DirectoryExport<'a> {
    fn new(
        args: &'a ExportArgs,
        snapshot: &'a Snapshot,
        written: &'a AtomicU64,
    ) -> Result<Self, Failure> {
        let format = args.format.unwrap_or(ExportFormat::Parquet);
        // The threads write other files.
        let options = PrintOptions::new(Look::default());
        let directory = Directory::new(&args.output, format.format(), options, args.force)?;
        directory.make()?;
        Ok(DirectoryExport {
            directory,
            partition_by: args.partition_by.as_ref().map(|Expressions(all)| all.as_slice()),
            snapshot,
            schema: snapshot.schema().to_arrow(),
            files: AtomicU64::new(0),
            written,
        })
    }

    /// Returns the number of files.
    fn run(&self) -> Result<u64, Failure> {
        let places = blocks(self.snapshot)?;
        let segments: Vec<&[BlockPlace]> = places.chunk_by(|a, b| a.segment == b.segment).collect();
        segments.par_iter().enumerate().try_for_each(|(number, blocks)| {
            match self.partition_by {
                None => self.write_segment(number, blocks),
                Some(expressions) => self.write_partitions(number, blocks, expressions),
            }
        })?;
        if segments.is_empty() {
            // A file without rows still says which columns there are.
            self.write_segment(0, &[])?;
        }
        Ok(self.files.load(Ordering::Relaxed))
    }

    fn write_segment(&self, number: usize, blocks: &[BlockPlace]) -> Result<(), Failure> {
        let mut printer = self.directory.open("", (number, 0), &self.schema)?;
        for place in blocks {
            signals::check()?;
            let batch = read_block(self.snapshot, place)?;
            let _ = printer.write(&batch)?;
            self.written.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        self.files.fetch_add(1, Ordering::Relaxed);
        printer.finish()?.output.commit()
    }

    fn write_partitions(
        &self,
        number: usize,
        blocks: &[BlockPlace],
        expressions: &[String],
    ) -> Result<(), Failure> {
        let compile = Arc::new(SqlExpressions::default());
        let schema = self.snapshot.schema();
        let ids: Vec<ColumnId> = schema.columns().iter().map(|column| column.id).collect();
        let mut partitions =
            Partitions::new(partition_keys(expressions, schema, &*compile)?, compile);
        let mut files = PartitionFiles::new(&self.directory, number, Arc::clone(&self.schema));
        for place in blocks {
            signals::check()?;
            let batch = read_block(self.snapshot, place)?;
            let numbers = partitions.number_rows(&batch, &ids, schema)?;
            files.write(&batch, &numbers, &partitions)?;
            self.written.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        self.files.fetch_add(files.finish()?, Ordering::Relaxed);
        Ok(())
    }
}
