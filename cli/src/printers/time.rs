//! Dates, times and timestamps as ISO 8601 text, appended without allocating.

use arrow_array::timezone::Tz;
use chrono::{DateTime, Datelike, NaiveDate, Offset, TimeZone};

use super::number::integer;

const SECONDS_PER_DAY: i64 = 86_400;
/// The Gregorian calendar repeats every 400 years.
const DAYS_PER_CYCLE: i64 = 146_097;

/// Appends `YYYY-MM-DD`. Years beyond four digits have a sign.
pub(crate) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = year_month_day(days);
    if (0..=9999).contains(&year) {
        two_digits(year / 100, out);
        two_digits(year % 100, out);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        let magnitude = year.abs();
        for limit in [1000, 100, 10] {
            if magnitude < limit {
                out.push(b'0');
            }
        }
        integer(magnitude, out);
    }
    out.push(b'-');
    two_digits(month, out);
    out.push(b'-');
    two_digits(day, out);
}

/// Appends `HH:MM:SS`, and a fraction if there is one. `value` counts ticks since midnight, with
/// `per_second` of them in a second.
pub(super) fn time(value: i64, per_second: i64, out: &mut Vec<u8>) {
    let (seconds, ticks) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    time_of_day(seconds, out);
    fraction(ticks, per_second, out);
}

/// Appends the date, `separator`, the time and, with a zone, its offset at that instant.
pub(super) fn timestamp(
    value: i64,
    per_second: i64,
    zone: Option<&Tz>,
    separator: u8,
    out: &mut Vec<u8>,
) {
    let (mut seconds, ticks) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let offset = zone.map(|zone| offset_at(seconds, zone));
    seconds = seconds.saturating_add(offset.unwrap_or(0));
    date(seconds.div_euclid(SECONDS_PER_DAY), out);
    out.push(separator);
    time_of_day(seconds.rem_euclid(SECONDS_PER_DAY), out);
    fraction(ticks, per_second, out);
    if let Some(offset) = offset {
        out.push(if offset < 0 { b'-' } else { b'+' });
        let minutes = offset.abs() / 60;
        two_digits(minutes / 60, out);
        out.push(b':');
        two_digits(minutes % 60, out);
        if offset % 60 != 0 {
            out.push(b':');
            two_digits(offset.abs() % 60, out);
        }
    }
}

/// Appends `YYYY-MM-DD HH:MM:SS` in a zone, without its offset, and a fraction of `digits` digits.
/// `value` is the number of units of 10^-`digits` seconds since 1970.
#[cfg(feature = "serve")]
pub(crate) fn date_time(value: i64, digits: u8, zone: Option<&Tz>, out: &mut Vec<u8>) {
    let per_second = 10_i64.pow(u32::from(digits.min(9)));
    let (mut seconds, mut ticks) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    seconds = seconds.saturating_add(zone.map_or(0, |zone| offset_at(seconds, zone)));
    date(seconds.div_euclid(SECONDS_PER_DAY), out);
    out.push(b' ');
    time_of_day(seconds.rem_euclid(SECONDS_PER_DAY), out);
    if digits > 0 {
        out.push(b'.');
        let start = out.len();
        out.resize(start + usize::from(digits), b'0');
        for slot in out[start..].iter_mut().rev() {
            *slot = b'0' + (ticks % 10) as u8;
            ticks /= 10;
        }
    }
}

/// The zone's offset from UTC in seconds, or 0 for an instant beyond the years that chrono knows.
pub(super) fn offset_at(seconds: i64, zone: &Tz) -> i64 {
    let utc = DateTime::from_timestamp(seconds, 0).map(|instant| instant.naive_utc());
    utc.map_or(0, |utc| i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()))
}

fn time_of_day(seconds: i64, out: &mut Vec<u8>) {
    two_digits(seconds / 3600, out);
    out.push(b':');
    two_digits(seconds / 60 % 60, out);
    out.push(b':');
    two_digits(seconds % 60, out);
}

/// Appends three, six or nine digits, as few as hold the fraction, or none for zero.
fn fraction(ticks: i64, per_second: i64, out: &mut Vec<u8>) {
    if ticks == 0 {
        return;
    }
    let nanos = ticks * (1_000_000_000 / per_second);
    let (mut value, mut digits) = (nanos, 9);
    while value % 1_000 == 0 {
        value /= 1_000;
        digits -= 3;
    }
    out.push(b'.');
    let start = out.len();
    out.resize(start + digits, b'0');
    for slot in out[start..].iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn two_digits(value: i64, out: &mut Vec<u8>) {
    if (0..100).contains(&value) {
        out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    } else {
        integer(value, out);
    }
}

/// Year, month and day of a number of days since 1970-01-01. Since timestamps go beyond the years
/// that chrono knows, the day is moved to the first cycle from 1970, where it has the same month
/// and day.
fn year_month_day(days: i64) -> (i64, i64, i64) {
    let (cycle, day) = (days.div_euclid(DAYS_PER_CYCLE), days.rem_euclid(DAYS_PER_CYCLE));
    let date = NaiveDate::from_epoch_days(day as i32).unwrap_or_default();
    (i64::from(date.year()) + 400 * cycle, i64::from(date.month()), i64::from(date.day()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn days_in_other_cycles_have_the_dates_that_chrono_gives() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for days in
            (-800_000..3_000_000).step_by(97).chain([-719_528, -719_529, 0, 11_016, 2_932_896])
        {
            let day = epoch + chrono::Duration::days(days);
            assert_eq!(
                year_month_day(days),
                (i64::from(day.year()), i64::from(day.month()), i64::from(day.day()))
            );
        }
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(text(|out| date(0, out)), "1970-01-01");
        assert_eq!(text(|out| date(-719_529, out)), "-0001-12-31");
        assert_eq!(text(|out| date(i64::from(i32::MAX), out)), "+5881580-07-11");
        assert_eq!(text(|out| time(47_105, 1, out)), "13:05:05");
        assert_eq!(text(|out| time(47_105_120, 1_000, out)), "13:05:05.120");
        assert_eq!(text(|out| time(1, 1_000_000_000, out)), "00:00:00.000000001");
    }

    #[test]
    fn timestamps_at_the_ends_of_their_range() {
        let show = |value, per_second| text(|out| timestamp(value, per_second, None, b' ', out));
        assert_eq!(show(-1, 1_000_000), "1969-12-31 23:59:59.999999");
        assert_eq!(show(i64::MAX, 1_000_000_000), "2262-04-11 23:47:16.854775807");
        assert_eq!(show(i64::MIN, 1_000_000_000), "1677-09-21 00:12:43.145224192");
        assert_eq!(show(i64::MAX, 1), "+292277026596-12-04 15:30:07");
    }

    #[cfg(feature = "serve")]
    #[test]
    fn fractions_of_a_fixed_length() {
        let berlin = "Europe/Berlin".parse().unwrap();
        let show = |value, digits, zone| text(|out| date_time(value, digits, zone, out));
        assert_eq!(show(0, 0, None), "1970-01-01 00:00:00");
        assert_eq!(show(-1, 3, None), "1969-12-31 23:59:59.999");
        assert_eq!(show(1_435_755_900_500_000, 6, Some(&berlin)), "2015-07-01 15:05:00.500000");
        assert_eq!(show(i64::MIN, 9, None), "1677-09-21 00:12:43.145224192");
    }

    #[test]
    fn zones_show_their_offset() {
        let show =
            |zone: &str, at| text(|out| timestamp(at, 1, Some(&zone.parse().unwrap()), b'T', out));
        assert_eq!(show("UTC", 0), "1970-01-01T00:00:00+00:00");
        assert_eq!(show("Europe/Berlin", 1_435_755_900), "2015-07-01T15:05:00+02:00");
        assert_eq!(show("-03:30", 0), "1969-12-31T20:30:00-03:30");
    }
}
