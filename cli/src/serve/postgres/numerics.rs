//! Values of the type numeric as clients send them, in texts and in binary.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array};

use super::errors::PgError;

/// The most decimal digits of a numeric.
const MOST_DIGITS: usize = 38;

/// Reads the text of a number.
pub(super) fn of_text(text: &str) -> Result<ArrayRef, PgError> {
    let wrong = || PgError::of("22P02", format!("'{text}' is no number"));
    let trimmed = text.trim();
    let (is_negative, digits) = match trimmed.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let (number, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent: i32 = exponent.parse().map_err(|_| wrong())?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let all = format!("{whole}{part}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    decimal(is_negative, &all, part.len() as i64 - i64::from(exponent))
}

/// A decimal of digits; `scale` of them stand behind the point.
fn decimal(is_negative: bool, digits: &str, scale: i64) -> Result<ArrayRef, PgError> {
    let too_long = || PgError::of("22003", "a number of more than 38 digits");
    let mut digits = digits.trim_start_matches('0').to_owned();
    let (most, mut scale) = (MOST_DIGITS as i64, scale);
    if !(-most..=most * 2).contains(&scale) {
        return Err(too_long());
    }
    while scale < 0 {
        digits.push('0');
        scale += 1;
    }
    while scale > most && digits.ends_with('0') {
        digits.pop();
        scale -= 1;
    }
    if digits.len() > MOST_DIGITS || scale > most {
        return Err(too_long());
    }
    let value: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| too_long())? };
    let value = if is_negative { -value } else { value };
    let precision = digits.len().max(scale as usize).max(1) as u8;
    let array = Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale as i8);
    Ok(Arc::new(array.map_err(|error| PgError::of("22003", error.to_string()))?))
}

/// Reads the binary form of a number.
pub(super) fn of_binary(bytes: &[u8]) -> Result<ArrayRef, PgError> {
    let wrong = || PgError::of("22P03", "the value of a parameter is no numeric");
    let (parts, []) = bytes.as_chunks() else { return Err(wrong()) };
    let parts: Vec<i16> = parts.iter().map(|two| i16::from_be_bytes(*two)).collect();
    let [count, weight, sign, scale, groups @ ..] = parts.as_slice() else { return Err(wrong()) };
    let is_valid = groups.len() == usize::from(count.cast_unsigned())
        && groups.iter().all(|group| (0..10_000).contains(group));
    if !is_valid || groups.len() > MOST_DIGITS {
        return Err(wrong());
    }
    let is_negative = match sign {
        0 => false,
        0x4000 => true,
        _ => return Err(PgError::of("22003", "a numeric that is no number")),
    };
    let digits: String = groups.iter().map(|group| format!("{group:04}")).collect();
    let behind = 4 * (groups.len() as i64 - 1 - i64::from(*weight));
    // The digits of the last group beyond the scale are zeros.
    let beyond = (behind - i64::from(*scale)).clamp(0, 3);
    let shown = digits.len().saturating_sub(beyond as usize);
    match digits.get(shown..).is_some_and(|rest| rest.bytes().all(|byte| byte == b'0')) {
        true => decimal(is_negative, digits.get(..shown).unwrap_or("0"), behind - beyond),
        false => decimal(is_negative, &digits, behind),
    }
}
