//! What a statement has done, after it is done: for `--stats`, and as metrics of our nodes for `EXPLAIN ANALYZE`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use super::exec::FragmentExec;
use super::scan::ScanExec;
use crate::query::stats::{Counters, Form, Statistic};

/// In the extensions of a task: its operators take times, too.
#[derive(Debug)]
pub(crate) struct Timed;

/// What a statement has done.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// From the parsed statement to the running plan.
    pub planning: Duration,
    /// From then on, without what the caller did between batches.
    pub execution: Duration,
    /// Rows of the answer.
    pub rows: u64,
    /// The physical plan from the top, each operator before what lies below it.
    pub operators: Vec<Operator>,
}

/// An operator of the physical plan.
#[derive(Clone, Debug)]
pub struct Operator {
    /// How far below the top.
    pub depth: usize,
    /// Its name in EXPLAIN.
    pub name: String,
    /// Its whole line in EXPLAIN.
    pub line: String,
    /// Rows that it gave.
    pub rows_out: Option<u64>,
    /// How long its threads computed.
    pub time: Option<Duration>,
    /// Bytes that it wrote to temporary files.
    pub spilled_bytes: u64,
    /// Its temporary files.
    pub spill_files: u64,
    /// What it read, where it is one of the store's.
    pub store: Option<StoreOperator>,
}

/// What one of the store's own operators has done.
#[derive(Clone, Debug)]
pub struct StoreOperator {
    /// The table.
    pub table: String,
    /// What becomes of the rows that pass: `group`, `order`, or `project`.
    pub output: &'static str,
    /// The conditions, as EXPLAIN shows them.
    pub conditions: Vec<String>,
    /// What it counted.
    pub counters: Counters,
}

impl Statistics {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>, planning: Duration, execution: Duration, rows: u64) -> Self {
        let mut operators = Vec::new();
        visit(plan, 0, &mut operators);
        Statistics { planning, execution, rows, operators }
    }

    /// Bytes that all operators wrote to temporary files.
    pub fn spilled_bytes(&self) -> u64 {
        self.operators.iter().map(|operator| operator.spilled_bytes).sum()
    }

    /// The temporary files of all operators.
    pub fn spill_files(&self) -> u64 {
        self.operators.iter().map(|operator| operator.spill_files).sum()
    }
}

fn visit(plan: &Arc<dyn ExecutionPlan>, depth: usize, out: &mut Vec<Operator>) {
    let metrics = plan.metrics().unwrap_or_default();
    let store = match (plan.downcast_ref::<FragmentExec>(), plan.downcast_ref::<ScanExec>()) {
        (Some(fragment), _) => Some(fragment.done()),
        (_, Some(scan)) => Some(scan.done()),
        _ => None,
    };
    let count = |known: Option<usize>| known.map(|n| n as u64);
    out.push(Operator {
        depth,
        name: plan.name().to_owned(),
        line: Line(plan.as_ref()).to_string(),
        rows_out: count(metrics.output_rows()),
        time: count(metrics.elapsed_compute()).map(Duration::from_nanos),
        spilled_bytes: count(metrics.spilled_bytes()).unwrap_or(0),
        spill_files: count(metrics.spill_count()).unwrap_or(0),
        store,
    });
    plan.children().into_iter().for_each(|child| visit(child, depth + 1, out));
}

struct Line<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}

/// Metrics of an operator and what it counted, as EXPLAIN ANALYZE shows them. What is 0 because nothing of the kind was
/// there is left out, and so is the size of the answer in memory, which nobody measures.
pub(crate) fn with_counters(known: &MetricsSet, counters: &Counters) -> MetricsSet {
    let mut metrics = MetricsSet::new();
    let measured = known.iter().filter(|metric| !matches!(metric.value(), MetricValue::OutputBytes(_)));
    measured.for_each(|metric| metrics.push(Arc::clone(metric)));
    let mut push = |value: MetricValue| metrics.push(Arc::new(Metric::new(value, None)));
    let mut add = |name: Cow<'static, str>, n: u64| push(counted(name, n));
    let pruned = counters.pruned();
    for (name, n) in [
        ("segments", counters.segments),
        ("segments_read", counters.segments_read),
        ("segments_pruned", pruned.segments),
        ("blocks", counters.blocks),
        ("blocks_read", counters.blocks_read),
        ("blocks_pruned", pruned.blocks),
        ("rows_scanned", counters.scan.rows_out),
        ("rows_selected", counters.output.rows_in),
        ("bytes_read", counters.bytes_read),
    ] {
        add(name.into(), n);
    }
    for (name, n) in [
        ("answered_from_metadata", u64::from(counters.from_metadata)),
        ("dictionary_bytes_read", counters.dictionary_bytes),
        ("values_decoded", counters.values_decoded),
        ("values_fetched", counters.values_fetched),
        ("bytes_decoded", counters.bytes_decoded),
        ("group_memory_bytes", counters.memory),
    ] {
        if n > 0 {
            add(name.into(), n);
        }
    }
    for statistic in Statistic::ALL {
        let pruned = counters.pruned_by(statistic);
        if pruned.blocks > 0 {
            add(format!("blocks_pruned_by_{}", statistic.name()).into(), pruned.blocks);
            add(format!("bytes_pruned_by_{}", statistic.name()).into(), pruned.bytes);
        }
    }
    for (number, tested) in (1..).zip(&counters.conditions) {
        add(format!("filter_{number}_rows_in").into(), tested.step.rows_in);
        add(format!("filter_{number}_rows_out").into(), tested.step.rows_out);
        if tested.rows_proven > 0 {
            add(format!("filter_{number}_rows_proven").into(), tested.rows_proven);
        }
        for (form, blocks) in Form::ALL.iter().zip(tested.blocks).filter(|(_, blocks)| *blocks > 0) {
            add(format!("filter_{number}_blocks_by_{}", form.name()).into(), blocks);
        }
    }
    if counters.spill_files > 0 {
        push(MetricValue::SpillCount(count(counters.spill_files)));
        push(MetricValue::SpilledBytes(count(counters.spilled_bytes)));
    }
    times(counters).into_iter().for_each(|(name, time)| push(timed(name, time)));
    metrics
}

/// The steps that took time.
fn times(counters: &Counters) -> Vec<(Cow<'static, str>, Duration)> {
    let mut times: Vec<(Cow<'static, str>, Duration)> = vec![
        ("time_prune".into(), counters.prune),
        ("time_open".into(), counters.scan.time),
        ("time_output".into(), counters.output.time),
        ("time_finish".into(), counters.finish),
    ];
    let conditions = (1..).zip(&counters.conditions);
    times.extend(conditions.map(|(number, tested)| (format!("time_filter_{number}").into(), tested.step.time)));
    times.retain(|(_, time)| !time.is_zero());
    times
}

fn count(n: u64) -> Count {
    let count = Count::new();
    count.add(usize::try_from(n).unwrap_or(usize::MAX));
    count
}

fn counted(name: Cow<'static, str>, n: u64) -> MetricValue {
    MetricValue::Count { name, count: count(n) }
}

fn timed(name: Cow<'static, str>, duration: Duration) -> MetricValue {
    let time = Time::new();
    time.add_duration(duration);
    MetricValue::Time { name, time }
}
