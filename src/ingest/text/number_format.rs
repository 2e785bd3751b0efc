//! Numbers as people write them: a plus sign, a decimal comma, separators of thousands. They are
//! rewritten in a small buffer, which the parsers of plain numbers then read.

use super::Text;

/// More bytes than any number has that fits a column.
const LONGEST: usize = 64;
/// Digits before the point that a number with a plus sign may have; telephone numbers have more.
const MOST_AFTER_PLUS: usize = 7;

/// The decimal point, and what stands between thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFormat {
    /// The decimal point.
    pub decimal: u8,
    /// The byte between groups of three digits before the point; numbers may lack it.
    pub thousands: Option<u8>,
}

impl Default for NumberFormat {
    fn default() -> Self {
        NumberFormat { decimal: b'.', thousands: None }
    }
}

impl NumberFormat {
    /// Whether numbers are plain ones.
    pub(crate) fn is_plain(self) -> bool {
        self == NumberFormat::default()
    }

    /// Calls `parse` with the text as a plain number; `None` if it is none of this format.
    #[inline]
    pub(crate) fn parse<T>(
        self,
        text: Text<'_>,
        parse: impl FnOnce(Text<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut buffer = [0; LONGEST];
        let length = self.plain(text.bytes(), &mut buffer)?;
        parse(Text::new(&buffer, length))
    }

    /// Writes the text as a plain number, and returns its length.
    fn plain(self, text: &[u8], out: &mut [u8; LONGEST]) -> Option<usize> {
        let (mut length, mut group, mut in_groups, mut in_fraction) = (0, 0, false, false);
        let mut in_exponent = false;
        for byte in text {
            let written = match *byte {
                byte if Some(byte) == self.thousands && !in_fraction && !in_exponent => {
                    // One to three digits come first, and then three at a time.
                    let is_full = if in_groups { group == 3 } else { (1..=3).contains(&group) };
                    if !is_full {
                        return None;
                    }
                    (group, in_groups) = (0, true);
                    continue;
                }
                byte if byte == self.decimal && !in_fraction => {
                    in_fraction = true;
                    if in_groups && group != 3 {
                        return None;
                    }
                    b'.'
                }
                b'.' | b',' => return None,
                byte if in_groups && !in_fraction && !byte.is_ascii_digit() && group != 3 => {
                    // The exponent begins, whose digits are none of the group.
                    return None;
                }
                byte => {
                    in_exponent |= matches!(byte, b'e' | b'E');
                    group += usize::from(byte.is_ascii_digit() && !in_exponent);
                    byte
                }
            };
            *out.get_mut(length)? = written;
            length += 1;
        }
        (in_fraction || !in_groups || group == 3).then_some(length)
    }
}

/// The number without its plus sign, if that does not make it look like a telephone number.
pub(crate) fn without_plus(text: Text<'_>) -> Option<Text<'_>> {
    let rest = text.bytes().strip_prefix(b"+")?;
    let whole = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = matches!(rest.first(), Some(b'0'..=b'9' | b'.'));
    (is_number && whole <= MOST_AFTER_PLUS).then(|| text.skip(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, decimal: u8, thousands: Option<u8>) -> Option<String> {
        let format = NumberFormat { decimal, thousands };
        format.parse(text.into(), |plain| String::from_utf8(plain.bytes().to_vec()).ok())
    }

    #[test]
    fn numbers_become_plain() {
        for (text, decimal, thousands, expected) in [
            ("1,5", b',', None, Some("1.5")),
            ("-1.234.567,25", b',', Some(b'.'), Some("-1234567.25")),
            ("1234567,25", b',', Some(b'.'), Some("1234567.25")),
            ("1,234", b'.', Some(b','), Some("1234")),
            ("999", b'.', Some(b','), Some("999")),
            ("1'000'000", b'.', Some(b'\''), Some("1000000")),
            ("1,5e3", b',', None, Some("1.5e3")),
            ("1.5", b',', None, None),
            ("1,23", b'.', Some(b','), None),
            ("1234,567", b'.', Some(b','), None),
            ("1,234,56.5", b'.', Some(b','), None),
            (",234", b'.', Some(b','), None),
            ("1,234,", b'.', Some(b','), None),
            ("1,2,3", b',', None, None),
            ("1.234,567.8", b',', Some(b'.'), None),
        ] {
            assert_eq!(plain(text, decimal, thousands).as_deref(), expected, "{text}");
        }
        assert_eq!(plain(&"1".repeat(65), b',', None), None);
    }

    #[test]
    fn plus_signs() {
        for (text, expected) in [
            ("+5", Some("5")),
            ("+0.25", Some("0.25")),
            ("+1234567", Some("1234567")),
            ("+12345678", None),
            ("++5", None),
            ("+-5", None),
            ("+", None),
            ("5", None),
        ] {
            let found = without_plus(text.into()).map(|text| text.bytes().to_vec());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
