//! `x NOT IN (SELECT …)` where there may be nulls, over sorted inputs.
//!
//! Where this stands on the road of a query: the first physical rule but one, for statements that
//! begin again for lack of memory (`session/frugal`). DataFusion (55.2) has one plan for such
//! joins, which keeps the rows of the left side in a hash table that cannot spill. Here both sides
//! come in the order of their keys, nulls first: so the first row of the right side tells whether
//! it has any, and whether one is null. Then no row passes; where there are none, all do. Otherwise
//! those whose keys are not null, and are not on the right side.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::SortOptions;
use arrow_select::filter::filter_record_batch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{EmissionType, ExecutionPlanProperties};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinKeyComparator;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;

use super::generate::generate;

type Plan = Arc<dyn ExecutionPlan>;
type Key = Arc<dyn PhysicalExpr>;

/// The order of keys.
const ORDER: SortOptions = SortOptions { descending: false, nulls_first: true };

/// Sorts the inputs of NOT IN, where a statement begins once more.
#[derive(Debug)]
pub(in crate::sql) struct SortForNotIn;

impl PhysicalOptimizerRule for SortForNotIn {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> DataFusionResult<Plan> {
        if options.optimizer.prefer_hash_join {
            return Ok(plan);
        }
        let sorted = |node: Plan| match node.downcast_ref().and_then(NotInExec::of) {
            Some(join) => Ok(Transformed::yes(Arc::new(join) as Plan)),
            None => Ok(Transformed::no(node)),
        };
        Ok(plan.transform_up(sorted)?.data)
    }

    fn name(&self) -> &'static str {
        "sort_for_not_in"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of the left side whose keys are not in the right one.
#[derive(Debug)]
struct NotInExec {
    left: Plan,
    right: Plan,
    left_key: Key,
    right_key: Key,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl NotInExec {
    fn of(join: &HashJoinExec) -> Option<NotInExec> {
        let [(left_key, right_key)] = join.on() else { return None };
        let fits = join.null_aware
            && join.join_type == JoinType::LeftAnti
            && join.filter().is_none()
            && join.projection.is_none();
        let key = Arc::clone;
        fits.then(|| {
            NotInExec::new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                key(left_key),
                key(right_key),
            )
        })
    }

    fn new(left: Plan, right: Plan, left_key: Key, right_key: Key) -> NotInExec {
        let properties = Arc::new(PlanProperties::new(
            left.equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            left.boundedness(),
        ));
        let metrics = ExecutionPlanMetricsSet::new();
        NotInExec { left, right, left_key, right_key, metrics, properties }
    }
}

impl DisplayAs for NotInExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: on=[({}, {})]", self.name(), self.left_key, self.right_key)
    }
}

impl ExecutionPlan for NotInExec {
    fn name(&self) -> &'static str {
        "NotInExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.left, &self.right]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Key) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        match visit(&self.left_key)? {
            TreeNodeRecursion::Stop => Ok(TreeNodeRecursion::Stop),
            _ => visit(&self.right_key),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DataFusionResult<Plan> {
        let (left_key, right_key) = (Arc::clone(&self.left_key), Arc::clone(&self.right_key));
        match <[Plan; 2]>::try_from(children) {
            Ok([left, right]) => Ok(Arc::new(NotInExec::new(left, right, left_key, right_key))),
            Err(children) => internal_err!("{} over {} inputs", self.name(), children.len()),
        }
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let order = |key: &Key| {
            let order = LexOrdering::new([PhysicalSortExpr::new(Arc::clone(key), ORDER)]);
            order.map(OrderingRequirements::from)
        };
        vec![order(&self.left_key), order(&self.right_key)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; 2]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DataFusionResult<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("{} has one partition", self.name());
        }
        let mut left = make_cooperative(self.left.execute(0, Arc::clone(&context))?);
        let right = make_cooperative(self.right.execute(0, context)?);
        let mut right = Cursor::new(right, Arc::clone(&self.right_key));
        let key = Arc::clone(&self.left_key);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        Ok(generate(self.schema(), |output| async move {
            let is_empty = !right.next_batch().await?;
            if right.first_is_null() {
                return Ok(());
            }
            while let Some(batch) = left.next().await {
                let batch = batch?;
                let batch = match is_empty {
                    true => batch,
                    false => right.rows_without(batch, &key).await?,
                };
                if batch.num_rows() > 0 {
                    output.emit(batch.record_output(&baseline)).await;
                }
            }
            Ok(())
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A place among the keys of the right side.
struct Cursor {
    rows: SendableRecordBatchStream,
    key: Key,
    /// The keys of a batch that has rows, if there are more.
    keys: Option<ArrayRef>,
    row: usize,
}

impl Cursor {
    fn new(rows: SendableRecordBatchStream, key: Key) -> Cursor {
        Cursor { rows, key, keys: None, row: 0 }
    }

    /// Goes on to the next batch. Whether there is one.
    async fn next_batch(&mut self) -> DataFusionResult<bool> {
        (self.keys, self.row) = (None, 0);
        while let Some(batch) = self.rows.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.keys = Some(keys_of(&batch, &self.key)?);
                break;
            }
        }
        Ok(self.keys.is_some())
    }

    fn first_is_null(&self) -> bool {
        let nulls = self.keys.as_ref().and_then(|keys| keys.logical_nulls());
        nulls.is_some_and(|nulls| nulls.is_null(0))
    }

    /// How the keys of a batch compare to those at this place; `None` behind the last of these.
    fn comparator(&self, keys: &ArrayRef) -> DataFusionResult<Option<JoinKeyComparator>> {
        let comparator = |right: &ArrayRef| {
            let (left, right) = (Arc::clone(keys), Arc::clone(right));
            JoinKeyComparator::new(&[left], &[right], &[ORDER], NullEquality::NullEqualsNothing)
        };
        self.keys.as_ref().map(comparator).transpose()
    }

    /// The rows of the next batch of the left side whose keys are not null, and not on this side.
    async fn rows_without(
        &mut self,
        batch: RecordBatch,
        key: &Key,
    ) -> DataFusionResult<RecordBatch> {
        let keys = keys_of(&batch, key)?;
        let nulls = keys.logical_nulls();
        let mut comparator = self.comparator(&keys)?;
        let mut passes = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                passes.push(false);
                continue;
            }
            let is_in = loop {
                let Some(compared) = &comparator else { break false };
                match compared.compare(row, self.row) {
                    Ordering::Less => break false,
                    Ordering::Equal => break true,
                    Ordering::Greater => {}
                }
                self.row += 1;
                if self.keys.as_ref().is_some_and(|keys| self.row == keys.len()) {
                    self.next_batch().await?;
                    comparator = self.comparator(&keys)?;
                }
            };
            passes.push(!is_in);
        }
        Ok(filter_record_batch(&batch, &BooleanArray::from(passes))?)
    }
}

fn keys_of(batch: &RecordBatch, key: &Key) -> DataFusionResult<ArrayRef> {
    key.evaluate(batch)?.into_array(batch.num_rows())
}
