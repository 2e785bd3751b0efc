//! Intervals as texts: `1 mons 2 days 3 hours -4 mins 5.000000000 secs`, as they are printed, and
//! what SQL accepts beside it.

use arrow_array::types::IntervalMonthDayNano;
use arrow_cast::parse::parse_interval_month_day_nano;

use super::{Text, time};
use crate::model::TimeUnit;

/// The interval that a text spells. A number needs a unit. The last word may be a time of day of
/// any number of hours, with a sign: `1 day -02:30:00`.
pub(crate) fn interval(text: Text<'_>) -> Option<IntervalMonthDayNano> {
    let text = std::str::from_utf8(text.bytes()).ok()?.trim_ascii();
    let (head, clock) = match text.rsplit_once(|c: char| c.is_ascii_whitespace()) {
        _ if !text.contains(':') => (text, None),
        Some((head, clock)) => (head.trim_ascii(), Some(clock)),
        None => ("", Some(text)),
    };
    let value = match head {
        "" if clock.is_some() => IntervalMonthDayNano::new(0, 0, 0),
        // Arrow takes a number at the end for months.
        head if head.ends_with(|last: char| last.is_ascii_alphabetic()) => of_words(head)?,
        _ => return None,
    };
    let Some(clock) = clock else { return Some(value) };
    let nanoseconds = value.nanoseconds.checked_add(nanoseconds(clock)?)?;
    Some(IntervalMonthDayNano::new(value.months, value.days, nanoseconds))
}

/// The interval that a text without a time of day spells. Of fractions of months, years and weeks,
/// Arrow (59.3) drops the parts of a day and of a month, and makes hours of those of a week. Here a
/// month has 30 days, and a part of a year is rounded to months, as in PostgreSQL and DuckDB.
fn of_words(text: &str) -> Option<IntervalMonthDayNano> {
    let arrow = |text: &str| parse_interval_month_day_nano(text).ok();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (pairs, rest) = words.as_chunks::<2>();
    let pieces = pairs.iter().map(|[number, unit]| piece(number, unit)).collect::<Option<Vec<_>>>();
    let Some(pieces) = pieces.filter(|_| rest.is_empty() && text.contains('.')) else {
        return arrow(text);
    };
    let mut sum = IntervalMonthDayNano::new(0, 0, 0);
    for piece in pieces {
        let piece = arrow(&piece)?;
        sum.months = sum.months.checked_add(piece.months)?;
        sum.days = sum.days.checked_add(piece.days)?;
        sum.nanoseconds = sum.nanoseconds.checked_add(piece.nanoseconds)?;
    }
    Some(sum)
}

/// A number of a unit in words that Arrow reads exactly; `None` if the first is no number.
fn piece(number: &str, unit: &str) -> Option<String> {
    number
        .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        .then_some(())?;
    let known = unit.to_ascii_lowercase();
    Some(match known.as_str() {
        "mon" | "mons" | "month" | "months" => match days_of(number, 30) {
            Some((whole, part)) => format!("{whole} mons {part} days"),
            None => format!("{number} {unit}"),
        },
        "w" | "week" | "weeks" => match days_of(number, 7) {
            Some((whole, part)) => format!("{whole} weeks {part} days"),
            None => format!("{number} {unit}"),
        },
        "y" | "yr" | "yrs" | "year" | "years" => match days_of(number, 12) {
            Some((whole, months)) => {
                format!("{whole} years {} mons", months.parse::<f64>().ok()?.round())
            }
            None => format!("{number} {unit}"),
        },
        _ => format!("{number} {unit}"),
    })
}

/// A number with a fraction as a whole number, and what its fraction is of a unit of that many days
/// or months.
fn days_of(number: &str, unit: u64) -> Option<(String, String)> {
    let (whole, fraction) = number.split_once('.')?;
    let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(digits) || !all_digits(fraction) || !(1..=15).contains(&fraction.len()) {
        return None;
    }
    let sign = if whole.starts_with('-') { "-" } else { "" };
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let days = fraction.parse::<u64>().ok()? * unit;
    let width = fraction.len();
    let part = format!("{sign}{}.{:0width$}", days / scale, days % scale);
    let whole = if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") };
    Some((whole, part))
}

/// The interval that a text spells, for programs that read texts by themselves.
pub fn spelled(text: &str) -> Option<IntervalMonthDayNano> {
    interval(text.into())
}

/// `[-]hours:minutes[:seconds[.fraction]]`.
fn nanoseconds(clock: &str) -> Option<i64> {
    let (sign, clock) = match clock.as_bytes().first()? {
        b'-' => (-1, clock.get(1..)?),
        b'+' => (1, clock.get(1..)?),
        _ => (1, clock),
    };
    let (hours, rest) = clock.split_once(':')?;
    if hours.is_empty() || !hours.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // The rest is read as a time of day: that of hour 0.
    let seconds = if rest.contains(':') { "" } else { ":00" };
    let within = time::time_of_day(Text::from(format!("00:{rest}{seconds}").as_str()))?;
    let within = within.ticks(TimeUnit::Nanosecond)?;
    let hours = hours.parse::<i64>().ok()?.checked_mul(3_600_000_000_000)?;
    hours.checked_add(within)?.checked_mul(sign)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, IntervalMonthDayNanoArray};
    use arrow_cast::display::array_value_to_string;
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Option<(i32, i32, i64)> {
        interval(text.into()).map(|value| (value.months, value.days, value.nanoseconds))
    }

    #[test]
    fn spellings() {
        const SECOND: i64 = 1_000_000_000;
        for (text, value) in [
            ("1 day", (0, 1, 0)),
            (" 2 years 1 mon ", (25, 0, 0)),
            ("1 mons -2 days 3 hours", (1, -2, 10_800 * SECOND)),
            ("0 secs", (0, 0, 0)),
            ("-0.500000000 secs", (0, 0, -SECOND / 2)),
            ("02:30", (0, 0, 9_000 * SECOND)),
            ("-100:00:00.25", (0, 0, -360_000 * SECOND - SECOND / 4)),
            ("1 day -02:30:00", (0, 1, -9_000 * SECOND)),
            ("1 day 1 sec 00:00:01", (0, 1, 2 * SECOND)),
            ("0.75 months", (0, 22, 43_200 * SECOND)),
            ("-1.35 mons 2 days", (-1, -8, -43_200 * SECOND)),
            ("1.5 weeks 1.5 hours", (0, 10, (43_200 + 5_400) * SECOND)),
            (".01 month", (0, 0, 25_920 * SECOND)),
            ("1.5 years", (18, 0, 0)),
            ("1.99 years -0.05 year", (23, 0, 0)),
        ] {
            assert_eq!(parsed(text), Some(value), "{text}");
        }
        for text in [
            "",
            "5",
            "-1.5",
            "day",
            "1 eon",
            "1:2:3:4",
            "1 day 25:61",
            "1 02:00",
            "P1D",
            "12:00 1",
            "1 hour 30",
            "1 day 5",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(
            months in any::<i32>(), days in any::<i32>(), nanos in any::<i64>(), zero in 0..8,
        ) {
            let keep = |bit: i32| zero & bit == 0;
            let (months, days) = (if keep(1) { months } else { 0 }, if keep(2) { days } else { 0 });
            let value = (months, days, if keep(4) { nanos } else { 0 });
            let array: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![
                IntervalMonthDayNano::new(value.0, value.1, value.2),
            ]));
            let text = array_value_to_string(&array, 0).unwrap();
            prop_assert_eq!(parsed(&text), Some(value), "{}", text);
        }
    }
}
