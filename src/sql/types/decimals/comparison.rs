//! Compares integer and decimal columns with number literals exactly, and decimals with doubles as
//! doubles.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, lit};

use super::number::{Exact, Number};
use super::user_casts::below_cast;
use super::{as_doubles, is_float_as_decimal};
pub(super) use crate::sql::walks::is_comparison;

/// `a < b` and the like.
pub(super) fn binary(binary: BinaryExpr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    if !is_comparison(binary.op) {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    let BinaryExpr { left, op, right } = &binary;
    if let (Some((expr, of)), Some(number)) = (exact_column(left, schema)?, number(right, schema)?)
    {
        return written(expr, *op, &number, &of).map(Transformed::yes);
    }
    if let (Some(number), Some((expr, of)), Some(op)) =
        (number(left, schema)?, exact_column(right, schema)?, op.swap())
    {
        return written(expr, op, &number, &of).map(Transformed::yes);
    }
    Ok(match as_doubles(&[left, right], schema)?.as_deref() {
        Some([left, right]) => {
            let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, *op, right)))
        }
        _ => Transformed::no(Expr::BinaryExpr(binary)),
    })
}

/// The integer or decimal column below a cast that only widens it. Other expressions keep their
/// cast, because their type can change when they are simplified: `round(x, 1)` has another one once
/// its second argument is known to be a literal.
fn exact_column<'a>(
    expr: &'a Expr,
    schema: &DFSchema,
) -> DataFusionResult<Option<(&'a Expr, Exact)>> {
    let column = below_cast(expr);
    if !matches!(column, Expr::Column(_)) {
        return Ok(None);
    }
    let (inner, outer) = (column.get_type(schema)?, expr.get_type(schema)?);
    let widens = inner == outer
        || outer.is_decimal() && inner.is_numeric()
        || inner.is_integer() && outer.is_floating();
    Ok(Exact::of(&inner).filter(|of| widens && of.is_within(&outer)).map(|of| (column, of)))
}

/// A number, but not an integer: those are compared in the types of integers anyway.
fn number(expr: &Expr, schema: &DFSchema) -> DataFusionResult<Option<Number>> {
    Ok(match Number::of(expr) {
        Some(number) if !expr.get_type(schema)?.is_integer() => Some(number),
        _ => None,
    })
}

/// An expression compared with a number, both in the expression's type. `x > 2.5` is `x > 2` of
/// integers, and a comparison that no value or each one passes is one with the type's greatest
/// value, so that null stays null.
fn written(expr: &Expr, op: Operator, number: &Number, of: &Exact) -> DataFusionResult<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let place = number.place(of);
    let compare = |op, value: i128| {
        let value = of.literal(value)?;
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(expr.clone()), op, Box::new(value))))
    };
    match op {
        IsDistinctFrom | IsNotDistinctFrom if !place.exact => Ok(lit(op == IsDistinctFrom)),
        Eq if !place.exact => never(expr, of),
        NotEq if !place.exact => always(expr, of),
        Lt | LtEq if place.floor < of.least() => never(expr, of),
        Gt | GtEq if place.floor < of.least() => always(expr, of),
        Lt if !place.exact => compare(LtEq, place.floor),
        GtEq if !place.exact => compare(Gt, place.floor),
        op => compare(op, place.floor),
    }
}

/// False, but null where the expression is.
fn never(expr: &Expr, of: &Exact) -> DataFusionResult<Expr> {
    Ok(expr.clone().gt(of.literal(of.greatest())?))
}

/// True, but null where the expression is.
fn always(expr: &Expr, of: &Exact) -> DataFusionResult<Expr> {
    Ok(expr.clone().lt_eq(of.literal(of.greatest())?))
}

/// `x BETWEEN a AND b`.
pub(super) fn between(between: Between, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Between { expr, low, high, negated } = &between;
    let bounds = (Number::of(low), Number::of(high));
    if let (Some((expr, of)), (Some(low), Some(high))) = (exact_column(expr, schema)?, bounds) {
        let (low, high) = (low.place(&of), high.place(&of).floor);
        // The least value that is not less.
        let low = if low.exact { low.floor } else { low.floor + 1 };
        let none = low > of.greatest() || high < of.least();
        let (low, high) = if none { (of.greatest(), of.least()) } else { (low, high) };
        let (low, high) = (Box::new(of.literal(low)?), Box::new(of.literal(high)?));
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
    if let Some((expr, of)) = exact_column(expr, schema)?
        && let Some(places) =
            members.iter().map(|member| place(member, &of)).collect::<Option<Vec<_>>>()
    {
        let mut settled = Vec::with_capacity(members.len());
        for place in places.into_iter().flatten() {
            settled.push(match place {
                Some(value) => of.literal(value)?,
                None => lit(ScalarValue::try_from(&expr.get_type(schema)?)?),
            });
        }
        return Ok(Transformed::yes(match (settled.is_empty(), negated) {
            (false, _) => Expr::InList(InList::new(Box::new(expr.clone()), settled, *negated)),
            (true, false) => never(expr, &of)?,
            (true, true) => always(expr, &of)?,
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

/// A member of a list among the values of a type: `None` if it is neither a number nor null;
/// within, `None` for a number that is no value of the type; within that, `None` for null.
fn place(member: &Expr, of: &Exact) -> Option<Option<Option<i128>>> {
    if matches!(member, Expr::Literal(value, _) if value.is_null()) {
        return Some(Some(None));
    }
    let place = Number::of(member)?.place(of);
    Some(place.exact.then_some(Some(place.floor)))
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

    fn settled(expr: Expr) -> String {
        let rewritten = match expr {
            Expr::BinaryExpr(expr) => binary(expr, &schema()),
            Expr::Between(expr) => between(expr, &schema()),
            Expr::InList(expr) => in_list(expr, &schema()),
            other => panic!("{other}"),
        };
        rewritten.unwrap().data.to_string()
    }

    /// As coercion leaves it.
    fn wide(expr: Expr) -> Expr {
        cast(expr, DataType::Decimal128(30, 15))
    }

    fn double(expr: Expr) -> Expr {
        cast(expr, DataType::Float64)
    }

    #[test]
    fn numbers_are_compared_as_they_are_written() {
        assert_eq!(settled(wide(col("d")).eq(wide(lit(16.78)))), "d = Decimal128(16.78,4,2)");
        assert_eq!(settled(wide(col("d")).eq(wide(lit(16.785)))), "d > Decimal128(99.99,4,2)");
        assert_eq!(settled(wide(lit(16.785)).gt(wide(col("d")))), "d <= Decimal128(16.78,4,2)");
        assert_eq!(
            settled(wide(col("d")).eq(wide(lit(0.06) + lit(0.01)))),
            "d = Decimal128(0.07,4,2)"
        );
        assert_eq!(settled(double(col("i")).gt_eq(lit(2.5))), "i > Int8(2)");
        assert_eq!(settled(double(col("i")).lt(lit(1e30))), "i <= Int8(127)");
        assert_eq!(settled(double(col("i")).lt(lit(-1e30))), "i > Int8(127)");
        assert_eq!(settled(double(col("i")).gt(lit(-1e30))), "i <= Int8(127)");
        assert_eq!(
            settled(double(col("i")).between(lit(1.5), lit(2.5))),
            "i BETWEEN Int8(2) AND Int8(2)"
        );
        assert_eq!(
            settled(double(col("i")).between(lit(127.5), lit(1e9))),
            "i BETWEEN Int8(127) AND Int8(-128)"
        );
        assert_eq!(
            settled(double(col("i")).in_list(vec![lit(1.5), lit(2.0)], false)),
            "i IN ([Int8(2)])"
        );
        assert_eq!(settled(double(col("i")).in_list(vec![lit(1.5)], true)), "i <= Int8(127)");
        // A cast that rounds is no number, and a column in a list is none either. What the user
        // cast is there twice.
        let rounded = cast(cast(lit(1.5), DataType::Decimal128(3, 0)), DataType::Decimal128(3, 0));
        assert_eq!(settled(col("i").eq(rounded.clone())), col("i").eq(rounded).to_string());
        let list = double(col("i")).in_list(vec![lit(1.5), col("x")], false);
        assert_eq!(settled(list.clone()), list.to_string());
    }

    #[test]
    fn decimals_beside_doubles_are_doubles() {
        assert_eq!(settled(wide(col("d")).eq(wide(col("x")))), "CAST(d AS Float64) = x");
        assert_eq!(
            settled(wide(col("d")).between(wide(lit(0.5)), wide(col("x")))),
            "CAST(d AS Float64) BETWEEN Float64(0.5) AND x"
        );
        assert_eq!(
            settled(wide(col("d")).in_list(vec![wide(col("x"))], false)),
            "CAST(d AS Float64) IN ([x])"
        );
        let text = cast(lit("0.12345678901234567"), DataType::Decimal128(17, 17));
        assert_eq!(settled(wide(col("x")).eq(wide(text))), "x = Float64(0.12345678901234566)");
        assert_eq!(settled(double(col("i")).eq(col("x"))), "CAST(i AS Float64) = x");
    }
}
