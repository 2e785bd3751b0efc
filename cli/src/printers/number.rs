//! Numbers and bytes as text, appended without allocating.

/// Appends plain digits.
pub(crate) fn integer<I: itoa::Integer>(value: I, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the shortest text that reads back as the same 64-bit float.
pub(super) fn float64(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        not_finite(value.is_nan(), value > 0.0, out);
    }
}

/// Appends the shortest text that reads back as the same 32-bit float.
pub(super) fn float32(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        not_finite(value.is_nan(), value > 0.0, out);
    }
}

fn not_finite(nan: bool, positive: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(match (nan, positive) {
        (true, _) => b"NaN".as_slice(),
        (false, true) => b"inf",
        (false, false) => b"-inf",
    });
}

/// Appends `value · 10^-scale` with exactly `scale` digits after the point. A negative scale
/// appends zeros.
pub(crate) fn decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value.unsigned_abs()).as_bytes();
    if value < 0 {
        out.push(b'-');
    }
    let scale_digits = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        out.extend_from_slice(digits);
        if value != 0 {
            out.resize(out.len() + scale_digits, b'0');
        }
        return;
    }
    let whole = digits.len().saturating_sub(scale_digits);
    let (before, after) = digits.split_at(whole);
    out.extend_from_slice(if before.is_empty() { b"0" } else { before });
    out.push(b'.');
    out.resize(out.len() + scale_digits - after.len(), b'0');
    out.extend_from_slice(after);
}

/// Appends `\x` and two hexadecimal digits per byte.
pub(super) fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    out.extend(
        bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]),
    );
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
    fn decimals() {
        for (value, scale, expected) in [
            (12345, 2, "123.45"),
            (-5, 2, "-0.05"),
            (0, 3, "0.000"),
            (7, 0, "7"),
            (12, -3, "12000"),
            (0, -3, "0"),
            (i128::MIN, 38, "-1.70141183460469231731687303715884105728"),
        ] {
            assert_eq!(text(|out| decimal(value, scale, out)), expected);
        }
    }

    #[test]
    fn floats_read_back_as_the_same_bits() {
        let mut bits = 1_u64;
        for _ in 0..20_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (wide, narrow) = (f64::from_bits(bits), f32::from_bits((bits >> 32) as u32));
            if wide.is_finite() {
                assert_eq!(
                    text(|out| float64(wide, out)).parse::<f64>().unwrap().to_bits(),
                    wide.to_bits()
                );
            }
            if narrow.is_finite() {
                assert_eq!(
                    text(|out| float32(narrow, out)).parse::<f32>().unwrap().to_bits(),
                    narrow.to_bits()
                );
            }
        }
        assert_eq!(text(|out| float64(-0.0, out)), "-0.0");
        assert_eq!(text(|out| float64(1.0, out)), "1.0");
        assert_eq!(text(|out| float32(0.1, out)), "0.1");
    }

    #[test]
    fn bytes() {
        assert_eq!(text(|out| hex(&[0, 0xff, 0x1a], out)), "\\x00ff1a");
        assert_eq!(text(|out| hex(&[], out)), "\\x");
    }
}
