//! Properties of an expression of one column: whether it keeps order, and its bounds.
//!
//! Only what is certain counts. Integer arithmetic wraps in DataFusion, so a sum keeps order only
//! if its type leaves room for it; with a time zone, later instants may have earlier wall clocks.

use arrow_schema::DataType;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;

use crate::expr::{Part, Traits};
use crate::model::{Scalar, Schema};
use crate::sql::convert::to_scalar;

/// The greatest depth to which expressions are searched.
const MAX_DEPTH: usize = 64;

/// The traits of an expression over columns of this schema.
pub(super) fn traits(expr: &Expr, schema: &Schema) -> Traits {
    let Some(known) = ordered(expr, schema, 0) else {
        let byte_length = is_byte_length(expr, schema);
        return Traits { bounds: bounds(expr, schema), byte_length, ..Traits::default() };
    };
    let Ordered { integral, widening, .. } = known;
    Traits { monotone: true, integral, widening, ..Traits::default() }
}

/// Whether an expression is the number of bytes of a text, in a type that holds any.
fn is_byte_length(expr: &Expr, schema: &Schema) -> bool {
    match expr {
        Expr::Cast(cast) => {
            let wide = [DataType::Int32, DataType::Int64, DataType::Float64];
            wide.contains(cast.field.data_type())
                && !matches!(&*cast.expr, Expr::Cast(_))
                && is_byte_length(&cast.expr, schema)
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "octet_length" => {
            let [Expr::Column(name)] = args.as_slice() else { return false };
            let column = schema.position(&name.name).and_then(|at| schema.columns().get(at));
            column.is_some_and(|column| column.data_type.is_text())
        }
        _ => false,
    }
}

/// The minimum and maximum results of an expression that does not keep order.
fn bounds(expr: &Expr, schema: &Schema) -> Option<(i64, i64)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Modulo, right }) => match &**right {
            Expr::Literal(ScalarValue::Int64(Some(value)), _)
                if *value > 0 && is_strict(left, 0) =>
            {
                Some((1 - *value, *value - 1))
            }
            _ => None,
        },
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "date_part" => {
            match args.as_slice() {
                [Expr::Literal(part, _), Expr::Column(name)] => {
                    let column = schema.columns().get(schema.position(&name.name)?)?;
                    matches!(
                        column.data_type.to_arrow(),
                        DataType::Date32 | DataType::Timestamp(_, None)
                    )
                    .then(|| Part::from_name(part.try_as_str()??)?.bounds())?
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a null in any column of an expression makes it null.
fn is_strict(expr: &Expr, depth: usize) -> bool {
    match expr {
        _ if depth > MAX_DEPTH => false,
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(cast) => is_strict(&cast.expr, depth + 1),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let arithmetic = [
                Operator::Plus,
                Operator::Minus,
                Operator::Multiply,
                Operator::Divide,
                Operator::Modulo,
            ];
            arithmetic.contains(op) && is_strict(left, depth + 1) && is_strict(right, depth + 1)
        }
        _ => false,
    }
}

/// An expression of one column that keeps order.
struct Ordered {
    data_type: DataType,
    /// The minimum and maximum of its values, if they are integers.
    range: Option<(i128, i128)>,
    integral: bool,
    widening: bool,
}

impl Ordered {
    fn new(data_type: DataType) -> Self {
        Ordered { range: range(&data_type), data_type, integral: false, widening: false }
    }
}

fn ordered(expr: &Expr, schema: &Schema, depth: usize) -> Option<Ordered> {
    if depth > MAX_DEPTH {
        return None;
    }
    match expr {
        Expr::Column(name) => {
            let column = schema.columns().get(schema.position(&name.name)?)?;
            Some(Ordered { widening: true, ..Ordered::new(column.data_type.to_arrow()) })
        }
        Expr::Cast(cast) => {
            let inner = ordered(&cast.expr, schema, depth + 1)?;
            let to = cast.field.data_type();
            if inner.data_type == *to {
                return Some(inner);
            }
            let fits =
                range(to).zip(inner.range).map(|(to, from)| (to.0.max(from.0), to.1.min(from.1)));
            cast_keeps_order(&inner.data_type, to).then(|| Ordered {
                widening: inner.widening && is_exact(&inner.data_type, to),
                range: fits.or_else(|| range(to)),
                ..Ordered::new(to.clone())
            })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, op, &**right) {
            (inner, op, Expr::Literal(value, _)) => {
                arithmetic(&ordered(inner, schema, depth + 1)?, *op, value)
            }
            (Expr::Literal(value, _), op @ (Operator::Plus | Operator::Multiply), inner) => {
                arithmetic(&ordered(inner, schema, depth + 1)?, *op, value)
            }
            _ => None,
        },
        Expr::ScalarFunction(ScalarFunction { func, args }) => match (func.name(), args.as_slice())
        {
            (name @ ("date_part" | "date_trunc"), [Expr::Literal(part, _), inner]) => {
                date(name, part.try_as_str()??, &ordered(inner, schema, depth + 1)?)
            }
            ("round" | "floor" | "ceil" | "trunc", [inner]) => {
                let inner = ordered(inner, schema, depth + 1)?;
                let float = matches!(inner.data_type, DataType::Float32 | DataType::Float64);
                float.then(|| Ordered { integral: true, ..Ordered::new(inner.data_type) })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a cast that fails for values out of range keeps the order of the others.
fn cast_keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Float32, Float64, Timestamp};
    let number = |t: &DataType| t.is_integer() || matches!(t, Float32 | Float64);
    match (from, to) {
        (from, to) if number(from) && number(to) => true,
        (Boolean, to) => number(to),
        (Date32, Timestamp(_, None)) | (Timestamp(_, None), Date32 | Timestamp(_, None)) => true,
        _ => false,
    }
}

/// Whether each number of type `from` is also one of type `to`.
fn is_exact(from: &DataType, to: &DataType) -> bool {
    match (range(from), range(to), to) {
        (Some(from), Some(to), _) => to.0 <= from.0 && from.1 <= to.1,
        (Some(from), None, DataType::Float64) => from.0 >= -(1 << 53) && from.1 <= 1 << 53,
        (Some(from), None, DataType::Float32) => from.0 >= -(1 << 24) && from.1 <= 1 << 24,
        (None, None, DataType::Float64) => *from == DataType::Float32,
        _ => false,
    }
}

/// The minimum and maximum of an integer type.
fn range(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// `inner op value`.
fn arithmetic(inner: &Ordered, op: Operator, value: &ScalarValue) -> Option<Ordered> {
    if value.data_type() != inner.data_type {
        return None;
    }
    let rising = matches!(op, Operator::Plus | Operator::Minus);
    let scaling = matches!(op, Operator::Multiply | Operator::Divide);
    match to_scalar(value)?.0 {
        Scalar::Float(v) if v.is_finite() && (rising || (scaling && v > 0.0)) => {
            Some(Ordered::new(inner.data_type.clone()))
        }
        Scalar::Int(v) => {
            let (least, most) = inner.range?;
            let apply = |x: i128| match op {
                Operator::Plus => x.checked_add(v),
                Operator::Minus => x.checked_sub(v),
                Operator::Multiply if v > 0 => x.checked_mul(v),
                Operator::Divide if v > 0 => x.checked_div(v),
                _ => None,
            };
            let (from, to) = (apply(least)?, apply(most)?);
            let whole = range(&inner.data_type)?;
            let wraps = from < whole.0 || to > whole.1;
            (!wraps).then(|| Ordered {
                range: Some((from, to)),
                ..Ordered::new(inner.data_type.clone())
            })
        }
        _ => None,
    }
}

fn date(name: &str, part: &str, inner: &Ordered) -> Option<Ordered> {
    match (name, &inner.data_type) {
        ("date_part", DataType::Date32 | DataType::Timestamp(_, None))
            if part.eq_ignore_ascii_case("year") =>
        {
            Some(Ordered::new(DataType::Int32))
        }
        ("date_trunc", DataType::Timestamp(_, None)) => Some(Ordered::new(inner.data_type.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType as Arrow, TimeUnit};
    use datafusion::functions::expr_fn::{
        abs, ceil, coalesce, date_part, date_trunc, floor, round,
    };
    use datafusion::prelude::{cast, col, lit, try_cast};

    use super::*;
    use crate::model::{DataType as Stored, TimeUnit as Unit};

    fn known(expr: &Expr) -> Traits {
        let at = |zone: Option<&str>| Stored::Timestamp {
            unit: Unit::Microsecond,
            zone: zone.map(Into::into),
        };
        let columns = [
            ("b", Stored::UInt8),
            ("i", Stored::Int32),
            ("l", Stored::Int64),
            ("f", Stored::Float64),
            ("t", Stored::Utf8),
            ("d", Stored::Date),
            ("at", at(None)),
            ("zoned", at(Some("Europe/Berlin"))),
        ];
        traits(expr, &Schema::from_names(columns).unwrap())
    }

    #[test]
    fn order_is_kept_only_where_that_is_sure() {
        let long = |expr| cast(expr, Arrow::Int64);
        let micros = Arrow::Timestamp(TimeUnit::Microsecond, None);
        for expr in [
            col("f") + lit(1.5),
            lit(2.0) * col("f"),
            col("f") / lit(0.1),
            long(col("i")) + lit(1_i64),
            lit(1000_i64) * long(col("b")),
            long(col("i")) * lit(1_i64 << 31) - lit(5_i64),
            col("l") / lit(5_i64),
            cast(col("l") / lit(5_i64), Arrow::Float64),
            date_part(lit("YEAR"), col("d")),
            date_part(lit("year"), cast(col("d"), micros)),
            date_trunc(lit("month"), col("at")),
            round(vec![col("f") / lit(3.0)]),
            cast(col("at"), Arrow::Date32),
        ] {
            assert!(known(&expr).monotone, "{expr}");
        }
        for expr in [
            col("l") + lit(1_i64),
            lit(1_i64) - col("l"),
            lit(1.0) - col("f"),
            col("f") * lit(-1.0),
            col("f") * lit(0.0),
            col("f") + lit(f64::INFINITY),
            long(col("i")) * lit(1_i64 << 33),
            col("l") / lit(-5_i64),
            col("l") % lit(-5_i64),
            col("i") + lit(1_i32),
            date_part(lit("month"), col("zoned")),
            date_part(lit("year"), col("zoned")),
            date_trunc(lit("day"), col("zoned")),
            round(vec![col("f"), lit(1_i64)]),
            abs(col("f")),
            try_cast(col("l"), Arrow::Int32),
            cast(col("l"), Arrow::Utf8),
            cast(col("t"), Arrow::Int64),
        ] {
            assert_eq!(known(&expr), Traits::default(), "{expr}");
        }
    }

    #[test]
    fn bounds_are_known() {
        assert_eq!(known(&(col("l") % lit(5_i64))).bounds, Some((-4, 4)));
        assert_eq!(known(&date_part(lit("Month"), col("d"))).bounds, Some((1, 12)));
        assert_eq!(known(&date_part(lit("dow"), col("at"))).bounds, Some((0, 6)));
        assert_eq!(known(&date_part(lit("year"), col("at"))).bounds, None);
        // The expression has a value where the column is null.
        assert_eq!(known(&(coalesce(vec![col("l"), lit(7_i64)]) % lit(5_i64))).bounds, None);
    }

    #[test]
    fn whole_and_widened_numbers_are_known() {
        for expr in [
            floor(col("f")),
            ceil(col("f") * lit(2.0)),
            round(vec![cast(col("i"), Arrow::Float64)]),
        ] {
            assert!(known(&expr).integral, "{expr}");
        }
        assert!(!known(&(floor(col("f")) + lit(0.5))).integral);
        assert!(!known(&floor(col("l"))).integral);
        for (column, to, widens) in [
            ("b", Arrow::UInt64, true),
            ("b", Arrow::Int16, true),
            ("b", Arrow::Int8, false),
            ("i", Arrow::Int64, true),
            ("i", Arrow::UInt64, false),
            ("i", Arrow::Float64, true),
            ("i", Arrow::Float32, false),
            ("l", Arrow::Float64, false),
            ("f", Arrow::Int64, false),
            ("d", Arrow::Timestamp(TimeUnit::Microsecond, None), false),
        ] {
            assert_eq!(known(&cast(col(column), to.clone())).widening, widens, "{column} to {to}");
        }
        assert!(!known(&cast(cast(col("l"), Arrow::Int32), Arrow::Int64)).widening);
    }
}
