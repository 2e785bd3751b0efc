//! Dates, times and timestamps as ISO 8601 text, appended without allocating.

use arrow_array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};

use super::number::integer;

const DAY: i64 = 86_400;

/// `YYYY-MM-DD`; years beyond four digits carry a sign.
pub(super) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        two(year / 100, out);
        two(year % 100, out);
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
    two(month, out);
    out.push(b'-');
    two(day, out);
}

/// `HH:MM:SS`, and a fraction if there is one; `value` counts `per_second` ticks a second since
/// midnight.
pub(super) fn time(value: i64, per_second: i64, out: &mut Vec<u8>) {
    let (seconds, ticks) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    clock(seconds, out);
    fraction(ticks, per_second, out);
}

/// Date, `between`, time, and with a zone its offset at that instant.
pub(super) fn timestamp(
    value: i64,
    per_second: i64,
    zone: Option<&Tz>,
    between: u8,
    out: &mut Vec<u8>,
) {
    let (mut seconds, ticks) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let offset = zone.map(|zone| offset_at(seconds, zone));
    seconds = seconds.saturating_add(offset.unwrap_or(0));
    date(seconds.div_euclid(DAY), out);
    out.push(between);
    clock(seconds.rem_euclid(DAY), out);
    fraction(ticks, per_second, out);
    if let Some(offset) = offset {
        out.push(if offset < 0 { b'-' } else { b'+' });
        let minutes = offset.abs() / 60;
        two(minutes / 60, out);
        out.push(b':');
        two(minutes % 60, out);
        if offset % 60 != 0 {
            out.push(b':');
            two(offset.abs() % 60, out);
        }
    }
}

/// Seconds east of UTC; an instant beyond what the zone tables cover counts as UTC.
fn offset_at(seconds: i64, zone: &Tz) -> i64 {
    let utc = DateTime::from_timestamp(seconds, 0).map(|instant| instant.naive_utc());
    utc.map_or(0, |utc| i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()))
}

fn clock(seconds: i64, out: &mut Vec<u8>) {
    two(seconds / 3600, out);
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
}

/// Three, six or nine digits, as few as hold the fraction; none for zero.
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
    let at = out.len();
    out.resize(at + digits, b'0');
    for slot in out[at..].iter_mut().rev() {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn two(value: i64, out: &mut Vec<u8>) {
    if (0..100).contains(&value) {
        out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    } else {
        integer(value, out);
    }
}

/// Year, month and day of a day number (proleptic Gregorian calendar, day 0 = 1970-01-01): counted
/// in eras of 400 years that start on 1 March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use chrono::{Datelike, NaiveDate};

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_calendar_is_chronos() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for days in
            (-800_000..3_000_000).step_by(97).chain([-719_528, -719_529, 0, 11_016, 2_932_896])
        {
            let day = epoch + chrono::Duration::days(days);
            assert_eq!(
                civil(days),
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

    #[test]
    fn zones_show_their_offset() {
        let show =
            |zone: &str, at| text(|out| timestamp(at, 1, Some(&zone.parse().unwrap()), b'T', out));
        assert_eq!(show("UTC", 0), "1970-01-01T00:00:00+00:00");
        assert_eq!(show("Europe/Berlin", 1_435_755_900), "2015-07-01T15:05:00+02:00");
        assert_eq!(show("-03:30", 0), "1969-12-31T20:30:00-03:30");
    }
}
