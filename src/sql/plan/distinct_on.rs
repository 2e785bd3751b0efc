//! DISTINCT ON with an ORDER BY as the rows that a window numbers 1.
//!
//! Where this stands on the road of a query: a logical rule before DataFusion (55.2) makes a group
//! of each key, with `first_value` of each column in that order, which decodes and compares all
//! columns of all rows. First rows of groups are found by their keys alone (`first_rows`), and what
//! is selected is computed for them only.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr_rewriter::normalize_cols;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, lit,
};

use crate::sql::run::provider::store_provider;
use crate::sql::walks::{Rewritten, any_node, has_part};

pub(in crate::sql) fn first_of_distinct_on(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    let LogicalPlan::Distinct(Distinct::On(on)) = &node else { return Ok(Transformed::no(node)) };
    let first = first_rows(on)?;
    Ok(first.map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// The same rows by a window; `None` where they may be others.
fn first_rows(on: &DistinctOn) -> DataFusionResult<Option<LogicalPlan>> {
    let DistinctOn { select_expr, on_expr, sort_expr, input, schema } = on;
    // Other machines group their own rows.
    let is_elsewhere = |node: &LogicalPlan| match node {
        LogicalPlan::TableScan(scan) => {
            store_provider(scan).is_some_and(|provider| !provider.table.is_here())
        }
        _ => false,
    };
    if any_node(input, is_elsewhere) {
        return Ok(None);
    }
    let keys = normalize_cols(on_expr.clone(), input)?;
    let sort = sort_expr.iter().flatten();
    let (of_keys, others): (Vec<SortExpr>, Vec<SortExpr>) =
        sort.cloned().partition(|by| on_expr.contains(&by.expr));
    let is_sorted = |key: &Expr| of_keys.iter().any(|by| by.expr == *key);
    let is_special = |part: &Expr| {
        let is_query =
            matches!(part, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
        is_query || matches!(part, Expr::SetComparison(_) | Expr::OuterReferenceColumn(..))
    };
    let sorted = sort_expr.iter().flatten().map(|by| &by.expr);
    let is_stable = |expr: &Expr| !expr.is_volatile() && !has_part(expr, is_special);
    let all_stable = on_expr.iter().chain(sorted).all(is_stable);
    // Without another key, any row will do.
    if others.is_empty()
        || !all_stable
        || !on_expr.iter().all(is_sorted)
        || select_expr.iter().any(|expr| has_part(expr, is_special))
    {
        return Ok(None);
    }
    let number = row_number().partition_by(keys).order_by(others).build()?;
    let name = number.schema_name().to_string();
    if input.schema().has_column_with_unqualified_name(&name) {
        return Ok(None);
    }
    let window = LogicalPlanBuilder::from(Arc::clone(input)).window(vec![number])?;
    let Some(number) = window.schema().iter().last().map(Column::from) else {
        return Ok(None);
    };
    let selected = normalize_cols(select_expr.clone(), input)?.into_iter().zip(schema.iter());
    let selected: Vec<Expr> = selected
        .map(|(expr, (qualifier, field))| {
            expr.unalias().alias_qualified(qualifier.cloned(), field.name())
        })
        .collect();
    let first = window.filter(Expr::Column(number).eq(lit(1_u64)))?;
    first.sort(of_keys)?.project(selected)?.build().map(Some)
}
