//! Scanning a table: blocks filtered and decoded to Arrow, in slices that stay in cache.
//!
//! All partitions of a scan take their blocks from one `queue`, in the order of the table, so
//! that none waits while another still has work. The queue rules segments out by the manifest's
//! statistics before they are mapped, and blocks by the zone maps of their segment before they are
//! read.

mod first_of_groups;
mod queue;
mod request;
mod worker;

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_array::Array;
use arrow_schema::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column as Key, Literal, in_list};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SortOrderPushdownResult,
};

use crate::block::Order;
use crate::error::Result;
use crate::expr::Expression;
use crate::limits::BLOCK_ROWS;
use crate::model::SortKey;
use crate::query::Recorder;
use crate::query::forecast::Reader;
use crate::query::group_bounds::FirstOfGroups;
use crate::query::group_top::Ranking;
use crate::query::open::opener::partitions;
use crate::query::order::chains::{Chains, chains};
use crate::query::prune::segments::rows_left;
use crate::query::sample::few_values;
use crate::sql::convert::to_statistics;
use crate::sql::run::coalesce::most_held;
use crate::sql::run::dynamic::{Duty, DynamicFilters};
use crate::sql::run::executions::Executions;
use crate::sql::run::generate::{generate, give_way};
use crate::sql::run::leaf::{leaf_methods, leaf_properties};
use crate::sql::run::statistics::{StoreOperator, TableForecast, Timed, with_counters};
use first_of_groups::{LeftOut, order_by};
pub(in crate::sql) use request::{Scan, ScanOrder};
use worker::{SharedScan, Worker};

/// The share of rows that a filter is expected to leave where nothing tells: DataFusion's guess.
const SELECTIVITY: f64 = 0.2;

/// The statistics of a table of which only some rows are left.
fn filtered(mut known: Statistics, rows: f64) -> Statistics {
    let all = known.num_rows.get_value().map_or(rows, |all| *all as f64);
    let share = if all > 0.0 { (rows / all).min(1.0) } else { 1.0 };
    let part = |n: Precision<usize>| n.map(|n| (n as f64 * share).ceil() as usize);
    (known.num_rows, known.total_byte_size) = (part(known.num_rows), part(known.total_byte_size));
    known
}

/// The leaf of a physical plan.
#[derive(Debug)]
pub(crate) struct ScanExec {
    scan: Arc<Scan>,
    executions: Executions<SharedScan>,
    statistics: OnceLock<Arc<Statistics>>,
    expected_rows: OnceLock<f64>,
    /// See [`ScanExec::progress`].
    to_read: OnceLock<u64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What all runs have counted.
    recorder: Arc<Recorder>,
}

impl ScanExec {
    pub(crate) fn new(scan: Arc<Scan>, target_partitions: usize) -> Self {
        let blocks = scan.table.snapshot().rows().div_ceil(BLOCK_ROWS as u64);
        let partitions =
            usize::try_from(blocks).unwrap_or(usize::MAX).clamp(1, target_partitions.max(1));
        ScanExec::with_order(scan, partitions, None)
    }

    /// In exactly so many partitions.
    #[cfg(feature = "cluster")]
    pub(crate) fn in_partitions(scan: Arc<Scan>, partitions: usize) -> Self {
        ScanExec::with_order(scan, partitions, None)
    }

    /// Gives its rows in an order.
    fn with_order(scan: Arc<Scan>, partitions: usize, order: Option<LexOrdering>) -> Self {
        let rows = EquivalenceProperties::new_with_orderings(Arc::clone(&scan.schema), order);
        let metrics = ExecutionPlanMetricsSet::new();
        ScanExec {
            executions: Executions::new(partitions),
            scan,
            statistics: OnceLock::new(),
            expected_rows: OnceLock::new(),
            to_read: OnceLock::new(),
            properties: leaf_properties(rows, partitions, EmissionType::Incremental),
            metrics,
            recorder: Arc::default(),
        }
    }

    /// The same, of something else than before, in the same partitions.
    fn again(&self, scan: Scan, order: Option<LexOrdering>) -> Self {
        ScanExec::with_order(Arc::new(scan), self.properties.partitioning.partition_count(), order)
    }

    /// The same for another run, which counts for itself; `None` if operators above tell it more as
    /// they run.
    pub(crate) fn copied(&self) -> Option<Self> {
        let partitions = self.properties.partitioning.partition_count();
        let order = self.properties.output_ordering().cloned();
        let copy = || ScanExec::with_order(Arc::clone(&self.scan), partitions, order);
        self.scan.dynamic.is_empty().then(copy)
    }

    /// The same in one partition: it then begins when it is polled, and hears of all filters that
    /// are known by then. DataFusion's operator that unites several begins at once.
    pub(crate) fn in_one_partition(&self) -> Self {
        ScanExec::with_order(Arc::clone(&self.scan), 1, None)
    }

    /// As people write them; those that came later are one.
    fn conditions(&self) -> Vec<String> {
        let mut texts: Vec<String> =
            self.scan.conditions.iter().map(|c| c.expression.text.to_string()).collect();
        if !self.scan.dynamic.is_empty() {
            texts.push("dynamic filters".to_owned());
        }
        texts
    }

    /// The same without rows that are not among the first `limit` of their groups, which some
    /// columns make, in the order by a column, if there is one, and perhaps by others. It may give
    /// more than these. `None` where it cannot tell, or rows are at other places.
    pub(crate) fn with_first_of_groups(
        &self,
        keys: &[usize],
        order: Option<(&PhysicalSortExpr, bool)>,
        first: (Ranking, usize),
    ) -> Option<Self> {
        if self.scan.limit.is_some() || self.scan.first.is_some() || !self.scan.table.is_here() {
            return None;
        }
        let key = |at: &usize| Some(Expression::column(*at, self.scan.columns.get(*at)?));
        let keys = keys.iter().map(key).collect::<Option<Vec<_>>>()?;
        let is_alone = order.is_none_or(|(_, is_alone)| is_alone);
        let order = match order {
            Some((by, _)) => Some(order_by(&self.scan, by)?),
            None => None,
        };
        let first = FirstOfGroups::new(keys, order, is_alone, first)?;
        let scan = Scan { first: Some(first), ..Scan::clone(&self.scan) };
        Some(self.again(scan, self.properties.output_ordering().cloned()))
    }

    /// The chains of segments that are sorted by all keys of an order.
    fn chains(&self, order: &[PhysicalSortExpr]) -> Result<Option<Chains>> {
        let key = |key: &PhysicalSortExpr| {
            let column = self.scan.columns.get(key.expr.downcast_ref::<Key>()?.index())?;
            let SortOptions { descending, nulls_first } = key.options;
            Some(SortKey { column: column.id, descending, nulls_first })
        };
        match order.iter().map(key).collect::<Option<Vec<_>>>() {
            Some(keys) => chains(self.scan.table.snapshot(), &keys),
            None => Ok(None),
        }
    }

    /// What the manifest knows of the columns of the answer, in all rows of the table.
    pub(crate) fn table_statistics(&self) -> Result<Statistics> {
        let answer = self.scan.columns.get(..self.scan.schema.fields().len()).unwrap_or_default();
        to_statistics(self.scan.table.snapshot(), answer)
    }

    /// Rows of the table.
    pub(crate) fn table_rows(&self) -> u64 {
        self.scan.table.snapshot().rows()
    }

    /// Between what values those of a column are, where the manifest knows.
    pub(crate) fn bounds(&self, at: usize) -> Option<(ScalarValue, ScalarValue)> {
        let known = self.table_statistics().ok()?.column_statistics.into_iter().nth(at)?;
        Some((known.min_value.get_value()?.clone(), known.max_value.get_value()?.clone()))
    }

    /// Whether the manifest proves that no two rows of the table have the same value.
    pub(crate) fn is_unique(&self, at: usize) -> bool {
        let column = self.scan.columns.get(at);
        column.is_some_and(|column| {
            let order = self.scan.table.snapshot().column_order(column.id);
            order.is_ok_and(|o| o.strict && (o.ascending || o.descending))
        })
    }

    /// About how many rows are left of the table, by a sample.
    pub(crate) fn expected_rows(&self) -> f64 {
        *self.expected_rows.get_or_init(|| {
            let snapshot = self.scan.table.snapshot();
            // A condition may fail for a row that the query does not reach.
            let sampled = self.scan.table.expected_rows(&self.scan.columns, &self.scan.conditions);
            let left = sampled.unwrap_or(snapshot.rows() as f64 * SELECTIVITY);
            let unknown = if self.scan.dynamic.exact().is_empty() { 1.0 } else { SELECTIVITY };
            self.scan.limit.map_or(left * unknown, |limit| left.min(limit as f64))
        })
    }

    /// The values of a column, if few rows of a table that is not large pass.
    pub(crate) fn few_values(&self, at: usize, most: usize) -> Option<Vec<ScalarValue>> {
        let Scan { table, columns, conditions, .. } = &*self.scan;
        if conditions.is_empty() {
            return None;
        }
        // A condition may fail for a row that the query does not reach.
        let arrays = few_values(columns, conditions, table.snapshot(), at, most).ok()??;
        let values = arrays.iter().flat_map(|array| {
            let valid = (0..array.len()).filter(|row| array.is_valid(*row));
            valid.map(|row| ScalarValue::try_from_array(array, row).ok())
        });
        values.collect()
    }

    /// [`ScanExec::expected_rows`], of rows with one of some values in a column.
    pub(crate) fn rows_with(&self, at: usize, values: &[ScalarValue]) -> Option<f64> {
        let Scan { table, columns, conditions, schema, .. } = &*self.scan;
        let column = Arc::new(Key::new(schema.fields().get(at)?.name(), at));
        let literal = |value: &ScalarValue| -> Arc<dyn PhysicalExpr> {
            Arc::new(Literal::new(value.clone()))
        };
        let list = in_list(column, values.iter().map(literal).collect(), &false, schema).ok()?;
        let list = DynamicFilters::default().with(vec![(list, Duty::Hint)]);
        let list = list.conditions(table, schema).ok().filter(|list| !list.is_empty())?;
        let all = [&conditions[..], &list[..]].concat();
        table.expected_rows(columns, &all).ok()
    }

    /// What it reads.
    pub(crate) fn scan(&self) -> &Scan {
        &self.scan
    }

    /// What it would read.
    pub(crate) fn forecast(&self) -> Result<TableForecast> {
        let Scan { table, columns, conditions, schema, .. } = &*self.scan;
        let predicate = self.scan.predicate(conditions);
        let output = (0..schema.fields().len()).collect();
        let mut forecast =
            Reader { columns, conditions, predicate, output }.forecast(table.snapshot())?;
        if self.scan.limit.is_some() {
            forecast.reasons.push("a limit ends the scan");
        }
        if self.scan.first.is_some() {
            forecast.reasons.push("only the first rows of groups are wanted");
        }
        let is_alone = self.scan.dynamic.is_empty();
        Ok(TableForecast::new(table.name(), forecast, is_alone))
    }

    /// How many rows it is done with, and of how many, as far as statistics tell by now.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let expected = || {
            let predicate = self.scan.predicate(&self.scan.conditions);
            let partitions = partitions(&self.scan.conditions);
            let left = rows_left(&predicate, &partitions, self.scan.table.snapshot());
            left.unwrap_or_else(|_| self.table_rows())
        };
        let begun = self.recorder.progress();
        begun.unwrap_or_else(|| (0, *self.to_read.get_or_init(expected)))
    }

    /// What it has done so far.
    pub(crate) fn done(&self) -> StoreOperator {
        StoreOperator {
            table: self.scan.table.name().to_owned(),
            output: "project",
            conditions: self.conditions(),
            counters: self.recorder.counters(),
        }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.scan.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "StoreScan: table={}, columns=[{}]", self.scan.table.name(), names.join(", "))?;
        if !self.scan.conditions.is_empty() {
            let texts: Vec<&str> =
                self.scan.conditions.iter().map(|c| &*c.expression.text).collect();
            write!(f, ", filter=[{}]", texts.join(", "))?;
        }
        let mut pruned_by = Vec::new();
        self.scan.predicate(&self.scan.conditions).for_each_column(&mut |id| {
            let column =
                self.scan.table.snapshot().schema().columns().iter().find(|column| column.id == id);
            if let Some(column) = column.filter(|column| !pruned_by.contains(&&*column.name)) {
                pruned_by.push(&*column.name);
            }
        });
        if !pruned_by.is_empty() {
            write!(f, ", pruned_by=[{}]", pruned_by.join(", "))?;
        }
        if !self.scan.dynamic.is_empty() {
            write!(f, ", dynamic={}", self.scan.dynamic)?;
        }
        match &self.scan.order {
            ScanOrder::Stored => {}
            ScanOrder::Backwards => f.write_str(", backwards")?,
            ScanOrder::BestFirst(by) => write!(f, ", best_first={by}")?,
            ScanOrder::Merged(sorted) => {
                let backwards = if sorted.backwards { ", backwards" } else { "" };
                write!(f, ", merged={}{backwards}", sorted.chains.len())?;
            }
        }
        if let Some(limit) = self.scan.limit {
            write!(f, ", limit={limit}")?;
        }
        if let Some(first) = &self.scan.first {
            write!(f, ", first=[{first}]")?;
        }
        self.scan.refusal.as_ref().map_or(Ok(()), |why| write!(f, ", native=no: {why}"))
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "StoreScan"
    }

    leaf_methods!();

    /// By these a join knows that somebody wants to hear of its keys.
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        self.scan.dynamic.visit(f)
    }

    /// A scan that starts again from the first block (recursive queries run a plan many times).
    /// What operators above found out in the last run is not what they will find out in the next,
    /// and they do not tell this scan.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let scan = Scan { dynamic: self.scan.dynamic.exact(), ..Scan::clone(&self.scan) };
        let order = self.properties.output_ordering().cloned();
        Ok(Arc::new(ScanExec { recorder: Arc::clone(&self.recorder), ..self.again(scan, order) }))
    }

    /// Takes the filters that are only known as the query runs; the others it has from `lower`.
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        handed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> DataFusionResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut taken = Vec::new();
        let answers = handed.parent_filters.into_iter().map(|handed| {
            let takes = self.scan.limit.is_none() && self.scan.table.is_here();
            let duty = Duty::of(&handed.filter).filter(|_| takes);
            taken.extend(duty.map(|duty| (handed.filter, duty)));
            if duty == Some(Duty::Exact) { PushedDown::Yes } else { PushedDown::No }
        });
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answers.collect());
        if taken.is_empty() {
            return Ok(answer);
        }
        let scan = Scan { dynamic: self.scan.dynamic.with(taken), ..Scan::clone(&self.scan) };
        Ok(answer.with_updated_node(Arc::new(
            self.again(scan, self.properties.output_ordering().cloned()),
        )))
    }

    /// Rows that are stored in the order, or against it, come out in it; of others, the best blocks
    /// come first.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> DataFusionResult<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        // Rows of several machines come in no order.
        let has_order = self.scan.limit.is_none() && self.scan.table.is_here();
        let key = order.first().filter(|_| has_order);
        let Some((first, by)) = key.and_then(|first| Some((first, order_by(&self.scan, first)?)))
        else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let column = by.expression.as_column().and_then(|at| self.scan.columns.get(at));
        let stored = match column {
            Some(column) => self.scan.table.snapshot().column_order(column.id)?,
            None => Order::default(),
        };
        let (with, against) = match first.options.descending {
            false => (stored.ascending, stored.descending),
            true => (stored.descending, stored.ascending),
        };
        let scan = |order| Scan { order, ..Scan::clone(&self.scan) };
        // What comes after the first key decides nothing where no two rows have the same.
        let alone = order.len() == 1 || stored.strict;
        let chosen = match (with && alone, against && alone) {
            (true, _) => ScanOrder::Stored,
            (_, true) => ScanOrder::Backwards,
            _ => match self.chains(order)? {
                Some(sorted) => ScanOrder::Merged(Arc::new(sorted)),
                None => {
                    let inner = Arc::new(self.again(scan(ScanOrder::BestFirst(by)), None));
                    return Ok(SortOrderPushdownResult::Inexact { inner });
                }
            },
        };
        let ordering = LexOrdering::new(order.to_vec());
        let (lanes, before) = (chosen.lanes(), self.properties.partitioning.partition_count());
        let partitions = lanes * (before / lanes).max(1);
        let inner = ScanExec::with_order(Arc::new(scan(chosen)), partitions, ordering.clone());
        // Where there was one partition, nobody above expects more.
        let inner: Arc<dyn ExecutionPlan> = match ordering.filter(|_| before == 1 && partitions > 1)
        {
            Some(ordering) => Arc::new(SortPreservingMergeExec::new(ordering, Arc::new(inner))),
            None => Arc::new(inner),
        };
        Ok(SortOrderPushdownResult::Exact { inner })
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let partitions = self.properties.output_partitioning().partition_count();
        let left_out = LeftOut::new(&self.scan, partitions, &context)?;
        let worker = Worker {
            scan: Arc::clone(&self.scan),
            shared: self.executions.start(partition, SharedScan::default),
            lane: partition % self.scan.order.lanes(),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            recorder: Arc::clone(&self.recorder),
            timed: context.session_config().get_extension::<Timed>().is_some(),
            most_held: most_held(&context),
        };
        self.recorder.update(|sum| sum.threads = sum.threads.max(partition as u64 + 1));
        Ok(generate(Arc::clone(&self.scan.schema), move |output| async move {
            // The task that has filled a hash table comes here first. The others that waited for it
            // stand behind it, on its thread, until it waits itself (tokio 1).
            if partitions > 1 {
                give_way().await;
            }
            worker.run(left_out, output).await
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(with_counters(&self.metrics.clone_inner(), &self.recorder.counters()))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        if args.partition().is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.scan.schema)));
        }
        if let Some(known) = self.statistics.get() {
            return Ok(Arc::clone(known));
        }
        let known = self.table_statistics()?;
        let known = match self.scan.is_whole() {
            true => known,
            false => filtered(known.to_inexact(), self.expected_rows()),
        };
        Ok(Arc::clone(self.statistics.get_or_init(|| Arc::new(known))))
    }
}
