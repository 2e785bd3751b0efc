//! `x = ANY(array)`, and `x <> ALL(array)` where the array is written out.
//!
//! Where this stands on the road of a query: after parsing. DataFusion (55.2) makes `array_has` of
//! `= ANY`, which is false rather than null if no element is equal but one is null, and null rather
//! than false for a null in an empty array. For an array that is written out, it becomes `x IN
//! (…)`. For any other array a correction is added beside it, so that DataFusion can still make a
//! list of a constant array. `x <> ALL(array)` is planned correctly, but as a CASE; for an array
//! that is written out, `x NOT IN (…)` is simpler.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
    ValueWithSpan, VisitMut,
};

use crate::sql::syntax::literals::items_of_array;
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
            in_list(left, right, false).or_else(|| with_nulls(expr, right))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            in_list(left, right, true)
        }
        _ => None,
    }
}

/// `(x = ANY(a) OR (array_position(a, NULL) IS NOT NULL AND NULL)) AND cardinality(a) IS DISTINCT
/// FROM 0`.
fn with_nulls(any_equal: &Expr, array: &Expr) -> Option<Expr> {
    use BinaryOperator::{And, Or};
    if matches!(without_parentheses(array), Expr::Subquery(_)) {
        return None;
    }
    let value = |value: Value| Expr::Value(value.into());
    let has_null = function_call("array_position", vec![array.clone(), value(Value::Null)]);
    let null_if_one = binary(Expr::IsNotNull(has_null.into()), And, value(Value::Null));
    let count = function_call("cardinality", vec![array.clone()]);
    let not_empty =
        Expr::IsDistinctFrom(count.into(), value(Value::Number("0".into(), false)).into());
    Some(binary(binary(any_equal.clone(), Or, null_if_one), And, not_empty))
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
