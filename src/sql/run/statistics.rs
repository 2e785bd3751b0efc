//! What an operator of ours has counted, also as metrics for `EXPLAIN ANALYZE`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use datafusion::prelude::SessionContext;

use crate::query::forecast::Forecast;
use crate::query::stats::{Counters, Form, Pruned, Statistic};

/// In the extensions of a task: its operators take times, too.
#[derive(Debug)]
pub(crate) struct Timed;

/// The context that operators of a session run with.
pub(in crate::sql) fn task_context(session: &SessionContext, timed: bool) -> Arc<TaskContext> {
    let mut config = session.copied_config();
    if timed {
        config = config.with_extension(Arc::new(Timed));
    }
    // Operators find functions in their plans: copies of all that a session has would take longer
    // than many a statement.
    let (id, runtime) = (session.session_id(), session.runtime_env());
    let (scalar, higher_order) = (HashMap::new(), HashMap::new());
    let (aggregate, window) = (HashMap::new(), HashMap::new());
    let context =
        TaskContext::new(None, id, config, scalar, higher_order, aggregate, window, runtime);
    Arc::new(context)
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

/// What one of the store's own operators would read.
#[derive(Clone, Debug)]
pub struct TableForecast {
    /// The table.
    pub table: String,
    /// What would be read of it.
    pub forecast: Forecast,
}

impl TableForecast {
    /// `is_alone` unless operators above tell it more as they run.
    pub(crate) fn new(table: &str, mut forecast: Forecast, is_alone: bool) -> TableForecast {
        if !is_alone && forecast.counters.blocks_read > 0 {
            forecast.reasons.push("other operators find out more as they run");
        }
        TableForecast { table: table.to_owned(), forecast }
    }
}

/// Metrics of an operator and what it counted, as EXPLAIN ANALYZE shows them. The size of the
/// answer in memory, which nobody measures, is left out.
pub(crate) fn with_counters(known: &MetricsSet, counters: &Counters) -> MetricsSet {
    let mut metrics = MetricsSet::new();
    let measured =
        known.iter().filter(|metric| !matches!(metric.value(), MetricValue::OutputBytes(_)));
    measured.for_each(|metric| metrics.push(Arc::clone(metric)));
    let figures = [read(counters), pruned(counters), filtered(counters)].into_iter().flatten();
    let mut values: Vec<MetricValue> =
        figures.map(|(name, n)| MetricValue::Count { name, count: count(n) }).collect();
    if counters.spill_files > 0 {
        values.push(MetricValue::SpillCount(count(counters.spill_files)));
        values.push(MetricValue::SpilledBytes(count(counters.spilled_bytes)));
    }
    values.extend(times(counters).into_iter().map(|(name, time)| timed(name, time)));
    values.into_iter().for_each(|value| metrics.push(Arc::new(Metric::new(value, None))));
    metrics
}

type Figures = Vec<(Cow<'static, str>, u64)>;

/// What was read; of the rarer kinds, what there was.
fn read(counters: &Counters) -> Figures {
    let pruned = counters.pruned();
    let always = [
        ("segments", counters.segments),
        ("segments_read", counters.segments_read),
        ("segments_pruned", pruned.segments),
        ("blocks", counters.blocks),
        ("blocks_read", counters.blocks_read),
        ("blocks_pruned", pruned.blocks),
        ("rows_scanned", counters.scan.rows_out),
        ("rows_selected", counters.output.rows_in),
        ("bytes_read", counters.bytes_read),
    ];
    let sometimes = [
        ("answered_from_metadata", u64::from(counters.from_metadata)),
        ("dictionary_bytes_read", counters.dictionary_bytes),
        ("values_decoded", counters.values_decoded),
        ("values_fetched", counters.values_fetched),
        ("bytes_decoded", counters.bytes_decoded),
        ("group_memory_bytes", counters.memory),
    ];
    let some = sometimes.into_iter().filter(|(_, n)| *n > 0);
    always.into_iter().chain(some).map(|(name, n)| (Cow::from(name), n)).collect()
}

/// What each statistic pruned, if anything.
fn pruned(counters: &Counters) -> Figures {
    let by = Statistic::ALL.map(|statistic| (statistic.name(), counters.pruned_by(statistic)));
    let of = |(name, pruned): (&str, Pruned)| -> [(Cow<'static, str>, u64); 2] {
        let blocks = (format!("blocks_pruned_by_{name}").into(), pruned.blocks);
        [blocks, (format!("bytes_pruned_by_{name}").into(), pruned.bytes)]
    };
    by.into_iter().filter(|(_, pruned)| pruned.blocks > 0).flat_map(of).collect()
}

/// What became of each condition.
fn filtered(counters: &Counters) -> Figures {
    let mut figures = Figures::new();
    for (number, tested) in (1..).zip(&counters.conditions) {
        let mut add =
            |what: &str, n: u64| figures.push((format!("filter_{number}_{what}").into(), n));
        add("rows_in", tested.step.rows_in);
        add("rows_out", tested.step.rows_out);
        if tested.rows_proven > 0 {
            add("rows_proven", tested.rows_proven);
        }
        for (form, blocks) in Form::ALL.iter().zip(tested.blocks).filter(|(_, blocks)| *blocks > 0)
        {
            add(&format!("blocks_by_{}", form.name()), blocks);
        }
    }
    figures
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
    times.extend(
        conditions
            .map(|(number, tested)| (format!("time_filter_{number}").into(), tested.step.time)),
    );
    times.retain(|(_, time)| !time.is_zero());
    times
}

fn count(n: u64) -> Count {
    let count = Count::new();
    count.add(usize::try_from(n).unwrap_or(usize::MAX));
    count
}

fn timed(name: Cow<'static, str>, duration: Duration) -> MetricValue {
    let time = Time::new();
    time.add_duration(duration);
    MetricValue::Time { name, time }
}
