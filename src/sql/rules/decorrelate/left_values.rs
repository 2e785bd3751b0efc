//! What is looked for in a subquery, if it comes from subqueries itself:
//! `CASE WHEN EXISTS (…) THEN a ELSE b END IN (SELECT …)`.
//!
//! Such a value would become part of the condition of a join, or of a subquery, and the subqueries
//! in it would stay as they are. So it is computed in a projection below, where each of them is
//! rewritten by itself.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};

use super::{has_candidate, rewritten};
use crate::sql::rules::column_names::unique_name;
use crate::sql::walks::rewrite_down;

/// The input of a filter or projection with such values as further columns, and its expressions
/// with these columns.
pub(super) fn computed_first(
    input: Arc<LogicalPlan>,
    exprs: Vec<Expr>,
) -> DataFusionResult<(Arc<LogicalPlan>, Vec<Expr>)> {
    let mut values = Vec::new();
    let mut name_value = |part: Expr| match part {
        Expr::InSubquery(test) if has_candidate(&test.expr) => {
            let column = Column::new_unqualified(unique_name("value"));
            values.push(test.expr.alias(&column.name));
            let test = InSubquery { expr: Expr::Column(column).into(), ..test };
            Ok(Transformed::new(Expr::InSubquery(test), true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    };
    let mut changed = Vec::with_capacity(exprs.len());
    for expr in exprs {
        changed.push(rewrite_down(expr, &mut name_value)?.data);
    }
    if values.is_empty() {
        return Ok((input, changed));
    }
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let wider = Projection::try_new(columns.chain(values).collect(), input)?;
    let wider = rewritten(LogicalPlan::Projection(wider))?.data;
    Ok((wider.into(), changed))
}
