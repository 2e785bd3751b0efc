//! Makes INTERSECT ALL and EXCEPT ALL count how often a row occurs.
//!
//! Where this stands on the road of a query: an analyzer rule. DataFusion (55.2) plans both as a
//! semi or anti join over all columns, which only asks whether a row is on the other side. Here
//! each row gets its number among equal rows as one more column: the third of three equal rows on
//! one side then matches only the third on the other side.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, plan_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{any_node, rewrite_plan};

#[derive(Debug)]
pub(in crate::sql) struct CountEqualRows;

impl AnalyzerRule for CountEqualRows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_node(
            &plan,
            |node| matches!(node, LogicalPlan::Join(join) if is_set_operation(join)),
        ) {
            return Ok(plan);
        }
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) if is_set_operation(&join) => {
                Ok(Transformed::yes(counted(&join)?))
            }
            other => Ok(Transformed::no(other)),
        };
        Ok(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "count_equal_rows"
    }
}

/// Before subqueries become joins, no other semi or anti join takes nulls for equal.
fn is_set_operation(join: &Join) -> bool {
    let is_distinct = matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)));
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.on.len() == join.left.schema().fields().len()
        && !is_distinct
}

fn counted(join: &Join) -> DataFusionResult<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let (left, left_number) = numbered(&join.left, left_keys)?;
    let (right, right_number) = numbered(&join.right, right_keys)?;
    let mut on = join.on.clone();
    on.push((left_number, right_number));
    let (filter, constraint) = (join.filter.clone(), join.join_constraint);
    let join = Join::try_new(
        left,
        right,
        on,
        filter,
        join.join_type,
        constraint,
        join.null_equality,
        false,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join))
        .project(columns.into_iter().map(Expr::Column))?
        .build()
}

/// The rows with one more column, which numbers rows with equal keys.
fn numbered(
    rows: &Arc<LogicalPlan>,
    keys: Vec<Expr>,
) -> DataFusionResult<(Arc<LogicalPlan>, Expr)> {
    let number = row_number().partition_by(keys).build()?;
    let plan = LogicalPlanBuilder::from(rows.as_ref().clone()).window([number])?.build()?;
    let last = plan.schema().columns().pop();
    let number =
        last.map(Expr::Column).ok_or_else(|| plan_datafusion_err!("a window without a column"))?;
    Ok((Arc::new(plan), number))
}
