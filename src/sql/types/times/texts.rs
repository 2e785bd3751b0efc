//! Texts that are made timestamps, as people write them: `2024-2-8 6:00`.
//!
//! What becomes a timestamp goes through a function that writes out what a text leaves out, and
//! nothing else. Of a literal, that is done while a statement is planned.

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

use super::is_timestamp;
use crate::ingest::timestamp_text;

/// Writes out an expression that is a text. Says whether it has changed.
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
    let is_text = !is_written_out(expr) && expr.get_type(schema).is_ok_and(|of| of.is_string());
    if is_text {
        *expr = FULL.call(vec![std::mem::take(expr)]);
    }
    is_text
}

/// Writes out those of some expressions that are texts, if a timestamp is among them. Says whether
/// one has changed.
pub(super) fn beside_timestamps(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_one = |side: &Expr| side.get_type(schema).is_ok_and(|of| is_timestamp(&of));
    if !sides.iter().any(|side| is_one(side)) {
        return false;
    }
    sides.into_iter().fold(false, |changed, side| changed | write_out(side, schema))
}

/// The text that a function reads as a timestamp, if it may read one.
pub(super) fn read_by(function: &mut ScalarFunction) -> Option<&mut Expr> {
    let name = function.func.name();
    let is_made = name.starts_with("to_timestamp");
    match function.args.as_mut_slice() {
        [of] if is_made => Some(of),
        [_, of] if name == "date_trunc" => Some(of),
        _ => None,
    }
}

fn is_written_out(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.inner().is::<Full>())
}

static FULL: LazyLock<ScalarUDF> =
    LazyLock::new(|| ScalarUDF::from(Full { signature: Signature::any(1, Volatility::Immutable) }));

/// The function. Nobody names it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Full {
    signature: Signature,
}

impl ScalarUDFImpl for Full {
    fn name(&self) -> &'static str {
        "sty__written_out"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> DataFusionResult<DataType> {
        match of {
            [of] if of.is_string() => Ok(of.clone()),
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
