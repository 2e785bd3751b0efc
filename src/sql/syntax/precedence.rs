//! Corrects the precedence of IS DISTINCT FROM: `a IS DISTINCT FROM b AND c` means `(a IS DISTINCT
//! FROM b) AND c`.
//!
//! Where this stands on the road of a query: after parsing. The parser (sqlparser 0.62) takes
//! everything after `FROM` for the right side, even past the loosest operator. Parentheses are a
//! node of their own and stay as they are; any other right side whose operator binds less tightly
//! than its parent's is rotated here.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut};

use crate::sql::walks::visit_expressions_mut;

/// Corrects an expression, or anything that contains expressions.
pub(in crate::sql) fn correct(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        rotate(expr);
        ControlFlow::<()>::Continue(())
    });
}

/// Makes the loosest operator the root of an expression.
fn rotate(expr: &mut Expr) {
    let own = binding(expr);
    let Some(right) = right_side(expr) else { return };
    if binding(right) >= own && !is_test_in_test(own, right) {
        return;
    }
    // The first operand of the looser operators belongs to this one.
    let mut taken = placeholder();
    std::mem::swap(right, &mut taken);
    let first = first_operand(&mut taken, own);
    if let Some(right) = right_side(expr) {
        std::mem::swap(first, right);
    }
    std::mem::swap(first, expr);
    *expr = taken;
}

/// How tightly an operator binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    /// `IS …`.
    Test,
    Tighter,
}

fn binding(expr: &Expr) -> Binding {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => Binding::Or,
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Binding::And,
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => Binding::Not,
        Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_) => Binding::Test,
        _ => Binding::Tighter,
    }
}

/// Tests are left-associative: `a IS DISTINCT FROM b IS NULL`.
fn is_test_in_test(own: Binding, right: &Expr) -> bool {
    own == Binding::Test && binding(right) == Binding::Test
}

/// The right operand of an operator, if the parser may have read too much into it.
fn right_side(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, right, .. }
        | Expr::IsDistinctFrom(_, right)
        | Expr::IsNotDistinctFrom(_, right) => Some(right),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(expr),
        _ => None,
    }
}

/// The leftmost operand below operators that bind less tightly than `own`.
fn first_operand(expr: &mut Expr, own: Binding) -> &mut Expr {
    if binding(expr) >= own && !is_test_in_test(own, expr) {
        return expr;
    }
    match expr {
        Expr::BinaryOp { left: first, .. }
        | Expr::IsDistinctFrom(first, _)
        | Expr::IsNotDistinctFrom(first, _)
        | Expr::IsNull(first)
        | Expr::IsNotNull(first)
        | Expr::IsTrue(first)
        | Expr::IsNotTrue(first)
        | Expr::IsFalse(first)
        | Expr::IsNotFalse(first)
        | Expr::IsUnknown(first)
        | Expr::IsNotUnknown(first) => first_operand(first, own),
        other => other,
    }
}

fn placeholder() -> Expr {
    Expr::Value(Value::Null.into())
}
