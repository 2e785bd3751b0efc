//! Decimals and integers beside numbers with a point, and beside doubles.
//!
//! Where this stands on the road of a query: an analyzer rule, after types are coerced. DataFusion
//! (55.2) reads `16.78` as a double and casts doubles and decimals to DECIMAL(30, 15), which turns
//! it into 16.780000000000002: `price = 16.78` finds nothing, and 1e300 overflows. It compares
//! integers with such numbers as doubles, which confuses integers above 2^53.
//!
//! Here a number beside a decimal is the decimal that it says: in sums, differences and products
//! ([`arithmetic`]), in what has one type or is compared ([`beside`]), and where coercion or a cast
//! makes it one ([`number`]). Columns of decimals and integers are compared with numbers in their
//! own types ([`comparison`]). Any other float that is compared with a decimal makes both doubles,
//! as in PostgreSQL and DuckDB, unless the user has cast it to a decimal ([`user_casts`]). Quotients
//! stay what they are of doubles.

mod arithmetic;
mod common_type;
mod comparison;
mod number;
mod user_casts;

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, LogicalPlan, Projection, Subquery, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr as SqlExpr, FunctionArg,
    FunctionArgExpr, FunctionArguments, Parens, Query, Select, SelectItem, SetExpr, Statement,
    UnaryOperator, Value, ValueWithSpan, VisitorMut,
};

use crate::sql::walks::{rewrite_plan, rewrite_up, rewrite_where, visit_mut};
pub(in crate::sql) use arithmetic::{DecimalArithmetic, exact_literal};
pub(in crate::sql) use common_type::{NumbersBesideDecimals, unify_numbers};
pub(in crate::sql) use number::is_read_exactly;
use number::{MOST_DIGITS, Number};
pub(in crate::sql) use user_casts::{UserCasts, mark_user_casts};

/// The rule.
#[derive(Debug)]
pub(in crate::sql) struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let rewrite = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) => {
                let joined = keys(join)?;
                let rewritten = rewritten(joined.data)?;
                Ok(Transformed::new_transformed(
                    rewritten.data,
                    rewritten.transformed || joined.transformed,
                ))
            }
            other => rewritten(other),
        };
        user_casts::all_once(rewrite_plan(plan, rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "exact_numbers"
    }
}

fn rewritten(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    rewrite_where(node, concerns, |expr, schema| {
        rewrite_up(expr, |expr| {
            if !concerns(&expr) {
                return Ok(Transformed::no(expr));
            }
            // What has no type here, as a filter of a scan, was looked at before or is for
            // DataFusion to refuse.
            let as_it_is = expr.clone();
            expression(expr, schema).or_else(|_| Ok(Transformed::no(as_it_is)))
        })
    })
}

/// An expression whose types are coerced, with exact numbers.
pub(in crate::sql) fn with_exact_numbers(expr: Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    let exact = rewrite_up(expr, |expr| expression(expr, schema))?.data;
    Ok(user_casts::once(exact)?.data)
}

fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_) => true,
        Expr::Cast(cast) => cast.field.data_type().is_decimal(),
        Expr::TryCast(cast) => cast.field.data_type().is_decimal(),
        _ => false,
    }
}

fn expression(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => comparison::binary(binary, schema),
        Expr::Between(between) => comparison::between(between, schema),
        Expr::InList(list) => comparison::in_list(list, schema),
        Expr::InSubquery(mut test) => {
            let changed = compared_rows(&mut test.expr, &mut test.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::InSubquery(test), changed))
        }
        Expr::SetComparison(mut test) => {
            let changed = compared_rows(&mut test.expr, &mut test.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::SetComparison(test), changed))
        }
        Expr::Cast(mut cast) => {
            let changed = cast.field.data_type().is_decimal() && as_written(&mut cast.expr);
            Ok(Transformed::new_transformed(Expr::Cast(cast), changed))
        }
        Expr::TryCast(mut cast) => {
            let changed = cast.field.data_type().is_decimal() && as_written(&mut cast.expr);
            Ok(Transformed::new_transformed(Expr::TryCast(cast), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Makes a double that is cast to a decimal the decimal that it says, if it is a number.
fn as_written(expr: &mut Expr) -> bool {
    let is_double = match &*expr {
        Expr::Literal(value, _) => value.data_type() == DataType::Float64,
        Expr::Negative(_) | Expr::BinaryExpr(_) => true,
        _ => false,
    };
    match Number::of(expr).filter(|_| is_double).and_then(|number| number.decimal()) {
        Some(decimal) => {
            *expr = Expr::Literal(decimal, None);
            true
        }
        None => false,
    }
}

/// Whether coercion has cast a float to a decimal: a NaN, an infinity or too large a number would
/// be an error. The inner one of the two casts that [`user_casts`] makes of a cast in the statement
/// is not taken for one of coercion.
fn is_float_as_decimal(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Cast(cast) = expr else { return false };
    cast.field.data_type().is_decimal()
        && cast.expr.get_type(schema).is_ok_and(|of| of.is_floating())
        && Number::of(expr).is_none()
}

/// Expressions that are compared, as doubles, if one of them is a float and no number.
fn as_doubles(group: &[&Expr], schema: &DFSchema) -> DataFusionResult<Option<Vec<Expr>>> {
    if !group.iter().any(|expr| is_float_as_decimal(expr, schema)) {
        return Ok(None);
    }
    group.iter().map(|expr| double(expr, schema)).collect::<DataFusionResult<_>>().map(Some)
}

/// A decimal as a double: what it was before it was made one, or the nearest.
fn double(expr: &Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    let digits = |expr: &Expr| number::text(expr).and_then(|digits| digits.parse::<f64>().ok());
    let inner = match expr {
        Expr::Cast(cast) if digits(expr).is_none() && !cast.expr.get_type(schema)?.is_string() => {
            cast.expr.as_ref()
        }
        other => other,
    };
    if let Some(double) = digits(inner) {
        return Ok(lit(double));
    }
    match (inner, Number::of(inner)) {
        (Expr::Literal(value, _), _) if value.is_null() => Ok(lit(ScalarValue::Float64(None))),
        (_, Some(number)) => Ok(number
            .to_string()
            .parse::<f64>()
            .map_or_else(|_| cast(inner.clone(), DataType::Float64), lit)),
        _ if inner.get_type(schema)? == DataType::Float64 => Ok(inner.clone()),
        _ => Ok(cast(inner.clone(), DataType::Float64)),
    }
}

/// A value and the rows of a subquery, compared as doubles if either is a float. Says whether they
/// have changed.
fn compared_rows(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
) -> DataFusionResult<bool> {
    let LogicalPlan::Projection(rows) = subquery.subquery.as_ref() else { return Ok(false) };
    let [row] = rows.expr.as_slice() else { return Ok(false) };
    let below = rows.input.schema();
    let (bare, name) = (row.clone().unalias(), row.qualified_name());
    if !is_float_as_decimal(value, schema) && !is_float_as_decimal(&bare, below) {
        return Ok(false);
    }
    let row = double(&bare, below)?.alias_qualified(name.0, name.1);
    *value = double(value, schema)?;
    let rows = Projection::try_new(vec![row], Arc::clone(&rows.input))?;
    subquery.subquery = Arc::new(LogicalPlan::Projection(rows));
    Ok(true)
}

/// A join whose keys are compared as doubles where one is a decimal and the other a double.
fn keys(mut join: Join) -> DataFusionResult<Transformed<LogicalPlan>> {
    let mut changed = false;
    if !join.on.is_empty() {
        let mut schema = join.left.schema().as_ref().clone();
        schema.merge(join.right.schema());
        for (left, right) in &mut join.on {
            if let Some([new_left, new_right]) = as_doubles(&[left, right], &schema)?.as_deref() {
                (*left, *right) = (new_left.clone(), new_right.clone());
                changed = true;
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}

/// Keeps the digits of numbers that a double would not keep, where they are values by themselves or
/// beside others. What else is computed of them, as a quotient, is computed of doubles. The VALUES
/// of an INSERT are left as they are written, to be assigned one by one.
pub(in crate::sql) fn keep_digits(statement: &mut Statement) {
    let mut rows = stored(statement).map(std::mem::take).unwrap_or_default();
    let _ = visit_mut(statement, &mut Digits);
    for row in &mut rows {
        let _ = visit_mut(&mut row.content, &mut Digits);
    }
    if let Some(place) = stored(statement) {
        *place = rows;
    }
}

/// The rows of an INSERT of VALUES.
fn stored(statement: &mut Statement) -> Option<&mut Vec<Parens<Vec<SqlExpr>>>> {
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

struct Digits;

impl VisitorMut for Digits {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                kept(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            let columns = values.rows.first().map_or(0, |row| row.content.len());
            for at in 0..columns {
                kept_together(
                    values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)).collect(),
                );
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, Minus, Multiply, NotEq, Plus};
        match expr {
            // Numbers become casts after they are visited, so this is one of the user's.
            SqlExpr::Cast { expr, data_type, .. } if is_decimal(data_type) => as_text(expr),
            SqlExpr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }
            | SqlExpr::IsDistinctFrom(left, right)
            | SqlExpr::IsNotDistinctFrom(left, right) => {
                kept(left);
                kept(right);
            }
            SqlExpr::BinaryOp { left, op: Plus | Minus | Multiply, right } => {
                for side in [left, right] {
                    stays_double(side);
                    kept(side);
                }
            }
            SqlExpr::Between { expr, low, high, .. } => {
                [expr, low, high].into_iter().for_each(|expr| kept(expr))
            }
            SqlExpr::InList { expr, list, .. } => {
                kept(expr);
                list.iter_mut().for_each(kept);
            }
            SqlExpr::Case { operand, conditions, else_result, .. } => {
                operand.iter_mut().chain(else_result).for_each(|expr| kept(expr));
                for branch in conditions {
                    kept(&mut branch.condition);
                    kept(&mut branch.result);
                }
            }
            SqlExpr::Function(call) if common_type::has_one_type(&call.name.to_string()) => {
                let FunctionArguments::List(list) = &mut call.args else {
                    return ControlFlow::Continue(());
                };
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                        kept(expr);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The sign and the digits of a number.
fn spelled(expr: &SqlExpr) -> Option<(&'static str, &str)> {
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

/// Whether a number has an exponent.
fn is_double(digits: &str) -> bool {
    digits.contains(['e', 'E'])
}

/// Says of a number with an exponent that it is a double, beside decimals too.
fn stays_double(expr: &mut SqlExpr) {
    if spelled(expr).is_some_and(|(_, digits)| is_double(digits)) {
        let number = std::mem::replace(expr, SqlExpr::Value(Value::Null.into()));
        *expr = cast_to(number, SqlType::Double(ExactNumberInfo::None));
    }
}

/// The numbers of a column as decimals of their digits, if a double would have others for one of
/// them and one decimal holds all. Beside what might be a double they are doubles, as beside a
/// number with an exponent.
fn kept_together(column: Vec<&mut SqlExpr>) {
    let is_null =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Value(value) if value.value == Value::Null);
    let is_exact =
        |expr: &SqlExpr| matches!(expr, SqlExpr::Cast { data_type, .. } if is_decimal(data_type));
    let (mut whole, mut fraction, mut all_kept) = (0, 0, true);
    for expr in &column {
        match spelled(expr) {
            Some((_, digits)) if !is_double(digits) => {
                let parts = digits.split_once('.').unwrap_or((digits, ""));
                (whole, fraction) = (parts.0.len().max(whole), parts.1.len().max(fraction));
                all_kept = all_kept && is_read_exactly(digits);
            }
            None if is_null(expr) || is_exact(expr) => {}
            _ => return,
        }
    }
    if !all_kept && whole + fraction <= MOST_DIGITS {
        for expr in column {
            if let Some(decimal) =
                spelled(expr).and_then(|(sign, digits)| decimal_of(&format!("{sign}{digits}")))
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

/// Makes the text of a cast that the user wrote one of a type that is given, which tells it from a
/// number that was made a cast.
fn as_text(expr: &mut SqlExpr) {
    let SqlExpr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &*expr
    else {
        return;
    };
    if !is_read_exactly(text.trim_start_matches('-')) {
        let text = std::mem::replace(expr, SqlExpr::Value(Value::Null.into()));
        *expr = cast_to(text, SqlType::Text);
    }
}

/// A number as a decimal of its digits, if a double would have others.
fn kept(expr: &mut SqlExpr) {
    let Some((sign, digits)) = spelled(expr).filter(|(_, digits)| !is_read_exactly(digits)) else {
        return;
    };
    if let Some(decimal) = decimal_of(&format!("{sign}{digits}")) {
        *expr = decimal;
    }
}

/// The cast of a text that says a number.
fn decimal_of(text: &str) -> Option<SqlExpr> {
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let precision = text.bytes().filter(u8::is_ascii_digit).count();
    let (precision, scale) = (u64::try_from(precision).ok()?, i64::try_from(scale).ok()?);
    let data_type = SqlType::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale));
    let text = SqlExpr::Value(Value::SingleQuotedString(text.to_owned()).into());
    (precision <= MOST_DIGITS as u64).then(|| cast_to(text, data_type))
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
