//! `bar(x, min, max, width)`: a number as a bar of characters, as in DuckDB and ClickHouse.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Eighths of a character.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const DEFAULT_WIDTH: f64 = 80.0;
const MOST: f64 = 1_000.0;

pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(Bar { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bar {
    signature: Signature,
}

impl ScalarUDFImpl for Bar {
    fn name(&self) -> &'static str {
        "bar"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let are_numbers = arguments.iter().all(|of| of.is_numeric() || of.is_null());
        match arguments.len() {
            3 | 4 if are_numbers => Ok(DataType::Utf8),
            _ => plan_err!("bar() takes numbers: bar(x, least, greatest, width)"),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_scalar = given.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { given.number_rows };
        let numbers = |value: &ColumnarValue| -> DataFusionResult<ArrayRef> {
            Ok(cast(&value.to_array(rows)?, &DataType::Float64)?)
        };
        let arrays = given.args.iter().map(numbers).collect::<DataFusionResult<Vec<_>>>()?;
        let mut bars = StringBuilder::new();
        for row in 0..rows {
            let at = |array: &ArrayRef| {
                array.is_valid(row).then(|| array.as_primitive::<Float64Type>().value(row))
            };
            let values: Option<Vec<f64>> = arrays.iter().map(at).collect();
            match values.as_deref() {
                Some([x, least, greatest, rest @ ..]) => {
                    let width = rest.first().copied().unwrap_or(DEFAULT_WIDTH);
                    if !(1.0..=MOST).contains(&width) {
                        return exec_err!("the width of bar() is from 1 to 1000, not {width}");
                    }
                    bars.append_value(bar(*x, *least, *greatest, width));
                }
                _ => bars.append_null(),
            }
        }
        let bars: ArrayRef = Arc::new(bars.finish());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&bars, 0)?),
            false => ColumnarValue::Array(bars),
        })
    }
}

/// The bar, and blanks up to its width.
fn bar(x: f64, least: f64, greatest: f64, width: f64) -> String {
    let any_nan = x.is_nan() || least.is_nan() || greatest.is_nan();
    let length = if any_nan || x <= least {
        0.0
    } else if x >= greatest {
        width
    } else {
        width * ((x - least) / (greatest - least))
    };
    // At most 8,000.
    let eighths = (length * 8.0) as usize;
    let mut text: String = std::iter::repeat_n('█', eighths / 8).collect();
    if let Some(part) = EIGHTHS.get(eighths % 8).filter(|_| !eighths.is_multiple_of(8)) {
        text.push(*part);
    }
    let used = eighths.div_ceil(8);
    text.extend(std::iter::repeat_n(' ', (width as usize).saturating_sub(used)));
    text
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_have_eighths() {
        assert_eq!(bar(3.3, 0.0, 10.0, 5.0), "█▋   ");
        assert_eq!(bar(12.0, 0.0, 10.0, 5.0), "█████");
        assert_eq!(bar(f64::NAN, 0.0, 10.0, 2.0), "  ");
    }
}
