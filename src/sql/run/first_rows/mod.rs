//! The first rows of each group below a window that numbers them.
//!
//! Where this stands on the road of a query: a physical rule (`plan::first_rows`) finds filters
//! such as `rn <= 3` over `row_number() OVER (PARTITION BY g ORDER BY a)`, and puts a
//! [`FirstRowsExec`] below the window. It leaves rows out that cannot pass the filter, and changes
//! nothing else: the sort, the window and the filter above do their work on the few that are left.
//! Each partition of the input keeps its own first rows ([`prefilter`]), before they are spread
//! over threads by the keys of groups.

mod prefilter;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

pub(in crate::sql) use self::prefilter::FirstRows;
use self::prefilter::Prefilter;
use crate::query::group_top::Ranking;
use crate::sql::run::generate::generate;
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// Leaves out rows that are not among the first of their group. It may pass on more than these.
///
/// Rows stay in their order, but it declares none: the sort that the window needs is then put above
/// it, where few rows are left, and not below.
#[derive(Debug)]
pub(in crate::sql) struct FirstRowsExec {
    input: Plan,
    first: FirstRows,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstRowsExec {
    pub(in crate::sql) fn new(input: Plan, first: FirstRows) -> Self {
        let below = input.properties();
        let mut known = below.eq_properties.clone();
        known.clear_orderings();
        let properties = PlanProperties::new(
            known,
            below.partitioning.clone(),
            EmissionType::Final,
            below.boundedness,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        FirstRowsExec { input, first, properties: Arc::new(properties), metrics }
    }

    fn over(&self, input: Plan) -> DataFusionResult<FirstRowsExec> {
        Ok(FirstRowsExec::new(input, self.first.clone()))
    }
}

impl DisplayAs for FirstRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FirstRows { keys, order, ranking, limit } = &self.first;
        let function = match ranking {
            Ranking::RowNumber => "row_number",
            Ranking::Rank => "rank",
            Ranking::DenseRank => "dense_rank",
        };
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        write!(
            f,
            "{}: {function}<={limit}, partition_by=[{}], order_by=[{}]",
            self.name(),
            keys.join(", "),
            order.join(", ")
        )
    }
}

impl ExecutionPlan for FirstRowsExec {
    fn name(&self) -> &'static str {
        "FirstRowsExec"
    }

    unary_methods!();

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        let order = self.first.order.iter().map(|key| &key.expr);
        let mut recursion = TreeNodeRecursion::Continue;
        for key in self.first.keys.iter().chain(order) {
            recursion = recursion.visit_sibling(|| visit(key))?;
        }
        Ok(recursion)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        // Whoever stops the query is heard between two of its batches.
        let mut rows = make_cooperative(self.input.execute(partition, Arc::clone(&context))?);
        let partitions = self.input.output_partitioning().partition_count();
        let mut filter = Prefilter::new(&self.first, &self.schema(), partitions, &context)?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        Ok(generate(self.schema(), move |output| async move {
            while let Some(batch) = rows.next().await {
                let passed = {
                    let _timer = baseline.elapsed_compute().timer();
                    filter.push(batch?)?
                };
                for batch in passed {
                    output.emit(batch.record_output(&baseline)).await;
                }
            }
            // The operators below free their memory first.
            drop(rows);
            for batch in filter.finish()? {
                output.emit(batch.record_output(&baseline)).await;
            }
            Ok(())
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::new(input.as_ref().clone().to_inexact())),
            _ => internal_err!("{} has one input", self.name()),
        }
    }
}
