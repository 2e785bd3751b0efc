//! Joins of points and ranges: `a.ts BETWEEN b.begins AND b.ends`.
//!
//! Where this stands on the road of a query: the last physical rule, which sessions over a cluster
//! do not have, because machines send each other DataFusion's joins. It puts a [`RangeJoinExec`]
//! in the place of an inner join by conditions alone if two of them say that a value of one side
//! is within a range of the other (`bounds`). DataFusion (55.2) compares all pairs of rows. Here
//! the rows of the left side are put in order (`index`), and each row of the right one finds those
//! that it may be joined to (`probe`); of these, the whole condition decides. Ranges are in an
//! interval tree (Cormen, Leiserson, Rivest, Stein, Introduction to Algorithms, 14.3), laid out as
//! an array.
//!
//! The left side is in memory. Where it does not fit, the statement begins once more
//! (`session/frugal`), and joins the right side to one part of it after the other (`parts`).

mod bounds;
mod index;
mod parts;
mod probe;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, internal_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput, SpillMetrics,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::future::{BoxFuture, FutureExt, Shared, TryFutureExt};

use self::bounds::Ranges;
use self::parts::{Parts, Waiting};
use self::probe::{Left, Probe};
use crate::sql::run::generate::generate;

type Plan = Arc<dyn ExecutionPlan>;

/// The left side, which all partitions of the right one wait for.
type Collected<T> = Shared<BoxFuture<'static, Result<Arc<T>, Arc<DataFusionError>>>>;

/// The rule, behind all others: what they know of joins holds for DataFusion's.
#[derive(Debug)]
pub(in crate::sql) struct JoinByRanges;

impl PhysicalOptimizerRule for JoinByRanges {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> DataFusionResult<Plan> {
        // The statement begins once more, as it found too little memory.
        let in_parts = !options.optimizer.prefer_hash_join;
        let by_ranges = |node: Plan| match RangeJoinExec::of(&node, in_parts) {
            Some(join) => Ok(Transformed::yes(Arc::new(join) as Plan)),
            None => Ok(Transformed::no(node)),
        };
        Ok(plan.transform_up(by_ranges)?.data)
    }

    fn name(&self) -> &'static str {
        "join_by_ranges"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An inner join of points and ranges.
#[derive(Debug)]
pub(in crate::sql) struct RangeJoinExec {
    /// The same join, as DataFusion would run it.
    join: Plan,
    ranges: Ranges,
    /// Whether the left side is in memory in parts only.
    in_parts: bool,
    /// The left side, once it is collected.
    left: Arc<OnceLock<Collected<Left>>>,
    /// The left side in a file, if it is in parts.
    waiting: Arc<OnceLock<Collected<Waiting>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl RangeJoinExec {
    fn of(node: &Plan, in_parts: bool) -> Option<RangeJoinExec> {
        let join = node.downcast_ref::<NestedLoopJoinExec>()?;
        if *join.join_type() != JoinType::Inner {
            return None;
        }
        let ranges = bounds::find(join.filter()?, &join.left().schema(), &join.right().schema())?;
        let (join, metrics) = (Arc::clone(node), ExecutionPlanMetricsSet::new());
        let (left, waiting) = (Arc::default(), Arc::default());
        Some(RangeJoinExec { join, ranges, in_parts, left, waiting, metrics })
    }

    /// The rows of the left side in a file, which all partitions read.
    fn waiting_left(
        &self,
        input: Plan,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Collected<Waiting> {
        let gather = || {
            let spills = SpillMetrics::new(&self.metrics, partition);
            let context = Arc::clone(context);
            let gathered = async move {
                let rows = input.execute(0, Arc::clone(&context))?;
                let left = Waiting::gathered(rows, spills, context).await?;
                Ok::<_, DataFusionError>(Arc::new(left))
            };
            gathered.map_err(Arc::new).boxed().shared()
        };
        // Whichever partition is asked for rows goes on with it.
        self.waiting.get_or_init(gather).clone()
    }

    fn inner(&self) -> DataFusionResult<&NestedLoopJoinExec> {
        match self.join.downcast_ref() {
            Some(join) => Ok(join),
            None => internal_err!("{} of another join", self.name()),
        }
    }
}

impl DisplayAs for RangeJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ranges { point, low, high, .. } = &self.ranges;
        write!(f, "{}: {low} <= {point} <= {high}", self.name())?;
        if self.in_parts {
            write!(f, ", left=in parts")?;
        }
        let join = self.inner().map_err(|_| fmt::Error)?;
        join.filter().map_or(Ok(()), |filter| write!(f, ", filter={}", filter.expression()))
    }
}

impl ExecutionPlan for RangeJoinExec {
    fn name(&self) -> &'static str {
        "RangeJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; 2]
    }

    fn children(&self) -> Vec<&Plan> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        self.join.apply_expressions(visit)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        let join = replace_children_if_necessary(Arc::clone(&self.join), children)?;
        Ok(match RangeJoinExec::of(&join, self.in_parts) {
            Some(join) => Arc::new(join),
            None => join,
        })
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let join = self.inner()?;
        let Some(filter) = join.filter().cloned() else {
            return internal_err!("{} without a condition", self.name());
        };
        let right = join.right().execute(partition, Arc::clone(&context))?;
        let projection = join.projection().as_ref().map(|columns| columns.to_vec());
        let (schema, size) = (self.schema(), context.session_config().batch_size());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let (input, ranges) = (Arc::clone(join.left()), self.ranges.clone());
        if self.in_parts {
            let left = self.waiting_left(input, partition, &context);
            let spills = SpillMetrics::new(&self.metrics, partition);
            let (of_left, of_right) = (join.left().schema(), right.schema());
            let partitions = self.properties().output_partitioning().partition_count();
            return Ok(generate(Arc::clone(&schema), move |output| async move {
                let right = Waiting::gathered(right, spills, Arc::clone(&context)).await?;
                let left = left.await.map_err(DataFusionError::Shared)?;
                let mut parts = Parts::new(&left, of_left, ranges.clone(), partitions, context);
                while let Some(part) = parts.next().await? {
                    let rows = right.stream(Arc::clone(&of_right));
                    let (ranges, filter) = (ranges.clone(), filter.clone());
                    let (schema, projection) = (Arc::clone(&schema), projection.clone());
                    let part = Arc::new(part);
                    let mut probe =
                        Probe::new(part, rows, ranges, filter, schema, projection, size);
                    while let Some(batch) = probe.next(&baseline).await? {
                        output.emit(batch.record_output(&baseline)).await;
                    }
                }
                Ok(())
            }));
        }
        let collect = || {
            let ranges = self.ranges.clone();
            let memory = MemoryConsumer::new(self.name()).register(context.memory_pool());
            let collected = async move {
                let left = Left::collected(input.execute(0, context)?, &ranges, memory).await?;
                Ok::<_, DataFusionError>(Arc::new(left))
            };
            collected.map_err(Arc::new).boxed().shared()
        };
        // Whichever partition is asked for rows goes on with it.
        let left = self.left.get_or_init(collect).clone();
        Ok(generate(Arc::clone(&schema), move |output| async move {
            let left = left.await.map_err(DataFusionError::Shared)?;
            let mut probe = Probe::new(left, right, ranges, filter, schema, projection, size);
            while let Some(batch) = probe.next(&baseline).await? {
                output.emit(batch.record_output(&baseline)).await;
            }
            Ok(())
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
