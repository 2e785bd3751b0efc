//! Running fragments as leaves of physical plans.
//!
//! A fragment runs when its first batch is asked for, on the session's own threads rather than
//! DataFusion's asynchronous ones. Its answer comes out in slices of a size that operators above
//! like; groups that are many become rows as they are asked for.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use crate::error::Result;
use crate::expr::Expression;
use crate::query::forecast::forecast;
use crate::query::open::opener::{partitions, predicate};
use crate::query::prune::segments::rows_left;
use crate::query::stats::Counters;
use crate::query::{self, Fragment, Recorder, run};
use crate::sql::run::describe::describe;
use crate::sql::run::dynamic::{Duty, DynamicFilters};
use crate::sql::run::generate::{Output, generate};
use crate::sql::run::leaf::{leaf_methods, leaf_properties};
use crate::sql::run::resources::{Resources, checked};
use crate::sql::run::statistics::{StoreOperator, TableForecast, with_counters};
use crate::sql::run::table::StoreTable;
use crate::sql::walks::replaced;
use crate::sql::work::handle::OfSession;

/// A fragment in a physical plan.
#[derive(Debug)]
pub(crate) struct FragmentExec {
    fragment: Arc<Fragment>,
    table: Arc<StoreTable>,
    session: Arc<OfSession>,
    expected_rows: OnceLock<usize>,
    /// See [`FragmentExec::progress`].
    to_read: OnceLock<u64>,
    /// Over the columns of the fragment.
    dynamic: DynamicFilters,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What all runs have counted.
    recorder: Arc<Recorder>,
    /// The part of the logical plan that it replaced, if other machines run it.
    logical: Option<Arc<LogicalPlan>>,
}

impl FragmentExec {
    /// `order` is the one in which the fragment gives its rows.
    pub(crate) fn new(
        fragment: Arc<Fragment>,
        table: Arc<StoreTable>,
        session: Arc<OfSession>,
        order: Option<LexOrdering>,
    ) -> Self {
        let schema = Arc::clone(&fragment.schema);
        let rows = EquivalenceProperties::new_with_orderings(schema, order);
        let properties = leaf_properties(rows, 1, EmissionType::Final);
        let metrics = ExecutionPlanMetricsSet::new();
        FragmentExec {
            fragment,
            table,
            session,
            expected_rows: OnceLock::new(),
            to_read: OnceLock::new(),
            dynamic: DynamicFilters::default(),
            properties,
            metrics,
            recorder: Arc::default(),
            logical: None,
        }
    }

    /// The same with the part of the logical plan that it replaced, for other machines to run.
    pub(crate) fn with_logical(self, plan: LogicalPlan) -> Self {
        FragmentExec { logical: Some(Arc::new(plan)), ..self }
    }

    /// The same with other dynamic filters.
    fn with_dynamic(&self, dynamic: DynamicFilters) -> Self {
        FragmentExec {
            fragment: Arc::clone(&self.fragment),
            table: Arc::clone(&self.table),
            session: Arc::clone(&self.session),
            expected_rows: self.expected_rows.clone(),
            to_read: self.to_read.clone(),
            dynamic,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            recorder: Arc::clone(&self.recorder),
            logical: self.logical.clone(),
        }
    }

    /// The same for another run, which counts for itself; `None` if operators above tell it more as
    /// they run.
    pub(crate) fn copied(&self) -> Option<Self> {
        let copy = || self.with_dynamic(DynamicFilters::default());
        self.dynamic.is_empty().then(|| FragmentExec { recorder: Arc::default(), ..copy() })
    }

    /// Whether the manifest has the answer.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_in_manifest(&self) -> bool {
        let (snapshot, recorder) = (self.table.snapshot(), Recorder::default());
        let answer = run::from_metadata(&self.fragment, snapshot, &recorder, false);
        answer.is_ok_and(|answer| answer.is_some())
    }

    /// What it runs, on what, and the part of the logical plan for other machines.
    #[cfg(feature = "cluster")]
    pub(crate) fn parts(&self) -> (&Arc<Fragment>, &Arc<StoreTable>, Option<&Arc<LogicalPlan>>) {
        (&self.fragment, &self.table, self.logical.as_ref())
    }

    /// What it would read.
    pub(crate) fn forecast(&self) -> Result<TableForecast> {
        let snapshot = self.table.snapshot();
        let forecast = forecast(&self.fragment, snapshot)?;
        Ok(TableForecast::new(self.table.name(), forecast, self.dynamic.is_empty()))
    }

    /// What it has done so far.
    pub(crate) fn done(&self) -> StoreOperator {
        StoreOperator {
            table: self.table.name().to_owned(),
            output: match &self.fragment.output {
                query::Output::Aggregate { .. } => "group",
                query::Output::Top { .. } => "order",
            },
            conditions: self.conditions(),
            counters: self.counters(),
        }
    }

    /// How many rows it is done with, and of how many, as far as statistics tell by now.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let expected = || {
            let conditions = &self.fragment.conditions;
            let (predicate, partitions) = (predicate(conditions), partitions(conditions));
            let left = rows_left(&predicate, &partitions, self.table.snapshot());
            left.unwrap_or_else(|_| self.table_rows())
        };
        let begun = self.recorder.progress();
        begun.unwrap_or_else(|| (0, *self.to_read.get_or_init(expected)))
    }

    /// As people write them; those that came later are one.
    fn conditions(&self) -> Vec<String> {
        let stated = self.fragment.conditions.iter().map(|c| c.expression.text.to_string());
        let later = (!self.dynamic.is_empty()).then(|| "dynamic filters".to_owned());
        stated.chain(later).collect()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.recorder.counters();
        counters.fold_conditions(self.fragment.conditions.len());
        counters
    }

    /// A filter over the answer as one over columns of the table; `None` if it reads anything but
    /// keys that are columns, or would let other groups be the first ones.
    fn below_groups(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
    ) -> DataFusionResult<Option<Arc<dyn PhysicalExpr>>> {
        // The first groups of an order are others among fewer rows.
        let query::Output::Aggregate { keys, first: None, .. } = &self.fragment.output else {
            return Ok(None);
        };
        replaced(filter, |key| {
            let at = keys.get(key.index())?.as_column()?;
            let name = &self.fragment.columns.get(at)?.name;
            Some(Arc::new(Column::new(name, at)))
        })
    }

    /// How many rows come out, as far as that is known beforehand.
    fn rows(&self) -> Precision<usize> {
        match &self.fragment.output {
            query::Output::Aggregate { keys, .. } if keys.is_empty() => Precision::Exact(1),
            _ => Precision::Inexact(match self.expected_rows.get() {
                Some(rows) => *rows,
                None => self.at_most(self.table.snapshot().rows()),
            }),
        }
    }

    /// Rows of the table.
    pub(crate) fn table_rows(&self) -> u64 {
        self.table.snapshot().rows()
    }

    /// About how many rows come out, by a sample of those that go in.
    pub(crate) fn expected_rows(&self) -> usize {
        *self.expected_rows.get_or_init(|| {
            let (columns, conditions) = (&self.fragment.columns, &self.fragment.conditions);
            let read = self.table.expected_rows(columns, conditions);
            self.at_most(read.map_or(self.table_rows(), |read| read.ceil() as u64))
        })
    }

    /// The rows of a grouping, or of the first rows, of so many rows.
    fn at_most(&self, rows: u64) -> usize {
        let most = match &self.fragment.output {
            query::Output::Aggregate { keys, .. } => keys
                .iter()
                .map(|key| self.distinct(key))
                .try_fold(1u64, |all, one| one?.checked_mul(all))
                .unwrap_or(u64::MAX),
            query::Output::Top { limit, skip, .. } => limit.saturating_sub(*skip) as u64,
        };
        usize::try_from(most.min(rows)).unwrap_or(usize::MAX)
    }

    /// About how many values each column of the answer has, where that is known.
    pub(crate) fn distinct_values(&self) -> Vec<Option<u64>> {
        let known: Vec<Option<u64>> = match &self.fragment.output {
            query::Output::Aggregate { keys, .. } => {
                keys.iter().map(|k| self.distinct(k)).collect()
            }
            query::Output::Top { expressions, .. } => {
                expressions.iter().map(|expression| self.distinct(expression)).collect()
            }
        };
        let width = self.fragment.schema.fields().len();
        known.into_iter().chain(std::iter::repeat(None)).take(width).collect()
    }

    /// About how many values a key has.
    fn distinct(&self, key: &Expression) -> Option<u64> {
        let snapshot = self.table.snapshot();
        let of = |at: &usize| snapshot.distinct_values(self.fragment.columns.get(*at)?.id).ok()?;
        // And null.
        key.inputs.iter().map(of).try_fold(1u64, |all, one| (one? + 1).checked_mul(all))
    }
}

impl DisplayAs for FragmentExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(&self.fragment, self.table.name(), f)?;
        match self.dynamic.is_empty() {
            true => Ok(()),
            false => write!(f, ", dynamic={}", self.dynamic),
        }
    }
}

impl ExecutionPlan for FragmentExec {
    fn name(&self) -> &'static str {
        "StoreFragment"
    }

    leaf_methods!();

    /// By these a join knows that somebody wants to hear of its keys.
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        self.dynamic.visit(f)
    }

    /// Nothing is kept between runs but what operators above found out in the last one.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if self.dynamic.is_empty() {
            return Ok(self);
        }
        Ok(Arc::new(self.with_dynamic(DynamicFilters::default())))
    }

    /// Takes filters on its keys that are only known as the query runs: groups that nobody asks for
    /// are not made.
    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        handed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> DataFusionResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut taken = Vec::new();
        for handed in &handed.parent_filters {
            if Duty::of(&handed.filter) == Some(Duty::Hint)
                && self.table.is_here()
                && let Some(filter) = self.below_groups(&handed.filter)?
            {
                taken.push((filter, Duty::Hint));
            }
        }
        let answers = vec![PushedDown::No; handed.parent_filters.len()];
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if taken.is_empty() {
            return Ok(answer);
        }
        let updated = self.with_dynamic(self.dynamic.with(taken));
        Ok(answer.with_updated_node(Arc::new(updated)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let can_spill = match &self.fragment.output {
            query::Output::Aggregate { keys, .. } => !keys.is_empty(),
            query::Output::Top { .. } => true,
        };
        let resources = Resources::new(
            "StoreFragment",
            can_spill,
            &self.session,
            &self.recorder,
            BaselineMetrics::new(&self.metrics, partition),
            &context,
        );
        let execution = Execution {
            fragment: Arc::clone(&self.fragment),
            dynamic: self.dynamic.clone(),
            table: Arc::clone(&self.table),
            recorder: Arc::clone(&self.recorder),
            resources,
        };
        Ok(generate(Arc::clone(&self.fragment.schema), move |output| execution.emit(output)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(with_counters(&self.metrics.clone_inner(), &self.counters()))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        let mut known = Statistics::new_unknown(&self.fragment.schema);
        if args.partition().is_none_or(|partition| partition == 0) {
            known.num_rows = self.rows();
        }
        Ok(Arc::new(known))
    }
}

/// One execution.
struct Execution {
    fragment: Arc<Fragment>,
    dynamic: DynamicFilters,
    table: Arc<StoreTable>,
    recorder: Arc<Recorder>,
    resources: Resources,
}

impl Execution {
    async fn emit(self, output: Output) -> Result<()> {
        let (fragment, resources) = (self.fragment()?, &self.resources);
        let (snapshot, schema) = (self.table.snapshot(), &self.fragment.schema);
        let compute = resources.baseline.elapsed_compute();
        let promised = |batch: RecordBatch| {
            let rows = batch.num_rows();
            checked(schema, batch.columns().to_vec(), rows)
        };
        // What the manifest answers needs no threads.
        let known = {
            let _timer = compute.timer();
            run::from_metadata(&fragment, snapshot, &self.recorder, resources.timed)?
        };
        if let Some(batch) = known {
            resources.out(&promised(batch)?, &output).await;
            return Ok(());
        }
        let threads = resources.threads()?;
        let context = resources.context(&threads, fragment.states);
        let mut answer = {
            let _timer = compute.timer();
            run::of_rows(&fragment, snapshot, &context)?
        };
        let mut coalescer = resources.coalescer(schema);
        loop {
            for batch in std::mem::take(&mut answer.batches) {
                for full in coalescer.push(promised(batch)?)? {
                    resources.out(&full, &output).await;
                }
            }
            let timer = compute.timer();
            if !answer.more()? {
                break;
            }
            drop(timer);
        }
        for last in coalescer.finish()? {
            resources.out(&last, &output).await;
        }
        Ok(())
    }

    /// The fragment with what its dynamic filters are by now.
    fn fragment(&self) -> DataFusionResult<Arc<Fragment>> {
        if self.dynamic.is_empty() {
            return Ok(Arc::clone(&self.fragment));
        }
        let mut fragment = Fragment::clone(&self.fragment);
        let field = |c: &crate::model::Column| Field::new(&*c.name, c.data_type.to_arrow(), true);
        let columns = Schema::new(fragment.columns.iter().map(field).collect::<Vec<_>>());
        fragment.conditions.extend(self.dynamic.conditions(&self.table, &columns)?);
        Ok(Arc::new(fragment))
    }
}
