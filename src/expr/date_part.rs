//! Parts of dates and of timestamps without a zone, by whole numbers alone: the hour of an instant,
//! the month of a day.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, Date32Array, Int32Array};
use arrow_schema::{DataType as ArrowType, TimeUnit};

use super::division::Divisor;
use super::expression::Function;
use crate::encoding::kernels::dispatch::simd;
use crate::error::Result;

/// Days of 400 years, after which the calendar comes back; whole weeks, too.
const ERA: i64 = 146_097;
/// So many eras before 1970 and after are looked at: fewer than all libraries know.
const ERAS: i64 = 600;
/// From 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The calendar's year.
    Year,
    /// From 1 on.
    Quarter,
    /// From 1 on.
    Month,
    /// Of the month, from 1 on.
    Day,
    /// Of the year, from 1 on.
    DayOfYear,
    /// Sunday is 0.
    DayOfWeek,
    /// Of the day.
    Hour,
    /// Of the hour.
    Minute,
    /// Of the minute, without its fraction.
    Second,
    /// The day itself, as a date.
    Date,
}

impl Part {
    /// As SQL calls it.
    pub fn of(name: &str) -> Option<Self> {
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

    /// Between what its values lie, where that is not as wide as time.
    pub fn bounds(self) -> Option<(i64, i64)> {
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

    /// How many units of the clock a day has; 1 of what the calendar tells.
    fn a_day(self) -> i64 {
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
pub struct DatePart {
    part: Part,
    data_type: ArrowType,
    /// What is divided by it counts from so many days before 1970 on: days, or units of the clock.
    divisor: Divisor,
    days: i64,
    /// The same in the units of the column. Values beyond it are rare, and left to `others`.
    offset: i64,
    others: Arc<dyn Function>,
}

impl DatePart {
    /// For a column of this type; `None` where there is nothing to gain or know. `others` computes
    /// the same of any value.
    pub fn new(part: Part, data_type: &ArrowType, others: Arc<dyn Function>) -> Option<Self> {
        let a_day: i64 = match data_type {
            ArrowType::Date32 if part.a_day() == 1 => 1,
            ArrowType::Timestamp(TimeUnit::Second, None) => 86_400,
            ArrowType::Timestamp(TimeUnit::Millisecond, None) => 86_400_000,
            ArrowType::Timestamp(TimeUnit::Microsecond, None) => 86_400_000_000,
            ArrowType::Timestamp(TimeUnit::Nanosecond, None) => 86_400_000_000_000,
            _ => return None,
        };
        let days = ((1 << 61) / a_day).min(ERAS * ERA);
        let divisor = Divisor::new(a_day / part.a_day())?;
        Some(DatePart {
            part,
            data_type: data_type.clone(),
            divisor,
            days,
            offset: days * a_day,
            others,
        })
    }

    /// Days, or units of the clock, since some midnight before all values that are near.
    #[inline(always)]
    fn count(&self, value: i64) -> i64 {
        self.divisor.quotient(value.wrapping_add(self.offset))
    }

    /// The part for a count.
    #[inline(always)]
    fn of_count(&self, count: i64) -> i32 {
        match self.part {
            Part::Hour => (count as u64 % 24) as i32,
            Part::Minute | Part::Second => (count as u64 % 60) as i32,
            // 1970 began with a Thursday.
            Part::DayOfWeek => (count - self.days + 4).rem_euclid(7) as i32,
            Part::Date => (count - self.days) as i32,
            part => calendar(part, count - self.days),
        }
    }

    fn run(&self, values: &[i64]) -> Vec<i32> {
        // Neighbours are often of one day, or hour.
        let (mut last, mut result) = (-1, 0);
        let part = |value: &i64| {
            let count = self.count(*value);
            if count != last {
                (last, result) = (count, self.of_count(count));
            }
            result
        };
        values.iter().map(part).collect()
    }

    fn is_near(&self, value: i64) -> bool {
        (-self.offset..=self.offset).contains(&value)
    }
}

/// What the calendar says of a day since 1970, of the eras around it (Howard Hinnant:
/// "chrono-Compatible Low-Level Date Algorithms").
fn calendar(part: Part, day: i64) -> i32 {
    let day = day + EPOCH + ERAS * ERA;
    let (era, day) = (day / ERA - ERAS, (day % ERA) as u32);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    // Since March.
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let late = month >= 10;
    let in_year = if late { month - 9 } else { month + 3 } as i32;
    let year = year + u32::from(late);
    match part {
        Part::Year => (era * 400 + i64::from(year)) as i32,
        Part::Quarter => (in_year - 1) / 3 + 1,
        Part::Month => in_year,
        Part::DayOfYear if late => day as i32 - 305,
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
            return self.others.evaluate(inputs, rows);
        };
        let far = simd(
            #[inline(always)]
            || values.iter().fold(false, |far, value| far | !self.is_near(*value)),
        );
        if far {
            return self.others.evaluate(inputs, rows);
        }
        let (parts, nulls) = (self.run(&values).into(), nulls.cloned());
        Ok(match self.part {
            Part::Date => Arc::new(Date32Array::new(parts, nulls)),
            _ => Arc::new(Int32Array::new(parts, nulls)),
        })
    }

    fn steady(&self, least: i64, greatest: i64) -> Option<i64> {
        if !self.is_near(least) || !self.is_near(greatest) {
            return None;
        }
        let (first, last) = (self.count(least), self.count(greatest));
        let month = |count| {
            (calendar(Part::Year, count - self.days), calendar(Part::Month, count - self.days))
        };
        let same = match self.part {
            Part::Year | Part::Quarter | Part::Month => month(first) == month(last),
            _ => first == last,
        };
        same.then(|| i64::from(self.of_count(first)))
    }
}

/// Days or units since 1970.
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
