//! Operators that are calls: `a ^ b` (and `a ** b`) is `power(a, b)` of doubles, and `a // b` is
//! `intdiv(a, b)`. DataFusion (55.2) takes `^` for XOR, and knows no `//`, nor `~a`, the other bits
//! than those of `a`.
//!
//! Where this stands on the road of a query: after parsing. The dialect lets `^` bind more tightly
//! than `*`. The parser (sqlparser 0.62) lets a sign bind less tightly than that, so that `-2 ^ 2`
//! would be -4; it is 4 here, as in PostgreSQL and DuckDB.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, UnaryOperator, Value, VisitMut,
};

use crate::error::{Error, Result};
use crate::sql::walks::{function_call, visit_expressions_mut};

/// Rewrites the operators of an expression, or of anything that contains expressions.
pub(in crate::sql) fn as_calls(tree: &mut impl VisitMut) -> Result<()> {
    let found = visit_expressions_mut(tree, |expr| match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner }
            if is_power(inner) =>
        {
            sign_first(expr);
            ControlFlow::Continue(())
        }
        // Without a sign, the right side of a power is none itself.
        Expr::BinaryOp { op: BinaryOperator::BitwiseXor, right, .. } if is_power(right) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if found.is_break() {
        return Err(Error::InvalidInput(
            "a sign between two ^ may be read in two ways; put parentheses: a ^ (-b) ^ c".into(),
        ));
    }
    let _ = visit_expressions_mut(tree, |expr| {
        sum_first(expr);
        ControlFlow::<()>::Continue(())
    });
    let _ = visit_expressions_mut(tree, |expr| {
        call(expr);
        ControlFlow::<()>::Continue(())
    });
    Ok(())
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. })
}

/// Moves a sign above powers to the first of their operands.
fn sign_first(expr: &mut Expr) {
    let Expr::UnaryOp { op, expr: powers } = expr else { return };
    let (op, mut powers) = (*op, std::mem::replace(powers.as_mut(), null()));
    let mut first = &mut powers;
    while let Expr::BinaryOp { op: BinaryOperator::BitwiseXor, left, .. } = first {
        first = left;
    }
    let operand = std::mem::replace(first, null());
    *first = Expr::UnaryOp { op, expr: Box::new(operand) };
    *expr = powers;
}

fn call(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } = expr {
        *expr = other_bits(std::mem::replace(inner.as_mut(), null()));
        return;
    }
    let Expr::BinaryOp { left, op, right } = expr else { return };
    let take = |side: &mut Box<Expr>| std::mem::replace(side.as_mut(), null());
    match op {
        BinaryOperator::BitwiseXor => {
            let arguments = vec![double(take(left)), double(take(right))];
            *expr = function_call("power", arguments);
        }
        BinaryOperator::DuckIntegerDivide => {
            *expr = function_call("intdiv", vec![take(left), take(right)]);
        }
        BinaryOperator::PGOverlap => {
            *expr = function_call("list_has_any", vec![take(left), take(right)]);
        }
        _ => {}
    }
}

/// `~a + b` as `~(a + b)`, as PostgreSQL and DuckDB read it.
fn sum_first(expr: &mut Expr) {
    let Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, .. } = expr else {
        return;
    };
    let Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } = left.as_mut() else {
        return;
    };
    **left = std::mem::replace(inner.as_mut(), null());
    let sum = Box::new(std::mem::replace(expr, null()));
    *expr = Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: sum };
}

/// `a XOR -1`, which has the other bits than `a`.
fn other_bits(expr: Expr) -> Expr {
    let one = Box::new(Expr::value(Value::Number("1".into(), false)));
    let all = Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: one });
    let left = Box::new(Expr::Nested(Box::new(expr)));
    let right = Box::new(Expr::Nested(all));
    let xor = Expr::BinaryOp { left, op: BinaryOperator::PGBitwiseXor, right };
    Expr::Nested(Box::new(xor))
}

fn double(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

fn null() -> Expr {
    Expr::value(Value::Null)
}
