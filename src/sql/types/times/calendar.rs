//! `date_trunc` over the whole range of a timestamp's unit.
//!
//! DataFusion (55.2) computes in nanoseconds, which end in 2262, and makes dates and texts
//! timestamps in nanoseconds. Here timestamps of other units are truncated in their own unit, by
//! the proleptic Gregorian calendar; dates and texts become timestamps in microseconds. Zones other
//! than UTC, nanoseconds and times of day are left to DataFusion. Decades, centuries and millennia
//! are added, as in PostgreSQL: a century begins with its year 1.

use std::sync::Arc;

use arrow_array::types::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use datafusion::common::cast::as_primitive_array;
use datafusion::common::types::{NativeType, logical_date, logical_string};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::functions::datetime::date_trunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Coercion, ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TypeSignature, TypeSignatureClass, Volatility,
};

use crate::expr::division::{Divisor, NEAR};

use super::units::{DAY, is_utc_or_none, per_second};

/// `date_trunc(part, time)`.
pub(super) fn function() -> ScalarUDF {
    let part = || Coercion::new_exact(TypeSignatureClass::Native(logical_string()));
    let others = vec![
        TypeSignatureClass::Native(logical_string()),
        TypeSignatureClass::Native(logical_date()),
    ];
    let micros = NativeType::Timestamp(TimeUnit::Microsecond, None);
    let time = Coercion::new_implicit(TypeSignatureClass::Timestamp, others, micros);
    let signature = Signature::one_of(
        vec![
            TypeSignature::Coercible(vec![part(), time]),
            TypeSignature::Coercible(vec![part(), Coercion::new_exact(TypeSignatureClass::Time)]),
        ],
        Volatility::Immutable,
    );
    ScalarUDF::from(Truncate { signature, inner: date_trunc() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Truncate {
    signature: Signature,
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Truncate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn output_ordering(&self, arguments: &[ExprProperties]) -> DataFusionResult<SortProperties> {
        self.inner.output_ordering(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if let [ColumnarValue::Scalar(part), _] = given.args.as_mut_slice()
            && let Some(Some(name)) = part.try_as_str()
            && let Some(one) = singular(name)
        {
            *part = ScalarValue::from(one);
        }
        if let [ColumnarValue::Scalar(part), times] = given.args.as_slice()
            && let Some(Some(part)) = part.try_as_str()
            && let DataType::Timestamp(unit, zone) = times.data_type()
            && is_utc_or_none(&zone)
            && let Some(step) = Step::from_part(part, unit)
        {
            let too_early = || {
                exec_datafusion_err!(
                    "the {part} of a timestamp begins before the first that its unit holds"
                )
            };
            let truncated = truncated_together(times, step, unit)?;
            return truncated.map_or_else(
                || map_timestamps(times, |value| step.truncate(value, unit), too_early),
                Ok,
            );
        }
        if let [ColumnarValue::Scalar(part), _] = given.args.as_slice()
            && let Some(Some(part)) = part.try_as_str()
            && !PARTS.contains(&part.to_ascii_lowercase().as_str())
        {
            return exec_err!("date_trunc() knows no part {part:?}; it knows {}", PARTS.join(", "));
        }
        self.inner.invoke_with_args(given)
    }
}

/// The parts to which a timestamp can be truncated.
const PARTS: [&str; 13] = [
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
];

/// The name of a part that is given in plural.
fn singular(part: &str) -> Option<&'static str> {
    let part = part.to_ascii_lowercase();
    let one = match part.as_str() {
        "centuries" => "century",
        "millennia" | "millenniums" => "millennium",
        many => many.strip_suffix('s')?,
    };
    PARTS.into_iter().find(|known| *known == one)
}

/// Maps timestamps value by value; a scalar stays a scalar. If the map gives `None` for a value,
/// the result is the error.
pub(super) fn map_timestamps(
    times: &ColumnarValue,
    map: impl Fn(i64) -> Option<i64>,
    error: impl Fn() -> DataFusionError,
) -> DataFusionResult<ColumnarValue> {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            map_typed::<TimestampSecondType>(times, map, error)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            map_typed::<TimestampMillisecondType>(times, map, error)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            map_typed::<TimestampMicrosecondType>(times, map, error)
        }
        _ => map_typed::<TimestampNanosecondType>(times, map, error),
    }
}

fn map_typed<T: ArrowTimestampType>(
    times: &ColumnarValue,
    map: impl Fn(i64) -> Option<i64>,
    error: impl Fn() -> DataFusionError,
) -> DataFusionResult<ColumnarValue> {
    let array = times.to_array(1)?;
    let values = as_primitive_array::<T>(&array)?;
    // `()` keeps the results small: an error is large.
    let mapped =
        values.try_unary::<_, T, ()>(|value| map(value).ok_or(())).map_err(|()| error())?;
    let mapped = mapped.with_timezone_opt(values.timezone());
    Ok(match times {
        ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&mapped, 0)?),
        ColumnarValue::Array(_) => ColumnarValue::Array(Arc::new(mapped)),
    })
}

/// Timestamps truncated by vector instructions; `None` for a scalar, and where they are so far
/// apart that it would not pay.
fn truncated_together(
    times: &ColumnarValue,
    step: Step,
    unit: TimeUnit,
) -> DataFusionResult<Option<ColumnarValue>> {
    let ColumnarValue::Array(times) = times else { return Ok(None) };
    Ok(match unit {
        TimeUnit::Second => step.truncate_array::<TimestampSecondType>(times, unit)?,
        TimeUnit::Millisecond => step.truncate_array::<TimestampMillisecondType>(times, unit)?,
        TimeUnit::Microsecond => step.truncate_array::<TimestampMicrosecondType>(times, unit)?,
        TimeUnit::Nanosecond => step.truncate_array::<TimestampNanosecondType>(times, unit)?,
    })
}

/// The distance between the values to which timestamps are truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Every timestamp stays as it is.
    None,
    /// A number of units of the timestamp.
    Units(i64),
    Week,
    Months(i64),
    /// A number of years; one of the steps begins with the year `origin`.
    Years {
        length: i64,
        origin: i64,
    },
}

impl Step {
    /// `None` if DataFusion computes or refuses the part.
    fn from_part(part: &str, unit: TimeUnit) -> Option<Step> {
        let second = per_second(unit);
        let years = match part.to_ascii_lowercase().as_str() {
            "decade" => Some(Step::Years { length: 10, origin: 0 }),
            "century" => Some(Step::Years { length: 100, origin: 1 }),
            "millennium" => Some(Step::Years { length: 1_000, origin: 1 }),
            _ => None,
        };
        if years.is_some() || unit == TimeUnit::Nanosecond {
            return years;
        }
        Some(match part.to_ascii_lowercase().as_str() {
            "microsecond" => Step::units_or_none(second / 1_000_000),
            "millisecond" => Step::units_or_none(second / 1_000),
            "second" => Step::units_or_none(second),
            "minute" => Step::Units(second * 60),
            "hour" => Step::Units(second * 3_600),
            "day" => Step::Units(second * DAY),
            "week" => Step::Week,
            "month" => Step::Months(1),
            "quarter" => Step::Months(3),
            "year" => Step::Months(12),
            _ => return None,
        })
    }

    /// Steps of this length, or none if the unit of the timestamp is not finer.
    fn units_or_none(units: i64) -> Step {
        if units > 1 { Step::Units(units) } else { Step::None }
    }

    fn truncate_array<T: ArrowTimestampType>(
        self,
        times: &ArrayRef,
        unit: TimeUnit,
    ) -> DataFusionResult<Option<ColumnarValue>> {
        let times = as_primitive_array::<T>(times)?;
        Ok(self.truncate_all(times.values(), unit).map(|truncated| {
            let truncated = PrimitiveArray::<T>::new(truncated.into(), times.nulls().cloned());
            ColumnarValue::Array(Arc::new(truncated.with_timezone_opt(times.timezone())))
        }))
    }

    /// The beginnings of the steps of near timestamps, of fewer days than there are values where it
    /// depends on the day; `None` of others, and where one has none.
    fn truncate_all(self, values: &[i64], unit: TimeUnit) -> Option<Vec<i64>> {
        let width = match self {
            Step::None => return Some(values.to_vec()),
            Step::Units(units) => units,
            Step::Week | Step::Months(_) | Step::Years { .. } => per_second(unit) * DAY,
        };
        let (least, greatest) = (values.iter().min()?, values.iter().max()?);
        let (first, last) = (least.div_euclid(width), greatest.div_euclid(width));
        let base = first.checked_mul(width)?;
        if greatest.abs_diff(base) >= NEAR {
            return None;
        }
        let mut steps = Divisor::new(width)?.near_quotients(base, values);
        if let Step::Units(_) = self {
            steps.iter_mut().for_each(|step| *step = base + *step * width);
            return Some(steps);
        }
        if last - first >= values.len() as i64 {
            return None;
        }
        let days = (first..=last).map(|day| self.truncate(day * width, unit));
        let days: Vec<i64> = days.collect::<Option<_>>()?;
        steps.iter().map(|step| days.get(usize::try_from(*step).ok()?).copied()).collect()
    }

    /// The beginning of the step of a timestamp; `None` if its unit does not hold that.
    fn truncate(self, value: i64, unit: TimeUnit) -> Option<i64> {
        let day = per_second(unit) * DAY;
        let days = value.div_euclid(day);
        let first_day = match self {
            Step::None => return Some(value),
            Step::Units(units) => return value.checked_sub(value.rem_euclid(units)),
            // The first of January 1970 was a Thursday.
            Step::Week => days - (days + 3).rem_euclid(7),
            Step::Months(1) => days - date_of_days(days).2 + 1,
            Step::Months(months) => {
                let (year, month, _) = date_of_days(days);
                let month = year * 12 + month - 1;
                days_to_month(month - month.rem_euclid(months))
            }
            Step::Years { length, origin } => {
                let (year, ..) = date_of_days(days);
                days_to_month((year - (year - origin).rem_euclid(length)) * 12)
            }
        };
        first_day.checked_mul(day)
    }
}

/// The days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// The days from the first of March of the year 0 to 1970.
const SHIFT: i64 = 719_468;

/// The year, the month from 1 and the day from 1, of a number of days since 1970. The computation
/// lets years begin in March, so that a leap day is the last of its year. It is done here because
/// the days may be beyond the range of any date library.
pub(in crate::sql) fn date_of_days(days: i64) -> (i64, i64, i64) {
    let (era, day) = ((days + SHIFT).div_euclid(ERA), (days + SHIFT).rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// The days from 1970 to the first day of a month. Months are counted from the year 0.
pub(in crate::sql) fn days_to_month(month: i64) -> i64 {
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    era * ERA + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 - SHIFT
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for days in (-800_000..4_000_000).step_by(17) {
            let date = NaiveDate::from_epoch_days(days).unwrap();
            let expected = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            let days = i64::from(days);
            assert_eq!(date_of_days(days), expected);
            assert_eq!(days_to_month(expected.0 * 12 + expected.1 - 1) + expected.2 - 1, days);
        }
    }

    fn truncated(part: &str, date: &str) -> String {
        let unit = TimeUnit::Second;
        let days = date.parse::<NaiveDate>().unwrap().to_epoch_days();
        let truncated = Step::from_part(part, unit)
            .unwrap()
            .truncate(i64::from(days) * DAY + 3_661, unit)
            .unwrap();
        let days = i32::try_from(truncated.div_euclid(DAY)).unwrap();
        NaiveDate::from_epoch_days(days).unwrap().to_string()
    }

    #[test]
    fn truncates_to_the_beginning_of_a_part() {
        for (part, date, expected) in [
            ("day", "1600-03-05", "1600-03-05"),
            ("week", "1600-03-05", "1600-02-28"),
            ("week", "9999-12-31", "9999-12-27"),
            ("MONTH", "9999-12-31", "9999-12-01"),
            ("quarter", "9999-12-31", "9999-10-01"),
            ("quarter", "1600-03-05", "1600-01-01"),
            ("year", "0001-06-05", "0001-01-01"),
            ("decade", "1999-12-31", "1990-01-01"),
            ("century", "2000-12-31", "1901-01-01"),
            ("century", "2001-01-01", "2001-01-01"),
            ("millennium", "2000-06-01", "1001-01-01"),
            ("century", "0000-06-01", "-0099-01-01"),
            ("decade", "-0001-06-01", "-0010-01-01"),
        ] {
            assert_eq!(truncated(part, date), expected, "{part} of {date}");
        }
    }

    #[test]
    fn parts_have_plurals() {
        assert_eq!(singular("Milliseconds"), Some("millisecond"));
        assert_eq!(singular("centuries"), Some("century"));
        assert_eq!(singular("days"), Some("day"));
        assert_eq!(singular("day"), None);
        assert_eq!(singular("moons"), None);
    }

    #[test]
    fn many_are_truncated_as_one() {
        let parts =
            ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"];
        for (first, step) in [(-7_000_000_007, 86_399), (1_700_000_000, 61), (0, 9_999_999)] {
            for unit in [TimeUnit::Second, TimeUnit::Microsecond] {
                let values: Vec<i64> = (0..5000)
                    .map(|at| (first + at * step) * per_second(unit) + at % per_second(unit))
                    .collect();
                for part in parts {
                    let step = Step::from_part(part, unit).unwrap();
                    let right = values.iter().map(|value| step.truncate(*value, unit)).collect();
                    let found = step.truncate_all(&values, unit);
                    assert!(found.is_none() || found == right, "{part} {first}");
                    assert!(found.is_some() || step != Step::Units(60), "{part} {first}");
                }
            }
        }
        let far = [i64::MIN, i64::MAX];
        assert_eq!(Step::Week.truncate_all(&far, TimeUnit::Microsecond), None);
        assert_eq!(Step::Units(60).truncate_all(&[], TimeUnit::Second), None);
    }

    #[test]
    fn results_beyond_the_unit_are_none() {
        let unit = TimeUnit::Microsecond;
        assert_eq!(Step::Week.truncate(i64::MIN, unit), None);
        assert!(Step::Months(12).truncate(i64::MAX, unit).is_some());
        assert!(
            Step::Months(12).truncate(i64::MIN, TimeUnit::Second).is_none_or(|first| first < 0)
        );
        assert_eq!(Step::from_part("millisecond", TimeUnit::Second), Some(Step::None));
        assert_eq!(Step::from_part("second", TimeUnit::Second), Some(Step::None));
        assert_eq!(Step::from_part("day", TimeUnit::Nanosecond), None);
    }
}
