//! `sty inspect`: shows how a table is stored.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use clap::{Args, ValueEnum};
use rayon::prelude::*;
use serde_json::{Value, json};
use stylobate::internal::block::{Bound, Stats};
use stylobate::internal::model::Physical;
use stylobate::internal::segment;
use stylobate::internal::store::SegmentEntry;
use stylobate::{Column, DataType, Snapshot};

use crate::args::resources::IoArg;
use crate::args::table::{TableArg, TablePath};
use crate::context::Context;
use crate::errors::Failure;
use crate::output::Output;
use crate::printers::Format;
use crate::signals;

/// Show how a table is stored: per column its encodings, bytes, ratio and statistics
///
/// Examples:
///   sty inspect db/trips
///   sty inspect db/trips --segments
///   sty inspect db/trips --column fare --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    table: TableArg,
    /// Format [default: table on a terminal, else csv]
    #[arg(long, value_enum)]
    format: Option<InspectFormat>,
    /// This column only, with the encoding of each block; may be repeated
    #[arg(long, value_name = "NAME")]
    column: Vec<String>,
    /// One line a segment
    #[arg(long)]
    segments: bool,
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

/// One column of one segment.
struct SegmentColumn {
    /// Absent if the segment was written before the column was added.
    column: Option<Arc<segment::Column>>,
    /// The bytes of the values as plain arrays: fixed widths, and the bytes of text.
    raw: u64,
    blocks: Vec<Block>,
}

struct Block {
    encoding: String,
    rows: usize,
    bytes: u64,
    stats: Stats,
}

impl SegmentColumn {
    fn read(segment: &segment::Segment, column: &Column) -> stylobate::Result<SegmentColumn> {
        let Some(stored) = segment.column(column.id)? else {
            return Ok(SegmentColumn { column: None, raw: 0, blocks: Vec::new() });
        };
        let (mut raw, mut blocks) = (0, Vec::new());
        for b in 0..stored.blocks() {
            let block = stored.block(b)?;
            let rows = block.reader().rows();
            raw += match stored.data_type().physical() {
                Physical::Bytes => text_bytes(&block.decode(0..rows)?),
                Physical::Null => 0,
                Physical::Bool => rows as u64 / 8,
                _ => {
                    stored.data_type().to_arrow().primitive_width().unwrap_or(0) as u64
                        * rows as u64
                }
            };
            blocks.push(Block {
                encoding: block.reader().describe(),
                rows,
                bytes: stored.block_bytes(b),
                stats: stored.block_stats(b).cloned().unwrap_or_default(),
            });
        }
        Ok(SegmentColumn { column: Some(stored), raw, blocks })
    }

    fn bytes(&self) -> u64 {
        self.column.as_ref().map_or(0, |column| column.stored_bytes())
    }
}

/// The bytes of all texts or byte strings, from the low half of each view.
fn text_bytes(array: &ArrayRef) -> u64 {
    let length = |view: &u128| u64::from(*view as u32);
    match array.as_string_view_opt() {
        Some(text) => text.views().iter().map(length).sum(),
        None => {
            array.as_binary_view_opt().map_or(0, |bytes| bytes.views().iter().map(length).sum())
        }
    }
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
            encoding: usual_encodings(&stored),
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

/// The two most common encodings of the blocks, without their parameters: `dictionary(frame) 60%,
/// dictionary(constant) 40%`.
fn usual_encodings(parts: &[&SegmentColumn]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for block in parts.iter().flat_map(|part| &part.blocks) {
        let kind = without_parameters(&block.encoding);
        *counts.entry(kind).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let share = |(kind, n): &(String, usize)| match n * 100 / all.max(1) {
        100 => kind.clone(),
        percent => format!("{kind} {percent}%"),
    };
    counts.iter().take(2).map(share).collect::<Vec<_>>().join(", ")
}

/// An encoding's description without its parameters: `delta(frame 5 bit + 3 patches)` is
/// `delta(frame)`.
fn without_parameters(encoding: &str) -> String {
    let mut out = String::new();
    for token in encoding.split_whitespace() {
        let word = token.trim_end_matches([')', ',']);
        let is_parameter = word.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '×')
            || ["bit", "patches", "patch", "decimals", "exceptions"].contains(&word);
        if !is_parameter {
            out.push_str(if out.is_empty() || out.ends_with('(') { "" } else { " " });
            out.push_str(word);
        }
        out.push_str(&token[word.len()..]);
    }
    out
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

#[cfg(test)]
mod tests {
    #[test]
    fn parameters_are_left_out() {
        let kind = super::without_parameters;
        assert_eq!(
            kind("run-length(delta(frame 5 bit + 155 patches), constant)"),
            "run-length(delta(frame), constant)"
        );
        assert_eq!(kind("dictionary(planes 2)"), "dictionary(planes)");
        assert_eq!(kind("bits(frame 15 bit)"), "bits(frame)");
    }
}
