//! Texts of a chart: numbers and times on axes, values beside bars, names that are cut to a width.

use chrono::{Datelike, Timelike};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::steps::{MAX_SECONDS, Step, Unit, date};

/// The labels of the ticks of a number axis: thousands apart by commas, large numbers in `k`, `M`,
/// `G` and so on, all with the same unit.
pub(super) fn numbers(ticks: &[f64], step: Step) -> Vec<String> {
    let largest = ticks.iter().fold(0.0_f64, |largest, tick| largest.max(tick.abs()));
    let exponent = match step {
        Step::Number { exponent, .. } => exponent,
        Step::Time { .. } => 0,
    };
    if largest != 0.0 && !(1e-3..1e18).contains(&largest) {
        let digits = (largest.log10().floor() as i32 - exponent).clamp(0, 6) as usize;
        return ticks.iter().map(|tick| scientific(*tick, digits)).collect();
    }
    let (power, unit) = si_unit(largest);
    let decimals = (power - exponent).max(0) as usize;
    let label = |tick: &f64| {
        if *tick == 0.0 {
            return "0".to_owned();
        }
        format!("{}{unit}", with_commas(&format!("{:.decimals$}", tick / 10_f64.powi(power))))
    };
    ticks.iter().map(label).collect()
}

/// The power of ten and the letter in which numbers up to `largest` are written.
fn si_unit(largest: f64) -> (i32, &'static str) {
    match largest {
        value if value >= 1e15 => (15, "P"),
        value if value >= 1e12 => (12, "T"),
        value if value >= 1e9 => (9, "G"),
        value if value >= 1e6 => (6, "M"),
        value if value >= 1e5 => (3, "k"),
        _ => (0, ""),
    }
}

fn scientific(value: f64, digits: usize) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.digits$e}") }
}

/// A value beside a bar: whole numbers with all digits, others with five significant ones.
pub(super) fn value(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .into();
    }
    if magnitude >= 1e15 || (magnitude != 0.0 && magnitude < 1e-4) {
        return scientific(value, 4);
    }
    if value.fract() == 0.0 {
        return with_commas(&format!("{value:.0}"));
    }
    let before = if magnitude < 1.0 { 0 } else { magnitude.log10().floor() as usize + 1 };
    let leading_zeros = if magnitude < 1.0 { (-magnitude.log10()).floor() as usize } else { 0 };
    let decimals = (5_usize.saturating_sub(before)).clamp(1, 5) + leading_zeros;
    let text = format!("{value:.decimals$}");
    with_commas(text.trim_end_matches('0').trim_end_matches('.'))
}

/// A value in few characters, for narrow places: `12.3k`.
pub(super) fn short_value(number: f64) -> String {
    if !number.is_finite() || number.abs() < 1e4 || number.abs() >= 1e18 {
        return value(number);
    }
    let (power, unit) = si_unit(number.abs().max(1e5));
    let scaled = number / 10_f64.powi(power);
    let decimals = if scaled.abs() < 10.0 { 2 } else { usize::from(scaled.abs() < 100.0) };
    let text = format!("{scaled:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Digits with commas between thousands.
pub(super) fn with_commas(text: &str) -> String {
    let digits = text.trim_start_matches('-');
    let whole = digits.split('.').next().unwrap_or_default();
    let sign_and_whole = text.len() - digits.len() + whole.len();
    let mut out = String::with_capacity(text.len() + text.len() / 3);
    for (at, c) in text.chars().enumerate() {
        let is_between = at > text.len() - digits.len() && at < sign_and_whole;
        if is_between && (sign_and_whole - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The labels of the ticks of a time axis: each tells what its step changes, and the first of a
/// longer unit tells that.
pub(super) fn times(ticks: &[f64], step: Step, of_day: bool) -> Vec<String> {
    let Step::Time { unit, .. } = step else { return numbers(ticks, step) };
    ticks.iter().map(|tick| time_label(*tick, unit, of_day)).collect()
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn time_label(value: f64, unit: Unit, of_day: bool) -> String {
    let micros = (value.clamp(-MAX_SECONDS, MAX_SECONDS) * 1e6).round() as i64;
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (day, second) = (date(seconds.div_euclid(86_400)), seconds.rem_euclid(86_400));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let month = MONTHS.get(day.month0() as usize).copied().unwrap_or_default();
    let is_midnight = hour == 0 && minute == 0 && second == 0 && fraction == 0 && !of_day;
    match unit {
        Unit::Year => day.year().to_string(),
        Unit::Month if day.month() == 1 => day.year().to_string(),
        Unit::Month => month.to_owned(),
        Unit::Day => format!("{month} {}", day.day()),
        _ if is_midnight => format!("{month} {}", day.day()),
        Unit::Hour | Unit::Minute => format!("{hour:02}:{minute:02}"),
        Unit::Second => format!("{hour:02}:{minute:02}:{second:02}"),
        Unit::Millisecond => format!("{minute:02}:{second:02}.{:03}", fraction / 1_000),
        Unit::Microsecond => format!("{second:02}.{fraction:06}"),
    }
}

/// The span of a time axis in words, such as `2013-01-01 to 2013-12-31`.
pub(super) fn time_span(lo: f64, hi: f64, of_day: bool) -> String {
    let with_time = of_day || lo.rem_euclid(86_400.0) != 0.0 || hi.rem_euclid(86_400.0) != 0.0;
    let show = |value: f64| {
        let value = value.clamp(-MAX_SECONDS, MAX_SECONDS);
        let seconds = value.floor() as i64;
        let time = chrono::NaiveTime::from_num_seconds_from_midnight_opt(
            seconds.rem_euclid(86_400) as u32,
            0,
        )
        .unwrap_or_default();
        let clock = format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second());
        let day = date(seconds.div_euclid(86_400));
        match (of_day, with_time && hi - lo < 400.0 * 86_400.0) {
            (true, _) => clock,
            (false, true) => format!("{day} {clock}"),
            (false, false) => day.to_string(),
        }
    };
    let (first, last) = (show(lo), show(hi));
    if first == last { first } else { format!("{first} to {last}") }
}

/// A text of at most `width` cells of a terminal; if it is cut, it ends in `mark`.
pub(super) fn cut(text: &str, width: usize, mark: char) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut remaining = width.saturating_sub(mark.width().unwrap_or(1));
    let mut out = String::new();
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > remaining {
            break;
        }
        remaining -= wide;
        out.push(c);
    }
    if width > 0 {
        out.push(mark);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(lo: f64, hi: f64, most: usize, is_time: bool) -> Vec<String> {
        let step = Step::dividing(lo, hi, most, is_time);
        let ticks = step.starts(lo, hi);
        if is_time { times(&ticks, step, false) } else { numbers(&ticks, step) }
    }

    #[test]
    fn numbers_are_short_and_of_one_unit() {
        assert_eq!(ticks(0.0, 1.0, 6, false), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(ticks(0.0, 20_000.0, 5, false), ["0", "5,000", "10,000", "15,000", "20,000"]);
        assert_eq!(ticks(0.0, 2.0e6, 5, false), ["0", "0.5M", "1.0M", "1.5M", "2.0M"]);
        assert_eq!(ticks(-2.0e5, 2.0e5, 5, false), ["-200k", "-100k", "0", "100k", "200k"]);
        assert_eq!(ticks(0.0, 3e-5, 4, false), ["0", "1e-5", "2e-5", "3e-5"]);
        assert_eq!(ticks(0.0, 2e20, 3, false), ["0", "1e20", "2e20"]);
    }

    #[test]
    fn times_tell_what_changes() {
        let day = 86_400.0;
        // From 2013-11-01.
        let start = 1_383_264_000.0;
        assert_eq!(ticks(start, start + 100.0 * day, 5, true), ["Nov", "Dec", "2014", "Feb"]);
        assert_eq!(
            ticks(start, start + day, 5, true),
            ["Nov 1", "06:00", "12:00", "18:00", "Nov 2"]
        );
        assert_eq!(ticks(0.0, 0.002, 3, true), ["Jan 1", "00:00.001", "00:00.002"]);
        assert_eq!(time_span(start, start + 100.0 * day, false), "2013-11-01 to 2014-02-09");
        assert_eq!(time_span(60.0, 3600.0, true), "00:01:00 to 01:00:00");
    }

    #[test]
    fn values_have_the_digits_that_matter() {
        for (number, expected) in [
            (0.0, "0"),
            (1_234_567.0, "1,234,567"),
            (-1234.5, "-1,234.5"),
            (0.012_345_678, "0.012346"),
            (12.345_678, "12.346"),
            (1e20, "1.0000e20"),
            (f64::NAN, "NaN"),
            (-999.0, "-999"),
        ] {
            assert_eq!(value(number), expected);
        }
        assert_eq!(
            [12_345.0, 1_200_000.0, 123_456.0, 42.5].map(short_value),
            ["12.3k", "1.2M", "123k", "42.5"]
        );
    }

    #[test]
    fn long_names_are_cut_by_their_width() {
        assert_eq!(cut("abc", 3, '…'), "abc");
        assert_eq!(cut("abcd", 3, '…'), "ab…");
        assert_eq!(cut("日本語", 4, '…'), "日…");
        assert_eq!(cut("日本語", 0, '…'), "");
    }
}
