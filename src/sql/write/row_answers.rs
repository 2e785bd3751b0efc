//! `(a, b) IN (SELECT …)` in DELETE and UPDATE: its rows are computed first, and put into the
//! expression one by one.
//!
//! Where this stands on the road of a query: `row_values` has turned it into an EXISTS over the
//! rows of the subquery, with a condition that compares one of them with the row to be changed.
//! `subqueries` calls this module for such an EXISTS. The rows do not depend on the row to be
//! changed, so the values of each can replace the columns in the condition.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;

use crate::error::{Error, Result};
use crate::sql::syntax::row_values::ROWS;
use crate::sql::walks::{has_part, rewrite_up};

/// The rows of a subquery, and the condition on them.
pub(in crate::sql) struct Compared<'a> {
    rows: &'a LogicalPlan,
    condition: &'a Expr,
}

impl<'a> Compared<'a> {
    /// Takes apart a subquery that `row_values` has made; `None` for others.
    pub(in crate::sql) fn from_subquery(subquery: &'a LogicalPlan) -> Option<Compared<'a>> {
        let LogicalPlan::Projection(projection) = subquery else { return None };
        let LogicalPlan::Filter(filter) = projection.input.as_ref() else { return None };
        let LogicalPlan::SubqueryAlias(named) = filter.input.as_ref() else { return None };
        let is_subquery = |expr: &Expr| {
            matches!(
                expr,
                Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
            )
        };
        let is_plain = !has_part(&filter.predicate, is_subquery);
        let is_ours =
            named.alias.table().starts_with(ROWS) && filter.input.all_out_ref_exprs().is_empty();
        (is_ours && is_plain)
            .then(|| Compared { rows: &filter.input, condition: &filter.predicate })
    }

    /// The expression that one of the subquery's distinct rows meets the condition. More than
    /// `most` rows are an error.
    pub(in crate::sql) async fn answer(&self, most: usize, state: &SessionState) -> Result<Expr> {
        let plan = LogicalPlanBuilder::from(self.rows.clone())
            .distinct()
            .and_then(|rows| rows.limit(0, Some(most.saturating_add(1))))
            .and_then(LogicalPlanBuilder::build)?;
        let plan = state.create_physical_plan(&plan).await?;
        let batches = collect(plan, state.task_ctx()).await?;
        let columns = self.rows.schema().columns();
        let mut conditions = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let values =
                    batch.columns().iter().map(|values| ScalarValue::try_from_array(values, row));
                let values = values.collect::<DataFusionResult<Vec<_>>>()?;
                conditions.push(self.condition_for(&columns, &values)?);
            }
        }
        if conditions.len() > most {
            return Err(Error::Unsupported(format!(
                "(…, …) IN (SELECT …) in DELETE or UPDATE with more than {most} different rows; \
                 one column that tells rows apart, as in id IN (SELECT …), may have any number"
            )));
        }
        Ok(any_of(conditions))
    }

    /// The condition with the values of a row in place of its columns.
    fn condition_for(&self, columns: &[Column], values: &[ScalarValue]) -> DataFusionResult<Expr> {
        let replace = |expr: Expr| match expr {
            Expr::Column(column) => match columns.iter().position(|known| *known == column) {
                Some(at) => Ok(Transformed::yes(
                    values.get(at).map_or(Expr::Column(column), |v| lit(v.clone())),
                )),
                None => Ok(Transformed::no(Expr::Column(column))),
            },
            Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
            other => Ok(Transformed::no(other)),
        };
        Ok(rewrite_up(self.condition.clone(), replace)?.data)
    }
}

/// An OR of conditions, nested as little as possible.
fn any_of(mut conditions: Vec<Expr>) -> Expr {
    while conditions.len() > 1 {
        let mut pairs = conditions.into_iter();
        let mut halved = Vec::new();
        while let Some(first) = pairs.next() {
            halved.push(match pairs.next() {
                Some(second) => first.or(second),
                None => first,
            });
        }
        conditions = halved;
    }
    conditions.pop().unwrap_or_else(|| lit(false))
}
