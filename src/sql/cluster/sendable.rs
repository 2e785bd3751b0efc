//! Which operators other machines can run: those of DataFusion that its encoding has, with
//! expressions whose functions have the same names and meanings on all machines.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::sql::functions::in_doubles::computes_as;
use crate::sql::rules::opaque::is_identity;
use crate::sql::run::stops::Stoppable;
use crate::sql::types::integer_means::exact_mean_function;

/// Whether an operator, without those below it, can run on other machines.
pub(super) fn is_sendable(node: &dyn ExecutionPlan, functions: &TaskContext) -> bool {
    let is_known = if let Some(filter) = node.downcast_ref::<FilterExec>() {
        filter.fetch().is_none()
    } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let filter = join.filter().map(|filter| filter.expression());
        return join.fetch().is_none()
            && filter.is_none_or(|filter| is_plain(filter, functions))
            && join.on().iter().all(|(l, r)| is_plain(l, functions) && is_plain(r, functions));
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        return join.filter().is_none_or(|filter| is_plain(filter.expression(), functions));
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return are_aggregates_sendable(aggregate, functions);
    } else if let Some(sort) = node.downcast_ref::<SortExec>() {
        return sort.expr().iter().all(|key| is_plain(&key.expr, functions));
    } else {
        node.is::<ProjectionExec>() || node.is::<CooperativeExec>() || node.is::<CrossJoinExec>()
    };
    let mut are_plain = true;
    let visited = node.apply_expressions(&mut |expr| {
        are_plain &= is_plain(expr, functions);
        Ok(TreeNodeRecursion::Continue)
    });
    is_known && visited.is_ok() && are_plain
}

/// The order in which rows come is another one with each run, so that aggregates which go by it
/// stay where they are.
fn are_aggregates_sendable(aggregate: &AggregateExec, functions: &TaskContext) -> bool {
    let keys = aggregate.group_expr();
    let keys = keys.expr().iter().chain(keys.null_expr()).map(|(key, _)| key);
    let filters = aggregate.filter_expr().iter().flatten();
    let has = |name: &str| functions.aggregate_functions().get(name);
    let are_plain =
        |exprs: Vec<Arc<dyn PhysicalExpr>>| exprs.iter().all(|expr| is_plain(expr, functions));
    aggregate.limit_options().is_none()
        && keys.chain(filters).all(|expr| is_plain(expr, functions))
        && aggregate.aggr_expr().iter().all(|one| {
            let fun = one.fun();
            one.order_bys().is_empty()
                && has(fun.name()).is_some_and(|known| **known == *fun)
                && are_plain(one.expressions())
        })
}

/// Whether all machines know the aggregate functions of a part of a plan: planning puts in some
/// that have the names of others.
pub(super) fn are_aggregates_known(plan: &LogicalPlan, functions: &TaskContext) -> bool {
    let is_other = |expr: &Expr| {
        Ok(matches!(expr, Expr::AggregateFunction(call) if {
            let known = functions.aggregate_functions().get(call.func.name());
            call.func != *exact_mean_function() && known.is_none_or(|known| *known != call.func)
        }))
    };
    let has_other = plan.exists(|node| {
        let mut exprs = node.expressions().into_iter();
        Ok(exprs.any(|expr| expr.exists(is_other).unwrap_or(true)))
    });
    !has_other.unwrap_or(true)
}

/// Whether an expression means the same on all machines.
fn is_plain(expr: &Arc<dyn PhysicalExpr>, functions: &TaskContext) -> bool {
    let is_odd = |expr: &Arc<dyn PhysicalExpr>| -> DataFusionResult<bool> {
        Ok(if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            // Rules of planning, which are done, take the identity for volatile.
            let is_same = |known: &Arc<ScalarUDF>| computes_as(known, call.fun());
            let known = functions.scalar_functions().get(call.fun().name());
            !is_identity(call.fun()) && (call.is_volatile_node() || !known.is_some_and(is_same))
        } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            cast.cast_options()
                != CastExpr::new(Arc::clone(expr), cast.cast_type().clone(), None).cast_options()
        } else {
            !(expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<BinaryExpr>()
                || expr.is::<CaseExpr>()
                || expr.is::<InListExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<LikeExpr>()
                || expr.is::<NegativeExpr>()
                || expr.is::<NotExpr>()
                || expr.is::<Stoppable>())
        })
    };
    !expr.exists(is_odd).unwrap_or(true)
}
