//! `date_bin` over the whole range of a timestamp's unit.
//!
//! DataFusion (55.2) computes in nanoseconds, and gives null for timestamps that these do not hold,
//! before 1677 and after 2262. Here timestamps of other units stay in their unit, and the origin
//! may have any unit. Timestamps in nanoseconds and times of day are left to DataFusion.

use std::sync::Arc;

use arrow_array::types::{IntervalDayTimeType, IntervalMonthDayNanoType};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::functions::datetime::date_bin;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::calendar::{date_of_days, days_to_month, map_timestamps};
use super::time_of_day::{finest, is_time};
use super::units::{DAY, nanoseconds, per_second, timestamp_nanoseconds};

/// `date_bin(stride, time, origin)`.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(Bin {
        signature: Signature::user_defined(Volatility::Immutable),
        inner: date_bin(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bin {
    signature: Signature,
    inner: Arc<ScalarUDF>,
}

impl Bin {
    /// The types to which DataFusion coerces the arguments.
    fn coerced_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        let fields: Vec<FieldRef> = arguments
            .iter()
            .map(|argument| Arc::new(Field::new("", argument.clone(), true)))
            .collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }
}

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Dates and texts become timestamps.
fn as_time(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Date32 | DataType::Date64 => MICROS,
        text if text.is_string() => MICROS,
        other => other.clone(),
    }
}

impl ScalarUDFImpl for Bin {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        let Some((stride, times)) = arguments.split_first() else {
            return self.coerced_types(arguments);
        };
        let mut types: Vec<DataType> = times.iter().map(as_time).collect();
        if let [time @ DataType::Timestamp(unit, zone), rest @ ..] = types.as_slice()
            && *unit != TimeUnit::Nanosecond
            && matches!(rest, [] | [DataType::Timestamp(..) | DataType::Null])
        {
            let strides = self.coerced_types(&[stride.clone(), MICROS])?.into_iter().take(1);
            let origins = rest.iter().map(|origin| match origin {
                DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, zone.clone()),
                _ => time.clone(),
            });
            return Ok(strides.chain([time.clone()]).chain(origins).collect());
        }
        if types.iter().all(is_time)
            && let Some(finest) = finest(types.iter()).cloned()
        {
            types.fill(finest);
        }
        types.insert(0, stride.clone());
        self.coerced_types(&types)
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.inner.return_type(arguments)
    }

    fn output_ordering(&self, arguments: &[ExprProperties]) -> DataFusionResult<SortProperties> {
        self.inner.output_ordering(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if let [ColumnarValue::Scalar(stride), times, origin @ ..] = given.args.as_slice()
            && let DataType::Timestamp(unit, _) = times.data_type()
            && unit != TimeUnit::Nanosecond
            && let Some(stride) = Stride::from_interval(stride)?
        {
            return match origin {
                [] => stride.bins(times, unit, 0),
                [ColumnarValue::Scalar(origin)] => match timestamp_nanoseconds(origin) {
                    Some(origin) => stride.bins(times, unit, origin),
                    None => Ok(ColumnarValue::Scalar(ScalarValue::try_from(&times.data_type())?)),
                },
                _ => exec_err!("the origin of date_bin() must be a constant"),
            };
        }
        self.inner.invoke_with_args(given)
    }
}

/// The length of a bin.
#[derive(Clone, Copy, Debug)]
enum Stride {
    Nanoseconds(i128),
    Months(i64),
}

impl Stride {
    /// `None` for null, for a length of zero, and for months together with days or time: DataFusion
    /// computes or refuses those.
    fn from_interval(interval: &ScalarValue) -> DataFusionResult<Option<Stride>> {
        let day = nanoseconds(TimeUnit::Second) * i128::from(DAY);
        let stride = match interval {
            ScalarValue::IntervalDayTime(Some(value)) => {
                let (days, millis) = IntervalDayTimeType::to_parts(*value);
                let millis = i128::from(millis) * nanoseconds(TimeUnit::Millisecond);
                Stride::Nanoseconds(i128::from(days) * day + millis)
            }
            ScalarValue::IntervalMonthDayNano(Some(value)) => {
                match IntervalMonthDayNanoType::to_parts(*value) {
                    (0, days, nanos) => {
                        Stride::Nanoseconds(i128::from(days) * day + i128::from(nanos))
                    }
                    (months, 0, 0) => Stride::Months(months.into()),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        match stride {
            Stride::Nanoseconds(0) => Ok(None),
            Stride::Nanoseconds(..0) | Stride::Months(..0) => {
                exec_err!("the interval of date_bin() must be longer than zero")
            }
            stride => Ok(Some(stride)),
        }
    }

    /// The beginnings of the bins of timestamps. One bin begins at the origin, given in
    /// nanoseconds.
    fn bins(
        self,
        times: &ColumnarValue,
        unit: TimeUnit,
        origin: i128,
    ) -> DataFusionResult<ColumnarValue> {
        match self {
            Stride::Months(months) => {
                let origin = Origin::from_nanoseconds(origin);
                map_timestamps(times, |value| origin.bin(value, months, unit), out_of_range)
            }
            Stride::Nanoseconds(stride) => match in_units(stride, origin, unit) {
                Some((stride, origin)) => map_timestamps(
                    times,
                    |value| {
                        let offset = value.rem_euclid(stride) - origin;
                        let offset = if offset < 0 { offset + stride } else { offset };
                        value.checked_sub(offset)
                    },
                    out_of_range,
                ),
                None => map_timestamps(
                    times,
                    |value| {
                        let value = i128::from(value) * nanoseconds(unit);
                        let bin = value - (value - origin).rem_euclid(stride);
                        i64::try_from(bin.div_euclid(nanoseconds(unit))).ok()
                    },
                    out_of_range,
                ),
            },
        }
    }
}

/// The stride and the first beginning of a bin from 1970 on, in units, if both are whole units.
fn in_units(stride: i128, origin: i128, unit: TimeUnit) -> Option<(i64, i64)> {
    let length = nanoseconds(unit);
    if stride % length != 0 || origin % length != 0 {
        return None;
    }
    let origin = (origin / length).rem_euclid(stride / length);
    Some((i64::try_from(stride / length).ok()?, i64::try_from(origin).ok()?))
}

#[cold]
fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("the bin of a timestamp begins before the first that its unit holds")
}

/// Where a bin of months begins. The others begin a multiple of the stride earlier or later, on the
/// same day and at the same time, or on the last day of a month that is shorter.
struct Origin {
    /// Counted from the year 0.
    month: i64,
    /// From 0.
    day: i64,
    /// Since midnight.
    nanos: i128,
}

impl Origin {
    fn from_nanoseconds(origin: i128) -> Origin {
        let length = nanoseconds(TimeUnit::Second) * i128::from(DAY);
        let days = i64::try_from(origin.div_euclid(length)).unwrap_or_default();
        let (year, month, day) = date_of_days(days);
        Origin { month: year * 12 + month - 1, day: day - 1, nanos: origin.rem_euclid(length) }
    }

    /// The beginning of the bin of a timestamp; `None` if its unit does not hold that.
    fn bin(&self, value: i64, months: i64, unit: TimeUnit) -> Option<i64> {
        let per_day = per_second(unit) * DAY;
        let (days, within) = (value.div_euclid(per_day), value.rem_euclid(per_day));
        let (year, month, _) = date_of_days(days);
        let month = year * 12 + month - 1;
        let month = month - (month - self.month).rem_euclid(months);
        let mut begin = self.day_in_month(month);
        // A timestamp before the day and time of the origin belongs to the previous bin.
        if (begin, self.nanos) > (days, i128::from(within) * nanoseconds(unit)) {
            begin = self.day_in_month(month - months);
        }
        let within = i64::try_from(self.nanos / nanoseconds(unit)).ok()?;
        begin.checked_mul(per_day)?.checked_add(within)
    }

    /// The day on which a bin begins in a month, in days since 1970.
    fn day_in_month(&self, month: i64) -> i64 {
        let (first, next) = (days_to_month(month), days_to_month(month + 1));
        (first + self.day).min(next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: TimeUnit = TimeUnit::Second;

    fn bin(stride: Stride, value: i64, origin: i64) -> i64 {
        let times = ColumnarValue::Scalar(ScalarValue::TimestampSecond(Some(value), None));
        match stride.bins(&times, UNIT, i128::from(origin) * nanoseconds(UNIT)).unwrap() {
            ColumnarValue::Scalar(ScalarValue::TimestampSecond(Some(bin), None)) => bin,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bins_have_the_length_of_the_stride() {
        let day = Stride::Nanoseconds(nanoseconds(UNIT) * i128::from(DAY));
        assert_eq!(bin(day, 253_402_300_799, 0), 253_402_214_400);
        assert_eq!(bin(day, -20_000_000_001, 0), -20_000_044_800);
        assert_eq!(bin(day, 5, 10), 10 - DAY);
        assert_eq!(bin(day, 10, 10), 10);
        let halves = Stride::Nanoseconds(nanoseconds(UNIT) / 2);
        assert_eq!(bin(halves, -7, 0), -7);
    }

    #[test]
    fn months_begin_at_the_day_of_the_origin() {
        let first = |month: i64| days_to_month(1970 * 12 + month) * DAY;
        assert_eq!(bin(Stride::Months(1), first(3) + 5, 0), first(3));
        assert_eq!(bin(Stride::Months(3), first(-1), 0), first(-3));
        // With an origin on the 31st of January, the next bin begins on the last of February.
        let origin = first(1) - DAY;
        assert_eq!(bin(Stride::Months(1), first(2), origin), first(2) - DAY);
        assert_eq!(bin(Stride::Months(1), first(2) - DAY - 1, origin), origin);
    }
}
