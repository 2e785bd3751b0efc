//! Turns decimals that are compared with floats into doubles.

use arrow_schema::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};

use super::number::{Number, cast_text};

/// Whether coercion has cast a float to a decimal, which would be an error for a NaN, an infinity
/// or too large a number. A cast of the user is not taken for one of coercion, because
/// [`user_casts`](super::user_casts) has doubled it.
pub(super) fn is_float_as_decimal(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Cast(cast) = expr else { return false };
    cast.field.data_type().is_decimal()
        && cast.expr.get_type(schema).is_ok_and(|inner| inner.is_floating())
        && (Number::from_expr(expr).is_none() || Number::is_rounded(expr))
}

/// Compared expressions as doubles, if one of them is a float that is not a literal number.
pub(super) fn as_doubles(
    group: &[&Expr],
    schema: &DFSchema,
) -> DataFusionResult<Option<Vec<Expr>>> {
    if !group.iter().any(|expr| is_float_as_decimal(expr, schema)) {
        return Ok(None);
    }
    group.iter().map(|expr| to_double(expr, schema)).collect::<DataFusionResult<_>>().map(Some)
}

/// A decimal as a double: the double that coercion has cast, or the nearest one.
pub(super) fn to_double(expr: &Expr, schema: &DFSchema) -> DataFusionResult<Expr> {
    let digits = |expr: &Expr| cast_text(expr).and_then(|digits| digits.parse::<f64>().ok());
    let inner = match expr {
        Expr::Cast(cast) if digits(expr).is_none() && !cast.expr.get_type(schema)?.is_string() => {
            cast.expr.as_ref()
        }
        other => other,
    };
    if let Some(double) = digits(inner) {
        return Ok(lit(double));
    }
    match (inner, Number::from_expr(inner)) {
        (Expr::Literal(value, _), _) if value.is_null() => Ok(lit(ScalarValue::Float64(None))),
        (_, Some(number)) => Ok(number
            .to_string()
            .parse::<f64>()
            .map_or_else(|_| cast(inner.clone(), DataType::Float64), lit)),
        _ if inner.get_type(schema)? == DataType::Float64 => Ok(inner.clone()),
        _ => Ok(cast(inner.clone(), DataType::Float64)),
    }
}
