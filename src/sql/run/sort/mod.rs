//! Sorts of all rows, in as little memory as there is.
//!
//! Where this stands on the road of a query: the last physical rule but for those that check and
//! show puts an [`ExternalSortExec`] in the place of each sort without a limit, and of the merge
//! above it. Each partition of the input is collected (`collect`) into sorted runs (`runs`): one in
//! memory if its rows fit, else several in temporary files. The runs of all partitions are merged
//! at once (`merge`), with no more files than there is memory for, and their rows are put together
//! in batches (`gather`).
//!
//! DataFusion's sort (55.2) fails where the rows are a few times the memory limit. To spill its
//! rows it must first merge them, which takes memory that the rows have already taken. It counts a
//! buffer of texts once for each batch that refers to it. The merge above it reserves more memory
//! while it runs, and fails after the first rows have been returned.

mod collect;
mod gather;
mod merge;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    SpillManager, replace_children_if_necessary,
};
use futures::stream::{self, TryStreamExt};

use collect::Collector;
use merge::{Runs, Sorted, gather_part};
use runs::{ChunkSize, Keys};

use crate::sql::run::coalesce::most_held;
use crate::sql::run::unary::unary_methods;

type Plan = Arc<dyn ExecutionPlan>;

/// The bytes of a batch are within these bounds.
const LEAST_CHUNK: usize = 64 << 10;
const LARGEST_CHUNK: usize = 1 << 20;

/// How many batches are put together at a time, beside the merge.
const GATHERED_AT_ONCE: usize = 2;

/// Puts our sort in the place of DataFusion's, and of the merge above it.
#[derive(Debug)]
pub(in crate::sql) struct SortExternally;

impl PhysicalOptimizerRule for SortExternally {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> DataFusionResult<Plan> {
        let rewritten = plan.transform_down(|node| {
            Ok(match external(&node)? {
                Some(sort) => Transformed::yes(sort),
                None => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "sort_externally"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What stands for a sort of all rows, or for the merge of such sorts.
fn external(node: &Plan) -> DataFusionResult<Option<Plan>> {
    let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(sort_of(node, None).map(|sort| Arc::new(sort) as Plan));
    };
    let projection = merge.input().downcast_ref::<ProjectionExec>();
    let below = projection.map_or(merge.input(), ProjectionExec::input);
    let Some(sort) = below.downcast_ref::<SortExec>() else { return Ok(None) };
    if merge.fetch().is_some() || !is_same_order(merge.expr(), projection, sort.expr()) {
        return Ok(None);
    }
    let merged = SortPreservingMergeExec::new(sort.expr().clone(), Arc::clone(below));
    let Some(sort) = sort_of(below, Some(merged.properties())) else { return Ok(None) };
    Ok(Some(match projection {
        Some(_) => replace_children_if_necessary(Arc::clone(merge.input()), vec![Arc::new(sort)])?,
        None => Arc::new(sort),
    }))
}

/// Whether all keys of an order can be compared as bytes.
pub(in crate::sql) fn are_comparable(order: &LexOrdering, schema: &Schema) -> bool {
    Keys::are_known(order, schema)
}

/// Whether a merge has the order of the sort below it. A projection between the two may move and
/// rename columns.
fn is_same_order(
    order: &LexOrdering,
    projection: Option<&ProjectionExec>,
    sorted: &LexOrdering,
) -> bool {
    let Some(projection) = projection else { return order == sorted };
    let expressions = projection.expr();
    let below = |key: &PhysicalSortExpr| {
        let column = key.expr.downcast_ref::<Column>()?;
        Some((&expressions.get(column.index())?.expr, key.options))
    };
    order.len() == sorted.len()
        && order.iter().zip(sorted).all(|(key, sorted)| {
            below(key).is_some_and(|(of, options)| of.eq(&sorted.expr) && options == sorted.options)
        })
}

/// What stands for a sort of all rows, with the properties of the merge above it if there is one.
fn sort_of(node: &Plan, merged: Option<&Arc<PlanProperties>>) -> Option<ExternalSortExec> {
    let sort = node.downcast_ref::<SortExec>()?;
    let is_whole = sort.fetch().is_none() && Keys::are_known(sort.expr(), &sort.schema());
    is_whole.then(|| ExternalSortExec {
        input: Arc::clone(sort.input()),
        order: sort.expr().clone(),
        merges: merged.is_some() || !sort.preserve_partitioning(),
        properties: Arc::clone(merged.unwrap_or(node.properties())),
        metrics: ExecutionPlanMetricsSet::new(),
    })
}

/// Sorts each partition, or all of them into one.
#[derive(Debug)]
pub(in crate::sql) struct ExternalSortExec {
    input: Plan,
    order: LexOrdering,
    /// Whether the rows of all partitions come out as one.
    merges: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ExternalSortExec {
    fn over(&self, input: Plan) -> DataFusionResult<ExternalSortExec> {
        Ok(ExternalSortExec {
            input,
            order: self.order.clone(),
            merges: self.merges,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for ExternalSortExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = !self.merges && self.input.output_partitioning().partition_count() > 1;
        write!(f, "{}: expr=[{}], preserve_partitioning=[{each}]", self.name(), self.order)
    }
}

impl ExecutionPlan for ExternalSortExec {
    fn name(&self) -> &'static str {
        "ExternalSortExec"
    }

    unary_methods!();

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for key in &self.order {
            recursion = recursion.visit_sibling(|| visit(&key.expr))?;
        }
        Ok(recursion)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        let inputs = match self.merges {
            true => 0..self.input.output_partitioning().partition_count(),
            false => partition..partition + 1,
        };
        let inputs = inputs.map(|input| self.input.execute(input, Arc::clone(&context)));
        let inputs = inputs.collect::<DataFusionResult<Vec<_>>>()?;
        // All are known to the pool before the first one takes its share.
        let memory = inputs.iter().map(|_| reservation(&context)).collect();
        let spills = SpillManager::new(
            context.runtime_env(),
            SpillMetrics::new(&self.metrics, partition),
            self.input.schema(),
        );
        let sort = Sort {
            order: self.order.clone(),
            spills: spills.with_compression_type(context.session_config().spill_compression()),
            size: ChunkSize {
                rows: context.session_config().batch_size(),
                bytes: most_held(&context).clamp(LEAST_CHUNK, LARGEST_CHUNK),
            },
            small: most_held(&context),
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        // Nothing is read before it is asked for.
        let rows =
            stream::once(
                async move { Ok::<_, DataFusionError>(sort.run(inputs, memory, baseline)) },
            );
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition.filter(|_| !self.merges))]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DataFusionResult<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("{} has one input", self.name()),
        }
    }
}

fn reservation(context: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("Sort").with_can_spill(true).register(context.memory_pool())
}

fn joined(error: tokio::task::JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// What the parts of one sort have in common.
struct Sort {
    order: LexOrdering,
    spills: SpillManager,
    size: ChunkSize,
    /// See [`most_held`].
    small: usize,
}

impl Sort {
    /// Sorts the rows of the inputs.
    fn run(
        self,
        inputs: Vec<SendableRecordBatchStream>,
        memory: Vec<MemoryReservation>,
        baseline: BaselineMetrics,
    ) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.spills.schema());
        let mut stream = RecordBatchReceiverStream::builder(schema, 1);
        let output = stream.tx();
        stream.spawn(async move {
            let mut sorted = self.start(inputs, memory).await?;
            let mut gathered = VecDeque::new();
            loop {
                let next = sorted.next().await?;
                let is_last = next.is_none();
                gathered.extend(next);
                while is_last || gathered.len() > GATHERED_AT_ONCE {
                    let Some(first) = gathered.pop_front() else { return Ok(()) };
                    let (batches, rest) = first.join_unwind().await.map_err(joined)??;
                    if let Some(rest) = rest {
                        gathered.push_front(gather_part(rest));
                    }
                    for batch in batches {
                        baseline.record_output(batch.num_rows());
                        if output.send(Ok(batch)).await.is_err() {
                            // Nobody asks any more.
                            return Ok(());
                        }
                    }
                }
            }
        });
        stream.build()
    }

    /// Collects all rows, and begins to merge them.
    async fn start(
        self,
        inputs: Vec<SendableRecordBatchStream>,
        memory: Vec<MemoryReservation>,
    ) -> DataFusionResult<Sorted> {
        let keys = Arc::new(Keys::new(&self.order, self.spills.schema())?);
        let mut tasks = JoinSet::new();
        for (number, (input, memory)) in inputs.into_iter().zip(memory).enumerate() {
            let (keys, spills) = (Arc::clone(&keys), self.spills.clone());
            let collector = Collector::new(keys, spills, self.size, memory, self.small);
            tasks.spawn(async move { Ok((number, collector.collect(input).await?)) });
        }
        let mut partitions = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let done: DataFusionResult<(usize, Runs)> = done.map_err(joined)?;
            partitions.push(done?);
        }
        // Equal rows come in the order of the partitions.
        partitions.sort_by_key(|(number, _)| *number);
        let mut runs = Runs::default();
        partitions.into_iter().for_each(|(_, partition)| runs.extend(partition));
        Sorted::of(runs, keys, self.spills, self.size).await
    }
}
