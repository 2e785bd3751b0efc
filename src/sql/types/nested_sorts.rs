//! Sorts by lists and structs in which null is the greatest item, wherever nulls themselves come.
//!
//! Where this stands on the road of a query: a part of the analyzer rule in `zeros`. DataFusion
//! (55.2) puts nulls within a list or struct where it puts the null that is a whole one, so that
//! `ORDER BY s DESC NULLS LAST` takes a null field for the least, which is the greatest without
//! NULLS LAST. Here that becomes `ORDER BY s IS NULL, s DESC`, as PostgreSQL and DuckDB sort.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{AggregateFunction, Sort as SortKey};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::sql::walks::{
    Rewritten, any_node, node_has_part, rewrite_plan, rewrite_up, rewrite_where,
};

/// Functions that collect values in an order, or pick one by it.
const OF_ORDER: [&str; 5] = ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// Whether a plan may sort by a list or struct with nulls elsewhere than it has them by itself.
pub(super) fn are_in(plan: &LogicalPlan) -> bool {
    any_node(plan, |node| match node {
        LogicalPlan::Sort(sort) => sort.expr.iter().any(moves_nulls),
        other => node_has_part(other, is_candidate),
    })
}

/// Sorts by whether such values are null first.
pub(super) fn by_nulls_first(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let rewrite = |node| match node {
        LogicalPlan::Sort(mut sort) => {
            let changed = spread(&mut sort.expr, sort.input.schema());
            let sort = LogicalPlan::Sort(sort);
            Ok(if changed { Transformed::yes(sort) } else { Transformed::no(sort) })
        }
        other => rewrite_where(other, is_candidate, in_calls),
    };
    Ok(rewrite_plan(plan, rewrite)?.data)
}

/// Whether nulls come where null as the greatest value does not.
fn moves_nulls(key: &SortKey) -> bool {
    key.asc == key.nulls_first
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::WindowFunction(window) => window.params.order_by.iter().any(moves_nulls),
        Expr::AggregateFunction(call) => {
            is_ordered(call) && call.params.order_by.iter().any(moves_nulls)
        }
        _ => false,
    }
}

/// Whether a second key of its order is allowed: DataFusion refuses one beside DISTINCT.
fn is_ordered(call: &AggregateFunction) -> bool {
    OF_ORDER.contains(&call.func.name()) && !call.params.distinct
}

fn in_calls(expr: Expr, schema: &DFSchema) -> Rewritten<Expr> {
    rewrite_up(expr, |mut expr| {
        let changed = match &mut expr {
            Expr::WindowFunction(window) => spread(&mut window.params.order_by, schema),
            Expr::AggregateFunction(call) if is_ordered(call) => {
                spread(&mut call.params.order_by, schema)
            }
            _ => false,
        };
        Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
    })
}

/// Puts a key of whether a value is null before each key that needs one; whether there was one.
fn spread(keys: &mut Vec<SortKey>, schema: &DFSchema) -> bool {
    // An expression without a type here is refused by DataFusion later.
    let needs_one = |key: &SortKey| {
        moves_nulls(key) && key.expr.get_type(schema).is_ok_and(|of| of.is_nested())
    };
    if !keys.iter().any(needs_one) {
        return false;
    }
    let mut all = Vec::with_capacity(keys.len() + 1);
    for key in keys.drain(..) {
        if !needs_one(&key) {
            all.push(key);
            continue;
        }
        let SortKey { expr, asc, nulls_first } = key;
        all.push(expr.clone().is_null().sort(!nulls_first, nulls_first));
        all.push(expr.sort(asc, !asc));
    }
    *keys = all;
    true
}
