//! The page of `sty inspect --html`: how a table is stored. It is bounded for tables of many
//! columns and segments, and says what it leaves out.

use std::fmt::Write as _;

use rayon::prelude::*;
use stylobate::internal::block::{Bound, Stats};
use stylobate::internal::model::Scalar;
use stylobate::internal::store::{ColumnStats, SegmentEntry};
use stylobate::{Column, DataType, Snapshot, partitions};

use super::sort_by;
use super::stored::{Encodings, SegmentColumn, encodings_of, usual_encodings};
use crate::errors::Failure;
use crate::page::{self, escaped};
use crate::signals;
use crate::units::{show_count, show_counted, show_name, show_size};

/// Columns of segments that are read for encodings and sizes.
const MAX_READ: usize = 4_000;
/// Statistics that are read for zone maps.
const MAX_STATISTICS: usize = 5_000_000;
/// Parts of the picture of a zone map.
const STRIP_PARTS: usize = 200;
/// Lines of the tables of segments and of partitions.
const MAX_LINES: usize = 1_000;
/// Characters of a minimum or maximum.
const MAX_BOUND: usize = 40;

/// What is known of a column.
#[derive(Default)]
struct Summary {
    encodings: Encodings,
    bytes: u64,
    raw: u64,
    /// Of all segments; `None` if they were not read.
    stats: Option<Stats>,
    strip: String,
}

/// The page of a table, with these columns.
pub(crate) fn page(
    snapshot: &Snapshot,
    entries: &[SegmentEntry],
    columns: &[&Column],
) -> Result<String, Failure> {
    let mut html = page::head(&format!("Table {}", show_name(snapshot.table_name())));
    facts(snapshot, entries, &mut html);
    let mut summaries: Vec<Summary> = columns.iter().map(|_| Summary::default()).collect();
    let read = read_segments(snapshot, entries, columns, &mut summaries)?;
    let with_zones = (MAX_STATISTICS / entries.len().max(1)).max(20).min(columns.len());
    for (column, summary) in columns.iter().zip(&mut summaries).take(with_zones) {
        signals::check()?;
        read_zones(&snapshot.column_stats(column.id)?, column, summary);
    }
    columns_table(columns, &summaries, read, entries.len(), &mut html);
    if with_zones < columns.len() {
        let left_out = show_counted((columns.len() - with_zones) as u64, "column");
        let _ = writeln!(html, "<p>zone maps of the last {left_out} are left out</p>");
    }
    html.push_str("</section>\n");
    partitions_table(snapshot, &mut html)?;
    segments_table(snapshot, entries, &mut html);
    html.push_str(page::END);
    Ok(html)
}

fn facts(snapshot: &Snapshot, entries: &[SegmentEntry], html: &mut String) {
    let root = snapshot.root();
    let bytes: u64 = entries.iter().map(|entry| entry.length).sum();
    let keys = root.arrangement.partition_by.iter();
    let keys: Vec<String> = keys.map(|key| format!("{} AS {}", key.expression, key.name)).collect();
    let rows_each = root.rows.checked_div(entries.len() as u64).unwrap_or(0);
    let facts = [
        ("generation", root.generation.to_string()),
        ("rows", show_count(root.rows)),
        ("columns", show_count(snapshot.schema().columns().len() as u64)),
        (
            "segments",
            format!(
                "{}, of {} on average",
                show_count(entries.len() as u64),
                show_counted(rows_each, "row")
            ),
        ),
        ("bytes", format!("{} ({})", show_size(bytes), show_count(bytes))),
        ("profile", root.options.profile.to_string()),
        ("partitioned by", keys.join(", ")),
        ("sorted by", sort_by(root).join(", ")),
    ];
    html.push_str("<dl>");
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
    }
    html.push_str("</dl>\n");
}

/// Reads some segments, spread over the table, and returns how many.
fn read_segments(
    snapshot: &Snapshot,
    entries: &[SegmentEntry],
    columns: &[&Column],
    summaries: &mut [Summary],
) -> Result<usize, Failure> {
    let read = entries.len().min((MAX_READ / columns.len().max(1)).max(1));
    for at in 0..read {
        signals::check()?;
        let Some(entry) = entries.get(at * entries.len() / read) else { continue };
        let segment = snapshot.open_segment(entry)?;
        let parts: Vec<(&mut Summary, SegmentColumn)> = summaries
            .par_iter_mut()
            .zip(columns)
            .map(|(summary, column)| Ok((summary, SegmentColumn::read(&segment, column)?)))
            .collect::<stylobate::Result<_>>()?;
        for (summary, part) in parts {
            summary.bytes += part.bytes();
            summary.raw += part.raw;
            for (kind, count) in encodings_of(std::iter::once(&part)) {
                *summary.encodings.entry(kind).or_default() += count;
            }
        }
    }
    Ok(read)
}

/// Whether bounds of both types are on one scale.
fn are_comparable(a: &DataType, b: &DataType) -> bool {
    let is_number = |data_type: &DataType| {
        let arrow = data_type.to_arrow();
        arrow.is_integer() || arrow.is_floating()
    };
    a == b || (is_number(a) && is_number(b))
}

fn read_zones(zones: &[Option<ColumnStats>], column: &Column, summary: &mut Summary) {
    let known = || zones.iter().flatten();
    let mut all = Stats::default();
    for zone in known() {
        all = all.followed_by(&zone.stats);
    }
    if !known().all(|zone| are_comparable(&zone.data_type, &column.data_type)) {
        (all.min, all.max) = (None, None);
    }
    summary.strip = strip(zones, &all);
    summary.stats = Some(all);
}

/// A picture of the ranges of all segments in their order, from the least value of the table below
/// to the greatest above. Of many segments, neighbours share a line.
fn strip(zones: &[Option<ColumnStats>], all: &Stats) -> String {
    let (Some(min), Some(max)) = (&all.min, &all.max) else { return String::new() };
    let skip = common_prefix(&min.value, &max.value);
    let (lo, hi) = (number(&min.value, skip), number(&max.value, skip));
    let parts = zones.len().min(STRIP_PARTS);
    let mut path = String::new();
    for part in 0..parts {
        let range = part * zones.len() / parts..(part + 1) * zones.len() / parts;
        let zones = zones.get(range).unwrap_or_default().iter().flatten();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for zone in zones {
            if let (Some(min), Some(max)) = (&zone.stats.min, &zone.stats.max) {
                low = low.min(number(&min.value, skip));
                high = high.max(number(&max.value, skip));
            }
        }
        let place = |value: f64| {
            let share = if hi > lo { (value - lo) / (hi - lo) } else { 0.5 };
            100.0 - share.clamp(0.0, 1.0) * 100.0
        };
        if low <= high {
            // A segment with one value can be seen.
            let (from, to) = (place(low), place(high));
            let middle = f64::midpoint(from, to);
            let half = ((from - to) / 2.0).max(3.0);
            let x = part as f64 + 0.5;
            let _ = write!(path, "M{x} {:.0}V{:.0}", middle + half, middle - half);
        }
    }
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {parts} 100\" preserveAspectRatio=\"none\">\
         <path d=\"{path}\" stroke-width=\"0.9\"/></svg>"
    )
}

/// The number of bytes with which both texts begin.
fn common_prefix(a: &Scalar, b: &Scalar) -> usize {
    match (a, b) {
        (Scalar::Bytes(a), Scalar::Bytes(b)) => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
        _ => 0,
    }
}

/// A value as a number in the order of values: of a text, the bytes after its first ones.
fn number(value: &Scalar, skip: usize) -> f64 {
    match value {
        Scalar::Int(value) => *value as f64,
        Scalar::Float(value) => *value,
        Scalar::Bytes(bytes) => {
            let byte = |at: usize| bytes.get(skip + at).copied().unwrap_or(0);
            (0..6).fold(0.0, |number, at| number * 256.0 + f64::from(byte(at)))
        }
    }
}

fn columns_table(
    columns: &[&Column],
    summaries: &[Summary],
    read: usize,
    segments: usize,
    html: &mut String,
) {
    html.push_str("<section>\n<h2>Columns</h2>\n");
    if read < segments {
        let _ = writeln!(
            html,
            "<p>encodings and sizes are those of {} of {} segments</p>",
            show_count(read as u64),
            show_count(segments as u64)
        );
    }
    html.push_str(
        "<p class=\"dim\">the zone map of a column has a line for each segment, or for some \
         neighbouring ones, from its minimum to its maximum: the shorter the lines, the more \
         segments a condition on the column leaves out</p>\n",
    );
    table_head(
        &[
            ("column", false),
            ("type", false),
            ("bytes", true),
            ("share", false),
            ("ratio", true),
            ("encoding", false),
            ("zone map", false),
            ("min", false),
            ("max", false),
            ("nulls", true),
            ("distinct, at most", true),
        ],
        html,
    );
    let largest = summaries.iter().map(|summary| summary.bytes).max().unwrap_or(0);
    for (column, summary) in columns.iter().zip(summaries) {
        let ratio = (summary.bytes > 0).then(|| summary.raw as f64 / summary.bytes as f64);
        let stats = summary.stats.as_ref();
        let bound = |bound: Option<&Option<Bound>>| bound_cell(bound, &column.data_type);
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td>{}{}{}<td class=\"wrap\">{}</td><td>{}</td>{}{}{}{}</tr>",
            escaped(&show_name(&column.name)),
            escaped(&column.data_type.to_string()),
            number_cell(Some(summary.bytes), &show_size(summary.bytes)),
            meter_cell(summary.bytes, largest),
            ratio.map_or_else(null_cell, |ratio| format!("<td class=\"n\">{ratio:.2}</td>")),
            escaped(&usual_encodings(&summary.encodings)),
            summary.strip,
            bound(stats.map(|stats| &stats.min)),
            bound(stats.map(|stats| &stats.max)),
            stats.map_or_else(null_cell, |stats| count_cell(Some(stats.nulls))),
            count_cell(stats.and_then(|stats| stats.distinct)),
        );
    }
    html.push_str("</tbody></table></div>\n");
}

fn partitions_table(snapshot: &Snapshot, html: &mut String) -> Result<(), Failure> {
    if snapshot.root().arrangement.partition_by.is_empty() {
        return Ok(());
    }
    let all = partitions(snapshot)?;
    html.push_str("<section>\n<h2>Partitions</h2>\n");
    table_head(
        &[
            ("partition", false),
            ("rows", true),
            ("segments", true),
            ("bytes", true),
            ("share", false),
        ],
        html,
    );
    let largest = all.iter().map(|partition| partition.bytes).max().unwrap_or(0);
    for partition in all.iter().take(MAX_LINES) {
        let _ = writeln!(
            html,
            "<tr><td>{}</td>{}{}{}{}</tr>",
            escaped(&show_name(&partition.path)),
            count_cell(Some(partition.rows)),
            count_cell(Some(partition.segments)),
            number_cell(Some(partition.bytes), &show_size(partition.bytes)),
            meter_cell(partition.bytes, largest),
        );
    }
    end_table(all.len(), "partition", html);
    Ok(())
}

fn segments_table(snapshot: &Snapshot, entries: &[SegmentEntry], html: &mut String) {
    html.push_str("<section>\n<h2>Segments</h2>\n");
    table_head(
        &[
            ("segment", true),
            ("rows", true),
            ("bytes", true),
            ("share", false),
            ("partition", false),
            ("file", false),
            ("offset", true),
        ],
        html,
    );
    let largest = entries.iter().map(|entry| entry.length).max().unwrap_or(0);
    for (at, entry) in entries.iter().enumerate().take(MAX_LINES) {
        let path = snapshot.path(entry);
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(
            html,
            "<tr>{}{}{}{}<td>{}</td><td>{}</td>{}</tr>",
            count_cell(Some(at as u64)),
            count_cell(Some(entry.rows)),
            number_cell(Some(entry.length), &show_size(entry.length)),
            meter_cell(entry.length, largest),
            escaped(&show_name(&entry.partition)),
            escaped(&show_name(&file)),
            count_cell(Some(entry.offset)),
        );
    }
    end_table(entries.len(), "segment", html);
}

fn table_head(names: &[(&str, bool)], html: &mut String) {
    html.push_str("<div class=\"table\"><table class=\"sortable dense\"><thead><tr>");
    for (name, is_number) in names {
        let class = if *is_number { " class=\"n\"" } else { "" };
        let _ = write!(html, "<th{class}>{name}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
}

fn end_table(lines: usize, what: &str, html: &mut String) {
    html.push_str("</tbody></table></div>\n");
    if lines > MAX_LINES {
        let left_out = show_counted((lines - MAX_LINES) as u64, &format!("more {what}"));
        let _ = writeln!(html, "<p>the table leaves out {left_out}</p>");
    }
    html.push_str("</section>\n");
}

fn count_cell(count: Option<u64>) -> String {
    number_cell(count, &count.map_or_else(String::new, show_count))
}

/// A number that is sorted by its value.
fn number_cell(value: Option<u64>, text: &str) -> String {
    value.map_or_else(null_cell, |value| format!("<td class=\"n\" data-v=\"{value}\">{text}</td>"))
}

fn null_cell() -> String {
    "<td class=\"n null\">–</td>".to_owned()
}

fn meter_cell(value: u64, largest: u64) -> String {
    let percent = value as f64 / largest.max(1) as f64 * 100.0;
    format!("<td><div class=\"meter\"><i style=\"width:{percent:.1}%\"></i></div></td>")
}

fn bound_cell(bound: Option<&Option<Bound>>, data_type: &DataType) -> String {
    let Some(Some(bound)) = bound else { return "<td class=\"null\">–</td>".to_owned() };
    let text = bound.value.show(data_type);
    let is_long = text.chars().count() > MAX_BOUND;
    let text: String = text.chars().take(MAX_BOUND).collect();
    let mark = if is_long || !bound.exact { "…" } else { "" };
    format!("<td>{}{mark}</td>", escaped(&show_name(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(min: &str, max: &str) -> Option<ColumnStats> {
        let bound =
            |text: &str| Some(Bound { value: Scalar::Bytes(text.as_bytes().into()), exact: true });
        let stats = Stats { rows: 2, min: bound(min), max: bound(max), ..Stats::default() };
        Some(ColumnStats { data_type: DataType::Utf8, stats })
    }

    #[test]
    fn a_zone_map_shows_the_range_of_each_segment() {
        let zones = [zone("url-a", "url-a"), None, zone("url-b", "url-c")];
        let all = zones.iter().flatten().fold(Stats::default(), |all, z| all.followed_by(&z.stats));
        let strip = strip(&zones, &all);
        assert!(strip.contains("viewBox=\"0 0 3 100\""), "{strip}");
        assert!(strip.contains("d=\"M0.5 103V97M2.5 50V0\""), "{strip}");
    }

    #[test]
    fn many_segments_share_lines() {
        let zones: Vec<_> = (0..50_000).map(|at| zone(&format!("{at:05}"), "9")).collect();
        let mut all = Stats::default();
        for zone in zones.iter().flatten() {
            all = all.followed_by(&zone.stats);
        }
        let strip = strip(&zones, &all);
        assert_eq!(strip.matches('M').count(), STRIP_PARTS);
        assert!(strip.len() < 5_000);
    }
}
