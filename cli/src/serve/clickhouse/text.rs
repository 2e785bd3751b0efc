//! How values are spelled in ClickHouse's text formats.
//!
//! | type | spelled |
//! | --- | --- |
//! | integers | digits |
//! | decimals | exact, without zeros at the end |
//! | floats | the shortest text of the same value, with an exponent from 10²¹ and below 10⁻⁶ on; `nan`, `inf`, `-inf` |
//! | booleans | `true`, `false` |
//! | dates | `2015-07-01` |
//! | times | `2015-07-01 13:05:00.123456` in their time zone, with as many digits as the type has |
//! | texts and bytes | as they are, escaped or quoted as the format wants it |
//! | arrays, tuples, maps | `[1,NULL]`, `(1,'a')`, `{'k':1}` |

use arrow_buffer::i256;

use super::columns::{Column, Texts, Values};
use super::escape;
use crate::printers::{number, time};

/// How a format wants texts, and what `NULL` is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As it is; null is `ᴺᵁᴸᴸ`. For tables that people read.
    Plain,
    /// As it is; null is `\N`.
    Raw,
    /// With backslashes before what a line of tab-separated values cannot hold; null is `\N`.
    Escaped,
    /// As a literal of SQL, in single quotes; null is `NULL`.
    Quoted,
    /// In double quotes, which are doubled; null is `\N`.
    Csv,
}

impl Spelling {
    fn null(self) -> &'static [u8] {
        match self {
            Spelling::Plain => "ᴺᵁᴸᴸ".as_bytes(),
            Spelling::Raw | Spelling::Escaped | Spelling::Csv => b"\\N",
            Spelling::Quoted => b"NULL",
        }
    }

    /// What stands around times, which hold no quotes themselves.
    fn around_times(self) -> &'static [u8] {
        match self {
            Spelling::Plain | Spelling::Raw | Spelling::Escaped => b"",
            Spelling::Quoted => b"'",
            Spelling::Csv => b"\"",
        }
    }
}

/// Appends the value of a row.
pub(super) fn write(column: &Column, row: usize, spelling: Spelling, out: &mut Vec<u8>) {
    if column.is_null(row) && !is_nested(column) {
        out.extend_from_slice(spelling.null());
        return;
    }
    match &column.values {
        Values::Text(texts) => write_text(texts.bytes(row), spelling, out),
        Values::Date(_) | Values::DateTime { .. } => {
            out.extend_from_slice(spelling.around_times());
            write_scalar(&column.values, row, out);
            out.extend_from_slice(spelling.around_times());
        }
        Values::Array { .. } | Values::Tuple { .. } | Values::Map { .. } => match spelling {
            Spelling::Csv => {
                let mut nested = Vec::new();
                write_nested(&column.values, row, &mut nested);
                escape::csv(&nested, out);
            }
            _ => write_nested(&column.values, row, out),
        },
        values => write_scalar(values, row, out),
    }
}

/// Whether values are arrays, tuples or maps, which are never null.
pub(super) fn is_nested(column: &Column) -> bool {
    matches!(&column.values, Values::Array { .. } | Values::Tuple { .. } | Values::Map { .. })
}

fn write_text(text: &[u8], spelling: Spelling, out: &mut Vec<u8>) {
    match spelling {
        Spelling::Plain | Spelling::Raw => out.extend_from_slice(text),
        Spelling::Escaped => escape::backslashes(text, out),
        Spelling::Quoted => escape::quoted(text, out),
        Spelling::Csv => escape::csv(text, out),
    }
}

/// Appends an array, a tuple or a map, in which texts are literals.
fn write_nested(values: &Values, row: usize, out: &mut Vec<u8>) {
    match values {
        Values::Array { rows, items } => {
            out.push(b'[');
            for (at, item) in rows[row].clone().enumerate() {
                comma(at, out);
                write(items, item, Spelling::Quoted, out);
            }
            out.push(b']');
        }
        Values::Tuple { elements, .. } => {
            out.push(b'(');
            for (at, element) in elements.iter().enumerate() {
                comma(at, out);
                write(element, row, Spelling::Quoted, out);
            }
            out.push(b')');
        }
        Values::Map { rows, keys, values } => {
            out.push(b'{');
            for (at, item) in rows[row].clone().enumerate() {
                comma(at, out);
                write(keys, item, Spelling::Quoted, out);
                out.push(b':');
                write(values, item, Spelling::Quoted, out);
            }
            out.push(b'}');
        }
        _ => {}
    }
}

fn comma(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

/// Appends a value that has one spelling, without the quotes around times.
pub(super) fn write_scalar(values: &Values, row: usize, out: &mut Vec<u8>) {
    match values {
        Values::Bool(values) => {
            out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
        }
        Values::Int8(values) => number::integer(values[row], out),
        Values::Int16(values) => number::integer(values[row], out),
        Values::Int32(values) => number::integer(values[row], out),
        Values::Int64(values) => number::integer(values[row], out),
        Values::UInt8(values) => number::integer(values[row], out),
        Values::UInt16(values) => number::integer(values[row], out),
        Values::UInt32(values) => number::integer(values[row], out),
        Values::UInt64(values) => number::integer(values[row], out),
        Values::Float32(values) => float(values[row], out),
        Values::Float64(values) => float(values[row], out),
        Values::Decimal { values, scale, .. } => {
            let start = out.len();
            number::decimal(values[row], *scale, out);
            trim_zeros(start, *scale, out);
        }
        Values::Decimal256 { values, scale, .. } => decimal_256(values[row], *scale, out),
        Values::Date(values) => time::date(i64::from(values[row]), out),
        Values::DateTime { ticks, digits, zone } => {
            time::date_time(ticks[row], *digits, zone.as_ref(), out);
        }
        Values::Text(Texts::Utf8(_))
        | Values::Text(_)
        | Values::Nothing
        | Values::Array { .. }
        | Values::Tuple { .. }
        | Values::Map { .. } => {}
    }
}

/// Whether a value is a float that is no number, which JSON cannot hold.
pub(super) fn is_not_finite(values: &Values, row: usize) -> bool {
    match values {
        Values::Float32(values) => !values[row].is_finite(),
        Values::Float64(values) => !values[row].is_finite(),
        _ => false,
    }
}

fn decimal_256(value: i256, scale: i8, out: &mut Vec<u8>) {
    let start = out.len();
    match value.to_i128() {
        Some(value) => number::decimal(value, scale, out),
        None => {
            let text = value.to_string();
            let digits = text.trim_start_matches('-').as_bytes();
            if text.starts_with('-') {
                out.push(b'-');
            }
            let places = usize::from(scale.unsigned_abs());
            if scale <= 0 {
                out.extend_from_slice(digits);
                out.resize(out.len() + places, b'0');
            } else {
                let (whole, part) = digits.split_at(digits.len().saturating_sub(places));
                out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
                out.push(b'.');
                out.resize(out.len() + places - part.len(), b'0');
                out.extend_from_slice(part);
            }
        }
    }
    trim_zeros(start, scale, out);
}

/// Removes zeros behind the point, and the point if nothing follows it.
fn trim_zeros(start: usize, scale: i8, out: &mut Vec<u8>) {
    if scale <= 0 {
        return;
    }
    let zeros = out[start..].iter().rev().take_while(|digit| **digit == b'0').count();
    out.truncate(out.len() - zeros);
    if out.last() == Some(&b'.') {
        out.pop();
    }
}

/// Appends the shortest text of a float, with its digits laid out as JavaScript does.
fn float<F: zmij::Float + Into<f64> + Copy>(value: F, out: &mut Vec<u8>) {
    let as_double: f64 = value.into();
    if !as_double.is_finite() {
        out.extend_from_slice(match as_double {
            v if v.is_nan() => b"nan",
            v if v > 0.0 => b"inf",
            _ => b"-inf",
        });
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    if as_double.is_sign_negative() {
        out.push(b'-');
    }
    lay_out(text.trim_start_matches('-'), out);
}

/// Appends a positive number, which comes as digits with a point or an exponent or both.
fn lay_out(text: &str, out: &mut Vec<u8>) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut digits = [0; 40];
    let all = whole.bytes().chain(part.bytes());
    let count = digits.iter_mut().zip(all).map(|(slot, digit)| *slot = digit).count();
    let digits = &digits[..count];
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let digits = digits[zeros..].trim_ascii_end();
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    let digits = &digits[..end];
    // The value is 0.d₁d₂… · 10^point.
    let point = whole.len() as i32 - zeros as i32 + exponent;
    match usize::try_from(point) {
        _ if digits.is_empty() => out.push(b'0'),
        Ok(point @ 1..=21) if point >= digits.len() => {
            out.extend_from_slice(digits);
            out.resize(out.len() + point - digits.len(), b'0');
        }
        Ok(point @ 1..=21) => {
            out.extend_from_slice(&digits[..point]);
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
        _ if (-5..=0).contains(&point) => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + point.unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        }
        _ => {
            out.extend_from_slice(&digits[..1]);
            if digits.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.push(b'e');
            number::integer(point - 1, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_laid_out_as_clickhouse_does() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (100.0, "100"),
            (123456789.125, "123456789.125"),
            (1e15, "1000000000000000"),
            (1e20, "100000000000000000000"),
            (1.5e20, "150000000000000000000"),
            (123456789012345680000.0, "123456789012345680000"),
            (1e21, "1e21"),
            (1.5e21, "1.5e21"),
            (1e300, "1e300"),
            (f64::MAX, "1.7976931348623157e308"),
            (5e-324, "5e-324"),
            (1e-5, "0.00001"),
            (1e-6, "0.000001"),
            (0.000001234, "0.000001234"),
            (1e-7, "1e-7"),
            (3.5e-7, "3.5e-7"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut out = Vec::new();
            float(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        float(9007199254740993_f32, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "9007199000000000");
    }

    #[test]
    fn floats_read_back_as_the_same_bits() {
        let mut bits = 1_u64;
        for _ in 0..20_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits);
            let mut out = Vec::new();
            float(value, &mut out);
            let read: f64 = String::from_utf8(out).unwrap().parse().unwrap();
            assert!(read.to_bits() == value.to_bits() || read.is_nan() && value.is_nan());
        }
    }

    #[test]
    fn decimals_lose_zeros_at_their_end() {
        let show = |value: i256, scale| {
            let mut out = Vec::new();
            decimal_256(value, scale, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (value, scale, expected) in
            [(1500, 3, "1.5"), (-5, 2, "-0.05"), (0, 3, "0"), (700, 2, "7"), (700, 0, "700")]
        {
            assert_eq!(show(i256::from_i128(value), scale), expected);
        }
        let wide = i256::from_string(&format!("-{}0", "12".repeat(35))).unwrap();
        assert_eq!(show(wide, 2), format!("-{}.2", "12".repeat(34) + "1"));
        assert_eq!(show(wide, 0), format!("-{}0", "12".repeat(35)));
        assert_eq!(show(wide, 76), format!("-0.00000{}", "12".repeat(35)));
        assert_eq!(show(wide, -2), format!("-{}000", "12".repeat(35)));
    }
}
