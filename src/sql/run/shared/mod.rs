//! Parts of a plan that stand at several places: computed once, read at each of them.
//!
//! Where this stands on the road of a query: `plan::share` finds such parts in the logical plan and
//! puts a [`SharedNode`] at each place; each of them becomes a [`SharedExec`], a leaf that hands
//! out the same [`rows`]. What operators above would push down into one of the copies stays above.

mod node;
mod rows;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use crate::sql::run::generate::generate;
pub(crate) use node::{SharedNode, SharedPart};
use rows::SharedRows;

type Plan = Arc<dyn ExecutionPlan>;

/// Reads the rows of a shared part.
#[derive(Debug)]
pub(crate) struct SharedExec {
    rows: Arc<SharedRows>,
    /// Whether the part is shown as its input.
    shows_part: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    /// One more reader.
    fn new(rows: Arc<SharedRows>) -> Self {
        rows.readers.fetch_add(1, Ordering::Relaxed);
        let below = rows.plan.properties();
        let properties = PlanProperties::new(
            below.eq_properties.clone(),
            below.partitioning.clone(),
            EmissionType::Final,
            below.boundedness,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        SharedExec { rows, shows_part: false, properties: Arc::new(properties), metrics }
    }

    /// What computes the rows.
    pub(crate) fn part(&self) -> &Plan {
        &self.rows.plan
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers = self.rows.readers.load(Ordering::Relaxed);
        write!(f, "SharedExec: part={}, readers={readers}", self.rows.number)
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        if self.shows_part { vec![&self.rows.plan] } else { Vec::new() }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    /// The part is planned already, and all readers have the same.
    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> DataFusionResult<Plan> {
        Ok(self)
    }

    /// The rows are the same in every run.
    fn reset_state(self: Arc<Self>) -> DataFusionResult<Plan> {
        Ok(self)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true; self.children().len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let reading = self.rows.read(&context)?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = generate(self.rows.plan.schema(), move |output| async move {
            let mut rows = reading.rows(partition).await?;
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                baseline.record_output(batch.num_rows());
                output.emit(batch).await;
            }
            Ok(())
        });
        Ok(make_cooperative(rows))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        if self.shows_part {
            let spilled = self.rows.metrics.clone_inner();
            spilled.iter().for_each(|metric| metrics.push(Arc::clone(metric)));
        }
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        StatisticsContext::new().compute(self.rows.plan.as_ref(), args)
    }
}

/// The last physical rule: the first reader of each part shows it as its input, so that EXPLAIN and
/// statistics have it once. Other rules find a leaf.
#[derive(Debug)]
pub(in crate::sql) struct ShowSharedParts;

impl PhysicalOptimizerRule for ShowSharedParts {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        let show = |node: Plan| {
            let Some(reader) = node.downcast_ref::<SharedExec>() else {
                return Ok(Transformed::no(node));
            };
            if reader.rows.shown.swap(true, Ordering::Relaxed) {
                return Ok(Transformed::no(node));
            }
            let reader = SharedExec {
                rows: Arc::clone(&reader.rows),
                shows_part: true,
                properties: Arc::clone(&reader.properties),
                metrics: ExecutionPlanMetricsSet::new(),
            };
            Ok(Transformed::yes(Arc::new(reader) as Plan))
        };
        Ok(plan.transform_up(show)?.data)
    }

    fn name(&self) -> &'static str {
        "show_shared_parts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
