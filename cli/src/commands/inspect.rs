//! `sty inspect`: shows how a table is stored.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde_json::{Value, json};
use stylobate::internal::block::{Bound, Stats};
use stylobate::internal::store::SegmentEntry;
use stylobate::{Column, DataType, Snapshot};

use crate::args::names;
use crate::args::resources::IoArg;
use crate::args::table::{TableArg, TablePath};
use crate::context::Context;
use crate::errors::Failure;
use crate::output::Output;
use crate::printers::Format;
use crate::reports::stored::{SegmentColumn, encodings_of, usual_encodings};
use crate::reports::table_page;
use crate::signals;

/// Show how a table is stored: encodings, bytes and statistics
///
/// Examples:
///   sty inspect db/trips
///   sty inspect db/trips --segments
///   sty inspect db/trips --column fare --format json
///   sty inspect db/trips --html trips.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    table: TableArg,
    /// Format [default: table on a terminal, else csv]
    #[arg(long, value_enum)]
    format: Option<InspectFormat>,
    /// This column only, with the encoding of each block; may be repeated
    #[arg(long, value_name = "NAME", add = names::columns())]
    column: Vec<String>,
    /// One line a segment
    #[arg(long)]
    segments: bool,
    /// Write a page of HTML, - for stdout: columns, sizes, zone maps, partitions, segments
    ///
    /// The page needs no other file and no network. Encodings and sizes of columns come from some
    /// segments if there are many, which the page says.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "segments"])]
    html: Option<PathBuf>,
    /// Replace the file of --html if it exists
    #[arg(long, requires = "html")]
    force: bool,
    #[command(flatten)]
    io: IoArg,
}

/// `--format` of `sty inspect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InspectFormat {
    /// A box for people.
    Table,
    /// Comma-separated, with a header.
    Csv,
    /// One document with all that is known.
    Json,
}

/// Runs `sty inspect`.
pub(crate) fn run(args: &InspectArgs, context: &Context) -> Result<(), Failure> {
    let TablePath { store, table } = &args.table.path;
    let store = args.io.of(context.store(store));
    let snapshot = store.table(table)?.snapshot()?;
    context.start_threads()?;
    let known = snapshot.schema().columns();
    if let Some(name) = args.column.iter().find(|name| !known.iter().any(|c| *c.name == ***name)) {
        return Err(stylobate::Error::NotFound(format!(
            "table '{}' has no column '{name}'",
            args.table.path.table
        ))
        .into());
    }
    let wanted =
        |c: &&Column| args.column.is_empty() || args.column.iter().any(|name| **name == *c.name);
    let columns: Vec<&Column> = known.iter().filter(wanted).collect();
    let entries = snapshot.segments()?;
    if let Some(path) = &args.html {
        // The file is refused before any work is done.
        let mut output = Output::open(Some(path), args.force)?;
        let page = table_page::page(&snapshot, &entries, &columns)?;
        output.write_all(page.as_bytes()).map_err(|error| output.failure(&error))?;
        return output.commit();
    }
    let mut parts = Vec::new();
    for entry in entries.iter() {
        signals::check()?;
        let segment = snapshot.open_segment(entry)?;
        let stored: Result<Vec<_>, _> =
            columns.par_iter().map(|c| SegmentColumn::read(&segment, c)).collect();
        parts.push(stored?);
    }
    let format = match args.format {
        Some(InspectFormat::Json) => {
            return print_json(&document(&snapshot, &entries, &columns, &parts));
        }
        Some(InspectFormat::Table) => Some(Format::Table),
        Some(InspectFormat::Csv) => Some(Format::Csv),
        None => None,
    };
    let rows = if args.segments {
        by_segment(&snapshot, &entries)?
    } else if !args.column.is_empty() {
        by_block(&columns, &parts)?
    } else {
        by_column(&columns, &parts)?
    };
    context.print_batch(&rows, format)
}

/// One line per column: how all segments together store it.
fn by_column(columns: &[&Column], parts: &[Vec<SegmentColumn>]) -> Result<RecordBatch, Failure> {
    let mut lines: Vec<Line> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let stored: Vec<&SegmentColumn> =
            parts.iter().filter_map(|segment| segment.get(i)).collect();
        let stats = stored
            .iter()
            .filter_map(|part| part.column.as_ref())
            .fold(Stats::default(), |all, column| all.followed_by(column.stats()));
        lines.push(Line {
            name: column.name.to_string(),
            detail: column.data_type.to_string(),
            encoding: usual_encodings(&encodings_of(stored.iter().copied())),
            bytes: stored.iter().map(|part| part.bytes()).sum(),
            raw: stored.iter().map(|part| part.raw).sum(),
            bounds: (show(&stats.min, &column.data_type), show(&stats.max, &column.data_type)),
            stats,
        });
    }
    lines_to_batch(lines, "column", "type")
}

/// One line per block of the columns asked for.
fn by_block(columns: &[&Column], parts: &[Vec<SegmentColumn>]) -> Result<RecordBatch, Failure> {
    let mut lines: Vec<Line> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        for (s, part) in
            parts.iter().enumerate().filter_map(|(s, segment)| Some((s, segment.get(i)?)))
        {
            for (b, block) in part.blocks.iter().enumerate() {
                lines.push(Line {
                    name: column.name.to_string(),
                    detail: format!("{s}.{b}"),
                    encoding: block.encoding.clone(),
                    bytes: block.bytes,
                    raw: part.raw * block.rows as u64
                        / part.blocks.iter().map(|b| b.rows as u64).sum::<u64>().max(1),
                    bounds: (
                        show(&block.stats.min, &column.data_type),
                        show(&block.stats.max, &column.data_type),
                    ),
                    stats: block.stats.clone(),
                });
            }
        }
    }
    lines_to_batch(lines, "column", "segment.block")
}

/// A line of the tables by column and by block.
struct Line {
    name: String,
    /// The type of a column, or the place of a block.
    detail: String,
    encoding: String,
    bytes: u64,
    raw: u64,
    /// Minimum and maximum.
    bounds: (Option<String>, Option<String>),
    stats: Stats,
}

fn lines_to_batch(lines: Vec<Line>, name: &str, detail: &str) -> Result<RecordBatch, Failure> {
    let text = |get: fn(&Line) -> Option<String>| -> ArrayRef {
        Arc::new(lines.iter().map(get).collect::<StringArray>())
    };
    let count = |get: fn(&Line) -> u64| -> ArrayRef {
        Arc::new(lines.iter().map(get).map(Some).collect::<UInt64Array>())
    };
    let ratio =
        |l: &Line| (l.bytes > 0).then(|| (l.raw as f64 / l.bytes as f64 * 100.0).round() / 100.0);
    let ratio: ArrayRef = Arc::new(lines.iter().map(ratio).collect::<Float64Array>());
    let distinct: ArrayRef =
        Arc::new(lines.iter().map(|l| l.stats.distinct).collect::<UInt64Array>());
    Ok(RecordBatch::try_from_iter([
        (name, text(|l| Some(l.name.clone()))),
        (detail, text(|l| Some(l.detail.clone()))),
        ("encoding", text(|l| Some(l.encoding.clone()))),
        ("bytes", count(|l| l.bytes)),
        ("ratio", ratio),
        ("rows", count(|l| l.stats.rows)),
        ("nulls", count(|l| l.stats.nulls)),
        ("distinct_at_most", distinct),
        ("min", text(|l| l.bounds.0.clone())),
        ("max", text(|l| l.bounds.1.clone())),
    ])?)
}

fn show(bound: &Option<Bound>, data_type: &DataType) -> Option<String> {
    let bound = bound.as_ref()?;
    let text = bound.value.show(data_type);
    Some(if bound.exact { text } else { format!("{text}…") })
}

/// One line per segment.
fn by_segment(snapshot: &Snapshot, entries: &[SegmentEntry]) -> Result<RecordBatch, Failure> {
    let file = entries
        .iter()
        .map(|e| Some(snapshot.path(e).display().to_string()))
        .collect::<StringArray>();
    let number = |get: fn(&SegmentEntry) -> u64| -> ArrayRef {
        Arc::new(entries.iter().map(get).map(Some).collect::<UInt64Array>())
    };
    let file: ArrayRef = Arc::new(file);
    let columns = [
        ("file", file),
        ("offset", number(|e| e.offset)),
        ("bytes", number(|e| e.length)),
        ("rows", number(|e| e.rows)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn document(
    snapshot: &Snapshot,
    entries: &[SegmentEntry],
    columns: &[&Column],
    parts: &[Vec<SegmentColumn>],
) -> Value {
    let segments: Vec<Value> = entries
        .iter()
        .zip(parts)
        .map(|(entry, parts)| {
            let columns: Vec<Value> =
                columns.iter().zip(parts).map(|(column, part)| describe(column, part)).collect();
            json!({
                "file": snapshot.path(entry).display().to_string(),
                "offset": entry.offset,
                "bytes": entry.length,
                "rows": entry.rows,
                "columns": columns,
            })
        })
        .collect();
    json!({
        "table": snapshot.table_name(),
        "generation": snapshot.generation(),
        "rows": snapshot.rows(),
        "segments": segments,
    })
}

fn describe(column: &Column, part: &SegmentColumn) -> Value {
    let Some(stored) = &part.column else {
        return json!({
            "name": &*column.name,
            "id": column.id.0,
            "type": column.data_type.to_string(),
            "bytes": 0,
        });
    };
    let blocks: Vec<Value> = part
        .blocks
        .iter()
        .map(|block| {
            let mut value = statistics(&block.stats, stored.data_type());
            value["encoding"] = json!(block.encoding);
            value["bytes"] = json!(block.bytes);
            value
        })
        .collect();
    let mut value = statistics(stored.stats(), stored.data_type());
    value["name"] = json!(&*column.name);
    value["id"] = json!(column.id.0);
    value["type"] = json!(column.data_type.to_string());
    value["stored_type"] = json!(stored.data_type().to_string());
    value["bytes"] = json!(part.bytes());
    value["raw_bytes"] = json!(part.raw);
    value["dictionary_values"] = json!(stored.record().dictionary.map(|d| d.values));
    value["blocks"] = json!(blocks);
    value
}

fn statistics(stats: &Stats, data_type: &DataType) -> Value {
    let bound = |bound: &Option<Bound>| bound.as_ref().map(|b| b.value.show(data_type));
    let exact = |bound: &Option<Bound>| bound.as_ref().map(|b| b.exact);
    json!({
        "rows": stats.rows, "nulls": stats.nulls, "nans": stats.nans,
        "min": bound(&stats.min), "min_exact": exact(&stats.min),
        "max": bound(&stats.max), "max_exact": exact(&stats.max),
        "sum": stats.sum.map(|sum| sum.to_string()), "distinct_at_most": stats.distinct,
        "ascending": stats.order.ascending,
        "descending": stats.order.descending,
        "strict": stats.order.strict,
    })
}

fn print_json(document: &Value) -> Result<(), Failure> {
    let mut output = Output::stdout()?;
    let written = serde_json::to_writer_pretty(&mut output, document)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(output));
    written.map_err(|error| output.failure(&error))?;
    output.commit()
}
