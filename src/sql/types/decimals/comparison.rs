//! Compares integer and decimal columns exactly with literal numbers, and decimals with doubles as
//! doubles.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, lit};

use super::doubles::{as_doubles, is_float_as_decimal};
use super::number::{ExactType, Number};
use super::user_casts::below_cast;
pub(super) use crate::sql::walks::is_comparison;

/// `a < b` and the like.
pub(super) fn binary(binary: BinaryExpr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    if !is_comparison(binary.op) {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    let BinaryExpr { left, op, right } = &binary;
    if let (Some((column, exact)), Some(number)) =
        (exact_column(left, schema)?, fraction(right, schema)?)
    {
        return compare(column, *op, &number, &exact).map(Transformed::yes);
    }
    if let (Some(number), Some((column, exact)), Some(op)) =
        (fraction(left, schema)?, exact_column(right, schema)?, op.swap())
    {
        return compare(column, op, &number, &exact).map(Transformed::yes);
    }
    Ok(match as_doubles(&[left, right], schema)?.as_deref() {
        Some([left, right]) => {
            let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, *op, right)))
        }
        _ => Transformed::no(Expr::BinaryExpr(binary)),
    })
}

/// The integer or decimal column below a cast that only widens it, or arithmetic of integers. Other
/// expressions keep their
/// cast, because their type may change when they are simplified: `round(x, 1)` has another type
/// once its second argument is known to be a literal.
fn exact_column<'a>(
    expr: &'a Expr,
    schema: &DFSchema,
) -> DataFusionResult<Option<(&'a Expr, ExactType)>> {
    let column = below_cast(expr);
    if !matches!(column, Expr::Column(_)) && !is_integer_arithmetic(column, schema, 0) {
        return Ok(None);
    }
    let (inner, outer) = (column.get_type(schema)?, expr.get_type(schema)?);
    let widens = inner == outer
        || outer.is_decimal() && inner.is_numeric()
        || inner.is_integer() && outer.is_floating();
    let exact = ExactType::new(&inner).filter(|exact| widens && exact.fits_in(&outer));
    Ok(exact.map(|exact| (column, exact)))
}

/// How deep arithmetic is searched.
const MAX_DEPTH: usize = 16;

/// Whether an expression consists of sums, differences and products of integer columns and
/// integers, whose type does not change when it is simplified.
fn is_integer_arithmetic(expr: &Expr, schema: &DFSchema, depth: usize) -> bool {
    let is_integer = |expr: &Expr| {
        depth < MAX_DEPTH && expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer())
    };
    match expr {
        Expr::Column(_) | Expr::Literal(..) => is_integer(expr),
        Expr::Cast(cast) => {
            is_integer(expr) && is_integer_arithmetic(&cast.expr, schema, depth + 1)
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Plus | Operator::Minus | Operator::Multiply,
            right,
        }) => {
            is_integer_arithmetic(left, schema, depth + 1)
                && is_integer_arithmetic(right, schema, depth + 1)
        }
        _ => false,
    }
}

/// A literal number of another type than the integers, which are compared exactly anyway.
fn fraction(expr: &Expr, schema: &DFSchema) -> DataFusionResult<Option<Number>> {
    Ok(match Number::from_expr(expr) {
        Some(number) if !Number::is_rounded(expr) && !expr.get_type(schema)?.is_integer() => {
            Some(number)
        }
        _ => None,
    })
}

/// A literal number that is compared exactly.
fn exact_number(expr: &Expr) -> Option<Number> {
    Number::from_expr(expr).filter(|_| !Number::is_rounded(expr))
}

/// Compares an expression with a number in the type of the expression. For integers, `x > 2.5` is
/// `x > 2`. A comparison that is always or never true becomes one with the greatest value of the
/// type, so that it is still null for null.
fn compare(
    expr: &Expr,
    op: Operator,
    number: &Number,
    exact: &ExactType,
) -> DataFusionResult<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let position = number.position(exact);
    let compare = |op, value: i128| {
        let value = exact.literal(value)?;
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(expr.clone()), op, Box::new(value))))
    };
    match op {
        IsDistinctFrom | IsNotDistinctFrom if !position.exact => Ok(lit(op == IsDistinctFrom)),
        Eq if !position.exact => always_false(expr, exact),
        NotEq if !position.exact => always_true(expr, exact),
        Lt | LtEq if position.floor < exact.min_value() => always_false(expr, exact),
        Gt | GtEq if position.floor < exact.min_value() => always_true(expr, exact),
        Lt if !position.exact => compare(LtEq, position.floor),
        GtEq if !position.exact => compare(Gt, position.floor),
        op => compare(op, position.floor),
    }
}

/// False, but null if the expression is null.
fn always_false(expr: &Expr, exact: &ExactType) -> DataFusionResult<Expr> {
    Ok(expr.clone().gt(exact.literal(exact.max_value())?))
}

/// True, but null if the expression is null.
fn always_true(expr: &Expr, exact: &ExactType) -> DataFusionResult<Expr> {
    Ok(expr.clone().lt_eq(exact.literal(exact.max_value())?))
}

/// `x BETWEEN a AND b`.
pub(super) fn between(between: Between, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Between { expr, low, high, negated } = &between;
    let bounds = (exact_number(low), exact_number(high));
    if let (Some((expr, exact)), (Some(low), Some(high))) = (exact_column(expr, schema)?, bounds) {
        let (low, high) = (low.position(&exact), high.position(&exact).floor);
        // The least value that is not below the bound.
        let low = if low.exact { low.floor } else { low.floor + 1 };
        let (min, max) = (exact.min_value(), exact.max_value());
        let is_empty = low > max || high < min;
        let (low, high) = if is_empty { (max, min) } else { (low, high) };
        let (low, high) = (Box::new(exact.literal(low)?), Box::new(exact.literal(high)?));
        return Ok(Transformed::yes(Expr::Between(Between::new(
            Box::new(expr.clone()),
            *negated,
            low,
            high,
        ))));
    }
    Ok(match as_doubles(&[expr, low, high], schema)?.as_deref() {
        Some([expr, low, high]) => {
            let (expr, low, high) =
                (Box::new(expr.clone()), Box::new(low.clone()), Box::new(high.clone()));
            Transformed::yes(Expr::Between(Between::new(expr, *negated, low, high)))
        }
        _ => Transformed::no(Expr::Between(between)),
    })
}

/// `x IN (a, …)`.
pub(super) fn in_list(list: InList, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let InList { expr, list: members, negated } = &list;
    if let Some((expr, exact)) = exact_column(expr, schema)?
        && let Some(values) =
            members.iter().map(|member| member_value(member, &exact)).collect::<Option<Vec<_>>>()
    {
        let mut literals = Vec::with_capacity(members.len());
        for value in values {
            match value {
                MemberValue::Value(value) => literals.push(exact.literal(value)?),
                MemberValue::Null => {
                    literals.push(lit(ScalarValue::try_from(&expr.get_type(schema)?)?));
                }
                MemberValue::None => {}
            }
        }
        return Ok(Transformed::yes(match (literals.is_empty(), negated) {
            (false, _) => Expr::InList(InList::new(Box::new(expr.clone()), literals, *negated)),
            (true, false) => always_false(expr, &exact)?,
            (true, true) => always_true(expr, &exact)?,
        }));
    }
    if !members.iter().chain([expr.as_ref()]).any(|member| is_float_as_decimal(member, schema)) {
        return Ok(Transformed::no(Expr::InList(list)));
    }
    let group: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(members).collect();
    Ok(match as_doubles(&group, schema)?.as_deref() {
        Some([expr, members @ ..]) => Transformed::yes(Expr::InList(InList::new(
            Box::new(expr.clone()),
            members.to_vec(),
            *negated,
        ))),
        _ => Transformed::no(Expr::InList(list)),
    })
}

/// A member of a list in an exact type.
enum MemberValue {
    Null,
    Value(i128),
    /// A number that is not a value of the type, so that nothing equals it.
    None,
}

/// `None` if a member of a list is neither a literal number nor null.
fn member_value(member: &Expr, exact: &ExactType) -> Option<MemberValue> {
    if matches!(member, Expr::Literal(value, _) if value.is_null()) {
        return Some(MemberValue::Null);
    }
    let position = exact_number(member)?.position(exact);
    Some(match position.exact {
        true => MemberValue::Value(position.floor),
        false => MemberValue::None,
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};
    use datafusion::prelude::{cast, col};

    use super::*;

    fn schema() -> DFSchema {
        let field = |name, of| Field::new(name, of, true);
        let fields = vec![
            field("d", DataType::Decimal128(4, 2)),
            field("i", DataType::Int8),
            field("x", DataType::Float64),
        ];
        DFSchema::try_from(Schema::new(fields)).unwrap()
    }

    fn rewritten(expr: Expr) -> String {
        let rewritten = match expr {
            Expr::BinaryExpr(expr) => binary(expr, &schema()),
            Expr::Between(expr) => between(expr, &schema()),
            Expr::InList(expr) => in_list(expr, &schema()),
            other => panic!("{other}"),
        };
        rewritten.unwrap().data.to_string()
    }

    /// The cast that coercion adds.
    fn wide(expr: Expr) -> Expr {
        cast(expr, DataType::Decimal128(30, 15))
    }

    fn double(expr: Expr) -> Expr {
        cast(expr, DataType::Float64)
    }

    #[test]
    fn numbers_are_compared_exactly() {
        assert_eq!(rewritten(wide(col("d")).eq(wide(lit(16.78)))), "d = Decimal128(16.78,4,2)");
        assert_eq!(rewritten(wide(col("d")).eq(wide(lit(16.785)))), "d > Decimal128(99.99,4,2)");
        assert_eq!(rewritten(wide(lit(16.785)).gt(wide(col("d")))), "d <= Decimal128(16.78,4,2)");
        assert_eq!(
            rewritten(wide(col("d")).eq(wide(lit(0.06) + lit(0.01)))),
            "d = Decimal128(0.07,4,2)"
        );
        assert_eq!(rewritten(double(col("i")).gt_eq(lit(2.5))), "i > Int8(2)");
        assert_eq!(rewritten(double(col("i")).lt(lit(1e30))), "i <= Int8(127)");
        assert_eq!(rewritten(double(col("i")).lt(lit(-1e30))), "i > Int8(127)");
        assert_eq!(rewritten(double(col("i")).gt(lit(-1e30))), "i <= Int8(127)");
        assert_eq!(
            rewritten(double(col("i")).between(lit(1.5), lit(2.5))),
            "i BETWEEN Int8(2) AND Int8(2)"
        );
        assert_eq!(
            rewritten(double(col("i")).between(lit(127.5), lit(1e9))),
            "i BETWEEN Int8(127) AND Int8(-128)"
        );
        assert_eq!(
            rewritten(double(col("i")).in_list(vec![lit(1.5), lit(2.0)], false)),
            "i IN ([Int8(2)])"
        );
        assert_eq!(rewritten(double(col("i")).in_list(vec![lit(1.5)], true)), "i <= Int8(127)");
        // A cast that rounds is not a literal number, nor is a column in a list. Casts of the user
        // are doubled.
        let rounded = cast(cast(lit(1.5), DataType::Decimal128(3, 0)), DataType::Decimal128(3, 0));
        assert_eq!(rewritten(col("i").eq(rounded.clone())), col("i").eq(rounded).to_string());
        let list = double(col("i")).in_list(vec![lit(1.5), col("x")], false);
        assert_eq!(rewritten(list.clone()), list.to_string());
    }

    #[test]
    fn decimals_beside_doubles_are_doubles() {
        assert_eq!(rewritten(wide(col("d")).eq(wide(col("x")))), "CAST(d AS Float64) = x");
        assert_eq!(
            rewritten(wide(col("d")).between(wide(lit(0.5)), wide(col("x")))),
            "CAST(d AS Float64) BETWEEN Float64(0.5) AND x"
        );
        assert_eq!(
            rewritten(wide(col("d")).in_list(vec![wide(col("x"))], false)),
            "CAST(d AS Float64) IN ([x])"
        );
        let text = cast(lit("0.12345678901234567"), DataType::Decimal128(17, 17));
        assert_eq!(rewritten(wide(col("x")).eq(wide(text))), "x = Float64(0.12345678901234566)");
        assert_eq!(rewritten(double(col("i")).eq(col("x"))), "CAST(i AS Float64) = x");
    }
}
