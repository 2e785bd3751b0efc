//! What a statement has done, after it is done: for `--stats`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::MetricsSet;
#[cfg(feature = "cluster")]
use datafusion::physical_plan::metrics::{Label, Metric};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
#[cfg(feature = "cluster")]
use datafusion_distributed::{DISTRIBUTED_DATAFUSION_TASK_ID_LABEL, DistributedLeafExec};

use crate::error::Result;
use crate::sql::run::exec::FragmentExec;
use crate::sql::run::scan::ScanExec;
use crate::sql::run::statistics::{StoreOperator, TableForecast};
#[cfg(feature = "cluster")]
use crate::sql::run::task::RemoteExec;
use crate::sql::run::wide_rows::WideRowsExec;

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
    /// What each node of a cluster did, if it ran there.
    pub nodes: Vec<NodeWork>,
    /// Bytes that came over the network.
    pub bytes_received: Option<u64>,
}

/// What a node of a cluster did.
#[derive(Clone, Debug)]
pub struct NodeWork {
    /// Its name.
    pub node: String,
    /// Rows, or states of groups, that it gave.
    pub rows_out: u64,
    /// Rows that it looked at.
    pub rows_read: u64,
    /// Bytes that it read of its files.
    pub bytes_read: u64,
    /// Segments that it read.
    pub segments_read: u64,
    /// How long its threads computed.
    pub time: Duration,
}

impl Statistics {
    /// Of a plan, and the same plan with what other machines have counted.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        measured: &Arc<dyn ExecutionPlan>,
        planning: Duration,
        execution: Duration,
        rows: u64,
    ) -> Self {
        let mut operators = Vec::new();
        visit(plan, measured, 0, &mut operators);
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

fn visit(
    plan: &Arc<dyn ExecutionPlan>,
    measured: &Arc<dyn ExecutionPlan>,
    depth: usize,
    out: &mut Vec<Operator>,
) {
    let children = || plan.children().into_iter().zip(measured.children());
    // It counts nothing.
    if plan.is::<WideRowsExec>() {
        return children().for_each(|(child, measured)| visit(child, measured, depth, out));
    }
    let metrics = measured.metrics().unwrap_or_default();
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
        nodes: nodes(plan, &metrics),
        bytes_received: metrics
            .sum_by_name("bytes_transferred")
            .map(|bytes| bytes.as_usize() as u64),
    });
    children().for_each(|(child, measured)| visit(child, measured, depth + 1, out));
}

/// What each node did, by metrics that have the numbers of their tasks.
#[cfg(feature = "cluster")]
fn nodes(plan: &Arc<dyn ExecutionPlan>, metrics: &MetricsSet) -> Vec<NodeWork> {
    let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() else { return Vec::new() };
    let work = |(task, leaf_of_task): (usize, &Arc<dyn ExecutionPlan>)| {
        let task = task.to_string();
        let is_its = |metric: &&Arc<Metric>| {
            let number = |label: &&Label| label.name() == DISTRIBUTED_DATAFUSION_TASK_ID_LABEL;
            metric.labels().iter().find(number).is_some_and(|label| label.value() == task)
        };
        let sum = |name: &str| {
            let named = |metric: &&Arc<Metric>| metric.value().name() == name;
            let all = metrics.iter().filter(is_its).filter(named);
            all.map(|metric| metric.value().as_usize() as u64).sum()
        };
        NodeWork {
            node: leaf_of_task
                .downcast_ref::<RemoteExec>()
                .map_or_else(String::new, |remote| remote.part.node.name.to_string()),
            rows_out: sum("output_rows"),
            rows_read: sum("rows_scanned"),
            bytes_read: sum("bytes_read"),
            segments_read: sum("segments_read"),
            time: Duration::from_nanos(sum("elapsed_compute")),
        }
    };
    leaf.variants().iter().enumerate().map(work).collect()
}

#[cfg(not(feature = "cluster"))]
fn nodes(_: &Arc<dyn ExecutionPlan>, _: &MetricsSet) -> Vec<NodeWork> {
    Vec::new()
}

/// What the store's own operators of a plan would read.
pub(crate) fn forecast(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<TableForecast>> {
    let mut found = Vec::new();
    add_forecasts(plan, false, &mut found)?;
    Ok(found)
}

fn add_forecasts(
    plan: &Arc<dyn ExecutionPlan>,
    repeats: bool,
    found: &mut Vec<TableForecast>,
) -> Result<()> {
    let own = match (plan.downcast_ref::<FragmentExec>(), plan.downcast_ref::<ScanExec>()) {
        (Some(fragment), _) => Some(fragment.forecast()?),
        (_, Some(scan)) => Some(scan.forecast()?),
        _ => None,
    };
    found.extend(own.map(|mut own| {
        if repeats {
            own.forecast.reasons.push("it is read again for each step of a recursion");
        }
        own
    }));
    let repeats = repeats || plan.is::<RecursiveQueryExec>();
    plan.children().into_iter().try_for_each(|child| add_forecasts(child, repeats, found))
}

struct Line<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(DisplayFormatType::Default, f)
    }
}
