//! Lets joins notice that their statement was cancelled.
//!
//! A join (DataFusion 55.2) may work for hours within one call: it compares all rows of both sides
//! before it asks for more input, and a task that does not return cannot be ended. So the condition
//! of a join, which is evaluated a batch at a time, fails once the statement is cancelled; and a
//! join gives its thread back after some batches that it hands up.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType as ArrowType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec,
    NestedLoopJoinExecBuilder, SortMergeJoinExec,
};

use crate::error::Error;
use crate::sql::work::cancel::Cancelled;
use crate::sql::work::handle::SessionHandle;

type Plan = Arc<dyn ExecutionPlan>;

/// The rule, one of the last: no other has to know of what it does.
#[derive(Debug)]
pub(in crate::sql) struct StopJoins;

impl PhysicalOptimizerRule for StopJoins {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> DataFusionResult<Plan> {
        let Some(session) = SessionHandle::of(options) else { return Ok(plan) };
        let cancelled = session.canceller.after_now();
        let stop = |node: Plan| {
            let stopped = stop_join(node, &cancelled)?;
            let is_join = stopped.transformed
                || stopped.data.is::<HashJoinExec>()
                || stopped.data.is::<CrossJoinExec>()
                || stopped.data.is::<SortMergeJoinExec>();
            Ok(match is_join {
                true => Transformed::yes(Arc::new(CooperativeExec::new(stopped.data)) as Plan),
                false => stopped,
            })
        };
        Ok(plan.transform_up(stop)?.data)
    }

    fn name(&self) -> &'static str {
        "stop_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Lets the condition of a join fail once its statement is cancelled.
pub(in crate::sql) fn stop_join(
    node: Plan,
    cancelled: &Cancelled,
) -> DataFusionResult<Transformed<Plan>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let Some(filter) = join.filter() else { return Ok(Transformed::no(node)) };
        let filter = Some(stoppable(filter, cancelled));
        let join = HashJoinExecBuilder::from(join).with_filter(filter).build()?;
        return Ok(Transformed::yes(Arc::new(join)));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let filter = join.filter().map(|filter| stoppable(filter, cancelled));
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?;
        return Ok(Transformed::yes(Arc::new(join)));
    }
    Ok(Transformed::no(node))
}

fn stoppable(filter: &JoinFilter, cancelled: &Cancelled) -> JoinFilter {
    let condition = Arc::clone(filter.expression());
    let condition = Arc::new(Stoppable { condition, cancelled: cancelled.clone() });
    JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

/// The condition as it was before.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn without_stop(filter: &JoinFilter) -> JoinFilter {
    let condition = Arc::clone(unstoppable(filter.expression()));
    JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

/// A condition without what stops it.
pub(in crate::sql) fn unstoppable(condition: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    match condition.downcast_ref::<Stoppable>() {
        Some(stoppable) => &stoppable.condition,
        None => condition,
    }
}

/// A condition that fails once its statement is cancelled.
#[derive(Debug)]
pub(in crate::sql) struct Stoppable {
    condition: Arc<dyn PhysicalExpr>,
    cancelled: Cancelled,
}

impl fmt::Display for Stoppable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PartialEq for Stoppable {
    fn eq(&self, other: &Stoppable) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Stoppable {}

impl Hash for Stoppable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl PhysicalExpr for Stoppable {
    fn data_type(&self, schema: &Schema) -> DataFusionResult<ArrowType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> DataFusionResult<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DataFusionResult<ColumnarValue> {
        if self.cancelled.is_set() {
            return Err(Error::Cancelled.into());
        }
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
        let Some(condition) = children.pop() else { return internal_err!("no condition") };
        Ok(Arc::new(Stoppable { condition, cancelled: self.cancelled.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
