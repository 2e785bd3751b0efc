//! `printf('%05d', n)` and `format('{:.2f}', x)`: values in a text, as in DuckDB.
//!
//! Where this stands on the road of a query: a session registers them. `pieces` reads a format,
//! `values` writes a value by it, and `decimal` the digits of decimals. Null gives null. What
//! DuckDB refuses where the meaning is plain is accepted: `%s` of a number, `%f` of an integer.

mod decimal;
mod pieces;
mod values;

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use self::pieces::{Piece, Style};
use self::values::Values;

/// Both of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Style::Percent, Style::Braces].into_iter().map(|style| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::from(Printf { style, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Printf {
    style: Style,
    signature: Signature,
}

impl ScalarUDFImpl for Printf {
    fn name(&self) -> &str {
        match self.style {
            Style::Percent => "printf",
            Style::Braces => "format",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments.first() {
            Some(format) if format.is_string() || format.is_null() => Ok(DataType::Utf8),
            _ => plan_err!(
                "{}() takes a format and values: printf('%.2f', x), format('{{:.2f}}', x)",
                self.name()
            ),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_scalar = given.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { given.number_rows };
        let arrays = given.args.iter().map(|value| value.to_array(rows));
        let arrays = arrays.collect::<DataFusionResult<Vec<ArrayRef>>>()?;
        let Some((formats, values)) = arrays.split_first() else {
            return exec_err!("{}() takes a format", self.name());
        };
        let formats = cast(formats, &DataType::Utf8)?;
        let values = values.iter().map(Values::new).collect::<DataFusionResult<Vec<_>>>()?;
        let mut texts = StringBuilder::new();
        let mut known: Option<(&str, Vec<Piece>)> = None;
        for (row, format) in formats.as_string::<i32>().iter().enumerate() {
            let Some(format) = format.filter(|_| values.iter().all(|one| one.is_valid(row))) else {
                texts.append_null();
                continue;
            };
            if known.as_ref().is_none_or(|(before, _)| *before != format) {
                known = Some((format, pieces::read(format, self.style, values.len())?));
            }
            let mut text = String::new();
            for piece in known.iter().flat_map(|(_, pieces)| pieces) {
                match piece {
                    Piece::Text(plain) => text.push_str(plain),
                    Piece::Value(at, spec) => match values.get(*at) {
                        Some(value) => text.push_str(&value.written(row, spec)?),
                        None => return exec_err!("{}() has too few values", self.name()),
                    },
                }
            }
            texts.append_value(text);
        }
        let texts: ArrayRef = Arc::new(texts.finish());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(texts),
        })
    }
}
