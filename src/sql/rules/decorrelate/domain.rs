//! The domain of a correlated subquery: the distinct outer values that it reads.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue, not_impl_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit};

use super::outer::{outer_columns, replaced};
use crate::sql::rules::column_names::unique_name;
use crate::sql::walks::node_has_part;

/// Whether to run a plan twice could give different rows.
fn is_volatile(plan: &LogicalPlan) -> DataFusionResult<bool> {
    plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Limit(_)) || node_has_part(node, Expr::is_volatile_node))
    })
}

/// What cannot be said for all outer values at once.
pub(super) fn refused<T>(what: &str) -> DataFusionResult<T> {
    not_impl_err!(
        "a subquery that reads columns of the query around it, {what}; join with a subquery that reads none, or make a table first"
    )
}

/// The distinct values of some columns of an outer plan.
pub(super) struct Domain {
    pub(super) outer: Vec<Column>,
    pub(super) names: Vec<String>,
    pub(super) values: LogicalPlan,
}

/// A plan with the columns of the domain among its own.
pub(super) struct Pushed {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Vec<Column>,
}

impl Pushed {
    pub(super) fn exprs(&self) -> impl Iterator<Item = Expr> + '_ {
        self.columns.iter().cloned().map(Expr::Column)
    }
}

pub(super) fn same(a: Expr, b: Expr) -> Expr {
    binary_expr(a, Operator::IsNotDistinctFrom, b)
}

/// The conditions under which columns have the same values, null being one. Two equalities each,
/// for DataFusion (55.2) adds conditions of a WHERE to joins in which nulls are equal, and takes
/// nulls for equal in these too.
pub(super) fn same_values(
    columns: &[Column],
    schema: &DFSchema,
    others: &[Column],
) -> DataFusionResult<Vec<Expr>> {
    let mut conditions = Vec::with_capacity(2 * columns.len());
    for (column, other) in columns.iter().zip(others) {
        let field = schema.field_from_column(column)?;
        let (column, other) = (Expr::Column(column.clone()), Expr::Column(other.clone()));
        match ScalarValue::new_default(field.data_type()) {
            _ if !field.is_nullable() => conditions.push(column.eq(other)),
            Ok(some) => {
                let known = |expr: &Expr| coalesce(vec![expr.clone(), lit(some.clone())]);
                conditions.push(known(&column).eq(known(&other)));
                conditions.push(column.is_null().eq(other.is_null()));
            }
            Err(_) => conditions.push(same(column, other)),
        }
    }
    Ok(conditions)
}

impl Domain {
    pub(super) fn of(input: &Arc<LogicalPlan>, outer: Vec<Column>) -> DataFusionResult<Domain> {
        if is_volatile(input)? {
            return refused("over rows that need not be the same twice (LIMIT, random())");
        }
        let names: Vec<String> = outer.iter().map(|_| unique_name("outer")).collect();
        let columns =
            outer.iter().zip(&names).map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let values = LogicalPlanBuilder::from(input.as_ref().clone())
            .project(columns)?
            .distinct()?
            .build()?;
        Ok(Domain { outer, names, values })
    }

    /// The values under a name of their own.
    pub(super) fn values(&self) -> DataFusionResult<Pushed> {
        let alias = unique_name("domain");
        let columns =
            self.names.iter().map(|name| Column::new(Some(alias.clone()), name)).collect();
        let plan = LogicalPlanBuilder::from(self.values.clone()).alias(alias.as_str())?.build()?;
        Ok(Pushed { plan, columns })
    }

    /// An expression of `node` in which the columns of `pushed` stand for the outer ones.
    pub(super) fn replaced(
        &self,
        expr: &Expr,
        node: &LogicalPlan,
        columns: &[Column],
    ) -> DataFusionResult<Expr> {
        let replacement = |outer: &Column| {
            let at = self.outer.iter().position(|known| known == outer)?;
            columns.get(at).cloned()
        };
        replaced(expr.clone(), &node.inputs(), &replacement)
    }

    pub(super) fn all_replaced(
        &self,
        exprs: &[Expr],
        node: &LogicalPlan,
        columns: &[Column],
    ) -> DataFusionResult<Vec<Expr>> {
        exprs.iter().map(|expr| self.replaced(expr, node, columns)).collect()
    }

    pub(super) fn is_read_in(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|(_, column)| self.outer.contains(column))
    }
}
