//! Subqueries in the condition of an outer join that read columns of both sides: `a LEFT JOIN b ON
//! … AND EXISTS (SELECT … WHERE c.x = a.x AND c.y = b.y)`.
//!
//! The side that may have no partner is joined to the distinct values that the condition reads from
//! the other side, the domain, by those conditions that have no subquery. Then the subqueries read
//! this wider side alone, and are computed below the join, which compares the domain's values with
//! those that they are copies of. Each pair of rows meets once.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder};

use super::domain::{Domain, equal_or_both_null, refused, same_values};
use super::has_candidate;
use super::outer::{outer_columns_of, replace_outer};
use crate::sql::walks::rewrite_up;

/// The join over the wider side, whose columns are more than the join's; `None` if no subquery
/// reads both sides.
pub(super) fn widened(join: &Join) -> DataFusionResult<Option<LogicalPlan>> {
    let conditions = conditions(join);
    let reads = |condition: &Expr, side: &Arc<LogicalPlan>| {
        columns_read(condition).iter().any(|column| side.schema().has_column(column))
    };
    let reads_both = |condition: &Expr| {
        has_candidate(condition) && reads(condition, &join.left) && reads(condition, &join.right)
    };
    if !conditions.iter().any(reads_both) {
        return Ok(None);
    }
    let (kept, other) = match join.join_type {
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (&join.left, &join.right),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (&join.right, &join.left),
        _ => return refused("of both sides of a FULL JOIN, in its condition"),
    };
    let mut columns: Vec<Column> = Vec::new();
    for column in conditions.iter().flat_map(columns_read) {
        if kept.schema().has_column(&column) && !columns.contains(&column) {
            columns.push(column);
        }
    }
    let domain = Domain::new(kept, columns)?;
    let values = domain.values()?;
    let of_domain = |column: &Column| {
        let at = domain.outer.iter().position(|known| known == column)?;
        values.columns.get(at).cloned()
    };
    let moved = |condition: Expr| {
        let condition = replace_outer(condition, &[], &of_domain)?;
        let moved = rewrite_up(condition, |part| {
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            let replaced = of_domain(column).map(Expr::Column);
            Ok(replaced.map_or(Transformed::no(part), Transformed::yes))
        });
        Ok(moved?.data)
    };
    let conditions = conditions.into_iter().map(moved).collect::<DataFusionResult<Vec<_>>>()?;
    let (with_subqueries, plain): (Vec<_>, Vec<_>) =
        conditions.into_iter().partition(has_candidate);
    let wider = LogicalPlanBuilder::from(other.as_ref().clone());
    let wider = match plain.is_empty() {
        true => wider.cross_join(values.plan)?,
        false => wider.join_on(values.plan, JoinType::Inner, plain)?,
    };
    let same = same_values(&domain.outer, kept, &values.columns)?;
    let on = same.into_iter().chain(with_subqueries);
    let kept_is_left = Arc::ptr_eq(kept, &join.left);
    let (left, right) = match kept_is_left {
        true => (join.left.as_ref().clone(), wider.build()?),
        false => (wider.build()?, join.right.as_ref().clone()),
    };
    LogicalPlanBuilder::from(left).join_on(right, join.join_type, on)?.build().map(Some)
}

/// What must be true of two rows that are joined.
fn conditions(join: &Join) -> Vec<Expr> {
    let equal = |(left, right): &(Expr, Expr)| match join.null_equality {
        NullEquality::NullEqualsNothing => left.clone().eq(right.clone()),
        NullEquality::NullEqualsNull => equal_or_both_null(left.clone(), right.clone()),
    };
    let others = join.filter.iter().flat_map(split_conjunction).cloned();
    join.on.iter().map(equal).chain(others).collect()
}

/// The columns that a condition reads, those in its subqueries included.
fn columns_read(condition: &Expr) -> Vec<Column> {
    let own = condition.column_refs().into_iter().cloned();
    own.chain(outer_columns_of(condition).into_iter().map(|(_, column)| column)).collect()
}
