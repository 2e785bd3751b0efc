//! `date_trunc` over the whole range of a timestamp's unit.
//!
//! DataFusion (55.2) computes in nanoseconds, which end in 2262, and makes dates and texts
//! timestamps of nanoseconds. Here timestamps of other units are truncated in their own unit, by
//! the calendar that is continued before its time; dates and texts are timestamps of microseconds.
//! What has a zone other than UTC, nanoseconds and times of day is DataFusion's. Decades, centuries
//! and millennia are added, as PostgreSQL has them: a century begins with its year 1.

use std::sync::Arc;

use arrow_array::types::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
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

use super::is_utc_or_none;

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
    ScalarUDF::from(Truncate { signature, known: date_trunc() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Truncate {
    signature: Signature,
    known: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Truncate {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> DataFusionResult<DataType> {
        self.known.return_type(of)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef> {
        self.known.return_field_from_args(args)
    }

    fn output_ordering(&self, of: &[ExprProperties]) -> DataFusionResult<SortProperties> {
        self.known.output_ordering(of)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.documentation()
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if let [ColumnarValue::Scalar(part), times] = given.args.as_slice()
            && let Some(Some(part)) = part.try_as_str()
            && let DataType::Timestamp(unit, zone) = times.data_type()
            && is_utc_or_none(&zone)
            && let Some(step) = Step::of(part, unit)
        {
            let too_early = || {
                exec_datafusion_err!(
                    "the {part} of a timestamp begins before the first that its unit holds"
                )
            };
            return of_each(times, |value| step.begun(value, unit), too_early);
        }
        if let [ColumnarValue::Scalar(part), _] = given.args.as_slice()
            && let Some(Some(part)) = part.try_as_str()
            && !PARTS.contains(&part.to_ascii_lowercase().as_str())
        {
            return exec_err!("date_trunc() knows no part {part:?}; it knows {}", PARTS.join(", "));
        }
        self.known.invoke_with_args(given)
    }
}

/// What a timestamp can be taken back to the beginning of.
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

/// What timestamps become, value by value; a scalar stays one. The error is of a value that becomes
/// nothing.
pub(super) fn of_each(
    times: &ColumnarValue,
    of_one: impl Fn(i64) -> Option<i64>,
    error: impl Fn() -> DataFusionError,
) -> DataFusionResult<ColumnarValue> {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            each::<TimestampSecondType>(times, of_one, error)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each::<TimestampMillisecondType>(times, of_one, error)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each::<TimestampMicrosecondType>(times, of_one, error)
        }
        _ => each::<TimestampNanosecondType>(times, of_one, error),
    }
}

fn each<T: ArrowTimestampType>(
    times: &ColumnarValue,
    of_one: impl Fn(i64) -> Option<i64>,
    error: impl Fn() -> DataFusionError,
) -> DataFusionResult<ColumnarValue> {
    let array = times.to_array(1)?;
    let values = as_primitive_array::<T>(&array)?;
    // An error in each result would be large.
    let made =
        values.try_unary::<_, T, ()>(|value| of_one(value).ok_or(())).map_err(|()| error())?;
    let made = made.with_timezone_opt(values.timezone());
    Ok(match times {
        ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        ColumnarValue::Array(_) => ColumnarValue::Array(Arc::new(made)),
    })
}

/// How far apart the beginnings are that timestamps are taken back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Each timestamp is one.
    Nothing,
    /// A number of the timestamp's units.
    Units(i64),
    Week,
    Months(i64),
    /// A number of years, counted so that one of the beginnings is the year of the second number.
    Years(i64, i64),
}

impl Step {
    /// That of a part; `None` where DataFusion is to answer or to refuse.
    fn of(part: &str, unit: TimeUnit) -> Option<Step> {
        let second = per_second(unit);
        let years = match part.to_ascii_lowercase().as_str() {
            "decade" => Some(Step::Years(10, 0)),
            "century" => Some(Step::Years(100, 1)),
            "millennium" => Some(Step::Years(1_000, 1)),
            _ => None,
        };
        if years.is_some() || unit == TimeUnit::Nanosecond {
            return years;
        }
        Some(match part.to_ascii_lowercase().as_str() {
            "microsecond" => Step::parts(second / 1_000_000),
            "millisecond" => Step::parts(second / 1_000),
            "second" => Step::parts(second),
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

    /// Steps of this length, or none where the timestamp's unit is not finer.
    fn parts(units: i64) -> Step {
        if units > 1 { Step::Units(units) } else { Step::Nothing }
    }

    /// The last beginning that is not after a timestamp; `None` if its unit does not hold that.
    fn begun(self, value: i64, unit: TimeUnit) -> Option<i64> {
        let day = per_second(unit) * DAY;
        let days = value.div_euclid(day);
        let first = match self {
            Step::Nothing => return Some(value),
            Step::Units(units) => return value.checked_sub(value.rem_euclid(units)),
            // The first of January 1970 was a Thursday.
            Step::Week => days - (days + 3).rem_euclid(7),
            Step::Months(1) => days - date_of(days).2 + 1,
            Step::Months(months) => {
                let (year, month, _) = date_of(days);
                let month = year * 12 + month - 1;
                first_of(month - month.rem_euclid(months))
            }
            Step::Years(length, one) => {
                let (year, ..) = date_of(days);
                first_of((year - (year - one).rem_euclid(length)) * 12)
            }
        };
        first.checked_mul(day)
    }
}

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// How many of a unit a second has.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Days of 400 years, after which the calendar is the same again.
const ERA: i64 = 146_097;
/// Days from the first of March of the year 0 to 1970.
const SHIFT: i64 = 719_468;

/// The year, the month from 1 and the day from 1 of a number of days since 1970. Years begin with
/// March while this is computed, so that a leap day is the last of its year. The days may be more
/// than any library of dates knows.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let (era, day) = ((days + SHIFT).div_euclid(ERA), (days + SHIFT).rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// The days since 1970 at the first of a month, these counted from the year 0.
pub(super) fn first_of(month: i64) -> i64 {
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
            assert_eq!(date_of(days), expected);
            assert_eq!(first_of(expected.0 * 12 + expected.1 - 1) + expected.2 - 1, days);
        }
    }

    fn truncated(part: &str, date: &str) -> String {
        let unit = TimeUnit::Second;
        let days = date.parse::<NaiveDate>().unwrap().to_epoch_days();
        let begun =
            Step::of(part, unit).unwrap().begun(i64::from(days) * DAY + 3_661, unit).unwrap();
        let begun =
            NaiveDate::from_epoch_days(i32::try_from(begun.div_euclid(DAY)).unwrap()).unwrap();
        begun.to_string()
    }

    #[test]
    fn parts_begin_where_they_do() {
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
    fn units_have_ends() {
        let unit = TimeUnit::Microsecond;
        assert_eq!(Step::Week.begun(i64::MIN, unit), None);
        assert!(Step::Months(12).begun(i64::MAX, unit).is_some());
        assert!(Step::Months(12).begun(i64::MIN, TimeUnit::Second).is_none_or(|first| first < 0));
        assert_eq!(Step::of("millisecond", TimeUnit::Second), Some(Step::Nothing));
        assert_eq!(Step::of("second", TimeUnit::Second), Some(Step::Nothing));
        assert_eq!(Step::of("day", TimeUnit::Nanosecond), None);
    }
}
