//! Parses integers, floats, decimals and booleans.
//!
//! Short numbers are parsed eight digits at a time in one machine word. A float of up to about 18
//! digits is its digits divided by a power of ten, which is rounded correctly as long as both are
//! exact in a double. Everything else goes to `fast_float2`.

use super::Text;

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGHS: u64 = 0x8080_8080_8080_8080;
/// Integers up to this are exact in a double.
pub(in crate::ingest) const MAX_EXACT_IN_F64: u64 = 1 << 53;

/// Powers of ten.
const TENS: [u64; 17] = {
    let mut tens = [1; 17];
    let mut i = 1;
    while i < 17 {
        tens[i] = 10 * tens[i - 1];
        i += 1;
    }
    tens
};
/// Powers of ten that are exact in a double.
const TENS_F64: [f64; 17] = {
    let mut powers = [1.0; 17];
    let mut i = 1;
    while i < 17 {
        powers[i] = TENS[i] as f64;
        i += 1;
    }
    powers
};

/// The value of eight digits (first digit in the lowest byte), or `None` if a byte is not a digit.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    let digits = word ^ ZEROS;
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & HIGHS != 0 {
        return None;
    }
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some(quads.wrapping_mul(10_000).wrapping_add(quads >> 32) & 0xffff_ffff)
}

/// The value of the first `len` digits (1 to 8) of `word`.
#[inline]
fn up_to_eight(word: u64, len: usize) -> Option<u64> {
    let shift = 64 - 8 * (len as u32).clamp(1, 8);
    let padding = ZEROS & !(u64::MAX << shift);
    eight_digits((word << shift) | padding)
}

/// The value of a run of digits, leading zeros allowed.
#[inline]
fn digits(text: Text<'_>) -> Option<u64> {
    match text.len() {
        0 => None,
        len @ 1..=8 => up_to_eight(text.word(0), len),
        len @ 9..=16 => {
            let high = up_to_eight(text.word(0), len - 8)?;
            Some(high * 100_000_000 + eight_digits(text.word(len - 8))?)
        }
        _ => many_digits(text.bytes()),
    }
}

fn many_digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Whether the digits start with a superfluous zero.
#[inline]
fn has_leading_zero(text: Text<'_>) -> bool {
    let word = text.word(0);
    word as u8 == b'0' && text.len() > 1 && ((word >> 8) as u8).is_ascii_digit()
}

#[inline]
fn split_sign(text: Text<'_>) -> (bool, Text<'_>) {
    if text.word(0) as u8 == b'-' { (true, text.skip(1)) } else { (false, text) }
}

#[inline]
fn signed(negative: bool, magnitude: u64) -> Option<i64> {
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// A signed integer without `+`, blanks or leading zeros. `-0` is refused because its sign would be
/// lost.
#[inline]
pub(crate) fn int64(text: Text<'_>) -> Option<i64> {
    let (negative, rest) = split_sign(text);
    if has_leading_zero(rest) {
        return None;
    }
    let magnitude = digits(rest)?;
    if negative && magnitude == 0 {
        return None;
    }
    signed(negative, magnitude)
}

/// An unsigned integer without `+`, blanks or leading zeros.
#[inline]
pub(crate) fn uint64(text: Text<'_>) -> Option<u64> {
    if has_leading_zero(text) { None } else { digits(text) }
}

/// An integer as a person may write it: blanks around it, `+`, leading zeros.
pub(crate) fn int128_lenient(text: Text<'_>) -> Option<i128> {
    let bytes = text.bytes().trim_ascii();
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let magnitude = i128::from(digits(bytes.into())?);
    Some(if negative { -magnitude } else { magnitude })
}

/// A double without `+` or leading zeros. Fractions are rounded; an integer must be exact.
#[inline]
pub(crate) fn float64(text: Text<'_>) -> Option<f64> {
    match float_fast(text) {
        Some(value) => Some(value),
        None => float_slow(text.bytes()),
    }
}

#[inline]
fn float_fast(text: Text<'_>) -> Option<f64> {
    let (negative, rest) = split_sign(text);
    if has_leading_zero(rest) {
        return None;
    }
    let len = rest.len();
    let (mantissa, scale) = if len <= 8 {
        let word = rest.word(0);
        let dot = find_dot(word).min(len);
        let (joined, count) = cut_dot(word, dot, len);
        if count == 0 {
            return None;
        }
        (up_to_eight(joined, count)?, count - dot)
    } else {
        long_mantissa(rest)?
    };
    let value = mantissa as f64 / TENS_F64.get(scale)?;
    Some(if negative { -value } else { value })
}

/// Index of the first `.` in the word; 8 or more if there is none.
#[inline]
fn find_dot(word: u64) -> usize {
    let x = word ^ 0x2e2e_2e2e_2e2e_2e2e;
    let zero = x.wrapping_sub(0x0101_0101_0101_0101) & !x & HIGHS;
    (zero.trailing_zeros() / 8) as usize
}

/// Removes byte `dot` from the word; returns it with the number of digits.
#[inline]
fn cut_dot(word: u64, dot: usize, len: usize) -> (u64, usize) {
    if dot >= len {
        return (word, len);
    }
    let low = !(u64::MAX << (8 * dot));
    ((word & low) | ((word >> 8) & !low), len - 1)
}

/// Digits and scale of 9 or more characters, if the digits are exact in a double. The point is
/// looked for among the first eight characters only: few floats have it later.
#[inline]
fn long_mantissa(text: Text<'_>) -> Option<(u64, usize)> {
    let (len, word) = (text.len(), text.word(0));
    let dot = find_dot(word);
    let (mantissa, scale) = if dot < 8 {
        let scale = len - dot - 1;
        // At most 16 digits after the point and 18 in all, so that nothing overflows.
        if scale > 16 || dot + scale > 18 {
            return None;
        }
        let whole = if dot == 0 { 0 } else { up_to_eight(word, dot)? };
        let fraction = if scale == 0 { 0 } else { digits(text.skip(dot + 1))? };
        (whole * TENS.get(scale)? + fraction, scale)
    } else if len <= 16 {
        (digits(text)?, 0)
    } else {
        return None;
    };
    (mantissa <= MAX_EXACT_IN_F64).then_some((mantissa, scale))
}

#[cold]
fn float_slow(bytes: &[u8]) -> Option<f64> {
    let magnitude = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match magnitude {
        [] | [b'+', ..] => return None,
        [b'0', b'0'..=b'9', ..] => return None,
        _ => {}
    }
    if magnitude.iter().all(u8::is_ascii_digit) && !exact_in_bits(magnitude, f64::MANTISSA_DIGITS) {
        return None;
    }
    finite_or_spelled(bytes)
}

/// Whether an integer of up to 38 digits is exact in a float of `bits` bits.
fn exact_in_bits(digits: &[u8], bits: u32) -> bool {
    let parse = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u128>().ok();
    // A power of two times an odd number of at most `bits` bits.
    parse(digits).is_some_and(|v| v == 0 || 128 - v.leading_zeros() - v.trailing_zeros() <= bits)
}

/// What `fast_float2` parses, except numbers that overflow to infinity.
fn finite_or_spelled(bytes: &[u8]) -> Option<f64> {
    let value: f64 = fast_float2::parse(bytes).ok()?;
    let spelled = bytes.iter().any(|b| matches!(b, b'i' | b'I'));
    (!value.is_infinite() || spelled).then_some(value)
}

/// A double as a person may write it: blanks, `+`, leading zeros, integers rounded.
pub(crate) fn float64_lenient(text: Text<'_>) -> Option<f64> {
    let bytes = text.bytes().trim_ascii();
    finite_or_spelled(bytes.strip_prefix(b"+").unwrap_or(bytes))
}

/// A single-precision float as a person may write it. Fractions are rounded; an integer must be
/// exact.
pub(crate) fn float32(text: Text<'_>) -> Option<f32> {
    let value = float32_lenient(text)?;
    let digits = text.bytes().trim_ascii();
    let digits = digits.strip_prefix(b"+").or(digits.strip_prefix(b"-")).unwrap_or(digits);
    let is_whole = digits.iter().all(u8::is_ascii_digit);
    (!is_whole || exact_in_bits(digits, f32::MANTISSA_DIGITS)).then_some(value)
}

/// A single-precision float, rounded once.
pub(crate) fn float32_lenient(text: Text<'_>) -> Option<f32> {
    let bytes = text.bytes().trim_ascii();
    let bytes = bytes.strip_prefix(b"+").unwrap_or(bytes);
    let value: f32 = fast_float2::parse(bytes).ok()?;
    let spelled = bytes.iter().any(|b| matches!(b, b'i' | b'I'));
    (!value.is_infinite() || spelled).then_some(value)
}

/// A decimal as an integer in units of `10^-scale`; `None` if digits do not fit.
pub(crate) fn decimal(text: Text<'_>, precision: u8, scale: i8) -> Option<i128> {
    let bytes = text.bytes().trim_ascii();
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let point = bytes.iter().position(|b| *b == b'.').unwrap_or(bytes.len());
    let (whole, fraction) = bytes.split_at(point);
    let fraction = fraction.strip_prefix(b".").unwrap_or(fraction);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = usize::try_from(scale).ok()?;
    let (kept, cut) = fraction.split_at(fraction.len().min(scale));
    if cut.iter().any(|b| *b != b'0') {
        return None;
    }
    let zeros = std::iter::repeat_n(&b'0', scale - kept.len());
    let units = whole.iter().chain(kept).chain(zeros).try_fold(0_i128, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(i128::from(digit))
    })?;
    let bound = 10_i128.checked_pow(u32::from(precision))?;
    (units < bound).then_some(if negative { -units } else { units })
}

/// `true` or `false` in any case.
#[inline]
pub(crate) fn boolean(text: Text<'_>) -> Option<bool> {
    boolean_words(text.bytes(), "false", "true")
}

/// One of two words, in any case.
#[inline]
pub(crate) fn boolean_words(text: &[u8], no: &str, yes: &str) -> Option<bool> {
    match (text.eq_ignore_ascii_case(yes.as_bytes()), text.eq_ignore_ascii_case(no.as_bytes())) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// The spellings of booleans that databases write: `true`, `t`, `yes`, `y`, `on`, `1` and their
/// opposites.
pub(crate) fn boolean_lenient(text: Text<'_>) -> Option<bool> {
    let lower = text.bytes().trim_ascii().to_ascii_lowercase();
    match lower.as_slice() {
        b"true" | b"t" | b"yes" | b"y" | b"on" | b"1" => Some(true),
        b"false" | b"f" | b"no" | b"n" | b"off" | b"0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
