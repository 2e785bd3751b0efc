//! `a IS DISTINCT FROM b AND c` as SQL reads it: `(a IS DISTINCT FROM b) AND c`.
//!
//! Where this stands on the road of a query: after parsing. The parser (sqlparser 0.62) takes
//! everything behind `FROM` for the right side, down to the loosest operator. What stands in
//! parentheses is a node of its own and is left as it is; any other right side whose operator binds
//! less tightly than its parent's is taken apart here and put together again.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, UnaryOperator, Value, VisitMut, VisitorMut,
};

use crate::sql::walks::visit_mut;

/// Corrects an expression, or whatever has some.
pub(in crate::sql) fn correct(tree: &mut impl VisitMut) {
    let _ = visit_mut(tree, &mut Correction);
}

struct Correction;

impl VisitorMut for Correction {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let own = binding(expr);
        let Some(right) = right_side(expr) else { return ControlFlow::Continue(()) };
        if binding(right) >= own && !is_test_in_test(own, right) {
            return ControlFlow::Continue(());
        }
        // The first operand of the loosest operators belongs to this one.
        let mut taken = placeholder();
        std::mem::swap(right, &mut taken);
        let place = first_operand(&mut taken, own);
        if let Some(right) = right_side(expr) {
            std::mem::swap(place, right);
        }
        std::mem::swap(place, expr);
        *expr = taken;
        ControlFlow::Continue(())
    }
}

/// How tightly the operators bind that take part.
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

/// Tests one after the other belong together from the left: `a IS DISTINCT FROM b IS NULL`.
fn is_test_in_test(own: Binding, right: &Expr) -> bool {
    own == Binding::Test && binding(right) == Binding::Test
}

/// The operand behind an operator whose operand may have been read too far.
fn right_side(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, right, .. }
        | Expr::IsDistinctFrom(_, right)
        | Expr::IsNotDistinctFrom(_, right) => Some(right),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(expr),
        _ => None,
    }
}

/// The first operand of operators that bind less tightly than `than`.
fn first_operand(expr: &mut Expr, than: Binding) -> &mut Expr {
    if binding(expr) >= than && !is_test_in_test(than, expr) {
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
        | Expr::IsNotUnknown(first) => first_operand(first, than),
        other => other,
    }
}

fn placeholder() -> Expr {
    Expr::Value(Value::Null.into())
}
