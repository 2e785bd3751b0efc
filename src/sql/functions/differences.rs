//! `date_diff(part, a, b)` counts the boundaries of a part of the calendar between two times, and
//! `date_sub(part, a, b)` the whole parts that lie between them, as in DuckDB.
//!
//! Where this stands on the road of a query: a session registers them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::sql::types::times::{date_of_days, days_to_month};

/// The microseconds of a day.
pub(super) const DAY: i64 = 86_400_000_000;

/// Both functions.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Boundaries, Kind::Whole].into_iter().map(|kind| {
        ScalarUDF::from(Difference { kind, signature: Signature::any(3, Volatility::Immutable) })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Boundaries,
    Whole,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Difference {
    kind: Kind,
    signature: Signature,
}

/// A part of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A number of microseconds; the first began in 1970.
    Micros(i64),
    Week,
    /// A number of months; the first began with the year 0.
    Months(i64),
}

impl Part {
    fn from_name(name: &str) -> Option<Part> {
        Some(match name.to_ascii_lowercase().as_str() {
            "microsecond" | "microseconds" | "us" | "usec" => Part::Micros(1),
            "millisecond" | "milliseconds" | "ms" | "msec" => Part::Micros(1_000),
            "second" | "seconds" | "sec" | "secs" | "s" => Part::Micros(1_000_000),
            "minute" | "minutes" | "min" | "mins" | "m" => Part::Micros(60_000_000),
            "hour" | "hours" | "hr" | "hrs" | "h" => Part::Micros(3_600_000_000),
            "day" | "days" | "d" | "dayofmonth" => Part::Micros(DAY),
            "week" | "weeks" | "w" => Part::Week,
            "month" | "months" | "mon" | "mons" => Part::Months(1),
            "quarter" | "quarters" => Part::Months(3),
            "year" | "years" | "yr" | "yrs" | "y" => Part::Months(12),
            "decade" | "decades" => Part::Months(120),
            "century" | "centuries" => Part::Months(1_200),
            "millennium" | "millennia" => Part::Months(12_000),
            _ => return None,
        })
    }

    /// How many parts begin after `from` and not after `to`.
    fn boundaries(self, from: i64, to: i64) -> i64 {
        let number = |time: i64| match self {
            Part::Micros(width) => time.div_euclid(width),
            // DuckDB counts distances here, and no Mondays.
            Part::Week => time.div_euclid(DAY),
            Part::Months(months) => month_of(time).div_euclid(months),
        };
        let count = number(to).saturating_sub(number(from));
        if self == Part::Week { count / 7 } else { count }
    }

    /// How many whole parts are between two times.
    fn whole(self, from: i64, to: i64) -> i64 {
        match self {
            Part::Micros(width) => to.saturating_sub(from) / width,
            Part::Week => to.saturating_sub(from) / (7 * DAY),
            Part::Months(months) if from > to => -whole_months(to, from) / months,
            Part::Months(months) => whole_months(from, to) / months,
        }
    }
}

/// The number of a month since the year 0.
fn month_of(time: i64) -> i64 {
    let (year, month, _) = date_of_days(time.div_euclid(DAY));
    year * 12 + month - 1
}

/// The whole months between times in their order. From the end of a month to the end of a shorter
/// one, a month is whole.
fn whole_months(from: i64, to: i64) -> i64 {
    let (first, last) = (month_of(from), month_of(to));
    let in_month =
        |time: i64, month: i64| (time.div_euclid(DAY) - days_to_month(month), time.rem_euclid(DAY));
    let (mut start, end) = (in_month(from, first), in_month(to, last));
    if to.div_euclid(DAY) + 1 == days_to_month(last + 1) {
        start.0 = start.0.min(end.0);
    }
    let is_whole = start <= end;
    last - first - i64::from(!is_whole)
}

impl ScalarUDFImpl for Difference {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Boundaries => "date_diff",
            Kind::Whole => "date_sub",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let is_time = |of: &DataType| {
            matches!(
                of,
                DataType::Date32
                    | DataType::Date64
                    | DataType::Timestamp(..)
                    | DataType::Time64(_)
                    | DataType::Null
            ) || of.is_string()
        };
        match arguments {
            [part, from, to] if part.is_string() && is_time(from) && is_time(to) => {
                Ok(DataType::Int64)
            }
            _ => plan_err!(
                "{0}() takes a part and two dates or timestamps: {0}('day', a, b)",
                self.name()
            ),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [ColumnarValue::Scalar(part), from, to] = given.args.as_slice() else {
            return exec_err!("the part of {}() is a constant, such as 'day'", self.name());
        };
        let Some(Some(name)) = part.try_as_str() else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Int64(None)));
        };
        let Some(part) = Part::from_name(name) else {
            return exec_err!(
                "{}() knows no part {name:?}; it knows microsecond, millisecond, second, minute, \
                 hour, day, week, month, quarter, year, decade, century, millennium",
                self.name()
            );
        };
        let count = |from, to| match self.kind {
            Kind::Boundaries => part.boundaries(from, to),
            Kind::Whole => part.whole(from, to),
        };
        if let (ColumnarValue::Scalar(from), ColumnarValue::Scalar(to)) = (from, to) {
            let (from, to) = (micros(&from.to_array()?)?, micros(&to.to_array()?)?);
            let both = from.is_valid(0) && to.is_valid(0);
            let counted = both.then(|| count(from.value(0), to.value(0)));
            return Ok(ColumnarValue::Scalar(ScalarValue::Int64(counted)));
        }
        let (from, to) = (
            micros(&from.to_array(given.number_rows)?)?,
            micros(&to.to_array(given.number_rows)?)?,
        );
        let counted = from.iter().zip(to.iter()).map(|pair| match pair {
            (Some(from), Some(to)) => Some(count(from, to)),
            _ => None,
        });
        Ok(ColumnarValue::Array(Arc::new(counted.collect::<Int64Array>())))
    }
}

/// Times as microseconds since 1970, or since midnight.
pub(super) fn micros(times: &ArrayRef) -> DataFusionResult<Int64Array> {
    let per_unit = match times.data_type() {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) => match unit {
            TimeUnit::Second => 1_000_000,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1,
            // Times before 1970 are rounded down, too.
            TimeUnit::Nanosecond => {
                let nanos = cast(times, &DataType::Int64)?;
                return Ok(nanos
                    .as_primitive::<Int64Type>()
                    .unary(|nanos| nanos.div_euclid(1_000)));
            }
        },
        DataType::Date32 => DAY,
        _ => {
            let stamps = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            return micros(&stamps);
        }
    };
    let counted = match times.data_type() {
        DataType::Date32 => cast(&cast(times, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(times, &DataType::Int64)?,
    };
    let counted = counted.as_primitive::<Int64Type>();
    counted.try_unary(|count| count.checked_mul(per_unit).ok_or_else(too_far))
}

#[cold]
fn too_far() -> DataFusionError {
    exec_datafusion_err!("a time is too far from 1970 to be counted in microseconds")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(year: i64, month: i64, day: i64) -> i64 {
        (days_to_month(year * 12 + month - 1) + day - 1) * DAY
    }

    #[test]
    fn ends_of_months_are_whole() {
        let months = |from, to| Part::Months(1).whole(from, to);
        assert_eq!(months(at(2024, 1, 31), at(2024, 2, 29)), 1);
        assert_eq!(months(at(2024, 1, 31) + 1, at(2024, 2, 29)), 0);
        assert_eq!(months(at(2024, 2, 29), at(2024, 1, 31)), -1);
        assert_eq!(months(at(2024, 2, 29) + 9, at(2024, 3, 31)), 1);
        assert_eq!(months(at(2024, 1, 30), at(2024, 2, 28)), 0);
        assert_eq!(months(at(2024, 3, 31), at(2024, 2, 29)), -1);
        assert_eq!(Part::Months(12).whole(at(2020, 2, 29), at(2021, 2, 28)), 1);
    }

    #[test]
    fn boundaries_before_1970_are_counted_alike() {
        let hour = Part::from_name("hour").unwrap();
        assert_eq!(hour.boundaries(-1, 0), 1);
        assert_eq!(hour.boundaries(-3_600_000_001, -1), 1);
        assert_eq!(Part::Week.boundaries(at(2024, 1, 7), at(2024, 1, 8)), 0);
        assert_eq!(Part::Week.boundaries(at(2024, 1, 3), at(2024, 1, 10)), 1);
        assert_eq!(Part::Months(120).boundaries(at(1969, 1, 1), at(1970, 1, 1)), 1);
    }
}
