//! Turns IN and EXISTS tests into counts.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::outer::{as_outer, as_subquery, outer_columns};
use crate::sql::walks::rewrite_down;

/// Turns tests into counts, which may stand anywhere: `EXISTS (S)` is `(SELECT count(*) FROM S) >
/// 0`.
pub(super) fn counted(expr: Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    let count = |expr: Expr| {
        match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                count_of(&subquery.subquery, None, negated)
            }
            Expr::InSubquery(test) => count_in(test, schema),
            other => return Ok(Transformed::no(other)),
        }
        .map(Transformed::yes)
    };
    Ok(rewrite_down(expr, count)?.data)
}

/// Whether a value is among those of a subquery, as a count. A null never is.
pub(super) fn count_in(test: InSubquery, schema: &DFSchema) -> DataFusionResult<Expr> {
    let InSubquery { expr, subquery, negated } = test;
    let Some((qualifier, field)) = subquery.subquery.schema().iter().next() else {
        return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }));
    };
    let value = as_outer(*expr, schema)?;
    count_of(&subquery.subquery, Some(Expr::from((qualifier, field)).eq(value)), negated)
}

/// Whether a plan has rows that meet a condition, or has none if `negated`.
pub(super) fn count_of(
    plan: &LogicalPlan,
    condition: Option<Expr>,
    negated: bool,
) -> DataFusionResult<Expr> {
    let rows = LogicalPlanBuilder::from(plan.clone());
    let rows = match condition {
        Some(condition) => rows.filter(condition)?,
        None => rows,
    };
    // If no outer row is read, the first row decides.
    let plan = rows.clone().build()?;
    let rows = if outer_columns(&plan).is_empty() { rows.limit(0, Some(1))? } else { rows };
    let count = rows.aggregate(Vec::<Expr>::new(), vec![count_all()])?.build()?;
    let count = Expr::ScalarSubquery(as_subquery(count));
    Ok(if negated { count.eq(lit(0_i64)) } else { count.gt(lit(0_i64)) })
}
