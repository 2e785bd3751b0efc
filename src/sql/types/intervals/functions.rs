//! Internal functions of intervals: lengths, parts, multiples and quotients.
//!
//! They are not registered under their names: the planner and the rule of `intervals` put them
//! where SQL compares, sorts, multiplies or divides intervals, or takes their parts.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, IntervalMonthDayNanoArray};
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};
use datafusion::arrow::compute::kernels::arity::try_binary;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(super) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// Whether a type is an interval, or the difference of timestamps.
pub(super) fn is_length(data_type: &DataType) -> bool {
    is_interval(data_type) || is_duration(data_type)
}

/// Whether a type is the difference of timestamps.
pub(super) fn is_duration(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Duration(_))
}

/// Which function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The nanoseconds of an interval or a difference.
    Length,
    /// A difference of timestamps as an interval of whole days and nanoseconds.
    ToDays,
    /// The nanoseconds of an interval or a difference since its last whole minute.
    NanosOfMinute,
    /// The seconds of an interval, with 12 months as a year of 365.25 days.
    Epoch,
    /// The product of an interval and a number, in either order.
    Multiply,
    /// The quotient of an interval and a number.
    Divide,
}

impl Kind {
    pub(super) fn call(self, args: Vec<Expr>) -> Expr {
        self.function().call(args)
    }

    fn function(self) -> ScalarUDF {
        let arguments = match self {
            Kind::Length | Kind::ToDays | Kind::NanosOfMinute | Kind::Epoch => 1,
            Kind::Multiply | Kind::Divide => 2,
        };
        let signature = Signature::any(arguments, Volatility::Immutable);
        ScalarUDF::from(Function { kind: self, signature })
    }
}

/// All of these functions.
#[cfg(feature = "cluster")]
pub(in crate::sql) fn all() -> impl Iterator<Item = ScalarUDF> {
    let kinds = [
        Kind::Length,
        Kind::ToDays,
        Kind::NanosOfMinute,
        Kind::Epoch,
        Kind::Multiply,
        Kind::Divide,
    ];
    kinds.into_iter().map(Kind::function)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Length => "interval_length",
            Kind::ToDays => "interval_days",
            Kind::NanosOfMinute => "interval_of_minute",
            Kind::Epoch => "interval_epoch",
            Kind::Multiply => "interval_times",
            Kind::Divide => "interval_over",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(match self.kind {
            Kind::Length => DataType::Decimal128(38, 0),
            Kind::NanosOfMinute => DataType::Int64,
            Kind::Epoch => DataType::Float64,
            Kind::ToDays | Kind::Multiply | Kind::Divide => {
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
        })
    }

    /// Columns are named after what the user has written.
    fn schema_name(&self, args: &[Expr]) -> DataFusionResult<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(match self.kind {
            Kind::Multiply => names.join(" * "),
            Kind::Divide => names.join(" / "),
            _ => format!("{}({})", self.name(), names.join(",")),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let computed: ArrayRef = match (self.kind, arrays.as_slice()) {
            (Kind::Length, [values]) => Arc::new(lengths(values)?),
            (Kind::ToDays, [values]) => Arc::new(intervals(values)?),
            (Kind::NanosOfMinute, [values]) => Arc::new(nanos_of_minute(values)?),
            (Kind::Epoch, [values]) => Arc::new(seconds(values)?),
            (Kind::Multiply, [left, right]) if is_length(right.data_type()) => {
                Arc::new(scaled(right, left, false)?)
            }
            (Kind::Multiply, [left, right]) => Arc::new(scaled(left, right, false)?),
            (Kind::Divide, [left, right]) => Arc::new(scaled(left, right, true)?),
            _ => return exec_err!("{}() has {} arguments", self.name(), arrays.len()),
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?),
            false => ColumnarValue::Array(computed),
        })
    }
}

const MONTHS_A_YEAR: i32 = 12;
const DAYS_A_YEAR: f64 = 365.25;
const DAYS_A_MONTH: i64 = 30;
const SECONDS_A_DAY: f64 = 86_400.0;
const NANOS_A_DAY: i64 = 86_400_000_000_000;
const NANOS_A_MINUTE: i64 = 60_000_000_000;

/// Lengths in nanoseconds, with months of 30 days.
fn lengths(values: &ArrayRef) -> DataFusionResult<Decimal128Array> {
    let lengths = match values.data_type() {
        DataType::Duration(unit) => nanoseconds(values, *unit)?,
        _ => intervals(values)?.unary(|value| {
            let days = i64::from(value.months) * DAYS_A_MONTH + i64::from(value.days);
            i128::from(days) * i128::from(NANOS_A_DAY) + i128::from(value.nanoseconds)
        }),
    };
    Ok(lengths.with_precision_and_scale(38, 0)?)
}

/// The nanoseconds of differences. With larger units they need more than 64 bits.
fn nanoseconds(values: &ArrayRef, unit: TimeUnit) -> DataFusionResult<Decimal128Array> {
    let factor = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let counts = cast_or_fail(values, &DataType::Int64)?;
    Ok(counts
        .as_primitive::<Int64Type>()
        .unary::<_, Decimal128Type>(|count| i128::from(count) * factor))
}

/// Intervals and differences in one type. Differences are split into days and nanoseconds.
fn intervals(values: &ArrayRef) -> DataFusionResult<IntervalMonthDayNanoArray> {
    if let DataType::Duration(unit) = values.data_type() {
        let day = i128::from(NANOS_A_DAY);
        let split = |nanos: i128| {
            checked_interval(0, nanos / day, nanos % day).map_err(DataFusionError::from)
        };
        return nanoseconds(values, *unit)?.try_unary(split);
    }
    let cast = cast_or_fail(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    Ok(cast.as_primitive::<IntervalMonthDayNanoType>().clone())
}

fn nanos_of_minute(values: &ArrayRef) -> DataFusionResult<Int64Array> {
    Ok(intervals(values)?.unary(|value| value.nanoseconds % NANOS_A_MINUTE))
}

fn seconds(values: &ArrayRef) -> DataFusionResult<Float64Array> {
    Ok(intervals(values)?.unary(|value| {
        let years = f64::from(value.months / MONTHS_A_YEAR) * DAYS_A_YEAR;
        let days = i64::from(value.months % MONTHS_A_YEAR) * DAYS_A_MONTH + i64::from(value.days);
        (years + days as f64) * SECONDS_A_DAY + value.nanoseconds as f64 / 1e9
    }))
}

fn cast_or_fail(values: &ArrayRef, to: &DataType) -> DataFusionResult<ArrayRef> {
    Ok(cast_with_options(values, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

/// Multiplies or divides intervals by numbers.
fn scaled(
    intervals_or_durations: &ArrayRef,
    by: &ArrayRef,
    divide: bool,
) -> DataFusionResult<IntervalMonthDayNanoArray> {
    let values = intervals(intervals_or_durations)?;
    if by.data_type().is_integer() {
        let numbers = cast_or_fail(by, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        return Ok(match divide {
            true => try_binary(&values, numbers, |value, number| scale_by_ratio(value, 1, number))?,
            false => {
                try_binary(&values, numbers, |value, number| scale_by_ratio(value, number, 1))?
            }
        });
    }
    let numbers = cast_or_fail(by, &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    Ok(match divide {
        true => try_binary(&values, numbers, |value, number| match number {
            0.0 => Err(ArrowError::DivideByZero),
            number => scale_by_float(value, |field| field / number),
        })?,
        false => try_binary(&values, numbers, |value, number| {
            scale_by_float(value, |field| field * number)
        })?,
    })
}

/// Multiplies an interval by a ratio. The remainder of months becomes days, that of days becomes
/// time.
fn scale_by_ratio(
    value: IntervalMonthDayNano,
    numerator: i64,
    denominator: i64,
) -> Result<IntervalMonthDayNano, ArrowError> {
    if denominator == 0 {
        return Err(ArrowError::DivideByZero);
    }
    let (numerator, denominator) = (i128::from(numerator), i128::from(denominator));
    let months = i128::from(value.months) * numerator;
    let days = i128::from(value.days) * numerator + months % denominator * i128::from(DAYS_A_MONTH);
    let nanos =
        i128::from(value.nanoseconds) * numerator + days % denominator * i128::from(NANOS_A_DAY);
    let half = denominator.abs() / 2 * nanos.signum();
    checked_interval(months / denominator, days / denominator, (nanos + half) / denominator)
}

/// The same with floats, in the steps of PostgreSQL: remainders are rounded to millionths, which
/// hides the errors of floats.
fn scale_by_float(
    value: IntervalMonthDayNano,
    scale: impl Fn(f64) -> f64,
) -> Result<IntervalMonthDayNano, ArrowError> {
    let rounded = |remainder: f64| (remainder * 1e6).round() / 1e6;
    let (months, days) = (scale(f64::from(value.months)), scale(f64::from(value.days)));
    let more_days = rounded(months.fract() * DAYS_A_MONTH as f64);
    let seconds = rounded((days.fract() + more_days.fract()) * SECONDS_A_DAY);
    let carried = (seconds / SECONDS_A_DAY).trunc();
    let days = days.trunc() + more_days.trunc() + carried;
    let nanos = scale(value.nanoseconds as f64) + (seconds - carried * SECONDS_A_DAY) * 1e9;
    if ![months, days, nanos].into_iter().all(f64::is_finite) {
        return Err(out_of_range());
    }
    checked_interval(months as i128, days as i128, nanos.round() as i128)
}

/// An error if a field overflows.
fn checked_interval(
    months: i128,
    days: i128,
    nanos: i128,
) -> Result<IntervalMonthDayNano, ArrowError> {
    let field = |value: i128| i32::try_from(value).map_err(|_| out_of_range());
    let nanos = i64::try_from(nanos).map_err(|_| out_of_range())?;
    Ok(IntervalMonthDayNano::new(field(months)?, field(days)?, nanos))
}

fn out_of_range() -> ArrowError {
    ArrowError::ArithmeticOverflow("the interval is out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use arrow_array::{DurationSecondArray, IntervalYearMonthArray};

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn interval(months: i32, days: i32, nanos: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanos)
    }

    #[test]
    fn lengths_have_months_of_30_days_and_days_of_24_hours() {
        let values = [
            Some(interval(0, 1, 0)),
            Some(interval(0, 0, 24 * HOUR)),
            None,
            Some(interval(1, -30, -1)),
        ];
        let values: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from_iter(values));
        let found = lengths(&values).unwrap();
        let day = Some(i128::from(NANOS_A_DAY));
        assert_eq!(found.iter().collect::<Vec<_>>(), [day, day, None, Some(-1)]);
        let years: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![12]));
        assert_eq!(lengths(&years).unwrap().value(0), 360 * i128::from(NANOS_A_DAY));
        let seconds: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert_eq!(lengths(&seconds).unwrap().value(0), i128::from(i64::MAX) * 1_000_000_000);
    }

    #[test]
    fn differences_are_split_into_days() {
        let seconds: ArrayRef = Arc::new(DurationSecondArray::from(vec![90_000, -90_000]));
        let found = intervals(&seconds).unwrap();
        assert_eq!(found.values().as_ref(), [interval(0, 1, HOUR), interval(0, -1, -HOUR)]);
        let too_long: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert!(intervals(&too_long).is_err());
    }

    #[test]
    fn remainders_go_to_the_smaller_fields() {
        for (value, numerator, denominator, expected) in [
            (interval(1, 2, HOUR), 3, 1, interval(3, 6, 3 * HOUR)),
            (interval(1, 0, 0), 1, 4, interval(0, 7, 12 * HOUR)),
            (interval(-1, 0, 0), 1, 4, interval(0, -7, -12 * HOUR)),
            (interval(0, 1, 0), 1, -3, interval(0, 0, -8 * HOUR)),
            (interval(0, 0, 2), 1, 3, interval(0, 0, 1)),
            (interval(0, 0, i64::MIN), 1, 1, interval(0, 0, i64::MIN)),
        ] {
            assert_eq!(
                scale_by_ratio(value, numerator, denominator).unwrap(),
                expected,
                "{value:?} * {numerator} / {denominator}"
            );
        }
        assert!(scale_by_ratio(interval(1, 0, 0), i64::MAX, 1).is_err());
        assert!(scale_by_ratio(interval(0, 0, i64::MIN), i64::MIN, 1).is_err());
        assert!(scale_by_ratio(interval(1, 0, 0), 1, 0).is_err());
    }

    #[test]
    fn floats_are_rounded_as_in_postgres() {
        for (value, by, expected) in [
            (interval(1, 0, 0), 1.5, interval(1, 15, 0)),
            (interval(-1, 0, 0), 1.5, interval(-1, -15, 0)),
            (interval(1, 0, 0), 0.51, interval(0, 15, 7 * HOUR + HOUR / 5)),
            (interval(1, 0, 0), 0.7, interval(0, 21, 0)),
            (interval(0, 1, HOUR), 0.5, interval(0, 0, 12 * HOUR + HOUR / 2)),
            (interval(0, 10, 0), 1.1, interval(0, 11, 0)),
        ] {
            assert_eq!(
                scale_by_float(value, |field| field * by).unwrap(),
                expected,
                "{value:?} * {by}"
            );
        }
        for by in [f64::NAN, f64::INFINITY, 1e300] {
            assert!(scale_by_float(interval(1, 1, 1), |field| field * by).is_err(), "{by}");
        }
        let one: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![interval(0, 1, 0)]));
        let zero: ArrayRef = Arc::new(Float64Array::from(vec![-0.0]));
        assert!(scaled(&one, &zero, true).is_err());
    }
}
