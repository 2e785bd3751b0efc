//! Keeps the digits of literal numbers that DataFusion would read as doubles.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr as SqlExpr, FunctionArg,
    FunctionArgExpr, FunctionArguments, Parens, Query, Select, SelectItem, SetExpr, Statement,
    UnaryOperator, Value, ValueWithSpan, VisitorMut,
};

use super::common_type::has_uniform_arguments;
use super::number::{MAX_DIGITS, is_read_exactly};
use crate::sql::walks::visit_mut;

/// Keeps the digits of numbers that a double would round, where they are values by themselves or
/// meet other values. Other computations, such as quotients, use doubles. The VALUES of an INSERT
/// stay as they are written, to be assigned one by one.
pub(in crate::sql) fn keep_digits(statement: &mut Statement) {
    let mut rows = insert_rows(statement).map(std::mem::take).unwrap_or_default();
    let _ = visit_mut(statement, &mut KeepDigits);
    for row in &mut rows {
        let _ = visit_mut(&mut row.content, &mut KeepDigits);
    }
    if let Some(emptied) = insert_rows(statement) {
        *emptied = rows;
    }
}

/// The rows of an INSERT of VALUES.
fn insert_rows(statement: &mut Statement) -> Option<&mut Vec<Parens<Vec<SqlExpr>>>> {
    let Statement::Insert(insert) = statement else { return None };
    let mut body = insert.source.as_mut()?.body.as_mut();
    while let SetExpr::Query(inner) = body {
        body = inner.body.as_mut();
    }
    match body {
        SetExpr::Values(values) => Some(&mut values.rows),
        _ => None,
    }
}

struct KeepDigits;

impl VisitorMut for KeepDigits {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                keep(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            let columns = values.rows.first().map_or(0, |row| row.content.len());
            for column in 0..columns {
                keep_column(
                    values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)).collect(),
                );
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
        match expr {
            // Numbers become casts only after they are visited, so this is a cast of the user.
            SqlExpr::Cast { expr, data_type, .. } if is_decimal(data_type) => {
                mark_user_text(expr);
                keep(expr);
            }
            SqlExpr::Cast { expr, data_type, .. } if !is_float(data_type) => keep(expr),
            SqlExpr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }
            | SqlExpr::IsDistinctFrom(left, right)
            | SqlExpr::IsNotDistinctFrom(left, right) => {
                keep(left);
                keep(right);
            }
            SqlExpr::BinaryOp { left, op: Plus | Minus | Multiply | Modulo, right } => {
                for side in [left, right] {
                    keep_double(side);
                    keep(side);
                }
            }
            SqlExpr::Between { expr, low, high, .. } => {
                [expr, low, high].into_iter().for_each(|expr| keep(expr))
            }
            SqlExpr::InList { expr, list, .. } => {
                keep(expr);
                list.iter_mut().for_each(keep);
            }
            SqlExpr::Case { operand, conditions, else_result, .. } => {
                operand.iter_mut().chain(else_result).for_each(|expr| keep(expr));
                for branch in conditions {
                    keep(&mut branch.condition);
                    keep(&mut branch.result);
                }
            }
            SqlExpr::Function(call) => {
                let name = call.name.to_string();
                if has_uniform_arguments(&name) {
                    arguments(&mut call.args).for_each(keep);
                } else if name.eq_ignore_ascii_case(QUOTIENT) {
                    arguments(&mut call.args).for_each(make_decimal);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The function that `a // b` has become.
const QUOTIENT: &str = "intdiv";

/// The arguments of a call that are expressions.
fn arguments(of: &mut FunctionArguments) -> impl Iterator<Item = &mut SqlExpr> {
    let list = match of {
        FunctionArguments::List(list) => list.args.as_mut_slice(),
        _ => &mut [],
    };
    list.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

/// Makes a number with a point the decimal that it says.
fn make_decimal(expr: &mut SqlExpr) {
    let number =
        sign_and_digits(expr).filter(|(_, digits)| digits.contains('.') && !is_double(digits));
    if let Some(decimal) =
        number.and_then(|(sign, digits)| decimal_cast(&format!("{sign}{digits}")))
    {
        *expr = decimal;
    }
}

/// The sign and the digits of a literal number.
fn sign_and_digits(expr: &SqlExpr) -> Option<(&'static str, &str)> {
    let (sign, number) = match expr {
        SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        other => ("", other),
    };
    match number {
        SqlExpr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            Some((sign, digits))
        }
        _ => None,
    }
}

/// Whether a number has an exponent, which makes it a double.
fn is_double(digits: &str) -> bool {
    digits.contains(['e', 'E'])
}

/// Casts a number with an exponent to a double, which it stays even beside decimals.
fn keep_double(expr: &mut SqlExpr) {
    if sign_and_digits(expr).is_some_and(|(_, digits)| is_double(digits)) {
        let number = std::mem::replace(expr, SqlExpr::Value(Value::Null.into()));
        *expr = cast_to(number, SqlType::Double(ExactNumberInfo::None));
    }
}

/// Makes the numbers of a column decimals, if a double would round one of them and one decimal type
/// holds them all. If the column has anything that might be a double, such as a number with an
/// exponent, they stay doubles.
fn keep_column(column: Vec<&mut SqlExpr>) {
    let is_null =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Value(value) if value.value == Value::Null);
    let is_exact =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Cast { data_type, .. } if is_decimal(data_type));
    let (mut integer_digits, mut fraction_digits, mut all_exact) = (0, 0, true);
    for expr in &column {
        match sign_and_digits(expr) {
            Some((_, digits)) if !is_double(digits) => {
                let parts = digits.split_once('.').unwrap_or((digits, ""));
                integer_digits = parts.0.len().max(integer_digits);
                fraction_digits = parts.1.len().max(fraction_digits);
                all_exact = all_exact && is_read_exactly(digits);
            }
            None if is_null(expr) || is_exact(expr) => {}
            _ => return,
        }
    }
    if !all_exact && integer_digits + fraction_digits <= MAX_DIGITS {
        for expr in column {
            if let Some(decimal) = sign_and_digits(expr)
                .and_then(|(sign, digits)| decimal_cast(&format!("{sign}{digits}")))
            {
                *expr = decimal;
            }
        }
    }
}

/// Whether a type is a decimal.
fn is_decimal(data_type: &SqlType) -> bool {
    matches!(data_type, SqlType::Decimal(_) | SqlType::Numeric(_) | SqlType::Dec(_))
}

fn is_float(data_type: &SqlType) -> bool {
    use SqlType::{Double, DoublePrecision, Float, Float4, Float8, Float32, Float64, Real};
    matches!(
        data_type,
        Double(_) | DoublePrecision | Float(_) | Float4 | Float8 | Float32 | Float64 | Real
    )
}

/// Casts the text in a cast of the user to TEXT. That distinguishes it from the casts that are made
/// of numbers here.
fn mark_user_text(expr: &mut SqlExpr) {
    let SqlExpr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &*expr
    else {
        return;
    };
    if !is_read_exactly(text.trim_start_matches('-')) {
        let text = std::mem::replace(expr, SqlExpr::Value(Value::Null.into()));
        *expr = cast_to(text, SqlType::Text);
    }
}

/// Makes a number a decimal, if a double would round it.
fn keep(expr: &mut SqlExpr) {
    let Some((sign, digits)) = sign_and_digits(expr).filter(|(_, digits)| !is_read_exactly(digits))
    else {
        return;
    };
    if let Some(decimal) = decimal_cast(&format!("{sign}{digits}")) {
        *expr = decimal;
    }
}

/// The cast of a number's text to the decimal type with its digits.
fn decimal_cast(text: &str) -> Option<SqlExpr> {
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let precision = text.bytes().filter(u8::is_ascii_digit).count();
    let (precision, scale) = (u64::try_from(precision).ok()?, i64::try_from(scale).ok()?);
    let data_type = SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale));
    let text = SqlExpr::Value(Value::SingleQuotedString(text.to_owned()).into());
    (precision <= MAX_DIGITS as u64).then(|| cast_to(text, data_type))
}

fn cast_to(expr: SqlExpr, data_type: SqlType) -> SqlExpr {
    SqlExpr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}
