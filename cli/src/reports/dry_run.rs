//! The list of `--dry-run`: what would be done, a row for each thing.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use stylobate::internal::query::Statistic;
use stylobate::internal::sql::{DryRun, TableForecast};
use stylobate::{LoadForecast, Partition, Schema};

use crate::context::Context;
use crate::errors::Failure;
use crate::printers::Format;
use crate::units::{show_counted, show_size};

/// Something that would be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Action {
    /// What would be done.
    pub(crate) action: &'static str,
    /// To which table.
    pub(crate) table: Option<String>,
    /// The file, partition or column that it is about.
    pub(crate) name: Option<String>,
    pub(crate) segments: Option<u64>,
    pub(crate) blocks: Option<u64>,
    pub(crate) rows: Option<u64>,
    pub(crate) bytes: Option<u64>,
    /// Whether the figures are exact; else they are the most that it can be.
    pub(crate) exact: bool,
    pub(crate) note: Option<String>,
}

/// Prints the list to stdout.
pub(crate) fn print(
    actions: &[Action],
    format: Option<Format>,
    context: &Context,
) -> Result<(), Failure> {
    let texts = |text: &dyn Fn(&Action) -> Option<String>| -> ArrayRef {
        Arc::new(actions.iter().map(text).collect::<StringArray>())
    };
    let numbers = |number: fn(&Action) -> Option<u64>| -> ArrayRef {
        Arc::new(actions.iter().map(number).collect::<UInt64Array>())
    };
    let exact: BooleanArray = actions.iter().map(|action| Some(action.exact)).collect();
    let columns: [(&str, ArrayRef); 9] = [
        ("action", texts(&|action| Some(action.action.to_owned()))),
        ("table", texts(&|action| action.table.clone())),
        ("name", texts(&|action| action.name.clone())),
        ("segments", numbers(|action| action.segments)),
        ("blocks", numbers(|action| action.blocks)),
        ("rows", numbers(|action| action.rows)),
        ("bytes", numbers(|action| action.bytes)),
        ("exact", Arc::new(exact)),
        ("note", texts(&|action| action.note.clone())),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    context.print_batch(&RecordBatch::try_from_iter_with_nullable(columns)?, format)
}

/// What a statement would do; notes for people tell which blocks it would read.
pub(crate) fn of_statement(dry_run: &DryRun, context: &Context) -> Vec<Action> {
    let mut actions: Vec<Action> = dry_run.reads.iter().map(of_table).collect();
    dry_run.reads.iter().for_each(|read| tell_blocks(read, context));
    if let Some(change) = &dry_run.change {
        let segments = change.segments_rewritten + change.segments_removed;
        let is_known = change.rows.is_some();
        let note = match change.action {
            "create view" | "drop view" => None,
            "insert" | "create" => {
                (!is_known).then(|| "how many rows is known once the query has run".to_owned())
            }
            _ => Some(format!(
                "{} written anew, {} taken out whole",
                show_counted(change.segments_rewritten, "segment"),
                change.segments_removed
            )),
        };
        actions.push(Action {
            action: change.action,
            table: Some(change.table.clone()),
            segments: is_known.then_some(segments),
            rows: change.rows,
            bytes: is_known.then_some(change.bytes_rewritten),
            exact: is_known,
            note,
            ..Action::default()
        });
    }
    actions
}

fn of_table(read: &TableForecast) -> Action {
    let counters = &read.forecast.counters;
    let total = format!("of {} and {} blocks", counters.segments, counters.blocks);
    let note = match read.forecast.reasons.as_slice() {
        _ if counters.from_metadata => "answered from metadata".to_owned(),
        [] => total,
        reasons => format!("{total}; at most: {}", reasons.join(", ")),
    };
    Action {
        action: "read",
        table: Some(read.table.clone()),
        segments: Some(counters.segments_read),
        blocks: Some(counters.blocks_read),
        rows: Some(counters.scan.rows_out),
        bytes: Some(counters.bytes_read),
        exact: read.forecast.reasons.is_empty(),
        note: Some(note),
        ..Action::default()
    }
}

/// With `-v`, which blocks are read, and what rules the others out.
fn tell_blocks(read: &TableForecast, context: &Context) {
    for segment in &read.forecast.segments {
        let blocks: Vec<String> = segment.blocks.iter().map(usize::to_string).collect();
        context.detail(&format!(
            "{}: segment {} ({} at {}): {}, blocks {}",
            read.table,
            segment.number,
            segment.file.display(),
            segment.offset,
            show_size(segment.bytes),
            blocks.join(" ")
        ));
    }
    for statistic in Statistic::ALL {
        let pruned = read.forecast.counters.pruned_by(statistic);
        if pruned.blocks > 0 {
            context.detail(&format!(
                "{}: ruled out by {}: {}, {}",
                read.table,
                statistic.name(),
                show_counted(pruned.segments, "segment"),
                show_counted(pruned.blocks, "block")
            ));
        }
    }
}

/// What a load would do.
pub(crate) fn of_load(table: &str, load: &LoadForecast) -> Vec<Action> {
    let left_out = |name: &str, why: &str| Action {
        action: "skip",
        name: Some(name.to_owned()),
        exact: true,
        note: Some(why.to_owned()),
        ..Action::default()
    };
    let mut actions: Vec<Action> = Vec::new();
    for (name, bytes) in &load.inputs {
        let guess = load.guesses.iter().find(|(file, _)| file == name);
        actions.push(Action {
            action: "load",
            table: Some(table.to_owned()),
            name: Some(name.display().to_string()),
            bytes: *bytes,
            exact: bytes.is_some(),
            note: guess.map(|(_, guess)| guess.to_string()),
            ..Action::default()
        });
    }
    actions.extend(load.loaded_before.iter().map(|name| left_out(name, "loaded before")));
    let changed = load.changed.iter();
    actions.extend(changed.map(|one| left_out(&one.name, "changed since it was loaded")));
    let omitted = load.skipped.iter();
    actions.extend(omitted.map(|name| left_out(name, "a column of a type that is not stored")));
    actions.extend(of_columns(table, &load.schema, false));
    actions
}

/// The columns that a table would have.
pub(crate) fn of_columns(table: &str, schema: &Schema, exact: bool) -> Vec<Action> {
    let columns = schema.columns().iter().map(|column| Action {
        action: "column",
        table: Some(table.to_owned()),
        name: Some(column.name.to_string()),
        exact,
        note: Some(column.data_type.to_string()),
        ..Action::default()
    });
    columns.collect()
}

/// What would be done to the segments of a partition.
pub(crate) fn of_partition(action: &'static str, table: &str, partition: &Partition) -> Action {
    Action {
        action,
        table: Some(table.to_owned()),
        name: Some(partition.path.to_string()).filter(|path| !path.is_empty()),
        segments: Some(partition.segments),
        rows: Some(partition.rows),
        bytes: Some(partition.bytes),
        exact: true,
        ..Action::default()
    }
}
