//! Decimals as a format asks for them, by their digits: a double has room for 17 of them.
//!
//! A number halfway between two that may be written becomes the even one, as with doubles.

/// The size of a decimal.
pub(super) struct Decimal {
    /// Without zeros in front; none for zero.
    digits: String,
    /// How many of them are behind the point; zeros in front of them may be missing.
    scale: usize,
}

impl Decimal {
    /// Of a decimal as it is printed, without its sign.
    pub(super) fn new(printed: &str) -> Decimal {
        let size = printed.trim_start_matches('-');
        let (whole, behind) = size.split_once('.').unwrap_or((size, ""));
        let digits = format!("{whole}{behind}").trim_start_matches('0').to_owned();
        Decimal { digits, scale: behind.len() }
    }

    /// With `scale` digits behind the point.
    pub(super) fn fixed(&self, scale: usize) -> String {
        let mut digits = match self.scale.checked_sub(scale) {
            Some(fewer) => without_last(&self.digits, fewer),
            None => format!("{}{}", self.digits, "0".repeat(scale - self.scale)),
        };
        digits.insert_str(0, &"0".repeat((scale + 1).saturating_sub(digits.len())));
        if scale > 0 {
            digits.insert(digits.len() - scale, '.');
        }
        digits
    }

    /// With one digit before the point and this many behind it: `1.5e2`.
    pub(super) fn exponential(&self, digits: usize) -> String {
        let wanted = digits + 1;
        let mut written = match self.digits.len().checked_sub(wanted) {
            Some(fewer) => without_last(&self.digits, fewer),
            None => format!("{:0<wanted$}", self.digits),
        };
        let mut exponent = match self.digits.len() as i64 {
            0 => 0,
            length => length - 1 - self.scale as i64,
        };
        // 9.99 may have become 10.0.
        if written.len() > wanted {
            written.truncate(wanted);
            exponent += 1;
        }
        if digits > 0 {
            written.insert(1, '.');
        }
        format!("{written}e{exponent}")
    }

    /// All digits but zeros at the end, of which one is left behind the point.
    pub(super) fn shortest(&self) -> String {
        let all = self.fixed(self.scale.max(1));
        let short = all.trim_end_matches('0');
        let zero = if short.ends_with('.') { "0" } else { "" };
        format!("{short}{zero}")
    }
}

/// Digits without the last ones, rounded; none for zero.
fn without_last(digits: &str, count: usize) -> String {
    if count == 0 {
        return digits.to_owned();
    }
    let Some((kept, dropped)) =
        digits.len().checked_sub(count).and_then(|kept| digits.split_at_checked(kept))
    else {
        // Less than a tenth of the last digit.
        return String::new();
    };
    let half = format!("{:0<count$}", "5");
    let is_odd = kept.ends_with(['1', '3', '5', '7', '9']);
    if dropped < half.as_str() || dropped == half && !is_odd {
        return kept.to_owned();
    }
    let nines = kept.len() - kept.trim_end_matches('9').len();
    let mut more = kept.get(..kept.len() - nines).unwrap_or_default().to_owned();
    let last = more.pop().unwrap_or('0');
    more.push(char::from_digit(last.to_digit(10).unwrap_or(0) + 1, 10).unwrap_or('0'));
    more.push_str(&"0".repeat(nines));
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_decimal() {
        let fixed = |of: &str, digits| Decimal::new(of).fixed(digits);
        assert_eq!(fixed("123456789012345678901.55", 10), "123456789012345678901.5500000000");
        assert_eq!(fixed("-0.05", 1), "0.0");
        assert_eq!(fixed("0.15", 1), "0.2");
        assert_eq!(fixed("0.25", 1), "0.2");
        assert_eq!(fixed("0.2500001", 1), "0.3");
        assert_eq!(fixed("0.004", 1), "0.0");
        assert_eq!(fixed("9.96", 1), "10.0");
        assert_eq!(fixed("0.96", 0), "1");
        assert_eq!(fixed("0.00", 0), "0");
        assert_eq!(fixed("0.00", 3), "0.000");
        assert_eq!(fixed("2.5", 0), "2");
        assert_eq!(fixed("7.25", 2), "7.25");
        let exponential = |of: &str, digits| Decimal::new(of).exponential(digits);
        assert_eq!(exponential("0.00", 2), "0.00e0");
        assert_eq!(exponential("99.96", 2), "1.00e2");
        assert_eq!(exponential("0.0125", 1), "1.2e-2");
        assert_eq!(exponential("5.00", 0), "5e0");
        assert_eq!(exponential("0.05", 3), "5.000e-2");
        let shortest = |of: &str| Decimal::new(of).shortest();
        assert_eq!(
            [shortest("5.00"), shortest("123.50"), shortest("0.00")],
            ["5.0", "123.5", "0.0"]
        );
        assert_eq!(shortest("123456789012345678901.55"), "123456789012345678901.55");
    }
}
