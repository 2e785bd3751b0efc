//! Sums, differences, products and remainders of a decimal and a number with a point: the number
//! becomes an exact decimal. So it does in remainders of integers.
//!
//! Where this stands on the road of a query: while a statement is planned, because the types of its
//! columns are determined then. Beside doubles and, but for remainders, integers the number stays a
//! double, and also if the result with a decimal might need more than 38 digits. Quotients are
//! computed of doubles, because DataFusion truncates quotients of decimals at scale + 4. Quotients
//! of decimals are computed with 76 digits where the dividend might not fit into 38 in between.

use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::number::{MAX_DIGITS, Number, is_read_exactly, literal_text};
use crate::sql::types::intervals::planned_type;
use crate::sql::walks::has_part;

/// Plans these operations.
#[derive(Debug)]
pub(in crate::sql) struct DecimalArithmetic;

impl ExprPlanner for DecimalArithmetic {
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DataFusionResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
        let RawBinaryExpr { op, mut left, mut right } = operation;
        match op {
            Plus | Minus | Multiply | Modulo => {
                let (left_number, right_number) = (exact_literal(&left), exact_literal(&right));
                let decimal_beside = |number: Option<ScalarValue>, other: &Expr| {
                    let number = number?;
                    let fits = is_exact(&op, &planned_type(other, schema)?, &number.data_type());
                    fits.then(|| Expr::Literal(number, None))
                };
                if let Some(exact) = decimal_beside(right_number, &left) {
                    right = exact;
                } else if let Some(exact) = decimal_beside(left_number, &right) {
                    left = exact;
                } else {
                    (left, right) = (to_double(left), to_double(right));
                }
            }
            Divide => {
                (left, right) = (quotient_operand(left)?, quotient_operand(right)?);
                let types = (planned_type(&left, schema), planned_type(&right, schema));
                if let (Some(dividend), Some(divisor)) = types
                    && let Some(quotient) = quotient(&dividend, &divisor)
                    && quotient.is_wide_between
                {
                    return Ok(PlannerResult::Planned(quotient.of(left, right)));
                }
            }
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The exact decimal of a number with a point: a literal, its negation, or a sum, difference or
/// product of such numbers and integers.
pub(in crate::sql) fn exact_literal(expr: &Expr) -> Option<ScalarValue> {
    if !is_exact_literal(expr) {
        return None;
    }
    Number::from_expr(expr)?.to_decimal()
}

/// Whether an expression has the form of such a number.
pub(super) fn is_exact_literal(expr: &Expr) -> bool {
    has_point(expr, 0).is_some_and(|has_point| has_point || lossy_digits(expr).is_some())
}

/// How deeply nested a number may be.
const MAX_NESTING: usize = 4;

/// Whether some part of a number is a double; `None` if the expression is not a number.
fn has_point(expr: &Expr, depth: usize) -> Option<bool> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(_)), _) => Some(true),
        Expr::Literal(ScalarValue::Int64(Some(_)) | ScalarValue::UInt64(Some(_)), _) => Some(false),
        Expr::Cast(_) => lossy_digits(expr).map(|_| false),
        Expr::Negative(operand) if depth < MAX_NESTING => has_point(operand, depth + 1),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Plus | Operator::Minus | Operator::Multiply,
            right,
        }) if depth < MAX_NESTING => {
            let (left, right) = (has_point(left, depth + 1)?, has_point(right, depth + 1)?);
            Some(left || right)
        }
        _ => None,
    }
}

/// The digits of a number, if a double would round them.
pub(super) fn lossy_digits(expr: &Expr) -> Option<&str> {
    literal_text(expr).filter(|digits| !is_read_exactly(digits.trim_start_matches('-')))
}

/// Turns such a number back into a double.
pub(super) fn to_double(expr: Expr) -> Expr {
    match lossy_digits(&expr).and_then(|digits| digits.parse::<f64>().ok()) {
        Some(double) => lit(double),
        None => expr,
    }
}

/// A dividend or divisor: cast to a double if it contains a number with a point.
fn quotient_operand(expr: Expr) -> DataFusionResult<Expr> {
    let is_number = |part: &Expr| {
        matches!(part, Expr::Literal(ScalarValue::Decimal128(..), _))
            || lossy_digits(part).is_some()
    };
    let expr = to_double(expr);
    Ok(if has_part(&expr, is_number) { cast(expr, DataType::Float64) } else { expr })
}

/// A quotient of decimals, one of which may be an integer.
#[derive(Debug)]
struct Quotient {
    dividend: (u8, i8),
    divisor: (u8, i8),
    /// Four places more than the dividend has.
    scale: i8,
    /// The dividend is made so many powers of ten larger first that it may not fit into 38 digits,
    /// even if the quotient does: DataFusion answers with an error then.
    is_wide_between: bool,
}

/// The quotient of two types, if DataFusion computes it of decimals.
fn quotient(dividend: &DataType, divisor: &DataType) -> Option<Quotient> {
    if !dividend.is_decimal() && !divisor.is_decimal() {
        return None;
    }
    let digits = |data_type: &DataType| match data_type {
        DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
        other if other.is_integer() => Some((INTEGER_DIGITS as u8, 0)),
        _ => None,
    };
    let (dividend, divisor) = (digits(dividend)?, digits(divisor)?);
    let scale = dividend.1.saturating_add(4).min(DECIMAL128_MAX_SCALE);
    let grows = i32::from(scale) - i32::from(dividend.1) + i32::from(divisor.1);
    let is_wide_between = i32::from(dividend.0) + grows > i32::from(DECIMAL128_MAX_PRECISION);
    Some(Quotient { dividend, divisor, scale, is_wide_between })
}

impl Quotient {
    /// Computes it with 76 digits in between.
    fn of(&self, dividend: Expr, divisor: Expr) -> Expr {
        let wide = |expr, (precision, scale)| cast(expr, DataType::Decimal256(precision, scale));
        let quotient = wide(dividend, self.dividend) / wide(divisor, self.divisor);
        cast(quotient, DataType::Decimal128(DECIMAL128_MAX_PRECISION, self.scale))
    }
}

/// The digits of a decimal that holds all integers, which is what DataFusion makes of them.
const INTEGER_DIGITS: i32 = 20;

/// Whether the result of two types is a decimal that holds every value of theirs.
fn is_exact(op: &BinaryOperator, left: &DataType, right: &DataType) -> bool {
    let is_remainder = *op == BinaryOperator::Modulo;
    let digits = |data_type: &DataType| match data_type {
        DataType::Decimal128(precision, scale) => Some((i32::from(*precision), i32::from(*scale))),
        other if is_remainder && other.is_integer() => Some((INTEGER_DIGITS, 0)),
        _ => None,
    };
    let (Some((left, left_scale)), Some((right, right_scale))) = (digits(left), digits(right))
    else {
        return false;
    };
    let needed = match op {
        BinaryOperator::Multiply => left + right + 1,
        _ => (left - left_scale).max(right - right_scale) + left_scale.max(right_scale) + 1,
    };
    usize::try_from(needed).is_ok_and(|needed| needed <= MAX_DIGITS)
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};
    use datafusion::prelude::col;

    use super::*;

    fn planned(left: Expr, op: BinaryOperator, right: Expr) -> String {
        let field = |name, of| Field::new(name, of, true);
        let fields = vec![
            field("d", DataType::Decimal128(10, 2)),
            field("w", DataType::Decimal128(37, 2)),
            field("i", DataType::Int64),
            field("x", DataType::Float64),
        ];
        let schema = DFSchema::try_from(Schema::new(fields)).unwrap();
        match DecimalArithmetic.plan_binary_op(RawBinaryExpr { op, left, right }, &schema).unwrap()
        {
            PlannerResult::Original(RawBinaryExpr { op, left, right }) => {
                format!("{left} {op} {right}")
            }
            PlannerResult::Planned(expr) => expr.to_string(),
        }
    }

    #[test]
    fn numbers_beside_decimals_are_decimals() {
        use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
        assert_eq!(planned(col("d"), Plus, lit(0.2)), "d + Decimal128(0.2,1,1)");
        assert_eq!(planned(-lit(1.25), Multiply, col("d")), "Decimal128(-1.25,3,2) * d");
        assert_eq!(planned(col("d"), Minus, lit(0.1) + lit(0.2)), "d - Decimal128(0.3,1,1)");
        assert_eq!(planned(col("w"), Plus, lit(0.5)), "w + Decimal128(0.5,1,1)");
        assert_eq!(planned(col("w"), Plus, lit(0.125)), "w + Float64(0.125)");
        assert_eq!(planned(col("w"), Multiply, lit(0.5)), "w * Float64(0.5)");
        assert_eq!(planned(col("d"), Plus, lit(1_i64)), "d + Int64(1)");
        assert_eq!(planned(col("i"), Multiply, lit(0.5)), "i * Float64(0.5)");
        assert_eq!(planned(col("x"), Multiply, lit(0.5)), "x * Float64(0.5)");
        assert_eq!(planned(col("d"), Modulo, lit(0.1)), "d % Decimal128(0.1,1,1)");
        assert_eq!(planned(lit(7.5), Modulo, col("i")), "Decimal128(7.5,2,1) % i");
        assert_eq!(planned(col("x"), Modulo, lit(0.1)), "x % Float64(0.1)");
        assert_eq!(planned(col("d"), Multiply, cast(lit(0.5), DataType::Float64)), {
            "d * CAST(Float64(0.5) AS Float64)"
        });
        assert_eq!(planned(col("d"), Divide, lit(0.5)), "d / Float64(0.5)");
        let product = col("d") * Expr::Literal(ScalarValue::Decimal128(Some(11), 2, 1), None);
        assert_eq!(planned(product, Divide, lit(3_i64)), {
            "CAST(d * Decimal128(1.1,2,1) AS Float64) / Int64(3)"
        });
    }

    #[test]
    fn quotients_of_many_digits_have_more_in_between() {
        use BinaryOperator::Divide;
        assert_eq!(planned(col("d"), Divide, col("d")), "d / d");
        assert_eq!(planned(col("i"), Divide, col("d")), "i / d");
        assert_eq!(planned(col("w"), Divide, col("x")), "w / x");
        assert_eq!(planned(col("w"), Divide, col("i")), {
            "CAST(CAST(w AS Decimal256(37, 2)) / CAST(i AS Decimal256(20, 0)) AS Decimal128(38, 6))"
        });
    }

    #[test]
    fn digits_are_kept_only_beside_decimals() {
        use BinaryOperator::{Divide, Multiply, Plus};
        let long = || cast(lit("1.0000000000000000001"), DataType::Decimal128(20, 19));
        assert_eq!(planned(col("d"), Plus, long()), "d + Decimal128(1.0000000000000000001,20,19)");
        assert_eq!(planned(col("x"), Multiply, long()), "x * Float64(1)");
        assert_eq!(planned(long(), Divide, lit(2_i64)), "Float64(1) / Int64(2)");
        // A cast of the user stays as it is.
        let user_cast = || {
            cast(
                cast(lit("1.0000000000000000001"), DataType::Utf8View),
                DataType::Decimal128(30, 20),
            )
        };
        assert_eq!(planned(user_cast(), Divide, lit(2_i64)), format!("{} / Int64(2)", user_cast()));
        assert_eq!(planned(col("d"), Plus, user_cast()), format!("d + {}", user_cast()));
        assert_eq!(planned(long(), Plus, lit(0.5)), {
            "CAST(Utf8(\"1.0000000000000000001\") AS Decimal128(20, 19)) + Decimal128(0.5,1,1)"
        });
    }
}
