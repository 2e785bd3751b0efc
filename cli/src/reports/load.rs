//! The report on a load: a summary for people on stderr, and with `--report json` one object for
//! programs on stdout.

use std::path::Path;

use serde_json::{Value, json};
use stylobate::{ChangedInput, InputReport, LoadReport, NewColumn};

use super::show_amplification;
use crate::context::Context;
use crate::errors::Failure;
use crate::loading::OnNode;
use crate::output::Output;
use crate::units::{show_count, show_counted, show_duration, show_size};

/// New columns that are printed one by one. The others are only counted.
const SHOWN_COLUMNS: usize = 5;
/// Guesses that are printed one by one. The others are only counted.
const SHOWN_GUESSES: usize = 5;

/// Prints the report for people to stderr. `rejects` is the file with the rejected rows.
pub(crate) fn print_for_people(report: &LoadReport, rejects: Option<&Path>, context: &Context) {
    for column in &report.skipped {
        context.note(&format!("column '{column}' was left out: its type cannot be stored yet"));
    }
    for name in &report.loaded_before {
        context.note(&format!("{name} was loaded before: left out"));
    }
    for ChangedInput { name, bytes_loaded, bytes } in &report.replaced {
        context.note(&format!(
            "{name} was loaded before with other contents ({} then, {} now): all of it was loaded; \
             --if-loaded skip leaves such files out",
            show_counted(*bytes_loaded, "byte"),
            show_count(*bytes)
        ));
    }
    for (name, before) in &report.same_bytes {
        context.note(&format!(
            "{name} has the bytes of {before}, which was loaded before: its rows were added once \
             more; --if-loaded skip leaves such files out"
        ));
    }
    for ChangedInput { name, bytes_loaded, bytes } in &report.changed {
        context.note(&format!(
            "{name} has changed since it was loaded ({} then, {} now): left out",
            show_counted(*bytes_loaded, "byte"),
            show_count(*bytes)
        ));
    }
    for ChangedInput { name, bytes_loaded, .. } in &report.added {
        context.note(&format!(
            "{name}: only what was added after the first {}, which were loaded before",
            show_counted(*bytes_loaded, "byte")
        ));
    }
    for name in &report.resumed {
        context.note(&format!("{name}: going on where the last load stopped"));
    }
    note_new_columns(report, context);
    note_guesses(report, context);
    if report.blank_lines > 0 {
        let lines = show_counted(report.blank_lines, "empty line");
        context.note(&format!("{lines} left out"));
    }
    note_rejects(report, rejects, context);
    if report.rows_left_out > 0 {
        context.note(&format!("{} not selected", show_counted(report.rows_left_out, "row")));
    }
    context.note(&summary(report));
    context.detail(&format!(
        "{}, {}; {} of manifest; {} written{}",
        show_counted(report.segments, "segment"),
        show_size(report.bytes_stored),
        show_size(report.bytes_metadata),
        show_size(report.bytes_written),
        show_amplification(&report.write_volume),
    ));
}

/// Says which columns the table has now and had not: a misspelt header adds one, too. Those that
/// are most likely misspelt come first.
fn note_new_columns(report: &LoadReport, context: &Context) {
    let (alike, others): (Vec<_>, Vec<_>) =
        report.new_columns.iter().partition(|column| column.alike.is_some());
    for NewColumn { name, alike, rows } in alike.iter().chain(&others).take(SHOWN_COLUMNS) {
        let alike = alike.as_ref().map_or_else(String::new, |alike| {
            format!(", whose column '{alike}' differs in case; --names says how columns are called")
        });
        let rows = show_counted(*rows, "row");
        context.note(&format!("column '{name}' is new in the table, null in its {rows}{alike}"));
    }
    let more = report.new_columns.len().saturating_sub(SHOWN_COLUMNS) as u64;
    if more > 0 {
        context.note(&format!("… and {} like these", show_counted(more, "more column")));
    }
}

/// Says what was guessed about the inputs, so that a wrong guess does not go unnoticed.
fn note_guesses(report: &LoadReport, context: &Context) {
    for (file, guess) in report.guesses.iter().take(SHOWN_GUESSES) {
        context.note(&format!("{}: {guess}", file.display()));
    }
    let more = report.guesses.len().saturating_sub(SHOWN_GUESSES) as u64;
    if more > 0 {
        context.note(&format!("… and {} like these", show_counted(more, "more input")));
    }
}

/// Says which rows were rejected: all of them are in the file, if there is one, and otherwise the
/// first ones are shown.
fn note_rejects(report: &LoadReport, rejects: Option<&Path>, context: &Context) {
    if report.rows_rejected == 0 {
        return;
    }
    if rejects.is_none() {
        report.first_rejects.iter().for_each(|reject| context.note(&reject.to_string()));
        let more = report.rows_rejected.saturating_sub(report.first_rejects.len() as u64);
        if more > 0 {
            context.note(&format!("… and {} like these", show_counted(more, "more row")));
        }
    }
    let place = rejects.map_or_else(String::new, |file| format!(", in {}", file.display()));
    let left_out = match report.rows_left_out {
        0 => String::new(),
        rows => format!(" + {} not selected", show_count(rows)),
    };
    context.note(&format!(
        "{} read = {} stored{left_out} + {} rejected{place}",
        show_counted(report.rows_read, "row"),
        show_count(report.rows_stored),
        show_count(report.rows_rejected)
    ));
}

/// One line for people.
pub(crate) fn summary(report: &LoadReport) -> String {
    let stored = report.bytes_stored + report.bytes_metadata;
    let seconds = report.elapsed.as_secs_f64();
    format!(
        "{}: {} in, {} stored, ratio {:.2}, {} ({} rows/s)",
        show_counted(report.rows_stored, "row"),
        show_size(report.bytes_in),
        show_size(stored),
        report.bytes_in as f64 / stored.max(1) as f64,
        show_duration(report.elapsed),
        show_count((report.rows_stored as f64 / seconds.max(1e-9)) as u64),
    )
}

/// One line for people about what a machine of a cluster has stored.
pub(crate) fn of_node(stored: &OnNode) -> String {
    format!(
        "node {}: {}, {} in {}, generation {}",
        stored.node,
        show_counted(stored.rows, "row"),
        show_size(stored.bytes),
        show_counted(stored.segments, "segment"),
        stored.generation
    )
}

/// Prints the report for programs to stdout, on one line.
pub(crate) fn print_json(
    table: &str,
    report: &LoadReport,
    nodes: &[OnNode],
) -> Result<(), Failure> {
    let mut object = object(table, report);
    let of_node = |stored: &OnNode| {
        json!({
            "node": stored.node,
            "generation": stored.generation,
            "rows": stored.rows,
            "segments": stored.segments,
            "bytes": stored.bytes,
        })
    };
    if let Some(fields) = object.as_object_mut().filter(|_| !nodes.is_empty()) {
        fields.insert("nodes".to_owned(), nodes.iter().map(of_node).collect());
    }
    Output::stdout()?.print_line(&object)
}

fn object(table: &str, report: &LoadReport) -> Value {
    let names = |changed: &[ChangedInput]| {
        changed.iter().map(|input| input.name.clone()).collect::<Vec<_>>()
    };
    let input = |input: &InputReport| {
        json!({
            "name": input.name.to_string_lossy(),
            "rows_read": input.rows_read,
            "rows_rejected": input.rows_rejected,
            "rows_left_out": input.rows_left_out,
            "blank_lines": input.blank_lines,
            "bytes": input.bytes,
        })
    };
    json!({
        "table": table,
        "generation": report.generation,
        "rows_read": report.rows_read,
        "rows_stored": report.rows_stored,
        "rows_rejected": report.rows_rejected,
        "rows_left_out": report.rows_left_out,
        "blank_lines": report.blank_lines,
        "bytes_in": report.bytes_in,
        "bytes_stored": report.bytes_stored,
        "bytes_metadata": report.bytes_metadata,
        "bytes_written": report.bytes_written,
        "table_bytes_loaded": report.write_volume.loaded,
        "table_bytes_written": report.write_volume.written,
        "table_write_amplification": report.write_volume.amplification(),
        "segments": report.segments,
        "commits": report.commits,
        "loaded_before": report.loaded_before,
        "changed": names(&report.changed),
        "replaced": names(&report.replaced),
        "same_bytes": report.same_bytes.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "added": names(&report.added),
        "resumed": report.resumed,
        "seconds": report.elapsed.as_secs_f64(),
        "inputs": report.inputs.iter().map(input).collect::<Vec<_>>(),
    })
}
