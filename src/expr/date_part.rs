//! Parts of dates and of timestamps without a zone, such as hour and month, by integer arithmetic.
//!
//! Divisors are constants. Parts of dates may stand anywhere in an expression tree: they are
//! computed beside it and passed in as inputs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, Date32Array, Int32Array};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use super::division::{Divisor, NEAR};
use super::expression::Function;
use crate::encoding::kernels::dispatch::simd;
use crate::error::Result;

/// Days of 400 years, after which the calendar and its weekdays repeat.
const ERA: i64 = 146_097;
/// Dates within this many eras of 1970 are supported, which is less than other libraries do.
const ERAS: i64 = 600;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// A part of a date or timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The year.
    Year,
    /// The quarter, from 1.
    Quarter,
    /// The month, from 1.
    Month,
    /// The day of the month, from 1.
    Day,
    /// The day of the year, from 1.
    DayOfYear,
    /// The day of the week; Sunday is 0.
    DayOfWeek,
    /// The hour of the day.
    Hour,
    /// The minute of the hour.
    Minute,
    /// The second of the minute, without its fraction.
    Second,
    /// The date.
    Date,
}

impl Part {
    /// The part with this name in SQL.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" => Part::Year,
            "quarter" => Part::Quarter,
            "month" => Part::Month,
            "day" => Part::Day,
            "doy" => Part::DayOfYear,
            "dow" => Part::DayOfWeek,
            "hour" => Part::Hour,
            "minute" => Part::Minute,
            "second" => Part::Second,
            _ => return None,
        })
    }

    /// The least and the greatest value of the part, if they are independent of the input's range.
    pub(crate) fn bounds(self) -> Option<(i64, i64)> {
        match self {
            Part::Year | Part::Date => None,
            Part::Quarter => Some((1, 4)),
            Part::Month => Some((1, 12)),
            Part::Day => Some((1, 31)),
            Part::DayOfYear => Some((1, 366)),
            Part::DayOfWeek => Some((0, 6)),
            Part::Hour => Some((0, 23)),
            Part::Minute | Part::Second => Some((0, 59)),
        }
    }

    /// How many hours, minutes or seconds a day has; 1 for parts of the calendar.
    fn units_per_day(self) -> i64 {
        match self {
            Part::Hour => 24,
            Part::Minute => 1_440,
            Part::Second => 86_400,
            _ => 1,
        }
    }
}

/// A part of each value of a column.
#[derive(Debug)]
pub(crate) struct DatePart {
    part: Part,
    data_type: ArrowType,
    /// Column units per day, or per hour, minute or second.
    unit: i64,
    divisor: Divisor,
    /// Values are counted from this many days before 1970, so that counts are not negative.
    days: i64,
    /// These days in units of the column. Values beyond it are rare, and left to `fallback`.
    offset: i64,
    fallback: Arc<dyn Function>,
}

impl DatePart {
    /// The part of a column of this type; `None` for unsupported types. `fallback` computes the
    /// same for any values.
    pub(crate) fn new(
        part: Part,
        data_type: &ArrowType,
        fallback: Arc<dyn Function>,
    ) -> Option<Self> {
        let per_day: i64 = match data_type {
            ArrowType::Date32 if part.units_per_day() == 1 => 1,
            ArrowType::Timestamp(TimeUnit::Second, None) => 86_400,
            ArrowType::Timestamp(TimeUnit::Millisecond, None) => 86_400_000,
            ArrowType::Timestamp(TimeUnit::Microsecond, None) => 86_400_000_000,
            ArrowType::Timestamp(TimeUnit::Nanosecond, None) => 86_400_000_000_000,
            _ => return None,
        };
        let days = ((1 << 61) / per_day).min(ERAS * ERA);
        let unit = per_day / part.units_per_day();
        Some(DatePart {
            part,
            data_type: data_type.clone(),
            unit,
            divisor: Divisor::new(unit)?,
            days,
            offset: days * per_day,
            fallback,
        })
    }

    /// Days, hours, minutes or seconds since a midnight before all values in range.
    #[inline(always)]
    fn count(&self, value: i64) -> i64 {
        self.divisor.quotient(value.wrapping_add(self.offset))
    }

    #[inline(always)]
    fn part_of_count(&self, count: i64) -> i32 {
        match self.part {
            Part::Hour => (count as u64 % 24) as i32,
            Part::Minute | Part::Second => (count as u64 % 60) as i32,
            // 1970 began on a Thursday.
            Part::DayOfWeek => (count - self.days + 4).rem_euclid(7) as i32,
            Part::Date => (count - self.days) as i32,
            part => calendar_part(part, count - self.days),
        }
    }

    /// The parts of values, which are in range and have these bounds.
    fn run(&self, values: &[i64], least: i64, greatest: i64) -> Vec<i32> {
        let (first, last) = (self.count(least), self.count(greatest));
        let base = first * self.unit - self.offset;
        if greatest.abs_diff(base) >= NEAR {
            return values.iter().map(|value| self.part_of_count(self.count(*value))).collect();
        }
        let counts = self.divisor.near_quotients(base, values);
        // Most often there are fewer days or hours than values.
        if last - first < values.len() as i64 {
            let parts: Vec<i32> = (first..=last).map(|count| self.part_of_count(count)).collect();
            return counts.iter().map(|at| parts.get(*at as usize).copied().unwrap_or(0)).collect();
        }
        counts.iter().map(|count| self.part_of_count(first + count)).collect()
    }

    fn in_range(&self, value: i64) -> bool {
        (-self.offset..=self.offset).contains(&value)
    }
}

/// A part of a day since 1970, for days within [`ERAS`] (Howard Hinnant: "chrono-Compatible
/// Low-Level Date Algorithms").
fn calendar_part(part: Part, day: i64) -> i32 {
    let day = day + EPOCH + ERAS * ERA;
    let (era, day) = (day / ERA - ERAS, (day % ERA) as u32);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    // Days and months since the first of March.
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let next_year = month >= 10;
    let in_year = if next_year { month - 9 } else { month + 3 } as i32;
    let year = year + u32::from(next_year);
    match part {
        Part::Year => (era * 400 + i64::from(year)) as i32,
        Part::Quarter => (in_year - 1) / 3 + 1,
        Part::Month => in_year,
        Part::DayOfYear if next_year => day as i32 - 305,
        Part::DayOfYear => {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            day as i32 + 60 + i32::from(leap)
        }
        _ => (day - (153 * month + 2) / 5 + 1) as i32,
    }
}

impl Function for DatePart {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let input = inputs.first().filter(|input| *input.data_type() == self.data_type);
        let Some((values, nulls)) = input.and_then(|input| Some((values(input)?, input.nulls())))
        else {
            return self.fallback.evaluate(inputs, rows);
        };
        let bounds = simd(
            #[inline(always)]
            || {
                let bounds = |(least, greatest): (i64, i64), value: &i64| {
                    (least.min(*value), greatest.max(*value))
                };
                values.iter().fold((i64::MAX, i64::MIN), bounds)
            },
        );
        let (least, greatest) = if values.is_empty() { (0, 0) } else { bounds };
        if !self.in_range(least) || !self.in_range(greatest) {
            return self.fallback.evaluate(inputs, rows);
        }
        let (parts, nulls) = (self.run(&values, least, greatest).into(), nulls.cloned());
        Ok(match self.part {
            Part::Date => Arc::new(Date32Array::new(parts, nulls)),
            _ => Arc::new(Int32Array::new(parts, nulls)),
        })
    }

    fn constant_over(&self, least: i64, greatest: i64) -> Option<i64> {
        if !self.in_range(least) || !self.in_range(greatest) {
            return None;
        }
        let (first, last) = (self.count(least), self.count(greatest));
        let month = |count| {
            let day = count - self.days;
            (calendar_part(Part::Year, day), calendar_part(Part::Month, day))
        };
        let same = match self.part {
            Part::Year | Part::Quarter | Part::Month => month(first) == month(last),
            _ => first == last,
        };
        same.then(|| i64::from(self.part_of_count(first)))
    }
}

/// The values of an array: days or units since 1970.
fn values(array: &ArrayRef) -> Option<std::borrow::Cow<'_, [i64]>> {
    use std::borrow::Cow::{Borrowed, Owned};
    Some(match array.data_type() {
        ArrowType::Date32 => Owned(
            array.as_primitive::<Date32Type>().values().iter().map(|v| i64::from(*v)).collect(),
        ),
        ArrowType::Timestamp(unit, _) => Borrowed(match unit {
            TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
        }),
        _ => return None,
    })
}
