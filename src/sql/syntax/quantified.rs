//! Comparisons of a value with the items of an array: `x > ANY(array)`, `x <= ALL(array)`.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) leaves nulls out of
//! account: for ANY, the result is false rather than null if no item that is known passes but one
//! is null, and null rather than false for a null and an empty array; for ALL, it is false rather
//! than null if all items are. For an array that is written out, `= ANY` becomes `x IN (…)`, and
//! `<> ALL` becomes `x NOT IN (…)`. For any other array, a correction is added beside `= ANY`, so
//! that DataFusion can still make a list of a constant array; `<> ALL` is planned correctly, but as
//! a CASE. The other comparisons are those with the least and the greatest item, with that
//! correction.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value, ValueWithSpan, VisitMut,
};

use crate::sql::types::list_texts::items_of_array;
use crate::sql::walks::{function_call, visit_expressions_mut};

/// Rewrites such comparisons in an expression, or in anything that contains expressions.
pub(in crate::sql) fn as_lists(tree: &mut impl VisitMut) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Some(rewritten) = as_list(expr) {
            *expr = Expr::Nested(Box::new(rewritten));
        }
        ControlFlow::<()>::Continue(())
    });
}

fn as_list(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            in_list(left, right, false).or_else(|| any(expr.clone(), right))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            in_list(left, right, true)
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            any(with_extremes(left, compare_op, right, true)?, right)
        }
        Expr::AllOp { left, compare_op, right } => {
            all(with_extremes(left, compare_op, right, false)?, right)
        }
        _ => None,
    }
}

/// Compares a value with the items of an array that are not null. The result is true if `any` item
/// passes, or all of them; it is null if the array has no such item.
fn with_extremes(value: &Expr, op: &BinaryOperator, array: &Expr, any: bool) -> Option<Expr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let extreme = |name| function_call(name, vec![array.clone()]);
    let (least, greatest) = ("list_min", "list_max");
    let value = Box::new(value.clone());
    Some(match op {
        Gt | GtEq | Lt | LtEq => {
            let is_least = any == matches!(op, Gt | GtEq);
            let bound = extreme(if is_least { least } else { greatest });
            Expr::BinaryOp { left: value, op: op.clone(), right: bound.into() }
        }
        // No item is above the value, and none below it.
        Eq | NotEq => Expr::Between {
            expr: value,
            negated: *op == NotEq,
            low: extreme(greatest).into(),
            high: extreme(least).into(),
        },
        _ => return None,
    })
}

/// `(passes OR (list_count(a) < len(a) AND NULL)) AND len(a) IS DISTINCT FROM 0`.
fn any(passes: Expr, array: &Expr) -> Option<Expr> {
    let (has_null, length, zero) = nulls_and_length(array)?;
    let null_if_one = binary(has_null, BinaryOperator::And, Expr::value(Value::Null));
    let not_empty = Expr::IsDistinctFrom(length.into(), zero.into());
    Some(binary(binary(passes, BinaryOperator::Or, null_if_one), BinaryOperator::And, not_empty))
}

/// `(passes AND (NOT list_count(a) < len(a) OR NULL)) OR len(a) IS NOT DISTINCT FROM 0`.
fn all(passes: Expr, array: &Expr) -> Option<Expr> {
    let (has_null, length, zero) = nulls_and_length(array)?;
    let has_none = Expr::UnaryOp { op: UnaryOperator::Not, expr: has_null.into() };
    let null_if_one = binary(has_none, BinaryOperator::Or, Expr::value(Value::Null));
    let empty = Expr::IsNotDistinctFrom(length.into(), zero.into());
    Some(binary(binary(passes, BinaryOperator::And, null_if_one), BinaryOperator::Or, empty))
}

/// Whether an array has nulls, how many items it has, and a zero. `None` for a subquery, and for a
/// text, which is no array yet.
fn nulls_and_length(array: &Expr) -> Option<(Expr, Expr, Expr)> {
    let is_text = |value: &ValueWithSpan| matches!(value.value, Value::SingleQuotedString(_));
    match without_parentheses(array) {
        Expr::Subquery(_) => return None,
        Expr::Value(value) if is_text(value) => return None,
        _ => {}
    }
    let call = |name| function_call(name, vec![array.clone()]);
    let has_null = binary(call("list_count"), BinaryOperator::Lt, call("len"));
    Some((has_null, call("len"), Expr::value(Value::Number("0".into(), false))))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: left.into(), op, right: right.into() }))
}

fn in_list(left: &Expr, array: &Expr, negated: bool) -> Option<Expr> {
    let list = elements(without_parentheses(array))?;
    // For an empty array, the result does not depend on the value, not even on a null.
    (!list.is_empty()).then(|| Expr::InList { expr: left.clone().into(), list, negated })
}

/// The elements of an array that is written out as `[…]`, as `'{…}'`, or with `make_array`.
fn elements(array: &Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })
            if text.starts_with('{') =>
        {
            let item = |item: Option<String>| {
                Expr::value(match item {
                    Some(text) => Value::SingleQuotedString(text),
                    None => Value::Null,
                })
            };
            Some(items_of_array(text)?.into_iter().map(item).collect())
        }
        Expr::Array(Array { elem, .. }) => Some(elem.clone()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("make_array") =>
        {
            let element = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(element)) => Some(element.clone()),
                _ => None,
            };
            list.args.iter().map(element).collect()
        }
        _ => None,
    }
}

fn without_parentheses(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => without_parentheses(inner),
        other => other,
    }
}
