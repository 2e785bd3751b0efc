//! `now()` and `to_timestamp` in microseconds, and `generate_series` and `range` in a FROM with
//! timestamps of any unit.
//!
//! DataFusion's (55.2) `now()` and `to_timestamp` have nanoseconds, which end in 2262: no date
//! after that could be compared with them. Its series are of nanoseconds, and take no others.

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
        let Some(begun) = context.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value =
            ScalarValue::TimestampMicrosecond(Some(begun.timestamp_micros()), self.zone.clone());
        Ok(ExprSimplifyResult::Simplified(lit(value)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        exec_err!("{}() was not simplified", self.name())
    }
}

/// `to_timestamp(seconds)`, `to_timestamp(text)` and `to_timestamp(text, format, …)`. Of
/// nanoseconds, it is one of nanoseconds.
pub(super) fn to_timestamp() -> ScalarUDF {
    ScalarUDF::from(ToTimestamp::with(&ConfigOptions::default()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    signature: Signature,
    zone: Option<Arc<str>>,
    /// Which reads formats.
    known: Arc<ScalarUDF>,
}

impl ToTimestamp {
    fn with(config: &ConfigOptions) -> ToTimestamp {
        let zone = config.execution.time_zone.as_deref().map(Arc::from);
        let signature = Signature::variadic_any(Volatility::Immutable);
        ToTimestamp { signature, zone, known: to_timestamp_micros(config) }
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
        Some(ScalarUDF::from(ToTimestamp::with(config)))
    }

    fn return_type(&self, of: &[DataType]) -> DataFusionResult<DataType> {
        let unit = match of {
            [DataType::Timestamp(TimeUnit::Nanosecond, _)] => TimeUnit::Nanosecond,
            [DataType::Date32 | DataType::Date64 | DataType::Timestamp(..)] => {
                TimeUnit::Microsecond
            }
            [of] if of.is_numeric() || of.is_string() || of.is_null() => TimeUnit::Microsecond,
            [_, _, ..] => TimeUnit::Microsecond,
            [other] => {
                return plan_err!("to_timestamp() takes seconds since 1970 or a text, not {other}");
            }
            [] => return plan_err!("to_timestamp() takes seconds since 1970 or a text"),
        };
        Ok(DataType::Timestamp(unit, self.zone.clone()))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [of] = given.args.as_slice() else { return self.known.invoke_with_args(given) };
        let data_type = of.data_type();
        let to = self.return_type(std::slice::from_ref(&data_type))?;
        if data_type.is_integer() {
            let seconds = of.cast_to(&DataType::Timestamp(TimeUnit::Second, None), None)?;
            return seconds.cast_to(&to, None);
        }
        if !data_type.is_numeric() {
            return of.cast_to(&to, None);
        }
        let micros = micros(&of.to_array(1)?)?.with_timezone_opt(self.zone.clone());
        Ok(match of {
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&micros, 0)?)
            }
            ColumnarValue::Array(_) => ColumnarValue::Array(Arc::new(micros)),
        })
    }
}

/// The microseconds that are nearest to numbers of seconds.
fn micros(seconds: &ArrayRef) -> DataFusionResult<PrimitiveArray<TimestampMicrosecondType>> {
    if seconds.data_type().is_floating() {
        let seconds = cast(seconds, &DataType::Float64)?;
        return as_primitive_array::<Float64Type>(&seconds)?.try_unary(micros_of_float);
    }
    let micros = cast(seconds, &DataType::Decimal128(38, 6))?;
    let micros = as_primitive_array::<Decimal128Type>(&micros)?;
    micros.try_unary(|micros| i64::try_from(micros).map_err(|_| too_far()))
}

fn micros_of_float(seconds: f64) -> DataFusionResult<i64> {
    /// The greatest double below 2^63.
    const MOST: f64 = 9_223_372_036_854_774_784.0;
    let micros = (seconds * 1e6).round_ties_even();
    if micros.abs() <= MOST { Ok(micros as i64) } else { Err(too_far()) }
}

#[cold]
fn too_far() -> DataFusionError {
    exec_datafusion_err!("a timestamp has no more than 2^63 microseconds on either side of 1970")
}

/// The table functions that make series, around those of DataFusion.
pub(in crate::sql) fn series(
    known: &HashMap<String, Arc<TableFunction>>,
) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let around = |name: &'static str| {
        let function: Arc<dyn TableFunctionImpl> =
            Arc::new(Series(Arc::clone(known.get(name)?.function())));
        Some((name, function))
    };
    ["generate_series", "range"].into_iter().filter_map(around).collect()
}

#[derive(Debug)]
struct Series(Arc<dyn TableFunctionImpl>);

impl TableFunctionImpl for Series {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        let exprs: Vec<Expr> =
            args.exprs().iter().map(in_nanoseconds).collect::<DataFusionResult<_>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

fn in_nanoseconds(arg: &Expr) -> DataFusionResult<Expr> {
    match arg {
        Expr::Literal(value, _) => match value.data_type() {
            DataType::Timestamp(_, zone) => {
                Ok(lit(value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone))?))
            }
            _ => Ok(arg.clone()),
        },
        _ => Ok(arg.clone()),
    }
}
