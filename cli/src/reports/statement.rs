//! What `sty query --stats` says of each statement: what it read, what statistics spared it, how
//! many rows each step took in and let out, where the time went, what memory and temporary files it
//! needed.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use stylobate::query::stats::{Counters, Form, Statistic, Step};
use stylobate::sql::{Operator, Statistics, StoreOperator};

use super::bench_memory::Peak;
use crate::units::{show_count, show_counted, show_duration, show_size};

/// The forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Table,
    /// One object a statement.
    Json,
}

/// A statement that is watched while it runs.
#[derive(Debug)]
pub(super) struct Watched {
    format: StatsFormat,
    sql: String,
    started: Instant,
    memory: Peak,
    /// Anonymous memory before the first statement.
    before: Option<u64>,
}

impl Watched {
    /// Starts watching. `before` is the memory that the process held before the first statement.
    pub(super) fn start(format: StatsFormat, sql: String, before: Option<u64>) -> Self {
        Watched { format, sql, memory: Peak::watch(), before, started: Instant::now() }
    }

    /// Ends, and reports on stderr.
    pub(super) fn report(self, done: &Statistics) {
        let total = self.started.elapsed();
        let memory =
            self.memory.finish().zip(self.before).map(|(peak, before)| peak.saturating_sub(before));
        let text = match self.format {
            StatsFormat::Table => text(done, total, memory),
            StatsFormat::Json => format!("{}\n", object(&self.sql, done, total, memory)),
        };
        // Nobody is left to hear that stderr is closed.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// A row of the table of steps: name, what it is about, rows in and out, time.
struct Line {
    step: &'static str,
    detail: Option<String>,
    rows_in: Option<u64>,
    rows_out: Option<u64>,
    time: Duration,
}

fn line(step: &'static str, detail: Option<String>, done: &Step) -> Line {
    Line {
        step,
        detail,
        rows_in: Some(done.rows_in),
        rows_out: Some(done.rows_out),
        time: done.time,
    }
}

/// The steps of a fragment or scan before its filter, and after it.
fn around(store: &StoreOperator) -> (Vec<Line>, Vec<Line>) {
    let counters = &store.counters;
    let rows = counters.scan.rows_in;
    if counters.from_metadata {
        let step = Step { rows_in: rows, rows_out: counters.output.rows_out, time: counters.prune };
        return (vec![line("metadata", None, &step)], Vec::new());
    }
    let left = rows.saturating_sub(counters.pruned().rows);
    let prune = Step { rows_in: rows, rows_out: left, time: counters.prune };
    let scan = Step { rows_in: left, ..counters.scan };
    let mut after =
        vec![line(store.output, counters.grouping.map(str::to_owned), &counters.output)];
    if store.output != "project" {
        after.push(Line {
            step: "finish",
            detail: None,
            rows_in: None,
            rows_out: None,
            time: counters.finish,
        });
    }
    (vec![line("prune", None, &prune), line("scan", None, &scan)], after)
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn object(sql: &str, done: &Statistics, total: Duration, memory: Option<u64>) -> Value {
    json!({
        "sql": sql,
        "rows": done.rows,
        "total_ms": milliseconds(total),
        "planning_ms": milliseconds(done.planning),
        "execution_ms": milliseconds(done.execution),
        "peak_memory_bytes": memory,
        "spilled_bytes": done.spilled_bytes(),
        "spill_files": done.spill_files(),
        "operators": done.operators.iter().map(operator_object).collect::<Vec<_>>(),
    })
}

fn operator_object(operator: &Operator) -> Value {
    json!({
        "depth": operator.depth,
        "name": operator.name,
        "line": operator.line,
        "rows_out": operator.rows_out,
        "time_ms": operator.time.map(milliseconds),
        "spilled_bytes": operator.spilled_bytes,
        "spill_files": operator.spill_files,
        "store": operator.store.as_ref().map(store_object),
    })
}

fn store_object(store: &StoreOperator) -> Value {
    let counters = &store.counters;
    let pruned = |statistic: &Statistic| {
        let by = counters.pruned_by(*statistic);
        let of = json!({"segments": by.segments, "blocks": by.blocks, "rows": by.rows, "bytes": by.bytes});
        (statistic.name().to_owned(), of)
    };
    let all = counters.pruned();
    json!({
        "table": store.table,
        "from_metadata": counters.from_metadata,
        "segments": {"total": counters.segments, "pruned": all.segments, "read": counters.segments_read},
        "blocks": {"total": counters.blocks, "pruned": all.blocks, "read": counters.blocks_read},
        "pruned": Statistic::ALL.iter().map(pruned).collect::<Map<_, _>>(),
        "bytes": {
            "pruned": all.bytes,
            "read": counters.bytes_read,
            "dictionaries": counters.dictionary_bytes,
            "decoded": counters.bytes_decoded,
        },
        "values": {"decoded": counters.values_decoded, "fetched": counters.values_fetched},
        "steps": steps(store),
        "work_ms": milliseconds(counters.work),
        "threads": counters.threads,
        "memory_bytes": counters.memory,
    })
}

fn steps(store: &StoreOperator) -> Vec<Value> {
    let plain = |line: Line| {
        let time = milliseconds(line.time);
        json!({"step": line.step, "detail": line.detail, "rows_in": line.rows_in, "rows_out": line.rows_out, "ms": time})
    };
    let filter = |(number, condition): (usize, &String)| {
        let tested = store.counters.conditions.get(number).copied().unwrap_or_default();
        let form = |(form, blocks): (&Form, u64)| (form.name().to_owned(), Value::from(blocks));
        json!({
            "step": "filter",
            "detail": condition,
            "rows_in": tested.step.rows_in,
            "rows_out": tested.step.rows_out,
            "rows_proven": tested.rows_proven,
            "segments_pruned": tested.segments_pruned,
            "blocks_pruned": tested.blocks_pruned,
            "blocks_tested": Form::ALL.iter().zip(tested.blocks).map(form).collect::<Map<_, _>>(),
            "ms": milliseconds(tested.step.time),
        })
    };
    let (before, after) = around(store);
    let mut steps: Vec<Value> = before.into_iter().map(plain).collect();
    if !store.counters.from_metadata {
        steps.extend(store.conditions.iter().enumerate().map(filter));
    }
    steps.extend(after.into_iter().map(plain));
    steps
}

fn text(done: &Statistics, total: Duration, memory: Option<u64>) -> String {
    let mut out = format!(
        "{} in {}: planning {}, execution {}",
        show_counted(done.rows, "row"),
        show_duration(total),
        show_duration(done.planning),
        show_duration(done.execution)
    );
    if let Some(memory) = memory {
        out += &format!("; at most {} of memory", show_size(memory));
    }
    if done.spill_files() > 0 {
        let files = show_counted(done.spill_files(), "file");
        out += &format!("; {} spilled to {files}", show_size(done.spilled_bytes()));
    }
    out.push('\n');
    for operator in &done.operators {
        out += &operator_text(operator);
    }
    out
}

fn operator_text(operator: &Operator) -> String {
    let indent = "  ".repeat(operator.depth + 1);
    let table =
        operator.store.as_ref().map(|store| format!(" of {}", store.table)).unwrap_or_default();
    let mut out = format!("{indent}{}{table}", operator.name);
    let mut figures = Vec::new();
    figures.extend(operator.rows_out.map(|rows| show_counted(rows, "row")));
    figures.extend(operator.time.map(show_duration));
    if operator.spill_files > 0 {
        figures.push(format!("{} spilled", show_size(operator.spilled_bytes)));
    }
    if !figures.is_empty() {
        out += &format!(": {}", figures.join(", "));
    }
    out.push('\n');
    if let Some(store) = &operator.store {
        for line in store_text(store) {
            out += &format!("{indent}  {line}\n");
        }
    }
    out
}

fn store_text(store: &StoreOperator) -> Vec<String> {
    let counters = &store.counters;
    let mut lines = vec![
        format!(
            "segments  {}",
            read_of(counters.segments_read, counters.pruned().segments, counters.segments)
        ),
        format!(
            "blocks    {}",
            read_of(counters.blocks_read, counters.pruned().blocks, counters.blocks)
        ),
        format!("bytes     {}", bytes_text(counters)),
    ];
    if counters.from_metadata {
        lines.push("answered from metadata: no row was looked at".to_owned());
    }
    for statistic in Statistic::ALL {
        let by = counters.pruned_by(statistic);
        if by.blocks > 0 {
            let name = statistic.name().replace('_', " ").replace("min max", "min/max");
            let what = format!("{}, {}", show_counted(by.blocks, "block"), show_size(by.bytes));
            let segments = if by.segments > 0 {
                show_counted(by.segments, "segment") + ", "
            } else {
                String::new()
            };
            lines.push(format!("pruned    by {name}: {segments}{what}"));
        }
    }
    lines.extend(steps_text(store));
    lines
}

fn read_of(read: u64, pruned: u64, total: u64) -> String {
    format!("{} of {} read, {} pruned", show_count(read), show_count(total), show_count(pruned))
}

fn bytes_text(counters: &Counters) -> String {
    let mut text = format!("{} read", show_size(counters.bytes_read));
    if counters.dictionary_bytes > 0 {
        text += &format!(", and {} of dictionaries", show_size(counters.dictionary_bytes));
    }
    if counters.bytes_decoded > 0 {
        text += &format!("; {} decoded to arrays", show_size(counters.bytes_decoded));
    }
    text
}

fn steps_text(store: &StoreOperator) -> Vec<String> {
    let (mut lines, after) = around(store);
    if !store.counters.from_metadata {
        for (condition, tested) in store.conditions.iter().zip(&store.counters.conditions) {
            lines.push(line("filter", Some(condition.clone()), &tested.step));
        }
    }
    lines.extend(after);
    let mut out =
        vec![format!("{:<9} {:>14} {:>14} {:>10}", "step", "rows in", "rows out", "time")];
    for line in lines {
        let count = |rows: Option<u64>| rows.map(show_count).unwrap_or_default();
        let detail = line.detail.map(|detail| format!("  {detail}")).unwrap_or_default();
        let (rows_in, rows_out) = (count(line.rows_in), count(line.rows_out));
        out.push(format!(
            "{:<9} {rows_in:>14} {rows_out:>14} {:>10}{detail}",
            line.step,
            show_duration(line.time)
        ));
    }
    out
}
