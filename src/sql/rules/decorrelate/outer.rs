//! Columns of outer queries: which ones a plan reads, and how they are replaced.

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Spans};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use crate::sql::walks::{has_part, map_expressions, rewrite_nodes, rewrite_up, visit_parts};

pub(super) fn as_subquery(plan: LogicalPlan) -> Subquery {
    let reference = |(field, column)| Expr::OuterReferenceColumn(field, column);
    let outer_ref_columns = outer_columns(&plan).into_iter().map(reference).collect();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// Whether a subquery reads columns of an outer query, of any level.
pub(super) fn is_correlated(expr: &Expr) -> bool {
    subquery_of(expr).is_some_and(|subquery| !outer_columns(&subquery.subquery).is_empty())
}

/// The subquery, if an expression is one.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::Exists(Exists { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// The outer columns that a plan reads, in its own expressions or in nested subqueries.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Vec<(FieldRef, Column)> {
    let mut found = Vec::new();
    // The closures never fail.
    let _ = plan.apply(|node| {
        let inputs = node.inputs();
        let _ = node.apply_expressions(|expr| {
            for (field, column) in outer_columns_of(expr) {
                let of_input = |input: &&LogicalPlan| input.schema().has_column(&column);
                let is_own = !is_direct(expr, &column) && inputs.iter().any(of_input);
                let known = found.contains(&(Arc::clone(&field), column.clone()));
                if !is_own && !known {
                    found.push((field, column));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// The outer columns that an expression reads, itself or in a nested subquery.
pub(super) fn outer_columns_of(expr: &Expr) -> Vec<(FieldRef, Column)> {
    let mut found = Vec::new();
    visit_parts(expr, |expr| {
        if let Expr::OuterReferenceColumn(field, column) = expr {
            found.push((Arc::clone(field), column.clone()));
        }
        if let Some(subquery) = subquery_of(expr) {
            found.extend(outer_columns(&subquery.subquery));
        }
        TreeNodeRecursion::Continue
    });
    found
}

/// Whether an expression names an outer column itself, and not only in a nested subquery.
fn is_direct(expr: &Expr, column: &Column) -> bool {
    has_part(expr, |expr| matches!(expr, Expr::OuterReferenceColumn(_, named) if named == column))
}

/// An expression over an outer row, for use within a subquery.
pub(super) fn as_outer(expr: Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    let to_outer = |expr: Expr| match expr {
        Expr::Column(column) => {
            let at = schema.index_of_column(&column)?;
            let (qualifier, field) = schema.qualified_field(at);
            let column = Column::new(qualifier.cloned(), field.name());
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
        }
        other => Ok(Transformed::no(other)),
    };
    Ok(rewrite_up(expr, to_outer)?.data)
}

/// Puts columns of the domain in place of outer ones in an expression of a node with `inputs`.
/// Subqueries in it still read outer columns, but now those of the node.
pub(super) fn replace_outer(
    expr: Expr,
    inputs: &[&LogicalPlan],
    replacement: &dyn Fn(&Column) -> Option<Column>,
) -> DataFusionResult<Expr> {
    let as_column = |_: &FieldRef, column| Expr::Column(column);
    Ok(replace_in_expr(expr, inputs, replacement, as_column)?.data)
}

/// Does so, where `as_expr` makes an expression of a replacement.
fn replace_in_expr(
    expr: Expr,
    inputs: &[&LogicalPlan],
    replacement: &dyn Fn(&Column) -> Option<Column>,
    as_expr: fn(&FieldRef, Column) -> Expr,
) -> DataFusionResult<Transformed<Expr>> {
    let beyond_node = |column: &Column| {
        let own = inputs.iter().any(|input| input.schema().has_column(column));
        if own { None } else { replacement(column) }
    };
    rewrite_up(expr, |expr| {
        if let Expr::OuterReferenceColumn(field, column) = &expr {
            let replaced = replacement(column).map(|to| as_expr(field, to));
            return Ok(replaced.map_or(Transformed::no(expr), Transformed::yes));
        }
        let Some(subquery) = subquery_of(&expr) else { return Ok(Transformed::no(expr)) };
        let plan = replace_in_plan(subquery.subquery.as_ref().clone(), &beyond_node)?;
        Ok(Transformed::yes(with_subquery(expr, as_subquery(plan))))
    })
}

/// Replaces the outer columns of a whole plan.
fn replace_in_plan(
    plan: LogicalPlan,
    replacement: &dyn Fn(&Column) -> Option<Column>,
) -> DataFusionResult<LogicalPlan> {
    let as_outer = |field: &FieldRef, column| Expr::OuterReferenceColumn(Arc::clone(field), column);
    let rewrite = |node: LogicalPlan| {
        let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
        let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
        map_expressions(node, |expr| replace_in_expr(expr, &inputs, replacement, as_outer))
    };
    Ok(rewrite_nodes(plan, rewrite)?.data)
}

fn with_subquery(expr: Expr, subquery: Subquery) -> Expr {
    match expr {
        Expr::InSubquery(test) => Expr::InSubquery(InSubquery { subquery, ..test }),
        Expr::Exists(Exists { negated, .. }) => Expr::Exists(Exists { subquery, negated }),
        Expr::SetComparison(comparison) => {
            Expr::SetComparison(SetComparison { subquery, ..comparison })
        }
        Expr::ScalarSubquery(_) => Expr::ScalarSubquery(subquery),
        other => other,
    }
}
