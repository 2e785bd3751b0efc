//! Protects branches of a CASE that would fail without its conditions.
//!
//! Where this stands on the road of a query: a part of the analyzer rule of `opaque`. DataFusion
//! (55.2) turns coalesce into a CASE, and turns a CASE of booleans, or one of constants that is
//! compared with a constant, into a chain of AND and OR. Such a chain computes all its parts for
//! all rows: `CASE WHEN x <> 0 THEN 10 / x > 1 ELSE false END` divides by zero. If a condition
//! guards a part that may fail, `CASE WHEN …` becomes `CASE true WHEN …`, which DataFusion leaves a
//! CASE.

use arrow_schema::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};

use crate::sql::functions::concatenation::CONCATENATED;
use crate::sql::walks::{has_part, is_comparison};

/// Functions that never fail, whatever their arguments. `<> ALL (array)` is made of them.
const NEVER_FAIL: [&str; 7] = [
    "array_has",
    "array_max",
    "array_min",
    "array_position",
    "cardinality",
    "make_array",
    CONCATENATED,
];

/// Whether an expression has parts that only some rows reach and that may fail, as far as can be
/// told without types.
pub(in crate::sql) fn may_guard(expr: &Expr) -> bool {
    match expr {
        Expr::Case(case) => {
            case.expr.is_none() && guarded_parts(case).any(|part| may_fail(part, None))
        }
        Expr::ScalarFunction(function) => {
            is_coalesce(function) && function.args.iter().skip(1).any(|part| may_fail(part, None))
        }
        _ => false,
    }
}

/// Rewrites an expression so that it stays a CASE where DataFusion would compute too much.
pub(in crate::sql) fn guarded(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if !may_guard(&expr) {
        return Transformed::no(expr);
    }
    let case = match &expr {
        Expr::Case(case) => Some(case.clone()),
        Expr::ScalarFunction(function) => as_case(function),
        _ => None,
    };
    match case.filter(|case| is_at_risk(case, schema)) {
        Some(case) => {
            Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case }))
        }
        None => Transformed::no(expr),
    }
}

/// Whether DataFusion would compute parts of a CASE that may fail regardless of their conditions.
fn is_at_risk(case: &Case, schema: &DFSchema) -> bool {
    let fails = |part: &Expr| may_fail(part, Some(schema));
    let is_boolean =
        |then: &Expr| then.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean);
    if results(case).next().is_some_and(is_boolean) {
        return guarded_parts(case).any(fails);
    }
    let is_constant = |result: &Expr| !result.any_column_refs();
    case.when_then_expr.iter().skip(1).any(|(when, _)| fails(when))
        && results(case).all(is_constant)
}

fn results(case: &Case) -> impl Iterator<Item = &Expr> {
    case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref())
}

/// The parts of a CASE that are guarded by a condition.
fn guarded_parts(case: &Case) -> impl Iterator<Item = &Expr> {
    results(case).chain(case.when_then_expr.iter().skip(1).map(|(when, _)| when.as_ref()))
}

fn is_coalesce(function: &ScalarFunction) -> bool {
    matches!(function.name(), "coalesce" | "nvl" | "nvl2")
}

/// `coalesce`, `nvl` or `nvl2` as the CASE that it means.
fn as_case(function: &ScalarFunction) -> Option<Case> {
    let when =
        |value: &Expr, then: &Expr| (Box::new(value.clone().is_not_null()), Box::new(then.clone()));
    let (when_then_expr, last) = match (function.name(), function.args.as_slice()) {
        ("nvl2", [value, then, last]) => (vec![when(value, then)], last),
        ("nvl2", _) | (_, [] | [_]) => return None,
        (_, [values @ .., last]) => (values.iter().map(|value| when(value, value)).collect(), last),
    };
    Some(Case { expr: None, when_then_expr, else_expr: Some(Box::new(last.clone())) })
}

/// Whether an expression may fail for some row. Without a schema, whatever depends on types may.
fn may_fail(expr: &Expr, schema: Option<&DFSchema>) -> bool {
    has_part(expr, |part| !never_fails(part, schema))
}

/// Whether an expression succeeds wherever its parts do.
fn never_fails(expr: &Expr, schema: Option<&DFSchema>) -> bool {
    let is = |expr: &Expr, test: fn(&DataType) -> bool| {
        schema
            .and_then(|schema| expr.get_type(schema).ok())
            .is_some_and(|data_type| test(&data_type))
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            // Integers wrap.
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                is(left, is_machine_number) && is(right, is_machine_number)
            }
            Operator::Divide | Operator::Modulo => {
                is(left, DataType::is_floating)
                    || (is_positive(right) && is(left, DataType::is_integer))
            }
            Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch => matches!(right.as_ref(), Expr::Literal(..)),
            Operator::And | Operator::Or => true,
            Operator::StringConcat => true,
            other => is_comparison(*other),
        },
        Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
            Expr::Literal(value, _) => value.cast_to(field.data_type()).is_ok(),
            _ => schema
                .and_then(|schema| expr.get_type(schema).ok())
                .is_some_and(|from| fits(&from, field.data_type())),
        },
        Expr::Negative(inner) => is(inner, is_machine_number),
        Expr::ScalarFunction(function) => NEVER_FAIL.contains(&function.name()),
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Literal(..)
        | Expr::Like(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::TryCast(_)
        | Expr::InList(_)
        // Subqueries are computed for all rows in any case.
        | Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_) => true,
        _ => false,
    }
}

fn is_machine_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating()
}

fn is_positive(expr: &Expr) -> bool {
    let Expr::Literal(value, _) = expr else { return false };
    matches!(value.cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(value))) if value > 0)
}

/// Whether each value of one type is also a value of another.
fn fits(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Decimal128, Decimal256, LargeUtf8, Utf8, Utf8View};
    // Digits before and after the point.
    let digits = |data_type: &DataType| match data_type {
        Decimal128(precision, scale) | Decimal256(precision, scale) => {
            Some((i16::from(*precision) - i16::from(*scale), *scale))
        }
        integer if integer.is_integer() => {
            Some((integer.primitive_width().map_or(20, most_digits), 0))
        }
        _ => None,
    };
    match (from, to) {
        (from, to) if from == to || from.is_null() || matches!(to, Utf8 | LargeUtf8 | Utf8View) => {
            true
        }
        (from, to) if to.is_floating() => from.is_numeric() || *from == Boolean,
        (from, to) if from.is_integer() && to.is_integer() => {
            from.primitive_width() < to.primitive_width()
                && (to.is_signed_integer() || from.is_unsigned_integer())
        }
        (from, to) if to.is_decimal() => {
            digits(from).zip(digits(to)).is_some_and(|(from, to)| from.0 <= to.0 && from.1 <= to.1)
        }
        _ => false,
    }
}

/// Returns the largest number of digits that an integer of `width` bytes has.
fn most_digits(width: usize) -> i16 {
    match width {
        1 => 3,
        2 => 5,
        4 => 10,
        _ => 20,
    }
}
