//! Casts of fractions to integers, which round.
//!
//! DataFusion (55.2) cuts the digits behind the point off, although it rounds where a decimal
//! becomes one of fewer digits. In PostgreSQL and DuckDB both round: a half goes away from zero
//! where it is a decimal or is written in the statement, and to the even neighbour where it is a
//! float. Keys of partitions keep cutting, as their files do.
//!
//! Where this stands on the road of a query: two analyzer rules. Which casts are the statement's is
//! known before types are coerced, and what they are casts of is known afterwards: [`MarkCasts`]
//! puts a function into each of them, and [`RoundCasts`] takes it out again where there is nothing
//! to round.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, cast::AsArray};
use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::types::decimals::exact_literal;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The rule before types are coerced.
#[derive(Debug)]
pub(in crate::sql) struct MarkCasts;

impl AnalyzerRule for MarkCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, mark_casts))?.data)
    }

    fn name(&self) -> &'static str {
        "mark_casts"
    }
}

/// The rule after that.
#[derive(Debug)]
pub(in crate::sql) struct RoundCasts;

impl AnalyzerRule for RoundCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        if !any_expression(&plan, is_marked) {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_marked, unmark_casts))?.data)
    }

    fn name(&self) -> &'static str {
        "round_casts"
    }
}

/// What a cast to an integer is one of.
fn cast_to_integer(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            field.data_type().is_integer().then_some(&mut **expr)
        }
        _ => None,
    }
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            field.data_type().is_integer()
        }
        _ => false,
    }
}

fn is_marked(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == ROUND)
}

/// An expression whose casts to integers round, whatever is in them.
pub(in crate::sql) fn mark_casts(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let Some(of) = cast_to_integer(&mut expr).filter(|of| may_round(of, schema)) else {
            return Ok(Transformed::no(expr));
        };
        let number = exact_literal(of).map(|number| Expr::Literal(number, None));
        let function =
            ScalarUDF::from(Round { signature: Signature::any(1, Volatility::Immutable) });
        let given = number.unwrap_or_else(|| std::mem::take(of));
        *of = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![given]));
        Ok(Transformed::yes(expr))
    })
}

/// Whether there may be something to round. Types may be others once they are coerced, those of
/// columns of a UNION too.
fn may_round(of: &Expr, schema: &DFSchema) -> bool {
    match of {
        Expr::Literal(..) => of.get_type(schema).is_ok_and(|of| is_fraction(&of)),
        other => !is_marked(other),
    }
}

fn is_fraction(data_type: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64};
    matches!(data_type, Decimal128(_, 1..) | Float32 | Float64)
}

/// An expression in which nothing is rounded that is no fraction.
pub(in crate::sql) fn unmark_casts(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let Expr::ScalarFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
        match call.args.as_mut_slice() {
            [of] if call.func.name() == ROUND
                && of.get_type(schema).is_ok_and(|of| !is_fraction(&of)) =>
            {
                Ok(Transformed::yes(std::mem::take(of)))
            }
            _ => Ok(Transformed::no(expr)),
        }
    })
}

const ROUND: &str = "sty__rounded";

/// Fractions without digits behind the point, in the same type; all else as it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    signature: Signature,
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &'static str {
        ROUND
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> DataFusionResult<DataType> {
        of.first().cloned().ok_or_else(|| internal_datafusion_err!("{ROUND} has no argument"))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.into_iter().next() {
            Some(ColumnarValue::Array(values)) => {
                Ok(ColumnarValue::Array(without_fractions(&values)))
            }
            Some(ColumnarValue::Scalar(value)) => {
                let rounded = without_fractions(&value.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?))
            }
            None => Err(internal_datafusion_err!("{ROUND} has no argument")),
        }
    }
}

fn without_fractions(values: &ArrayRef) -> ArrayRef {
    if let Some(floats) = values.as_primitive_opt::<Float64Type>() {
        return Arc::new(floats.unary::<_, Float64Type>(f64::round_ties_even));
    }
    if let Some(floats) = values.as_primitive_opt::<Float32Type>() {
        return Arc::new(floats.unary::<_, Float32Type>(f32::round_ties_even));
    }
    match (values.as_primitive_opt::<Decimal128Type>(), values.data_type()) {
        (Some(decimals), DataType::Decimal128(_, scale @ 1..)) => {
            let one = 10_i128.pow(scale.unsigned_abs().into());
            let rounded = decimals.unary::<_, Decimal128Type>(|value| whole(value, one));
            // The next whole number may have a digit more than the type, which the cast around does
            // not mind.
            Arc::new(rounded.with_data_type(values.data_type().clone()))
        }
        _ => Arc::clone(values),
    }
}

/// The nearest multiple of a power of ten, and of two the one further from zero.
fn whole(value: i128, one: i128) -> i128 {
    // Numbers of 64 bits are divided much faster.
    if let (Ok(value), Ok(one)) = (i64::try_from(value), i64::try_from(one)) {
        let rest = value % one;
        let whole = i128::from(value - rest);
        return whole
            + i128::from(if rest.abs() >= one - rest.abs() { one * value.signum() } else { 0 });
    }
    let rest = value % one;
    let more = if rest.abs() >= one - rest.abs() { one * value.signum() } else { 0 };
    (value - rest).saturating_add(more)
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn halves_go_away_from_zero() {
        for (value, one, expected) in [
            (25, 10, 30),
            (-25, 10, -30),
            (24, 10, 20),
            (-24, 10, -20),
            (0, 10, 0),
            (9_999, 100, 10_000),
        ] {
            assert_eq!(whole(value, one), expected);
            let large = i128::from(i64::MAX);
            assert_eq!(whole(value * large, one * large), expected * large);
        }
        assert_eq!(whole(i64::MIN.into(), 10), -9_223_372_036_854_775_810);
        assert_eq!(whole(5, 10_i128.pow(38)), 0);
    }
}
