//! The report of `sty query --stats` on a statement: what it read, what statistics pruned, how many
//! rows went into and out of each step, and what time, memory and temporary files it took.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use stylobate::internal::query::{Counters, Form, Statistic, Step};
use stylobate::internal::sql::{NodeWork, Operator, Statistics, StoreOperator};

use crate::memory::PeakSampler;
use crate::progress::write_stderr;
use crate::units::{show_count, show_counted, show_duration, show_size, show_text};

/// The formats of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Table,
    /// One object per statement.
    Json,
}

/// Measures a statement while it runs.
#[derive(Debug)]
pub(crate) struct StatementReport {
    format: StatsFormat,
    sql: String,
    started: Instant,
    memory: PeakSampler,
    /// Anonymous memory before the first statement, in bytes.
    memory_before: Option<u64>,
}

impl StatementReport {
    /// Starts measuring. `memory_before` is the anonymous memory of the process before the first
    /// statement.
    pub(crate) fn start(format: StatsFormat, sql: String, memory_before: Option<u64>) -> Self {
        let memory = PeakSampler::start();
        StatementReport { format, sql, memory, memory_before, started: Instant::now() }
    }

    /// Prints the report to stderr.
    pub(crate) fn print(self, statistics: &Statistics) {
        let total = self.started.elapsed();
        let memory = self
            .memory
            .finish()
            .zip(self.memory_before)
            .map(|(peak, before)| peak.saturating_sub(before));
        let text = match self.format {
            StatsFormat::Table => text(statistics, total, memory),
            StatsFormat::Json => format!("{}\n", object(&self.sql, statistics, total, memory)),
        };
        write_stderr(&text);
    }
}

/// A line of the table of steps.
struct Line {
    step: &'static str,
    /// Which filter or grouping it is.
    detail: Option<String>,
    rows_in: Option<u64>,
    rows_out: Option<u64>,
    time: Duration,
}

fn line(name: &'static str, detail: Option<String>, step: &Step) -> Line {
    Line {
        step: name,
        detail,
        rows_in: Some(step.rows_in),
        rows_out: Some(step.rows_out),
        time: step.time,
    }
}

/// The steps of a fragment or scan before its filters, and after them.
fn steps_around_filters(store: &StoreOperator) -> (Vec<Line>, Vec<Line>) {
    let counters = &store.counters;
    let rows = counters.scan.rows_in;
    if counters.from_metadata {
        let step = Step { rows_in: rows, rows_out: counters.output.rows_out, time: counters.prune };
        return (vec![line("metadata", None, &step)], Vec::new());
    }
    let unpruned = rows.saturating_sub(counters.pruned().rows);
    let prune = Step { rows_in: rows, rows_out: unpruned, time: counters.prune };
    let scan = Step { rows_in: unpruned, ..counters.scan };
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

fn object(sql: &str, statistics: &Statistics, total: Duration, memory: Option<u64>) -> Value {
    json!({
        "sql": sql,
        "rows": statistics.rows,
        "total_ms": milliseconds(total),
        "planning_ms": milliseconds(statistics.planning),
        "execution_ms": milliseconds(statistics.execution),
        "peak_memory_bytes": memory,
        "spilled_bytes": statistics.spilled_bytes(),
        "spill_files": statistics.spill_files(),
        "operators": statistics.operators.iter().map(operator_object).collect::<Vec<_>>(),
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
        "nodes": operator.nodes.iter().map(node_object).collect::<Vec<_>>(),
        "bytes_received": operator.bytes_received,
    })
}

fn node_object(work: &NodeWork) -> Value {
    json!({
        "node": work.node,
        "rows_out": work.rows_out,
        "rows_read": work.rows_read,
        "bytes_read": work.bytes_read,
        "segments_read": work.segments_read,
        "time_ms": milliseconds(work.time),
    })
}

fn store_object(store: &StoreOperator) -> Value {
    let counters = &store.counters;
    let pruned = |statistic: &Statistic| {
        let pruned = counters.pruned_by(*statistic);
        let counts = json!({
            "segments": pruned.segments,
            "blocks": pruned.blocks,
            "rows": pruned.rows,
            "bytes": pruned.bytes,
        });
        (statistic.name().to_owned(), counts)
    };
    let all = counters.pruned();
    json!({
        "table": store.table,
        "from_metadata": counters.from_metadata,
        "segments": {
            "total": counters.segments,
            "pruned": all.segments,
            "read": counters.segments_read,
        },
        "blocks": {
            "total": counters.blocks,
            "pruned": all.blocks,
            "read": counters.blocks_read,
        },
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
        json!({
            "step": line.step,
            "detail": line.detail,
            "rows_in": line.rows_in,
            "rows_out": line.rows_out,
            "ms": milliseconds(line.time),
        })
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
    let (before, after) = steps_around_filters(store);
    let mut steps: Vec<Value> = before.into_iter().map(plain).collect();
    if !store.counters.from_metadata {
        steps.extend(store.conditions.iter().enumerate().map(filter));
    }
    steps.extend(after.into_iter().map(plain));
    steps
}

fn text(statistics: &Statistics, total: Duration, memory: Option<u64>) -> String {
    let mut out = format!(
        "{} in {}: planning {}, execution {}",
        show_counted(statistics.rows, "row"),
        show_duration(total),
        show_duration(statistics.planning),
        show_duration(statistics.execution)
    );
    if let Some(memory) = memory {
        out += &format!("; at most {} of memory", show_size(memory));
    }
    if statistics.spill_files() > 0 {
        let files = show_counted(statistics.spill_files(), "file");
        out += &format!("; {} spilled to {files}", show_size(statistics.spilled_bytes()));
    }
    out.push('\n');
    for operator in &statistics.operators {
        out += &operator_text(operator);
    }
    out
}

fn operator_text(operator: &Operator) -> String {
    let indent = "  ".repeat(operator.depth + 1);
    let table =
        operator.store.as_ref().map(|store| format!(" of {}", store.table)).unwrap_or_default();
    let mut out = show_text(&format!("{indent}{}{table}", operator.name)).into_owned();
    let mut figures = Vec::new();
    figures.extend(operator.rows_out.map(|rows| show_counted(rows, "row")));
    figures.extend(operator.time.map(show_duration));
    if operator.spill_files > 0 {
        figures.push(format!("{} spilled", show_size(operator.spilled_bytes)));
    }
    if let Some(bytes) = operator.bytes_received {
        figures.push(format!("{} received", show_size(bytes)));
    }
    if !figures.is_empty() {
        out += &format!(": {}", figures.join(", "));
    }
    out.push('\n');
    if let Some(store) = &operator.store {
        for line in store_text(store) {
            out += &format!("{indent}  {}\n", show_text(&line));
        }
    }
    for work in &operator.nodes {
        let line = format!(
            "node {}: {} of {} rows read, {} in {}, {}",
            work.node,
            show_counted(work.rows_out, "row"),
            show_count(work.rows_read),
            show_size(work.bytes_read),
            show_counted(work.segments_read, "segment"),
            show_duration(work.time)
        );
        out += &format!("{indent}  {}\n", show_text(&line));
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
        let pruned = counters.pruned_by(statistic);
        if pruned.blocks > 0 {
            let name = statistic.name().replace('_', " ").replace("min max", "min/max");
            let what =
                format!("{}, {}", show_counted(pruned.blocks, "block"), show_size(pruned.bytes));
            let segments = if pruned.segments > 0 {
                show_counted(pruned.segments, "segment") + ", "
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
    let (mut lines, after) = steps_around_filters(store);
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
