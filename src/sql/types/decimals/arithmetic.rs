//! Sums, differences and products of a decimal and a number with a point: the number is the decimal
//! that it says.
//!
//! Where this stands on the road of a query: it takes part while a statement is planned, for there
//! the types of columns are settled. Beside doubles and integers the number stays a double, and
//! beside a decimal whose sum or product might need more than 38 digits. A quotient is what it
//! would be of the double, for DataFusion cuts quotients of decimals at scale + 4.

use arrow_schema::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::number::{MOST_DIGITS, Number, text_of_number};
use crate::sql::types::decimals::is_read_exactly;
use crate::sql::types::intervals::planned_type;
use crate::sql::walks::has_part;

/// Plans them.
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
            Plus | Minus | Multiply => {
                let (of_left, of_right) = (exact_literal(&left), exact_literal(&right));
                let beside = |number: Option<ScalarValue>, other: &Expr| {
                    let number = number?;
                    let fits = is_exact(&op, &planned_type(other, schema)?, &number.data_type());
                    fits.then(|| Expr::Literal(number, None))
                };
                if let Some(exact) = beside(of_right, &left) {
                    right = exact;
                } else if let Some(exact) = beside(of_left, &right) {
                    left = exact;
                } else {
                    (left, right) = (as_double(left), as_double(right));
                }
            }
            Divide => (left, right) = (of_quotient(left)?, of_quotient(right)?),
            Modulo => (left, right) = (as_double(left), as_double(right)),
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The decimal that a number with a point says: a literal, its negation, a sum, difference or
/// product of such and integers.
pub(in crate::sql) fn exact_literal(expr: &Expr) -> Option<ScalarValue> {
    if !is_written(expr) {
        return None;
    }
    Number::of(expr)?.decimal()
}

/// Whether an expression has the form of such a number.
pub(super) fn is_written(expr: &Expr) -> bool {
    has_point(expr, 0).is_some_and(|has_point| has_point || digits(expr).is_some())
}

/// How deep a number is looked for.
const MOST_NESTED: usize = 4;

/// Whether some part of a number is a double; `None` where it is no number.
fn has_point(expr: &Expr, depth: usize) -> Option<bool> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(_)), _) => Some(true),
        Expr::Literal(ScalarValue::Int64(Some(_)) | ScalarValue::UInt64(Some(_)), _) => Some(false),
        Expr::Cast(_) => digits(expr).map(|_| false),
        Expr::Negative(of) if depth < MOST_NESTED => has_point(of, depth + 1),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Plus | Operator::Minus | Operator::Multiply,
            right,
        }) if depth < MOST_NESTED => {
            let (left, right) = (has_point(left, depth + 1)?, has_point(right, depth + 1)?);
            Some(left || right)
        }
        _ => None,
    }
}

/// Returns the digits of a number that has more of them than a double keeps.
pub(super) fn digits(expr: &Expr) -> Option<&str> {
    text_of_number(expr).filter(|digits| !is_read_exactly(digits.trim_start_matches('-')))
}

/// Such a number as a double again.
pub(super) fn as_double(expr: Expr) -> Expr {
    match digits(&expr).and_then(|digits| digits.parse::<f64>().ok()) {
        Some(double) => lit(double),
        None => expr,
    }
}

/// A dividend or divisor: a double where a number with a point takes part.
fn of_quotient(expr: Expr) -> DataFusionResult<Expr> {
    let is_number = |part: &Expr| {
        matches!(part, Expr::Literal(ScalarValue::Decimal128(..), _)) || digits(part).is_some()
    };
    let expr = as_double(expr);
    Ok(if has_part(&expr, is_number) { cast(expr, DataType::Float64) } else { expr })
}

/// Whether a sum, difference or product of two types is a decimal that holds all of them.
fn is_exact(op: &BinaryOperator, left: &DataType, right: &DataType) -> bool {
    let digits = |of: &DataType| match of {
        DataType::Decimal128(precision, scale) => Some((i32::from(*precision), i32::from(*scale))),
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
    usize::try_from(needed).is_ok_and(|needed| needed <= MOST_DIGITS)
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
        use BinaryOperator::{Divide, Minus, Multiply, Plus};
        assert_eq!(planned(col("d"), Plus, lit(0.2)), "d + Decimal128(0.2,1,1)");
        assert_eq!(planned(-lit(1.25), Multiply, col("d")), "Decimal128(-1.25,3,2) * d");
        assert_eq!(planned(col("d"), Minus, lit(0.1) + lit(0.2)), "d - Decimal128(0.3,1,1)");
        assert_eq!(planned(col("w"), Plus, lit(0.5)), "w + Decimal128(0.5,1,1)");
        assert_eq!(planned(col("w"), Plus, lit(0.125)), "w + Float64(0.125)");
        assert_eq!(planned(col("w"), Multiply, lit(0.5)), "w * Float64(0.5)");
        assert_eq!(planned(col("d"), Plus, lit(1_i64)), "d + Int64(1)");
        assert_eq!(planned(col("i"), Multiply, lit(0.5)), "i * Float64(0.5)");
        assert_eq!(planned(col("x"), Multiply, lit(0.5)), "x * Float64(0.5)");
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
    fn digits_are_kept_beside_decimals_only() {
        use BinaryOperator::{Divide, Multiply, Plus};
        let long = || cast(lit("1.0000000000000000001"), DataType::Decimal128(20, 19));
        assert_eq!(planned(col("d"), Plus, long()), "d + Decimal128(1.0000000000000000001,20,19)");
        assert_eq!(planned(col("x"), Multiply, long()), "x * Float64(1)");
        assert_eq!(planned(long(), Divide, lit(2_i64)), "Float64(1) / Int64(2)");
        // The user's cast is what it says.
        let of_user = || {
            cast(
                cast(lit("1.0000000000000000001"), DataType::Utf8View),
                DataType::Decimal128(30, 20),
            )
        };
        assert_eq!(planned(of_user(), Divide, lit(2_i64)), format!("{} / Int64(2)", of_user()));
        assert_eq!(planned(col("d"), Plus, of_user()), format!("d + {}", of_user()));
        assert_eq!(planned(long(), Plus, lit(0.5)), {
            "CAST(Utf8(\"1.0000000000000000001\") AS Decimal128(20, 19)) + Decimal128(0.5,1,1)"
        });
    }
}
