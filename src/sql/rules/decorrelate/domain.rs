//! The domain of a correlated subquery: the distinct outer values that it reads.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, ExprSchema, ScalarValue, not_impl_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit};

use super::outer::{outer_columns, replace_outer};
use crate::sql::rules::column_names::unique_name;
use crate::sql::rules::opaque::misses_nulls;
use crate::sql::walks::node_has_part;

/// Whether running a plan twice could give different rows.
fn may_differ(plan: &LogicalPlan) -> DataFusionResult<bool> {
    plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Limit(_)) || node_has_part(node, Expr::is_volatile_node))
    })
}

/// The error for what cannot be computed for all outer values at once.
pub(super) fn refused<T>(what: &str) -> DataFusionResult<T> {
    not_impl_err!(
        "a subquery that reads columns of the query around it, {what}; join with a subquery that \
         reads none, or make a table first"
    )
}

/// The distinct values of some columns of an outer plan.
pub(super) struct Domain {
    pub(super) outer: Vec<Column>,
    pub(super) names: Vec<String>,
    pub(super) values: LogicalPlan,
}

/// A plan whose columns include those of the domain.
pub(super) struct Pushed {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Vec<Column>,
}

impl Pushed {
    pub(super) fn exprs(&self) -> impl Iterator<Item = Expr> + '_ {
        self.columns.iter().cloned().map(Expr::Column)
    }
}

pub(super) fn equal_or_both_null(a: Expr, b: Expr) -> Expr {
    binary_expr(a, Operator::IsNotDistinctFrom, b)
}

/// The conditions under which columns have the same values, where nulls are equal. Nullable columns
/// need two equalities each: DataFusion (55.2) adds conditions of a WHERE to joins in which nulls
/// are equal, and would take nulls for equal in these too.
pub(super) fn same_values(
    columns: &[Column],
    of: &LogicalPlan,
    others: &[Column],
) -> DataFusionResult<Vec<Expr>> {
    let misses_nulls = misses_nulls(of);
    let mut conditions = Vec::with_capacity(2 * columns.len());
    for (column, other) in columns.iter().zip(others) {
        let field = of.schema().field_from_column(column)?;
        let (column, other) = (Expr::Column(column.clone()), Expr::Column(other.clone()));
        match ScalarValue::new_default(field.data_type()) {
            _ if !field.is_nullable() && !misses_nulls => conditions.push(column.eq(other)),
            Ok(some) => {
                let without_null = |expr: &Expr| coalesce(vec![expr.clone(), lit(some.clone())]);
                // A column of the null type has no other value, and all of its rows are equal.
                if !some.is_null() {
                    conditions.push(without_null(&column).eq(without_null(&other)));
                }
                conditions.push(column.is_null().eq(other.is_null()));
            }
            Err(_) => conditions.push(equal_or_both_null(column, other)),
        }
    }
    Ok(conditions)
}

impl Domain {
    pub(super) fn new(input: &Arc<LogicalPlan>, outer: Vec<Column>) -> DataFusionResult<Domain> {
        if may_differ(input)? {
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

    /// The values of the domain under a new alias.
    pub(super) fn values(&self) -> DataFusionResult<Pushed> {
        let alias = unique_name("domain");
        let columns =
            self.names.iter().map(|name| Column::new(Some(alias.clone()), name)).collect();
        let plan = LogicalPlanBuilder::from(self.values.clone()).alias(alias.as_str())?.build()?;
        Ok(Pushed { plan, columns })
    }

    /// An expression of `node` with `columns` in place of the outer ones.
    pub(super) fn with_domain(
        &self,
        expr: &Expr,
        node: &LogicalPlan,
        columns: &[Column],
    ) -> DataFusionResult<Expr> {
        let replacement = |outer: &Column| {
            let at = self.outer.iter().position(|known| known == outer)?;
            columns.get(at).cloned()
        };
        replace_outer(expr.clone(), &node.inputs(), &replacement)
    }

    pub(super) fn all_with_domain(
        &self,
        exprs: &[Expr],
        node: &LogicalPlan,
        columns: &[Column],
    ) -> DataFusionResult<Vec<Expr>> {
        exprs.iter().map(|expr| self.with_domain(expr, node, columns)).collect()
    }

    pub(super) fn is_read_in(&self, plan: &LogicalPlan) -> bool {
        outer_columns(plan).iter().any(|(_, column)| self.outer.contains(column))
    }
}
