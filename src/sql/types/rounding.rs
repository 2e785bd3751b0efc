//! Rounds fractions that are cast to integers.
//!
//! DataFusion (55.2) truncates them, although it rounds a decimal that is cast to one of fewer
//! digits. In PostgreSQL and DuckDB both casts round: halves away from zero for decimals and for
//! numbers in the statement, and halves to even for floats. Partition keys still truncate, as their
//! files do.
//!
//! Where this stands on the road of a query: two analyzer rules. Which casts belong to the
//! statement is known before types are coerced, and the types of their operands are known
//! afterwards: [`MarkCasts`] puts a function into each of them, and [`RoundCasts`] removes it where
//! there is nothing to round. The first one also puts a function into casts of texts to lists
//! (`types/list_texts`).

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
use crate::sql::types::list_texts::split_in_casts;
use crate::sql::walks::{any_expression, rewrite_plan, rewrite_up, rewrite_where};

/// The rule that runs before types are coerced.
#[derive(Debug)]
pub(in crate::sql) struct MarkCasts;

impl AnalyzerRule for MarkCasts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DataFusionResult<LogicalPlan> {
        let plan = split_in_casts(plan)?;
        if !any_expression(&plan, is_candidate) {
            return Ok(plan);
        }
        Ok(rewrite_plan(plan, |node| rewrite_where(node, is_candidate, mark_casts))?.data)
    }

    fn name(&self) -> &'static str {
        "mark_casts"
    }
}

/// The rule that runs after types are coerced.
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

fn integer_cast_operand(expr: &mut Expr) -> Option<&mut Expr> {
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

/// Makes the casts to integers in an expression round, whatever their operands are.
pub(in crate::sql) fn mark_casts(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let Some(operand) =
            integer_cast_operand(&mut expr).filter(|operand| may_round(operand, schema))
        else {
            return Ok(Transformed::no(expr));
        };
        let number = exact_literal(operand).map(|number| Expr::Literal(number, None));
        let function = function();
        let argument = number.unwrap_or_else(|| std::mem::take(operand));
        *operand =
            Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![argument]));
        Ok(Transformed::yes(expr))
    })
}

/// Whether there may be something to round. Coercion may still change the type of anything but a
/// literal, even that of a column of a UNION.
fn may_round(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(..) => expr.get_type(schema).is_ok_and(|data_type| is_fraction(&data_type)),
        other => !is_marked(other),
    }
}

fn is_fraction(data_type: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64};
    matches!(data_type, Decimal128(_, 1..) | Float32 | Float64)
}

/// Removes the marks from casts in an expression whose operands are not fractions.
pub(in crate::sql) fn unmark_casts(
    expr: Expr,
    schema: &DFSchema,
) -> DataFusionResult<Transformed<Expr>> {
    rewrite_up(expr, |mut expr| {
        let Expr::ScalarFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
        match call.args.as_mut_slice() {
            [operand]
                if call.func.name() == ROUND
                    && operand.get_type(schema).is_ok_and(|data_type| !is_fraction(&data_type)) =>
            {
                Ok(Transformed::yes(std::mem::take(operand)))
            }
            _ => Ok(Transformed::no(expr)),
        }
    })
}

const ROUND: &str = "sty__rounded";

/// The function that rounds.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(Round { signature: Signature::any(1, Volatility::Immutable) })
}

/// Rounds fractions to integers of the same type; returns other values as they are.
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

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        arguments
            .first()
            .cloned()
            .ok_or_else(|| internal_datafusion_err!("{ROUND} has no argument"))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.into_iter().next() {
            Some(ColumnarValue::Array(values)) => Ok(ColumnarValue::Array(rounded(&values))),
            Some(ColumnarValue::Scalar(value)) => {
                let rounded = rounded(&value.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?))
            }
            None => Err(internal_datafusion_err!("{ROUND} has no argument")),
        }
    }
}

fn rounded(values: &ArrayRef) -> ArrayRef {
    if let Some(floats) = values.as_primitive_opt::<Float64Type>() {
        return Arc::new(floats.unary::<_, Float64Type>(f64::round_ties_even));
    }
    if let Some(floats) = values.as_primitive_opt::<Float32Type>() {
        return Arc::new(floats.unary::<_, Float32Type>(f32::round_ties_even));
    }
    match (values.as_primitive_opt::<Decimal128Type>(), values.data_type()) {
        (Some(decimals), DataType::Decimal128(_, scale @ 1..)) => {
            let one = 10_i128.pow(scale.unsigned_abs().into());
            let rounded = decimals.unary::<_, Decimal128Type>(|value| round_half_away(value, one));
            // A rounded value may have one digit more than the type allows. The cast to an integer
            // around this function accepts that.
            Arc::new(rounded.with_data_type(values.data_type().clone()))
        }
        _ => Arc::clone(values),
    }
}

/// The nearest multiple of `one`, a power of ten. Halves are rounded away from zero.
fn round_half_away(value: i128, one: i128) -> i128 {
    // Division is much faster in 64 bits.
    if let (Ok(value), Ok(one)) = (i64::try_from(value), i64::try_from(one)) {
        let rest = value % one;
        let truncated = i128::from(value - rest);
        return truncated
            + i128::from(if rest.abs() >= one - rest.abs() { one * value.signum() } else { 0 });
    }
    let rest = value % one;
    let more = if rest.abs() >= one - rest.abs() { one * value.signum() } else { 0 };
    (value - rest).saturating_add(more)
}

#[cfg(test)]
mod tests {
    use super::round_half_away;

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
            assert_eq!(round_half_away(value, one), expected);
            let large = i128::from(i64::MAX);
            assert_eq!(round_half_away(value * large, one * large), expected * large);
        }
        assert_eq!(round_half_away(i64::MIN.into(), 10), -9_223_372_036_854_775_810);
        assert_eq!(round_half_away(5, 10_i128.pow(38)), 0);
    }
}
