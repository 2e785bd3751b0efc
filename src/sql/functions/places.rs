//! `round(x, n)` and `trunc(x, n)` of floats that have no digits behind the place, or none before
//! it.
//!
//! Where this stands on the road of a query: a session registers them in place of DataFusion's
//! (55.2), which multiply by a power of ten and divide by it. The product may be no number, or one
//! that is not exact, and so the result was NaN or infinite, or another number than `x` although
//! `x` has no such digits. Here these numbers stay as they are; those that are smaller than any
//! digit in question are 0. All others are DataFusion's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions::math;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// Both of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [math::round(), math::trunc()].into_iter().map(|inner| ScalarUDF::from(Placed { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Placed {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Placed {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        is_strict() -> bool;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        output_ordering(arguments: &[ExprProperties]) -> DataFusionResult<SortProperties>;
        documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let (values, places) = match given.args.as_slice() {
            [values, places] if values.data_type().is_floating() => {
                (values.clone(), places.clone())
            }
            _ => return self.inner.invoke_with_args(given),
        };
        let are_constant = [&values, &places]
            .into_iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { given.number_rows };
        let rounded = self.inner.invoke_with_args(given)?.into_array(rows)?;
        let (values, places) = (values.to_array(rows)?, places.to_array(rows)?);
        let places = cast(&places, &DataType::Int64)?;
        let corrected: ArrayRef = match (values.data_type(), rounded.data_type()) {
            (DataType::Float64, DataType::Float64) => {
                Arc::new(corrected::<Float64Type>(&values, &places, &rounded))
            }
            (DataType::Float32, DataType::Float32) => {
                Arc::new(corrected::<Float32Type>(&values, &places, &rounded))
            }
            (of, _) => return exec_err!("{} of {of} is not known", self.name()),
        };
        Ok(match are_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&corrected, 0)?),
            false => ColumnarValue::Array(corrected),
        })
    }
}

/// A float, and what doubles it needs.
trait Float: ArrowPrimitiveType {
    /// From this number on, no float has a fraction.
    const WHOLE: f64;
    /// The largest power of ten.
    const GREATEST: i32;

    fn double(value: Self::Native) -> f64;
}

impl Float for Float64Type {
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    const GREATEST: i32 = f64::MAX_10_EXP;

    fn double(value: f64) -> f64 {
        value
    }
}

impl Float for Float32Type {
    const WHOLE: f64 = 16_777_216.0;
    const GREATEST: i32 = f32::MAX_10_EXP;

    fn double(value: f32) -> f64 {
        f64::from(value)
    }
}

fn corrected<F: Float>(
    values: &ArrayRef,
    places: &ArrayRef,
    rounded: &ArrayRef,
) -> PrimitiveArray<F> {
    let (values, rounded) = (values.as_primitive::<F>(), rounded.as_primitive::<F>());
    let places = places.as_primitive::<Int64Type>().values();
    // Where all rows have one place, the power is computed once.
    let mut known = (0, 1.0);
    let rows = values.values().iter().zip(places).zip(rounded.values());
    let corrected = rows.map(|((value, places), rounded)| {
        let double = F::double(*value);
        // A float has fewer than 1000 digits.
        let places = (*places).clamp(-1000, 1000) as i32;
        if double.is_finite() && places < -F::GREATEST {
            return F::default_value();
        }
        if known.0 != places {
            known = (places, 10_f64.powi(places));
        }
        // Of an infinity, or zero times an infinite power, this is no number.
        let has_digits = (double * known.1).abs() < F::WHOLE;
        let is_lost = places > 0 && !F::double(*rounded).is_finite();
        if has_digits && !is_lost { *rounded } else { *value }
    });
    PrimitiveArray::new(corrected.collect(), rounded.nulls().cloned())
}
