//! `now()` and `to_timestamp` in microseconds, and `generate_series` and `range` in a FROM with
//! timestamps of any unit.
//!
//! In DataFusion (55.2), `now()` and `to_timestamp` have nanoseconds, which end in 2262: later
//! dates could not be compared with them. Its series take timestamps in nanoseconds only.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Float64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::cast::as_primitive_array;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::functions::datetime::to_timestamp_micros;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

/// `now()` and `current_timestamp`.
pub(super) fn now() -> ScalarUDF {
    ScalarUDF::from(Now::in_zone(None))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Now {
    signature: Signature,
    aliases: Vec<String>,
    zone: Option<Arc<str>>,
}

impl Now {
    fn in_zone(zone: Option<Arc<str>>) -> Now {
        let aliases = vec!["current_timestamp".to_owned()];
        Now { signature: Signature::nullary(Volatility::Stable), aliases, zone }
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &'static str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let zone = config.execution.time_zone.as_deref().map(Arc::from);
        Some(ScalarUDF::from(Now::in_zone(zone)))
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, self.zone.clone()))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, false)))
    }

    fn simplify(
        &self,
        args: Vec<Expr>,
        context: &SimplifyContext,
    ) -> DataFusionResult<ExprSimplifyResult> {
        let Some(start) = context.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value =
            ScalarValue::TimestampMicrosecond(Some(start.timestamp_micros()), self.zone.clone());
        Ok(ExprSimplifyResult::Simplified(lit(value)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        exec_err!("{}() was not simplified", self.name())
    }
}

/// `to_timestamp(seconds)`, `to_timestamp(text)` and `to_timestamp(text, format, …)`. A timestamp
/// in nanoseconds keeps its unit.
pub(super) fn to_timestamp() -> ScalarUDF {
    ScalarUDF::from(ToTimestamp::from_config(&ConfigOptions::default()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    signature: Signature,
    zone: Option<Arc<str>>,
    /// DataFusion's function, which parses formats.
    inner: Arc<ScalarUDF>,
}

impl ToTimestamp {
    fn from_config(config: &ConfigOptions) -> ToTimestamp {
        let zone = config.execution.time_zone.as_deref().map(Arc::from);
        let signature = Signature::variadic_any(Volatility::Immutable);
        ToTimestamp { signature, zone, inner: to_timestamp_micros(config) }
    }
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &'static str {
        "to_timestamp"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(ScalarUDF::from(ToTimestamp::from_config(config)))
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let unit = match arguments {
            [DataType::Timestamp(TimeUnit::Nanosecond, _)] => TimeUnit::Nanosecond,
            [DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)] => {
                TimeUnit::Microsecond
            }
            [argument] if argument.is_numeric() || argument.is_string() || argument.is_null() => {
                TimeUnit::Microsecond
            }
            [_, _, ..] => TimeUnit::Microsecond,
            [other] => {
                return plan_err!("to_timestamp() takes seconds since 1970 or a text, not {other}");
            }
            [] => return plan_err!("to_timestamp() takes seconds since 1970 or a text"),
        };
        Ok(DataType::Timestamp(unit, self.zone.clone()))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [argument] = given.args.as_slice() else { return self.inner.invoke_with_args(given) };
        let data_type = argument.data_type();
        let to = self.return_type(std::slice::from_ref(&data_type))?;
        if data_type.is_integer() {
            let seconds = argument.cast_to(&DataType::Timestamp(TimeUnit::Second, None), None)?;
            return seconds.cast_to(&to, None);
        }
        if !data_type.is_numeric() {
            return argument.cast_to(&to, None);
        }
        let micros = to_micros(&argument.to_array(1)?)?.with_timezone_opt(self.zone.clone());
        Ok(match argument {
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&micros, 0)?)
            }
            ColumnarValue::Array(_) => ColumnarValue::Array(Arc::new(micros)),
        })
    }
}

/// Rounds seconds to microseconds.
fn to_micros(seconds: &ArrayRef) -> DataFusionResult<PrimitiveArray<TimestampMicrosecondType>> {
    if seconds.data_type().is_floating() {
        let seconds = cast(seconds, &DataType::Float64)?;
        return as_primitive_array::<Float64Type>(&seconds)?.try_unary(float_to_micros);
    }
    let micros = cast(seconds, &DataType::Decimal128(38, 6))?;
    let micros = as_primitive_array::<Decimal128Type>(&micros)?;
    micros.try_unary(|micros| i64::try_from(micros).map_err(|_| out_of_range()))
}

fn float_to_micros(seconds: f64) -> DataFusionResult<i64> {
    /// The greatest double below 2^63.
    const MAX: f64 = 9_223_372_036_854_774_784.0;
    let micros = (seconds * 1e6).round_ties_even();
    if micros.abs() <= MAX { Ok(micros as i64) } else { Err(out_of_range()) }
}

#[cold]
fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("a timestamp has no more than 2^63 microseconds on either side of 1970")
}

/// The table functions `generate_series` and `range`, which wrap those of DataFusion.
pub(in crate::sql) fn series(
    known: &HashMap<String, Arc<TableFunction>>,
) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let wrap = |name: &'static str| {
        let function: Arc<dyn TableFunctionImpl> =
            Arc::new(Series(Arc::clone(known.get(name)?.function())));
        Some((name, function))
    };
    ["generate_series", "range"].into_iter().filter_map(wrap).collect()
}

#[derive(Debug)]
struct Series(Arc<dyn TableFunctionImpl>);

impl TableFunctionImpl for Series {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        let exprs: Vec<Expr> =
            args.exprs().iter().map(to_taken_type).collect::<DataFusionResult<_>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

/// Casts a literal timestamp to nanoseconds, and an integer to one of 64 bits: DataFusion's take no
/// others.
fn to_taken_type(arg: &Expr) -> DataFusionResult<Expr> {
    let Expr::Literal(value, _) = arg else { return Ok(arg.clone()) };
    let taken = match value.data_type() {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone),
        data_type if data_type.is_integer() => DataType::Int64,
        _ => return Ok(arg.clone()),
    };
    Ok(lit(value.cast_to(&taken)?))
}
