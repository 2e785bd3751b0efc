//! `sty compact`: merges small and overlapping segments into large, sorted ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Value, json};
use stylobate::{
    CompactForecast, CompactOptions, CompactReport, Profile, Table, compact, would_compact,
};

use crate::args::arrange::{SortList, parse_sort};
use crate::args::choices::{ProfileArg, ReportFormat};
use crate::args::dry_run::DryRunArg;
use crate::args::names;
use crate::args::resources::WaitArg;
use crate::args::table::TableArg;
use crate::context::Context;
use crate::errors::Failure;
use crate::output::Output;
use crate::progress::{Seen, Unit};
use crate::reports::dry_run::{self, Action, of_partition};
use crate::reports::show_amplification;
use crate::signals;
use crate::units::{show_count, show_counted, show_size};

/// Merge small and overlapping segments into large ones
///
/// One partition at a time, with commits on the way; queries go on meanwhile. A table that is
/// sorted (--sort-by here or at its ingest) is sorted as a whole afterwards; in others rows stay in
/// order. Segments that need no change are left alone, unless --all or --profile asks for all of
/// them to be rewritten.
///
/// --dry-run lists the partitions with segments that would be rewritten.
///
/// Examples:
///   sty compact db/trips
///   sty compact db/trips --dry-run
///   sty compact db/trips --sort-by 'vendor_id, pickup_datetime DESC'
///   sty compact db/trips --partition year=2015 --profile small
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    table: TableArg,
    /// Only this partition and those within it, as `sty partitions` names them
    #[arg(long, value_name = "PATH", add = names::partition_paths())]
    partition: Option<String>,
    /// Sort the table by these columns from now on
    #[arg(long, value_name = "COLUMN [DESC],…", value_parser = parse_sort, add = names::column_lists())]
    sort_by: Option<SortList>,
    /// Rewrite all segments under this profile
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    /// Rewrite all segments
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    dry_run: DryRunArg,
    #[command(flatten)]
    wait: WaitArg,
    /// Also print what was done to stdout, for programs
    #[arg(long, value_enum, value_name = "FORMAT")]
    report: Option<ReportFormat>,
}

/// Runs `sty compact`.
pub(crate) fn run(args: &CompactArgs, context: &Context) -> Result<(), Failure> {
    let context = &args.wait.of(context);
    let table = args.table.path.open(context)?;
    let options = CompactOptions {
        partition: args.partition.clone(),
        sort_by: args.sort_by.clone().map(|SortList(keys)| keys).unwrap_or_default(),
        profile: args.profile.map(Profile::from),
        all: args.all,
        threads: context.thread_count(),
        memory_limit: context.memory_limit,
        cancelled: signals::cancellation(),
        done: Arc::default(),
    };
    if let Some(format) = args.dry_run.asked() {
        let forecast = would_compact(&table, &options)?;
        let rewritten = forecast.iter().filter(|one| one.partition.segments > 0);
        let rewrite = |one: &CompactForecast| Action {
            exact: one.is_exact,
            note: (!one.is_exact).then(|| "at most: full segments stay as they are".to_owned()),
            ..of_partition("rewrite", &args.table.path.table, &one.partition)
        };
        return dry_run::print(&rewritten.map(rewrite).collect::<Vec<_>>(), format, context);
    }
    let bytes = input_bytes(&table, &options)?;
    let done = Arc::clone(&options.done);
    let progress = context.progress(move || {
        let done = done.load(Ordering::Relaxed);
        Some(Seen { done, total: Some(bytes), unit: Unit::Bytes, rows: None })
    });
    let compacted = compact(&table, &options);
    drop(progress);
    let report = compacted?;
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
            let object = object(&args.table.path.table, &report);
            let printed = Output::stdout().and_then(|output| output.print_line(&object));
            printed.map_err(Failure::after_commit)
        }
        None => Ok(()),
    }
}

/// The bytes of the segments that are looked at. The snapshot is dropped when this returns, since a
/// generation that somebody reads is not freed.
fn input_bytes(table: &Table, options: &CompactOptions) -> Result<u64, Failure> {
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
