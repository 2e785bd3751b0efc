//! Completes texts that become timestamps, such as `2024-2-8 6:00`.
//!
//! A text that becomes a timestamp is wrapped in a function that adds what the text leaves out, and
//! does nothing else. A literal is completed while the statement is planned.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use super::units::is_timestamp;
use crate::ingest::timestamp_text;

/// Writes out an expression that is a text. Returns whether it has changed.
pub(super) fn write_out(expr: &mut Expr, schema: &DFSchema) -> bool {
    if let Expr::Literal(value, _) = expr {
        let Some(Some(text)) = value.try_as_str() else { return false };
        let full = timestamp_text::complete(text).into_owned();
        let changed = full != text;
        if changed {
            *expr = lit(full);
        }
        return changed;
    }
    let is_text =
        !is_written_out(expr) && expr.get_type(schema).is_ok_and(|data_type| data_type.is_string());
    if is_text {
        *expr = WRITE_OUT.call(vec![std::mem::take(expr)]);
    }
    is_text
}

/// Writes out the texts among some expressions, if a timestamp is among them, too. Returns whether
/// one has changed.
pub(super) fn write_out_beside_timestamps(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_stamp =
        |side: &Expr| side.get_type(schema).is_ok_and(|data_type| is_timestamp(&data_type));
    if !sides.iter().any(|side| is_stamp(side)) {
        return false;
    }
    sides.into_iter().fold(false, |changed, side| changed | write_out(side, schema))
}

/// The argument that a function reads as a timestamp, if there is one.
pub(super) fn timestamp_argument(function: &mut ScalarFunction) -> Option<&mut Expr> {
    let name = function.func.name();
    match function.args.as_mut_slice() {
        [text] if name.starts_with("to_timestamp") => Some(text),
        [_, text] if name == "date_trunc" => Some(text),
        _ => None,
    }
}

fn is_written_out(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.inner().is::<WriteOut>())
}

pub(in crate::sql) static WRITE_OUT: LazyLock<ScalarUDF> = LazyLock::new(|| {
    ScalarUDF::from(WriteOut { signature: Signature::any(1, Volatility::Immutable) })
});

/// The function that completes texts. The prefix of its name keeps it out of the users' way.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WriteOut {
    signature: Signature,
}

impl ScalarUDFImpl for WriteOut {
    fn name(&self) -> &'static str {
        "sty__written_out"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        match arguments {
            [text] if text.is_string() => Ok(text.clone()),
            _ => plan_err!("{}() takes a text", self.name()),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        match given.args.as_slice() {
            [ColumnarValue::Array(texts)] => Ok(ColumnarValue::Array(written_out(texts))),
            [ColumnarValue::Scalar(text)] => {
                let full = written_out(&text.to_array()?);
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&full, 0)?))
            }
            _ => plan_err!("{}() takes a text", self.name()),
        }
    }
}

fn written_out(texts: &ArrayRef) -> ArrayRef {
    let full: Option<ArrayRef> =
        match texts.data_type() {
            DataType::Utf8 => timestamp_text::complete_all(texts.as_string::<i32>())
                .map(|full| Arc::new(full) as _),
            DataType::LargeUtf8 => timestamp_text::complete_all(texts.as_string::<i64>())
                .map(|full| Arc::new(full) as _),
            DataType::Utf8View => timestamp_text::complete_views(texts.as_string_view())
                .map(|full| Arc::new(full) as _),
            _ => None,
        };
    full.unwrap_or_else(|| Arc::clone(texts))
}
