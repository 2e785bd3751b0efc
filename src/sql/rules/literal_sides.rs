//! Moves literals that are compared with a column to the right side.
//!
//! Where this stands on the road of a query: a logical rule after the one that simplifies
//! expressions. When DataFusion (55.2, `simplify_predicates.rs`) pushes filters down, it keeps only
//! the narrowest of several bounds of a column. If a value is a bound twice, once including the
//! value and once excluding it, DataFusion keeps the wrong one where the literal is on the left, as
//! it is if it had to be computed first: of `x <= DATE '2024-01-01' AND DATE '2024-01-01' > x` the
//! first is kept. It also takes -0.0 for less than 0.0, though columns do not tell them apart.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};

use crate::sql::walks::{Rewritten, is_comparison, rewrite_up, rewrite_where};

/// The rule after which this one runs.
pub(in crate::sql) const RUNS_AFTER: &str = "simplify_expressions";

pub(in crate::sql) fn literals_right(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    rewrite_where(node, needs_rewrite, |expr, _| rewrite_up(expr, |expr| Ok(rewritten(expr))))
}

fn needs_rewrite(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return false };
    let compares_column = match (left.as_ref(), right.as_ref()) {
        (Expr::Literal(..), Expr::Column(_)) => true,
        (Expr::Column(_), Expr::Literal(value, _)) => is_negative_zero(value),
        _ => false,
    };
    compares_column && is_comparison(*op) && op.swap().is_some()
}

fn rewritten(expr: Expr) -> Transformed<Expr> {
    if !needs_rewrite(&expr) {
        return Transformed::no(expr);
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left, op, right) = match (left.as_ref(), op.swap()) {
                (Expr::Literal(..), Some(swapped)) => (right, swapped, left),
                _ => (left, op, right),
            };
            let right = Box::new(with_one_zero(*right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        other => Transformed::no(other),
    }
}

fn is_negative_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(value)) => *value == 0.0 && value.is_sign_negative(),
        ScalarValue::Float32(Some(value)) => *value == 0.0 && value.is_sign_negative(),
        _ => false,
    }
}

/// A literal with 0.0 in place of -0.0.
pub(in crate::sql) fn with_one_zero(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) => {
            Expr::Literal(ScalarValue::Float64(Some(value + 0.0)), metadata)
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), metadata) => {
            Expr::Literal(ScalarValue::Float32(Some(value + 0.0)), metadata)
        }
        other => other,
    }
}
