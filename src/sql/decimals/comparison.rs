//! Comparisons of what is exact with a number as it is written, and of decimals with doubles.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, lit};

use super::beside;
use super::number::{Exact, Number};

/// `a < b` and the like.
pub(super) fn binary(binary: BinaryExpr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    if !is_comparison(binary.op) {
        return computed(binary, schema);
    }
    let (left, right) = (exact_type(&binary.left, schema)?, exact_type(&binary.right, schema)?);
    match (left, right, Number::of(&binary.left), Number::of(&binary.right)) {
        (Some(of), _, None, Some(number)) => written(*binary.left, binary.op, &number, &of).map(Transformed::yes),
        (_, Some(of), Some(number), None) => match binary.op.swap() {
            Some(op) => written(*binary.right, op, &number, &of).map(Transformed::yes),
            None => Ok(Transformed::no(Expr::BinaryExpr(binary))),
        },
        _ => Ok(match beside(&[&binary.left, &binary.right], schema)?.as_deref() {
            Some([left, right]) => Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left.clone()),
                binary.op,
                Box::new(right.clone()),
            ))),
            _ => Transformed::no(Expr::BinaryExpr(binary)),
        }),
    }
}

/// A sum or product of a decimal and a number, as decimals. Quotients stay doubles.
fn computed(binary: BinaryExpr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    use Operator::{Minus, Modulo, Multiply, Plus};
    let as_decimal = |number: &Expr, other: &Expr| -> DataFusionResult<Option<Expr>> {
        let decimal = match number {
            Expr::Literal(ScalarValue::Float64(_), _) => Number::of(number).and_then(|number| number.decimal()),
            _ => None,
        };
        match decimal {
            Some(decimal) if other.get_type(schema)?.is_decimal() => Ok(Some(Expr::Literal(decimal, None))),
            _ => Ok(None),
        }
    };
    let BinaryExpr { left, op, right } = &binary;
    if !matches!(op, Plus | Minus | Multiply | Modulo) {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    let (left, right) = match (as_decimal(left, right)?, as_decimal(right, left)?) {
        (Some(decimal), _) => (Box::new(decimal), right.clone()),
        (_, Some(decimal)) => (left.clone(), Box::new(decimal)),
        (None, None) => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
    };
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, *op, right))))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn exact_type(expr: &Expr, schema: &DFSchema) -> DataFusionResult<Option<Exact>> {
    Ok(Exact::of(&expr.get_type(schema)?))
}

/// An expression compared with a number, both in the expression's type. `x > 2.5` is `x > 2` of integers, and a comparison
/// that no value or each one passes is one with the type's greatest value, so that null stays null.
fn written(expr: Expr, op: Operator, number: &Number, of: &Exact) -> DataFusionResult<Expr> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let place = number.place(of);
    let compare = |op, value: i128| {
        let value = of.literal(value)?;
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(expr.clone()), op, Box::new(value))))
    };
    match op {
        IsDistinctFrom | IsNotDistinctFrom if !place.exact => Ok(lit(op == IsDistinctFrom)),
        Eq if !place.exact => never(&expr, of),
        NotEq if !place.exact => always(&expr, of),
        Lt | LtEq if place.floor < of.least() => never(&expr, of),
        Gt | GtEq if place.floor < of.least() => always(&expr, of),
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

/// `x BETWEEN a AND b`, of which the bounds may be numbers.
pub(super) fn between(between: Between, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Between { expr, low, high, negated } = &between;
    let is_settled = |bound: &Expr| -> DataFusionResult<bool> {
        Ok(Number::of(bound).is_some() || !bound.get_type(schema)?.is_floating())
    };
    let bounds = (Number::of(low), Number::of(high));
    let of = exact_type(expr, schema)?.filter(|_| bounds != (None, None));
    if let (Some(of), true, true) = (of, is_settled(low)?, is_settled(high)?) {
        let at = |number: &Option<Number>| number.as_ref().map(|number| number.place(&of));
        let (from, to) = (at(&bounds.0), at(&bounds.1));
        // The least value that is not less.
        let from = from.map(|place| if place.exact { place.floor } else { place.floor + 1 });
        let to = to.map(|place| place.floor);
        let none = from.is_some_and(|from| from > of.greatest()) || to.is_some_and(|to| to < of.least());
        let bound = |value: Option<i128>, as_it_is: &Expr| match value {
            Some(value) => of.literal(value),
            None => Ok(as_it_is.clone()),
        };
        let (low, high) = match none {
            true => (of.literal(of.greatest())?, of.literal(of.least())?),
            false => (bound(from, low)?, bound(to, high)?),
        };
        let settled = Between::new(expr.clone(), *negated, Box::new(low), Box::new(high));
        return Ok(Transformed::yes(Expr::Between(settled)));
    }
    Ok(match beside(&[expr, low, high], schema)?.as_deref() {
        Some([expr, low, high]) => {
            let (expr, low, high) = (Box::new(expr.clone()), Box::new(low.clone()), Box::new(high.clone()));
            Transformed::yes(Expr::Between(Between::new(expr, *negated, low, high)))
        }
        _ => Transformed::no(Expr::Between(between)),
    })
}

/// `x IN (a, …)`, of which some may be numbers.
pub(super) fn in_list(list: InList, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let mut is_settled = true;
    for member in &list.list {
        is_settled &= Number::of(member).is_some() || !member.get_type(schema)?.is_floating();
    }
    let has_number = list.list.iter().any(|member| Number::of(member).is_some());
    let of = exact_type(&list.expr, schema)?.filter(|_| is_settled && has_number);
    if let Some(of) = of {
        let mut members = Vec::with_capacity(list.list.len());
        for member in list.list {
            match Number::of(&member).map(|number| number.place(&of)) {
                None => members.push(member),
                Some(place) if place.exact => members.push(of.literal(place.floor)?),
                // No value of the type is this number.
                Some(_) => {}
            }
        }
        let settled = match (members.is_empty(), list.negated) {
            (false, _) => Expr::InList(InList::new(list.expr, members, list.negated)),
            (true, false) => never(&list.expr, &of)?,
            (true, true) => always(&list.expr, &of)?,
        };
        return Ok(Transformed::yes(settled));
    }
    let group: Vec<&Expr> = std::iter::once(list.expr.as_ref()).chain(&list.list).collect();
    Ok(match beside(&group, schema)? {
        Some(settled) => {
            let mut settled = settled.into_iter();
            let expr = settled.next().unwrap_or_else(|| lit(ScalarValue::Null));
            Transformed::yes(Expr::InList(InList::new(Box::new(expr), settled.collect(), list.negated)))
        }
        None => Transformed::no(Expr::InList(list)),
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};
    use datafusion::prelude::{cast, col};

    use super::*;

    fn schema() -> DFSchema {
        let field = |name, of| Field::new(name, of, true);
        let fields =
            vec![field("d", DataType::Decimal128(4, 2)), field("i", DataType::Int8), field("x", DataType::Float64)];
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

    #[test]
    fn numbers_are_compared_as_they_are_written() {
        assert_eq!(settled(col("d").eq(lit(16.78))), "d = Decimal128(Some(1678),4,2)");
        assert_eq!(settled(col("d").eq(lit(16.785))), "d > Decimal128(Some(9999),4,2)");
        assert_eq!(settled(lit(16.785).gt(col("d"))), "d <= Decimal128(Some(1678),4,2)");
        assert_eq!(settled(col("i").gt_eq(lit(2.5))), "i > Int8(2)");
        assert_eq!(settled(col("i").lt(lit(1e30))), "i <= Int8(127)");
        assert_eq!(settled(col("i").lt(lit(-1e30))), "i > Int8(127)");
        assert_eq!(settled(col("i").gt(lit(-1e30))), "i <= Int8(127)");
        assert_eq!(settled(col("i").between(lit(1.5), lit(2.5))), "i BETWEEN Int8(2) AND Int8(2)");
        assert_eq!(settled(col("i").between(lit(127.5), lit(1e9))), "i BETWEEN Int8(127) AND Int8(-128)");
        assert_eq!(settled(col("i").in_list(vec![lit(1.5), lit(2.0), col("i")], false)), "i IN ([Int8(2), i])");
        assert_eq!(settled(col("i").in_list(vec![lit(1.5)], true)), "i <= Int8(127)");
    }

    #[test]
    fn decimals_beside_doubles_are_doubles() {
        assert_eq!(settled(col("d").eq(col("x"))), "CAST(d AS Float64) = x");
        assert_eq!(settled(col("d").between(lit(0.5), col("x"))), "CAST(d AS Float64) BETWEEN Float64(0.5) AND x");
        assert_eq!(settled(col("d").in_list(vec![col("x")], false)), "CAST(d AS Float64) IN ([x])");
        let text = cast(lit("0.12345678901234567"), DataType::Decimal128(17, 17));
        assert_eq!(settled(col("x").eq(text)), "x = Float64(0.12345678901234566)");
        assert_eq!(settled(col("i").eq(col("x"))), "i = x");
    }
}
