//! `sty compact`: small and overlapping segments into large, sorted ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};
use stylobate::encoding::Profile;
use stylobate::maintain::{CompactOptions, CompactReport, compact};
use stylobate::store::{Store, Table};

use super::arrange_args::{SortList, parse_sort};
use super::ingest::{ProfileArg, ReportFormat, parse_threads};
use super::paths::TablePath;
use crate::context::Context;
use crate::errors::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::When;
use crate::units::{parse_size, show_amplification, show_count, show_counted, show_size};

/// Merge small and overlapping segments into large ones, sorted as a whole
///
/// One partition at a time, each with a commit of its own; queries go on meanwhile. A table that is
/// sorted (--sort-by here or at its ingest) is sorted as a whole afterwards, in others rows stay in
/// order. What is as it should be is left alone, unless --all or a --profile asks for all of it to
/// be written anew.
///
/// Examples:
///   sty compact db/trips
///   sty compact db/trips --sort-by 'vendor_id, pickup_datetime DESC'
///   sty compact db/trips --partition year=2015 --profile small
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompactArgs {
    /// The table
    #[arg(value_name = "STORE/TABLE")]
    table: TablePath,
    /// Only this partition and those within it, as `sty partitions` names them
    #[arg(long, value_name = "PATH")]
    partition: Option<String>,
    /// Sort the table by these columns from now on
    #[arg(long, value_name = "COLUMN [DESC],…", value_parser = parse_sort)]
    sort_by: Option<SortList>,
    /// Write all of it anew under this profile
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    /// Write all of it anew
    #[arg(long)]
    all: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads, env = "STY_THREADS", hide_env = true)]
    threads: Option<usize>,
    /// Memory to use at most, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, env = "STY_MEMORY_LIMIT", hide_env = true)]
    memory_limit: Option<u64>,
    /// A progress bar on stderr; `auto` shows it on a terminal
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    progress: When,
    /// Also print what was done to stdout, for programs
    #[arg(long, value_enum, value_name = "FORMAT")]
    report: Option<ReportFormat>,
}

/// Runs `sty compact`.
pub(crate) fn run(args: &CompactArgs, context: &Context) -> Result<(), Failure> {
    let table = Store::open(&args.table.store).table(&args.table.table)?;
    let options = CompactOptions {
        partition: args.partition.clone(),
        sort_by: args.sort_by.clone().map(|SortList(keys)| keys).unwrap_or_default(),
        profile: args.profile.map(Profile::from),
        all: args.all,
        threads: args
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        memory_limit: args.memory_limit,
        cancelled: signals::cancellation(),
        done: Arc::default(),
    };
    let progress =
        Progress::new(args.progress, context.quiet, Some(bytes_before(&table, &options)?));
    let report =
        progress.watch(|| options.done.load(Ordering::Relaxed), || compact(&table, &options))?;
    context.note(&format!(
        "{} → {}: {} rows written anew, {} read, {} written{}",
        show_counted(report.segments_before, "segment"),
        show_count(report.segments_after),
        show_count(report.rows),
        show_size(report.bytes_read),
        show_size(report.bytes_written),
        show_amplification(&report.write_volume),
    ));
    match args.report {
        Some(ReportFormat::Json) => {
            Output::stdout()?.print_line(&object(&args.table.table, &report))
        }
        None => Ok(()),
    }
}

/// What there is to do. The snapshot is gone when this returns: a generation that somebody reads is
/// not freed.
fn bytes_before(table: &Table, options: &CompactOptions) -> Result<u64, Failure> {
    let segments = table.snapshot()?.segments()?;
    Ok(segments
        .iter()
        .filter(|segment| options.covers(&segment.partition))
        .map(|segment| segment.length)
        .sum())
}

fn object(table: &str, report: &CompactReport) -> Value {
    json!({
        "table": table,
        "partitions": report.partitions,
        "segments_before": report.segments_before,
        "segments_after": report.segments_after,
        "rows": report.rows,
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
        "table_bytes_loaded": report.write_volume.loaded,
        "table_bytes_written": report.write_volume.written,
        "table_write_amplification": report.write_volume.amplification(),
    })
}
