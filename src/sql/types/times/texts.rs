//! Completes texts that become timestamps, such as `2024-2-8 6:00`, and leaves the offset out of
//! those that become timestamps without a zone, or dates: as in PostgreSQL and DuckDB, they are
//! what the clock on the wall shows. Arrow (59) would make UTC of them. A text without a colon is
//! no time of day; Arrow takes its digits for a number of microseconds.
//!
//! A text that becomes a timestamp or a time is wrapped in a function that does this and nothing
//! else. A literal is written out while the statement is planned.

use std::borrow::Cow;
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

use crate::ingest::timestamp_text;

/// What a text is written out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Meaning {
    /// A timestamp with a zone.
    Instant,
    /// A timestamp without a zone, or a date.
    Local,
    /// A time of day.
    Time,
}

impl Meaning {
    /// What texts mean that become values of a type; `None` if they are taken as they are.
    pub(super) fn in_type(data_type: &DataType) -> Option<Meaning> {
        match data_type {
            DataType::Timestamp(_, Some(_)) => Some(Meaning::Instant),
            DataType::Timestamp(_, None) | DataType::Date32 => Some(Meaning::Local),
            DataType::Time32(_) | DataType::Time64(_) => Some(Meaning::Time),
            _ => None,
        }
    }

    fn rewrite(self) -> fn(&str) -> Cow<'_, str> {
        match self {
            Meaning::Instant => timestamp_text::complete,
            Meaning::Local => timestamp_text::local,
            Meaning::Time => time_alone,
        }
    }

    fn function(self) -> &'static ScalarUDF {
        match self {
            Meaning::Instant => &WRITE_OUT,
            Meaning::Local => &WRITE_OUT_LOCAL,
            Meaning::Time => &WRITE_OUT_TIME,
        }
    }
}

/// A text that is a time of day as it is; one that only Arrow takes for a time, with a blank behind
/// it, with which it is none for Arrow, either.
fn time_alone(text: &str) -> Cow<'_, str> {
    match timestamp_text::may_be_time(text) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("{text} ")),
    }
}

/// Writes out an expression that is a text. Returns whether it has changed.
pub(super) fn write_out(expr: &mut Expr, meaning: Meaning, schema: &DFSchema) -> bool {
    if let Expr::Literal(value, _) = expr {
        let Some(Some(text)) = value.try_as_str() else { return false };
        let full = meaning.rewrite()(text).into_owned();
        let changed = full != text;
        if changed {
            *expr = lit(full);
        }
        return changed;
    }
    let is_text =
        !is_written_out(expr) && expr.get_type(schema).is_ok_and(|data_type| data_type.is_string());
    if is_text {
        *expr = meaning.function().call(vec![std::mem::take(expr)]);
    }
    is_text
}

/// Writes out the texts among some expressions, if a timestamp or a date is among them, too.
/// Returns whether one has changed.
pub(super) fn write_out_beside_timestamps(sides: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let meaning = |side: &&mut Expr| Meaning::in_type(&side.get_type(schema).ok()?);
    let Some(meaning) = sides.iter().filter_map(meaning).min() else { return false };
    sides.into_iter().fold(false, |changed, side| changed | write_out(side, meaning, schema))
}

/// The argument that a function reads as a timestamp, if there is one.
pub(super) fn timestamp_argument(function: &mut ScalarFunction) -> Option<(&mut Expr, Meaning)> {
    let name = function.func.name();
    match function.args.as_mut_slice() {
        [text] if name.starts_with("to_timestamp") => Some((text, Meaning::Instant)),
        [_, text] if name == "date_trunc" => Some((text, Meaning::Local)),
        _ => None,
    }
}

fn is_written_out(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.inner().is::<WriteOut>())
}

pub(in crate::sql) static WRITE_OUT: LazyLock<ScalarUDF> =
    LazyLock::new(|| WriteOut::function(Meaning::Instant));
pub(in crate::sql) static WRITE_OUT_LOCAL: LazyLock<ScalarUDF> =
    LazyLock::new(|| WriteOut::function(Meaning::Local));

pub(in crate::sql) static WRITE_OUT_TIME: LazyLock<ScalarUDF> =
    LazyLock::new(|| WriteOut::function(Meaning::Time));

/// The function that writes texts out. The prefix of its name keeps it out of the users' way.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WriteOut {
    signature: Signature,
    meaning: Meaning,
}

impl WriteOut {
    fn function(meaning: Meaning) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::from(WriteOut { signature, meaning })
    }
}

impl ScalarUDFImpl for WriteOut {
    fn name(&self) -> &'static str {
        match self.meaning {
            Meaning::Instant => "sty__written_out",
            Meaning::Local => "sty__local_time",
            Meaning::Time => "sty__time",
        }
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
            [ColumnarValue::Array(texts)] => {
                Ok(ColumnarValue::Array(written_out(texts, self.meaning.rewrite())))
            }
            [ColumnarValue::Scalar(text)] => {
                let full = written_out(&text.to_array()?, self.meaning.rewrite());
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&full, 0)?))
            }
            _ => plan_err!("{}() takes a text", self.name()),
        }
    }
}

fn written_out(texts: &ArrayRef, rewrite: fn(&str) -> Cow<'_, str>) -> ArrayRef {
    let full: Option<ArrayRef> = match texts.data_type() {
        DataType::Utf8 => timestamp_text::rewrite_all(texts.as_string::<i32>(), rewrite)
            .map(|full| Arc::new(full) as _),
        DataType::LargeUtf8 => timestamp_text::rewrite_all(texts.as_string::<i64>(), rewrite)
            .map(|full| Arc::new(full) as _),
        DataType::Utf8View => timestamp_text::rewrite_views(texts.as_string_view(), rewrite)
            .map(|full| Arc::new(full) as _),
        _ => None,
    };
    full.unwrap_or_else(|| Arc::clone(texts))
}
