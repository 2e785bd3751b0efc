//! Decimals that are cast to floats become the nearest float.
//!
//! Where this stands on the road of a query: an analyzer rule, after all rules that add casts.
//! DataFusion (55.2) turns the digits into a double and divides that by a power of ten, which
//! rounds twice if the digits need more than 53 bits, or if the power does. Here a function
//! stands in place of each cast that may round twice. Decimals of at most 15 digits keep their
//! cast to a double.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// Powers of ten up to this exponent are doubles.
const MAX_EXACT_EXPONENT: usize = 22;
/// Integers of at most so many digits are doubles.
const MAX_EXACT_DIGITS: u8 = 15;
/// Integers up to this one are doubles.
const MAX_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// The rule of this module.
#[derive(Debug)]
pub(in crate::sql) struct NearestFloats;

impl AnalyzerRule for NearestFloats {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, rewrite))?.data)
    }

    fn name(&self) -> &'static str {
        "nearest_floats"
    }
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            matches!(field.data_type(), DataType::Float32 | DataType::Float64)
        }
        _ => false,
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let (Expr::Cast(Cast { expr: operand, field })
        | Expr::TryCast(TryCast { expr: operand, field })) = &mut expr
        else {
            return Ok(Transformed::no(expr));
        };
        let single = match field.data_type() {
            DataType::Float64 => false,
            DataType::Float32 => true,
            _ => return Ok(Transformed::no(expr)),
        };
        // An expression without a type here is refused by DataFusion later.
        let Ok(from) = operand.get_type(schema) else { return Ok(Transformed::no(expr)) };
        if !may_round_twice(&from, single) {
            return Ok(Transformed::no(expr));
        }
        let function = if single { single_function() } else { double_function() };
        let arguments = vec![std::mem::take(operand.as_mut())];
        Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(function),
            arguments,
        ))))
    })
}

/// Whether the cast of DataFusion may give another float than the nearest one.
fn may_round_twice(from: &DataType, single: bool) -> bool {
    let DataType::Decimal128(digits, scale) = from else { return false };
    let is_exact = usize::try_from(*scale).is_ok_and(|scale| scale <= MAX_EXACT_EXPONENT);
    single || *digits > MAX_EXACT_DIGITS || !is_exact
}

/// The function that turns decimals into doubles.
pub(in crate::sql) fn double_function() -> ScalarUDF {
    ScalarUDF::from(Nearest { single: false, signature: Signature::any(1, Volatility::Immutable) })
}

/// The function that turns decimals into floats of 32 bits.
pub(in crate::sql) fn single_function() -> ScalarUDF {
    ScalarUDF::from(Nearest { single: true, signature: Signature::any(1, Volatility::Immutable) })
}

/// Turns decimals into the nearest floats.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Nearest {
    single: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Nearest {
    fn name(&self) -> &'static str {
        if self.single { "sty__nearest_float" } else { "sty__nearest_double" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(if self.single { DataType::Float32 } else { DataType::Float64 })
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.into_iter().next() {
            Some(ColumnarValue::Array(values)) => {
                Ok(ColumnarValue::Array(nearest(&values, self.single)?))
            }
            Some(ColumnarValue::Scalar(value)) => {
                let nearest = nearest(&value.to_array()?, self.single)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&nearest, 0)?))
            }
            None => internal_err!("{} has no argument", self.name()),
        }
    }
}

fn nearest(values: &ArrayRef, single: bool) -> DataFusionResult<ArrayRef> {
    let (Some(decimals), DataType::Decimal128(_, scale)) =
        (values.as_primitive_opt::<Decimal128Type>(), values.data_type())
    else {
        return internal_err!("a float is made of {}", values.data_type());
    };
    let scale = *scale;
    // The slots of nulls may hold anything.
    Ok(match single {
        false => Arc::new(decimals.unary::<_, Float64Type>(|digits| to_double(digits, scale))),
        true => Arc::new(decimals.unary::<_, Float32Type>(|digits| to_single(digits, scale))),
    })
}

/// The double nearest to `digits` times ten to the power of `-scale`.
fn to_double(digits: i128, scale: i8) -> f64 {
    const POWERS: [f64; MAX_EXACT_EXPONENT + 1] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    let power = usize::try_from(scale).ok().and_then(|scale| POWERS.get(scale));
    match power {
        // Both are exact, so that only the division rounds.
        Some(power) if digits.unsigned_abs() <= u128::from(MAX_EXACT) => digits as f64 / power,
        _ if scale == 0 => digits as f64,
        _ => written_out(digits, scale).parse().unwrap_or(f64::NAN),
    }
}

/// The float of 32 bits that is nearest to the same number.
fn to_single(digits: i128, scale: i8) -> f32 {
    /// The bits of a double that a float of 32 bits does not have.
    const LOST: u64 = (1 << (f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS)) - 1;
    const HALF: u64 = LOST.div_ceil(2);
    let double = to_double(digits, scale);
    // A double half-way between two floats may itself be rounded, and tiny floats lose more bits.
    let is_half = double.to_bits() & LOST == HALF;
    let is_tiny = double.abs() < f64::from(f32::MIN_POSITIVE) * 2.0 && digits != 0;
    match is_half || is_tiny {
        true => written_out(digits, scale).parse().unwrap_or(f32::NAN),
        false => double as f32,
    }
}

fn written_out(digits: i128, scale: i8) -> String {
    format!("{digits}e{}", -i16::from(scale))
}

#[cfg(test)]
mod tests {
    use super::{to_double, to_single};

    #[test]
    fn floats_are_the_nearest() {
        let all = [
            (1_234_567_890_123_456_789, 2),
            (123_456_789_012_345_678, 1),
            (90_071_992_547_409_935, 1),
            (90_071_992_547_409_930, 1),
            (9_007_199_254_740_993, 0),
            (-123_456_789_012_345_678_901, 10),
            (1_234_567_890_123_456_789, 30),
            (i128::from(i64::MAX), 18),
            (10_i128.pow(38) - 1, 38),
            (10_i128.pow(38) - 1, 0),
            (1, 38),
            (0, 38),
            (7, 23),
            (16_777_217, 0),
            (16_777_219, 0),
            (167_772_170_000_000_001, 10),
            (33_554_434_000_000_002, 9),
            (5, -3),
        ];
        for (digits, scale) in all {
            let text = format!("{digits}e{}", -i32::from(scale));
            assert_eq!(to_double(digits, scale), text.parse::<f64>().unwrap(), "{text}");
            assert_eq!(to_single(digits, scale), text.parse::<f32>().unwrap(), "{text}");
        }
    }
}
