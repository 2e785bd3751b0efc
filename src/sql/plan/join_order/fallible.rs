//! Which conditions may be asked of any rows.

use std::sync::Arc;

use crate::sql::walks::is_comparison;
use arrow_schema::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// Days and months from the year 0 that date arithmetic is far from overflowing in.
const DAYS: i32 = 10_000_000;
const MONTHS: i32 = 100_000;

/// Functions that have a value for any texts.
const OF_ANY_TEXTS: &[&str] = &[
    "bit_length",
    "btrim",
    "character_length",
    "ends_with",
    "lower",
    "ltrim",
    "octet_length",
    "reverse",
    "rtrim",
    "starts_with",
    "upper",
];

/// The least and the greatest value of a column.
pub(super) type Bounds<'a> = &'a dyn Fn(usize) -> Option<(ScalarValue, ScalarValue)>;

/// Whether a condition could fail for some row, or is another one each time that it is asked.
pub(super) fn might_fail(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    bounds: Bounds<'_>,
) -> bool {
    let mut might = false;
    // A walk fails only where its visitor does.
    let _ = expr.apply(|part| {
        might = !is_safe(part, schema, bounds);
        Ok(if might { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    might
}

/// Whether a part of a condition never fails if its own parts do not.
fn is_safe(part: &Arc<dyn PhysicalExpr>, schema: &Schema, bounds: Bounds<'_>) -> bool {
    if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
        let op = *binary.op();
        return is_comparison(op)
            || op.is_logic_operator()
            || is_safe_arithmetic(op, binary, schema).unwrap_or(false)
            || is_near_date(op, binary, bounds).unwrap_or(false);
    }
    if let Some(cast) = part.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        return from.is_ok_and(|from| CastExpr::check_bigger_cast(cast.cast_type(), &from));
    }
    if let Some(function) = part.downcast_ref::<ScalarFunctionExpr>() {
        return is_safe_function(function);
    }
    part.is::<Column>()
        || part.is::<Literal>()
        || part.is::<NotExpr>()
        || part.is::<IsNullExpr>()
        || part.is::<IsNotNullExpr>()
        || part.is::<InListExpr>()
        || part.is::<CaseExpr>()
}

/// Whether a function of texts has a value for each: `substr` has none for negative lengths.
fn is_safe_function(function: &ScalarFunctionExpr) -> bool {
    let not_negative = |expr: &Arc<dyn PhysicalExpr>| {
        let literal = expr.downcast_ref::<Literal>().map(Literal::value);
        matches!(literal, Some(ScalarValue::Int64(Some(0..))))
    };
    match function.fun().name() {
        "substr" => function.args().iter().skip(1).all(not_negative),
        name => OF_ANY_TEXTS.contains(&name),
    }
}

/// Whether sums, differences and products never fail: those of integers wrap, those of floats are
/// floats, and those of decimals fit where their type has room for all digits.
fn is_safe_arithmetic(op: Operator, binary: &BinaryExpr, schema: &Schema) -> Option<bool> {
    if !matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) {
        return None;
    }
    let left = binary.left().data_type(schema).ok()?;
    let right = binary.right().data_type(schema).ok()?;
    if let (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) = (&left, &right) {
        let (p1, p2) = (i16::from(*p1), i16::from(*p2));
        let (s1, s2) = (i16::from(*s1), i16::from(*s2));
        let digits = match op {
            Operator::Multiply => p1 + p2 + 1,
            _ => s1.max(s2) + (p1 - s1).max(p2 - s2) + 1,
        };
        return Some(digits <= 38 && s1 >= 0 && s2 >= 0);
    }
    Some((left.is_integer() && right.is_integer()) || (left.is_floating() && right.is_floating()))
}

/// Whether an interval is added to dates, or taken from them, of a column without remote ones.
fn is_near_date(op: Operator, binary: &BinaryExpr, bounds: Bounds<'_>) -> Option<bool> {
    let column = binary.left().downcast_ref::<Column>()?;
    let (ScalarValue::Date32(Some(low)), ScalarValue::Date32(Some(high))) = bounds(column.index())?
    else {
        return None;
    };
    let (months, days) = match binary.right().downcast_ref::<Literal>()?.value() {
        ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0),
        ScalarValue::IntervalDayTime(Some(interval)) => (0, interval.days),
        ScalarValue::IntervalMonthDayNano(Some(interval)) => (interval.months, interval.days),
        _ => return None,
    };
    let is_near = |n: i32, most: i32| (-most..=most).contains(&n);
    let dates = is_near(low, DAYS) && is_near(high, DAYS);
    let added = is_near(months, MONTHS) && is_near(days, DAYS);
    Some(matches!(op, Operator::Plus | Operator::Minus) && dates && added)
}
