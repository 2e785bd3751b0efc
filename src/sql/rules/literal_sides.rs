//! Literals that are compared with a column, brought to its right side.
//!
//! Where this stands on the road of a query: a logical rule behind the one that simplifies
//! expressions. Of several bounds of a column, DataFusion (55.2, `simplify_predicates.rs`) keeps
//! the narrowest when it pushes filters down. Where a bound comes twice, once with the column
//! itself and once without, it takes the wrong one if the literal stands on the left, as it does
//! where it had to be computed first: of `x <= DATE '2024-01-01' AND DATE '2024-01-01' > x` the
//! first is left. It also takes -0.0 for less than 0.0, though columns do not know the difference.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::sql::walks::{is_comparison, rewrite_up, rewrite_where};

/// The rule that it stands behind.
pub(in crate::sql) const BEFORE: &str = "simplify_expressions";

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct LiteralsRight;

impl OptimizerRule for LiteralsRight {
    fn name(&self) -> &'static str {
        "literals_right"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DataFusionResult<Transformed<LogicalPlan>> {
        rewrite_where(plan, is_turned, |expr, _| rewrite_up(expr, |expr| Ok(turned(expr))))
    }
}

fn is_turned(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return false };
    let of_column = match (left.as_ref(), right.as_ref()) {
        (Expr::Literal(..), Expr::Column(_)) => true,
        (Expr::Column(_), Expr::Literal(value, _)) => is_negative_zero(value),
        _ => false,
    };
    of_column && is_comparison(*op) && op.swap().is_some()
}

fn turned(expr: Expr) -> Transformed<Expr> {
    if !is_turned(&expr) {
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
        Expr::Literal(ScalarValue::Float64(Some(value)), of) => {
            Expr::Literal(ScalarValue::Float64(Some(value + 0.0)), of)
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), of) => {
            Expr::Literal(ScalarValue::Float32(Some(value + 0.0)), of)
        }
        other => other,
    }
}
