//! How PostgreSQL spells values as texts.
//!
//! | type | spelled |
//! | --- | --- |
//! | booleans | `t`, `f` |
//! | floats | the shortest text of the same value; `NaN`, `Infinity`, `-Infinity` |
//! | numeric | all digits of its scale |
//! | bytes | `\x` and hexadecimal digits |
//! | dates, timestamps | as in ISO 8601, with a blank between, up to microseconds; `+00`; `BC` |
//! | intervals | `1 year 2 mons 3 days 04:05:06.5`, or `P1Y2M3DT4H5M6.5S` if the client wants it |
//! | arrays | `{1,NULL,"a b"}` |

use super::columns::Column;
use crate::printers::{number, time};

const MICROS: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS;
/// Days from 0001-01-01 to 1970-01-01; what lies before are years BC.
const DAYS_AFTER_CHRIST: i64 = 719_162;
const DAYS_PER_CYCLE: i64 = 146_097;

/// Appends the value of a row, which is not null.
pub(super) fn write(column: &Column, row: usize, out: &mut Vec<u8>) {
    match column {
        Column::Nothing => {}
        Column::Bool(array) => out.push(if array.value(row) { b't' } else { b'f' }),
        Column::Int2(array) => number::integer(array.value(row), out),
        Column::Int4(array) => number::integer(array.value(row), out),
        Column::Int8(array) => number::integer(array.value(row), out),
        Column::Float4(array) => float(array.value(row), 6, out),
        Column::Float8(array) => float(array.value(row), 15, out),
        Column::Numeric(array, scale) => number::decimal(array.value(row), *scale, out),
        Column::WideNumeric(array, _) => {
            out.extend_from_slice(array.value_as_string(row).as_bytes());
        }
        Column::Bytes(_) | Column::LargeBytes(_) | Column::BytesView(_) | Column::FixedBytes(_) => {
            out.extend_from_slice(b"\\x");
            for byte in column.bytes(row).unwrap_or_default() {
                out.extend([byte >> 4, byte & 15].map(|four| b"0123456789abcdef"[four as usize]));
            }
        }
        Column::Text(_) | Column::LargeText(_) | Column::TextView(_) => {
            out.extend_from_slice(column.bytes(row).unwrap_or_default());
        }
        Column::Date(array) => date(i64::from(array.value(row)), |_| {}, out),
        Column::Time(array) => time_of_day(array.value(row), out),
        Column::Timestamp { values, has_zone } => {
            let value = values.value(row);
            let (day, rest) = (value.div_euclid(MICROS_PER_DAY), value.rem_euclid(MICROS_PER_DAY));
            let with_time = |out: &mut Vec<u8>| {
                out.push(b' ');
                time_of_day(rest, out);
                if *has_zone {
                    out.extend_from_slice(b"+00");
                }
            };
            date(day, with_time, out);
        }
        Column::Interval { values, is_iso } => {
            let value = values.value(row);
            let spell = if *is_iso { iso_interval } else { interval };
            spell(value.months, value.days, value.nanoseconds / 1000, out);
        }
        Column::Array { rows, items, .. } => {
            let rows = rows.get(row).cloned().unwrap_or_default();
            out.push(b'{');
            for (at, item) in rows.enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                match items.is_null(item) {
                    true => out.extend_from_slice(b"NULL"),
                    false => array_item(items, item, out),
                }
            }
            out.push(b'}');
        }
    }
}

/// Appends a value within an array, in quotes where it needs them.
fn array_item(items: &Column, row: usize, out: &mut Vec<u8>) {
    let start = out.len();
    write(items, row, out);
    let text = out.get(start..).unwrap_or_default();
    let special = |byte: &u8| b"{},\"\\".contains(byte) || byte.is_ascii_whitespace();
    let needs_quotes =
        text.is_empty() || text.iter().any(special) || text.eq_ignore_ascii_case(b"null");
    if needs_quotes {
        let text = out.split_off(start);
        out.push(b'"');
        for byte in text {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
}

/// Appends the shortest text of a float, with an exponent from `digits` digits before the point on,
/// as C's `%g` has it.
fn float<F: zmij::Float + Into<f64> + Copy>(value: F, digits: i32, out: &mut Vec<u8>) {
    let double: f64 = value.into();
    if !double.is_finite() {
        out.extend_from_slice(match double {
            v if v.is_nan() => b"NaN",
            v if v > 0.0 => b"Infinity",
            _ => b"-Infinity",
        });
        return;
    }
    if double.is_sign_negative() {
        out.push(b'-');
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value).trim_start_matches('-');
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
    let zeros = all.iter().take_while(|digit| **digit == b'0').count();
    let shown = all.get(zeros..).unwrap_or_default();
    let end = shown.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    let shown = shown.get(..end).unwrap_or_default();
    let Some((first, others)) = shown.split_first() else {
        out.push(b'0');
        return;
    };
    // The value is d.ddd · 10^exponent.
    let exponent = exponent.parse().unwrap_or(0) + whole.len() as i32 - zeros as i32 - 1;
    if exponent < -4 || exponent >= digits {
        out.push(*first);
        if !others.is_empty() {
            out.push(b'.');
            out.extend_from_slice(others);
        }
        out.push(b'e');
        out.push(if exponent < 0 { b'-' } else { b'+' });
        two_digits(i64::from(exponent.unsigned_abs()), out);
    } else if let Ok(exponent) = usize::try_from(exponent) {
        let whole = (exponent + 1).min(shown.len());
        out.extend_from_slice(shown.get(..whole).unwrap_or_default());
        out.resize(out.len() + exponent + 1 - whole, b'0');
        if whole < shown.len() {
            out.push(b'.');
            out.extend_from_slice(shown.get(whole..).unwrap_or_default());
        }
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (exponent.unsigned_abs() as usize).saturating_sub(1), b'0');
        out.extend_from_slice(shown);
    }
}

/// Appends a date, and what follows it before `BC`.
fn date(days: i64, then: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    let start = out.len();
    if days >= -DAYS_AFTER_CHRIST {
        time::date(days, out);
        // Ours has a sign from five digits of a year on.
        if out.get(start) == Some(&b'+') {
            out.remove(start);
        }
        return then(out);
    }
    // The year 0 is 1 BC. A year that many cycles later has the same days.
    let cycles = (-days) / DAYS_PER_CYCLE + 1;
    let mut later = Vec::new();
    time::date(days + cycles * DAYS_PER_CYCLE, &mut later);
    let later = String::from_utf8_lossy(&later).into_owned();
    let (year, rest) = later.split_once('-').unwrap_or((&later, ""));
    let year: i64 = year.trim_start_matches('+').parse().unwrap_or_default();
    let year = 1 - (year - cycles * 400);
    out.extend_from_slice(format!("{year:04}-{rest}").as_bytes());
    then(out);
    out.extend_from_slice(b" BC");
}

fn two_digits(value: i64, out: &mut Vec<u8>) {
    if (0..10).contains(&value) {
        out.push(b'0');
    }
    number::integer(value, out);
}

/// Appends `04:05:06.5`; there may be many hours.
fn time_of_day(micros: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (micros / MICROS, micros % MICROS);
    two_digits(seconds / 3600, out);
    out.push(b':');
    two_digits(seconds / 60 % 60, out);
    out.push(b':');
    two_digits(seconds % 60, out);
    if fraction > 0 {
        let digits = format!(".{fraction:06}");
        out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

fn interval(months: i32, days: i32, micros: i64, out: &mut Vec<u8>) {
    let parts = [(months / 12, "year"), (months % 12, "mon"), (days, "day")];
    let start = out.len();
    // A sign follows that of the part before.
    let mut is_before = false;
    for (value, name) in parts {
        if value != 0 {
            if out.len() > start {
                out.push(b' ');
            }
            if is_before && value > 0 {
                out.push(b'+');
            }
            is_before = value < 0;
            number::integer(value, out);
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            if value != 1 {
                out.push(b's');
            }
        }
    }
    if micros == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    if micros < 0 {
        out.push(b'-');
    } else if is_before {
        out.push(b'+');
    }
    time_of_day(micros.saturating_abs(), out);
}

/// An interval in the form of ISO 8601, in which each part has a sign of its own.
fn iso_interval(months: i32, days: i32, micros: i64, out: &mut Vec<u8>) {
    let part = |value: i64, unit: u8, out: &mut Vec<u8>| {
        if value != 0 {
            number::integer(value, out);
            out.push(unit);
        }
    };
    out.push(b'P');
    part(i64::from(months / 12), b'Y', out);
    part(i64::from(months % 12), b'M', out);
    part(i64::from(days), b'D', out);
    let (seconds, fraction) = (micros / MICROS, micros % MICROS);
    if micros != 0 || out.last() == Some(&b'P') {
        out.push(b'T');
    }
    part(seconds / 3600, b'H', out);
    part(seconds / 60 % 60, b'M', out);
    if fraction != 0 {
        let sign = if micros < 0 { "-" } else { "" };
        let text = format!("{sign}{}.{:06}", (seconds % 60).abs(), fraction.abs());
        out.extend_from_slice(text.trim_end_matches('0').as_bytes());
        out.push(b'S');
    } else {
        part(seconds % 60, b'S', out);
    }
    if out.last() == Some(&b'T') {
        out.extend_from_slice(b"0S");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int32Type, IntervalMonthDayNanoType};
    use arrow_array::*;
    use std::sync::Arc;

    fn show(array: ArrayRef) -> Vec<String> {
        let column = Column::new(&array).unwrap();
        let show = |row| {
            if column.is_null(row) {
                return "∅".to_owned();
            }
            let mut out = Vec::new();
            write(&column, row, &mut out);
            String::from_utf8(out).unwrap()
        };
        (0..array.len()).map(show).collect()
    }

    #[test]
    fn values_are_spelled_as_postgresql_does() {
        assert_eq!(show(Arc::new(BooleanArray::from(vec![Some(true), None]))), ["t", "∅"]);
        let floats = vec![0.0, -0.0, 1.0, 0.1, 1e14, 1e15, 1.5e-4, 1e-5, 1e300, f64::NAN];
        let spelled = ["0", "-0", "1", "0.1", "100000000000000", "1e+15", "0.00015", "1e-05"];
        assert_eq!(show(Arc::new(Float64Array::from(floats)))[..8], spelled);
        let floats = Float64Array::from(vec![f64::NAN, -f64::INFINITY, 1234567.125, 5e-324]);
        assert_eq!(show(Arc::new(floats)), ["NaN", "-Infinity", "1234567.125", "5e-324"]);
        let floats = Float32Array::from(vec![1e5, 1e6, 1.5, 0.1]);
        assert_eq!(show(Arc::new(floats)), ["100000", "1e+06", "1.5", "0.1"]);
        let dates = Date32Array::from(vec![0, -719_162, -719_163, -719_529, 2_932_897]);
        let spelled = ["1970-01-01", "0001-01-01", "0001-12-31 BC", "0002-12-31 BC", "10000-01-01"];
        assert_eq!(show(Arc::new(dates)), spelled);
        let times = TimestampMicrosecondArray::from(vec![-1, 1_500_000, 0]);
        let spelled =
            ["1969-12-31 23:59:59.999999", "1970-01-01 00:00:01.5", "1970-01-01 00:00:00"];
        assert_eq!(show(Arc::new(times.clone())), spelled);
        let nanos = TimestampNanosecondArray::from(vec![-1, -1000, -1001, 1999]);
        let spelled = ["59.999999", "59.999999", "59.999998", "00.000001"];
        let shown = show(Arc::new(nanos));
        assert!(shown.iter().zip(spelled).all(|(it, end)| it.ends_with(end)), "{shown:?}");
        let zoned = times.with_timezone("Europe/Berlin");
        assert_eq!(show(Arc::new(zoned))[1], "1970-01-01 00:00:01.5+00");
        let bytes = BinaryArray::from(vec![&b"\x00\xffa"[..]]);
        assert_eq!(show(Arc::new(bytes)), ["\\x00ff61"]);
        let numeric = Decimal128Array::from(vec![150, -5]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(show(Arc::new(numeric)), ["1.50", "-0.05"]);
        assert_eq!(show(Arc::new(UInt64Array::from(vec![u64::MAX]))), ["18446744073709551615"]);
    }

    #[test]
    fn intervals_and_arrays() {
        let make = IntervalMonthDayNanoType::make_value;
        let hour = 3_600_000_000_000;
        let values = vec![
            make(14, 3, 4 * hour + 500_000_000),
            make(0, 0, 0),
            make(-1, 1, -hour),
            make(0, -1, hour),
            make(0, 0, 30 * hour),
        ];
        let spelled = [
            "1 year 2 mons 3 days 04:00:00.5",
            "00:00:00",
            "-1 mons +1 day -01:00:00",
            "-1 days +01:00:00",
            "30:00:00",
        ];
        let values = IntervalMonthDayNanoArray::from(values);
        assert_eq!(show(Arc::new(values.clone())), spelled);
        let iso = ["P1Y2M3DT4H0.5S", "PT0S", "P-1M1DT-1H", "P-1DT1H", "PT30H"];
        let spelled: Vec<String> = values
            .values()
            .iter()
            .chain(&[make(0, 0, -62_000_003_000), make(-14, 0, 0), make(0, 0, -10 * hour)])
            .map(|value| {
                let mut out = Vec::new();
                iso_interval(value.months, value.days, value.nanoseconds / 1000, &mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(spelled[..5], iso);
        assert_eq!(spelled[5..], ["PT-1M-2.000003S", "P-1Y-2M", "PT-10H"]);
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
        ]);
        assert_eq!(show(Arc::new(lists)), ["{1,NULL}", "∅", "{}"]);
        let mut texts = builder::ListBuilder::new(builder::StringBuilder::new());
        texts.append_value(["a", "", "null", "a b", "q\"\\", "{"].map(Some));
        let spelled = r#"{a,"","null","a b","q\"\\","{"}"#;
        assert_eq!(show(Arc::new(texts.finish())), [spelled]);
    }
}
