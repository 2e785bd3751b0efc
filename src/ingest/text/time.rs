//! Parses dates, times of day and timestamps: `2013-08-01`, `08:14:37.5`, `2013-08-01T08:14:37Z`.
//!
//! Digits are checked and combined in machine words, as in [`super::number`]; the calendar is the
//! proleptic Gregorian one of ISO 8601. Years outside 0000 to 9999 have a sign, `-0044-03-15` and
//! `+12024-01-01`, as they are printed.

use super::Text;
use crate::model::TimeUnit;

const HIGHS: u64 = 0x8080_8080_8080_8080;
const DAYS_BEFORE: [u16; 13] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// A timestamp or time of day as the text gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instant {
    /// Seconds since 1970-01-01T00:00:00, in UTC if the text names a zone.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Fractional digits, including trailing zeros.
    pub digits: u8,
    /// Whether the text names a zone (`Z` or an offset).
    pub zoned: bool,
}

/// Four two-digit numbers from eight digits (first digit in the lowest byte).
#[inline]
fn four_pairs(word: u64) -> Option<[u32; 4]> {
    let digits = word ^ 0x3030_3030_3030_3030;
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & HIGHS != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let pair = |at: u32| ((pairs >> (16 * at)) & 0xff) as u32;
    Some([pair(0), pair(1), pair(2), pair(3)])
}

/// Days since 1970-01-01 of a text that is a `YYYY-MM-DD`, or has a distant year.
#[inline]
pub(crate) fn date(text: Text<'_>) -> Option<i32> {
    let near = if text.len() == 10 { leading_date(text) } else { None };
    near.or_else(|| {
        let (near, days) = near_year(text)?;
        let near = Text::from(near.as_slice());
        let date = if near.len() == 10 { leading_date(near) } else { None };
        i32::try_from(i64::from(date?).checked_add(days)?).ok()
    })
}

/// A date or timestamp whose year has a sign, with a year from 2000 to 2399 instead, which has the
/// same calendar; and the days that lie between these years.
#[inline]
fn near_year(text: Text<'_>) -> Option<(Vec<u8>, i64)> {
    match text.bytes() {
        [b'-', digits @ ..] => with_near_year(digits, true),
        [b'+', digits @ ..] => with_near_year(digits, false),
        _ => None,
    }
}

#[cold]
fn with_near_year(text: &[u8], negative: bool) -> Option<(Vec<u8>, i64)> {
    /// The calendar repeats itself after 400 years.
    const YEARS: i64 = 400;
    const DAYS: i64 = 146_097;
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // A sign before four digits is needed only if it is a minus.
    let fewest = if negative { 4 } else { 5 };
    let (digits, rest) = text.split_at_checked(length)?;
    if !(fewest..=9).contains(&length) || rest.first() != Some(&b'-') {
        return None;
    }
    let magnitude = digits.iter().fold(0_i64, |year, byte| year * 10 + i64::from(byte - b'0'));
    let year = if negative { -magnitude } else { magnitude };
    let near = 2000 + year.rem_euclid(YEARS);
    let mut bytes = near.to_string().into_bytes();
    bytes.extend_from_slice(rest);
    Some((bytes, (year - near) / YEARS * DAYS))
}

/// Days since 1970-01-01 of the date in the first ten bytes.
#[inline]
fn leading_date(text: Text<'_>) -> Option<i32> {
    let (head, tail) = (text.word(0), text.word(2));
    if head & 0xff00_00ff_0000_0000 != 0x2d00_002d_0000_0000 {
        return None;
    }
    // YYYY, MM and DD side by side.
    let joined = (head & 0xffff_ffff)
        | ((head >> 8) & 0x0000_ffff_0000_0000)
        | (tail & 0xffff_0000_0000_0000);
    let [century, year, month, day] = four_pairs(joined)?;
    days(century * 100 + year, month, day)
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days since 1970-01-01, or `None` if the day does not exist.
#[inline]
pub(super) fn days(year: u32, month: u32, day: u32) -> Option<i32> {
    let before = u32::from(*DAYS_BEFORE.get(month as usize)?);
    let leap = is_leap(year);
    let longest = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > longest {
        return None;
    }
    // Leap days before this year; year 0 is a leap year.
    let leaps = year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    let day_of_year = before + u32::from(leap && month > 2) + day - 1;
    Some((year * 365 + leaps + day_of_year) as i32 - 719_528)
}

/// Seconds since midnight of the `HH:MM:SS` in the first eight bytes.
#[inline]
fn leading_clock(text: Text<'_>) -> Option<u32> {
    let word = text.word(0);
    if word & 0x0000_ff00_00ff_0000 != 0x0000_3a00_003a_0000 {
        return None;
    }
    let joined = (word & 0xffff)
        | ((word >> 8) & 0xffff_0000)
        | ((word >> 16) & 0x0000_ffff_0000_0000)
        | 0x3030_0000_0000_0000;
    let [hour, minute, second, _] = four_pairs(joined)?;
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Nanoseconds and digit count of a fraction of 1 to 9 digits, without its point.
fn fraction(bytes: &[u8]) -> Option<(u32, u8)> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 || digits > 9 {
        return None;
    }
    let value = bytes.iter().take(digits).fold(0_u32, |v, b| v * 10 + u32::from(b - b'0'));
    Some((value * 10_u32.pow(9 - digits as u32), digits as u8))
}

/// The offset in seconds east of UTC: `Z`, `±HH`, `±HHMM`, `±HH:MM`, or, as zones had them once,
/// `±HH:MM:SS`.
fn offset(bytes: &[u8]) -> Option<i64> {
    let (sign, digits) = match bytes {
        b"Z" | b"z" => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes, seconds) = match *digits {
        [h1, h2] => ([h1, h2], [b'0'; 2], [b'0'; 2]),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => ([h1, h2], [m1, m2], [b'0'; 2]),
        [h1, h2, b':', m1, m2, b':', s1, s2] => ([h1, h2], [m1, m2], [s1, s2]),
        _ => return None,
    };
    let number = |[tens, ones]: [u8; 2]| {
        let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
        are_digits.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
    };
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    let is_offset = hours < 24 && minutes < 60 && seconds < 60;
    is_offset.then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// A date, `T` or one blank, a time, and optionally a fraction and a zone. A time without a
/// fraction may lack its seconds.
#[inline]
pub(crate) fn instant(text: Text<'_>) -> Option<Instant> {
    near_instant(text).or_else(|| {
        let (near, days) = near_year(text)?;
        let mut instant = near_instant(Text::from(near.as_slice()))?;
        instant.seconds = instant.seconds.checked_add(days.checked_mul(86_400)?)?;
        Some(instant)
    })
}

/// The same in years of four digits.
#[inline]
fn near_instant(text: Text<'_>) -> Option<Instant> {
    if text.len() < 19 {
        return without_seconds(text);
    }
    if !matches!(text.word(10) as u8, b' ' | b'T' | b't') {
        return None;
    }
    let day = i64::from(leading_date(text)?);
    let Some(clock) = leading_clock(text.skip(11)) else { return without_seconds(text) };
    let seconds = day * 86_400 + i64::from(clock);
    let whole = Instant { seconds, nanos: 0, digits: 0, zoned: false };
    if text.len() == 19 {
        Some(whole)
    } else {
        with_fraction_and_zone(whole, text.skip(19).bytes())
    }
}

/// `2013-08-01 08:14`, with a zone or without.
#[cold]
fn without_seconds(text: Text<'_>) -> Option<Instant> {
    let bytes = text.bytes();
    let (clock, rest) = (bytes.get(11..16)?, bytes.get(16..)?);
    let [h1, h2, b':', m1, m2] = *clock else { return None };
    let is_offset = matches!(rest, [] | [b'Z' | b'z' | b'+' | b'-' | b' ', ..]);
    if !matches!(bytes.get(10), Some(b' ' | b'T' | b't')) || !is_offset {
        return None;
    }
    let whole = [h1, h2, b':', m1, m2, b':', b'0', b'0'];
    let clock = i64::from(leading_clock(Text::from(whole.as_slice()))?);
    let seconds = i64::from(leading_date(text)?) * 86_400 + clock;
    with_fraction_and_zone(Instant { seconds, ..Instant::default() }, rest)
}

pub(super) fn with_fraction_and_zone(mut instant: Instant, rest: &[u8]) -> Option<Instant> {
    let mut rest = rest;
    if let [b'.' | b',', digits @ ..] = rest {
        (instant.nanos, instant.digits) = fraction(digits)?;
        rest = digits.get(usize::from(instant.digits)..)?;
    }
    if !rest.is_empty() {
        // PostgreSQL writes no blank before the zone; others do.
        instant.seconds -= offset(rest.strip_prefix(b" ").unwrap_or(rest))?;
        instant.zoned = true;
    }
    Some(instant)
}

/// A time of day, as seconds and nanoseconds since midnight with the number of fractional digits.
#[inline]
pub(crate) fn time_of_day(text: Text<'_>) -> Option<Instant> {
    if text.len() < 8 {
        return None;
    }
    let whole =
        Instant { seconds: i64::from(leading_clock(text)?), nanos: 0, digits: 0, zoned: false };
    if text.len() == 8 {
        return Some(whole);
    }
    with_fraction_and_zone(whole, text.skip(8).bytes()).filter(|instant| !instant.zoned)
}

impl Instant {
    /// The instant in units of `unit`, if that is exact and fits.
    #[inline]
    pub(crate) fn ticks(&self, unit: TimeUnit) -> Option<i64> {
        let per_second = unit.per_second();
        if self.nanos == 0 {
            return self.seconds.checked_mul(per_second);
        }
        let nanos_per_tick = 1_000_000_000 / per_second;
        let nanos = i64::from(self.nanos);
        if nanos % nanos_per_tick != 0 {
            return None;
        }
        let fraction = nanos / nanos_per_tick;
        match self.seconds.checked_mul(per_second) {
            Some(whole) => whole.checked_add(fraction),
            // The earliest second may begin before the earliest tick.
            None => (self.seconds.checked_add(1)?.checked_mul(per_second)?)
                .checked_sub(per_second - fraction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> Option<i64> {
        instant(text.into()).and_then(|i| i.ticks(TimeUnit::Microsecond))
    }

    #[test]
    fn every_day_of_the_calendar() {
        let mut expected = -719_528;
        for year in 0..=9999_u32 {
            for month in 1..=12_u32 {
                let longest = match month {
                    2 if is_leap(year) => 29,
                    2 => 28,
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                for day in [1, longest] {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    let days = expected + day - 1;
                    assert_eq!(date(text.as_str().into()), Some(days), "{text}");
                }
                expected += longest;
                let beyond = format!("{year:04}-{month:02}-{:02}", longest + 1);
                assert_eq!(date(beyond.as_str().into()), None);
            }
        }
        assert_eq!(date("1970-01-01".into()), Some(0));
        assert_eq!(date("2000-03-01".into()), Some(11_017));
        for bad in [
            "2013-8-01",
            "2013/08/01",
            "2013-00-10",
            "2013-13-01",
            "2013-01-00",
            "20130801",
            "2013-08-0x",
        ] {
            assert_eq!(date(bad.into()), None, "{bad}");
        }
    }

    #[test]
    fn timestamps() {
        assert_eq!(micros("2013-08-01 08:14:37"), Some(1_375_344_877_000_000));
        assert_eq!(micros("2013-08-01T08:14:37.5"), Some(1_375_344_877_500_000));
        assert_eq!(micros("2013-08-01T08:14:37.5Z"), Some(1_375_344_877_500_000));
        assert_eq!(micros("2013-08-01 10:14:37+02:00"), Some(1_375_344_877_000_000));
        assert_eq!(micros("2013-08-01 10:14:37 +02"), Some(1_375_344_877_000_000));
        assert_eq!(micros("1969-12-31 23:59:59.999999"), Some(-1));
        assert_eq!(micros("2013-08-01 08:14"), Some(1_375_344_840_000_000));
        assert_eq!(micros("2013-08-01T10:14+02:00"), Some(1_375_344_840_000_000));
        assert_eq!(micros("2013-08-01 08:14:37.1234567"), None);
        assert_eq!(
            instant("2013-08-01 08:14:37.1234567".into())
                .and_then(|i| i.ticks(TimeUnit::Nanosecond)),
            Some(1_375_344_877_123_456_700)
        );
        for bad in [
            "2013-08-01 24:00:00",
            "2013-08-01 08:60:00",
            "2013-08-01 08:14:60",
            "2013-08-01 08:1",
            "2013-08-01 08:14.5",
            "2013-08-01_08:14",
            "2013-08-01_08:14:37",
            "2013-08-01 08:14:37.",
            "2013-08-01 08:14:37.1234567890",
            "2013-08-01 08:14:37x",
            "2013-08-01 08:14:37+2",
            "2013-08-01 08-14-37",
        ] {
            assert_eq!(instant(bad.into()), None, "{bad}");
        }
        assert_eq!(
            instant("9999-01-01 00:00:00".into()).and_then(|i| i.ticks(TimeUnit::Nanosecond)),
            None
        );
    }

    #[test]
    fn distant_years() {
        const CYCLE: i32 = 146_097;
        let day = |text: &str| date(text.into());
        let of_2024 = day("2024-03-15").unwrap();
        assert_eq!(day("-0376-03-15"), Some(of_2024 - 6 * CYCLE));
        assert_eq!(day("+12024-03-15"), Some(of_2024 + 25 * CYCLE));
        assert_eq!(day("-0004-02-29"), day("1996-02-29").map(|days| days - 5 * CYCLE));
        assert_eq!(day("-0001-12-31").map(|days| days + 1), day("0000-01-01"));
        assert_eq!(day("+10000-01-01"), day("9999-12-31").map(|days| days + 1));
        let distant = i64::from(6 * CYCLE) * 86_400_000_000;
        assert_eq!(
            micros("-0376-03-15 10:00:00.5Z"),
            micros("2024-03-15 10:00:00.5").map(|ticks| ticks - distant)
        );
        assert_eq!(micros("-0376-03-15T10:00"), micros("-0376-03-15 10:00:00"));
        for bad in [
            "-044-03-15",
            "+2024-01-01",
            "-0001-02-29",
            "+12024-1-01",
            "+1234567890-01-01",
            "+999999999-01-01",
            "-0044-03-15x",
            "-00440315",
        ] {
            assert_eq!(day(bad), None, "{bad}");
        }
        // The bounds of a column.
        let ticks = |text: &str, unit| instant(text.into()).and_then(|i| i.ticks(unit));
        let nanos = |text| ticks(text, TimeUnit::Nanosecond);
        assert_eq!(nanos("1677-09-21 00:12:43.145224192"), Some(i64::MIN));
        assert_eq!(nanos("1677-09-21 00:12:43.145224191"), None);
        assert_eq!(nanos("2262-04-11 23:47:16.854775807"), Some(i64::MAX));
        assert_eq!(nanos("2262-04-11 23:47:16.854775808"), None);
    }

    #[test]
    fn offsets_with_seconds() {
        assert_eq!(micros("1900-01-01 00:19:32+00:19:32"), micros("1900-01-01 00:00:00"));
        assert_eq!(instant("1900-01-01 00:00:00+00:19:60".into()), None);
        assert_eq!(instant("1900-01-01 00:00:00+00:19:3".into()), None);
    }

    #[test]
    fn times_of_day() {
        let micros =
            |text: &str| time_of_day(text.into()).and_then(|t| t.ticks(TimeUnit::Microsecond));
        assert_eq!(micros("08:14:37"), Some(29_677_000_000));
        assert_eq!(micros("23:59:59.000001"), Some(86_399_000_001));
        assert_eq!(micros("08:14:37Z"), None);
        assert_eq!(micros("8:14:37"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let text = Text::from(bytes.as_slice());
            let _ = (date(text), instant(text), time_of_day(text));
        }
    }
}
