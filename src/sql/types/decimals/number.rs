//! Literal numbers with their exact digits.

use std::fmt;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The most digits of a decimal.
pub(super) const MAX_DIGITS: usize = 38;

/// `digits` times ten to the power of `exponent`. The last digit is not 0, unless it is the only
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    digits: i128,
    exponent: i32,
}

/// Where a number lies among the values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The greatest value of the type that is not greater than the number, in units of the type's
    /// last digit; one below the type's least value if there is none.
    pub(super) floor: i128,
    /// Whether the floor is the number itself.
    pub(super) exact: bool,
}

impl Number {
    /// The exact value of a constant expression: a literal, a cast that does not change its value,
    /// or a sum, difference or product of such expressions.
    pub(super) fn from_expr(expr: &Expr) -> Option<Number> {
        match expr {
            Expr::Literal(value, _) => Number::from_literal(value),
            Expr::Negative(inner) => {
                let number = Number::from_expr(inner)?;
                Some(Number { digits: -number.digits, ..number })
            }
            Expr::Cast(cast) => {
                let number = match cast_text(expr) {
                    Some(text) => Number::parse(text)?,
                    None => Number::from_expr(&cast.expr)?,
                };
                match cast.field.data_type() {
                    DataType::Float64 => Some(number),
                    to => number.position(&ExactType::new(to)?).exact.then_some(number),
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, right) = (Number::from_expr(left)?, Number::from_expr(right)?);
                match op {
                    Operator::Plus => left.plus(right),
                    Operator::Minus => left.plus(Number { digits: -right.digits, ..right }),
                    Operator::Multiply => Number::new(
                        left.digits.checked_mul(right.digits)?,
                        left.exponent.checked_add(right.exponent)?,
                    ),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a constant is a double with more digits than a number that was written has: it was
    /// cast to a double, or computed, and is compared as a double.
    pub(super) fn is_rounded(expr: &Expr) -> bool {
        let rounded = |number: Number| number.digits.unsigned_abs() >= 10_u128.pow(15);
        match expr {
            Expr::Literal(ScalarValue::Float64(Some(_)), _) => {
                Number::from_expr(expr).is_some_and(rounded)
            }
            Expr::Negative(inner) => Number::is_rounded(inner),
            Expr::Cast(cast) if cast.field.data_type().is_floating() => {
                Number::from_expr(&cast.expr).is_some_and(rounded)
            }
            Expr::Cast(cast) => Number::is_rounded(&cast.expr),
            _ => false,
        }
    }

    /// Whether doubles confuse it with other integers, or integers beside it with each other.
    pub(super) fn is_beyond_doubles(self) -> bool {
        let exact = 1_u128 << f64::MANTISSA_DIGITS;
        let magnitude = self.digits.unsigned_abs();
        match u32::try_from(self.exponent) {
            Ok(zeros) => 10_u128
                .checked_pow(zeros)
                .and_then(|power| magnitude.checked_mul(power))
                .is_none_or(|magnitude| magnitude >= exact),
            Err(_) => 10_u128
                .checked_pow(self.exponent.unsigned_abs())
                .is_some_and(|power| magnitude / power >= exact),
        }
    }

    fn from_literal(value: &ScalarValue) -> Option<Number> {
        match value {
            // The shortest text of this double is what was written, if that has at most 15 digits.
            ScalarValue::Float64(Some(double)) if double.is_finite() => {
                Number::parse(&format!("{double:e}"))
            }
            ScalarValue::Decimal128(Some(value), _, scale) => {
                Number::new(*value, -i32::from(*scale))
            }
            ScalarValue::Int64(Some(value)) => Number::new((*value).into(), 0),
            ScalarValue::UInt64(Some(value)) => Number::new((*value).into(), 0),
            _ => None,
        }
    }

    /// Removes trailing zeros. `None` if the exponent overflows.
    fn new(mut digits: i128, mut exponent: i32) -> Option<Number> {
        if digits == 0 {
            return Some(Number { digits: 0, exponent: 0 });
        }
        while digits % 10 == 0 {
            digits /= 10;
            exponent = exponent.checked_add(1)?;
        }
        Some(Number { digits, exponent })
    }

    fn plus(self, other: Number) -> Option<Number> {
        let exponent = self.exponent.min(other.exponent);
        let digits = |number: Number| {
            let zeros = u32::try_from(number.exponent.checked_sub(exponent)?).ok()?;
            number.digits.checked_mul(10_i128.checked_pow(zeros)?)
        };
        Number::new(digits(self)?.checked_add(digits(other)?)?, exponent)
    }

    pub(super) fn parse(text: &str) -> Option<Number> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
        Number::new(digits, exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?)
    }

    /// A decimal with as many digits as the number has; `None` if there are too many.
    pub(super) fn to_decimal(self) -> Option<ScalarValue> {
        let significant = self.digits.unsigned_abs().to_string().len();
        let (value, digits, scale) = match u32::try_from(self.exponent) {
            Ok(zeros) => {
                let value =
                    10_i128.checked_pow(zeros).and_then(|power| self.digits.checked_mul(power))?;
                (value, significant + usize::try_from(zeros).ok()?, 0)
            }
            Err(_) => {
                let scale = self.exponent.unsigned_abs();
                (self.digits, significant.max(usize::try_from(scale).ok()?), scale)
            }
        };
        if digits > MAX_DIGITS {
            return None;
        }
        Some(ScalarValue::Decimal128(
            Some(value),
            u8::try_from(digits).ok()?,
            i8::try_from(scale).ok()?,
        ))
    }

    /// Whether it is not beyond the values of a type of integers or decimals.
    pub(super) fn is_within(self, exact: &ExactType) -> bool {
        let Position { floor, exact: is_value } = self.position(exact);
        is_value || (exact.min_value()..exact.max_value()).contains(&floor)
    }

    /// Where it lies among the values of a type of integers or decimals.
    pub(super) fn position(&self, exact: &ExactType) -> Position {
        let (min, max) = exact.range();
        let below = Position { floor: min - 1, exact: false };
        let above = Position { floor: max, exact: false };
        let shift = self.exponent.saturating_add(exact.scale());
        let position = match u32::try_from(shift) {
            Ok(zeros) => {
                match 10_i128.checked_pow(zeros).and_then(|power| self.digits.checked_mul(power)) {
                    Some(value) => Position { floor: value, exact: true },
                    None if self.digits < 0 => below,
                    None => above,
                }
            }
            Err(_) => match 10_i128.checked_pow(shift.unsigned_abs()) {
                Some(unit) => Position {
                    floor: self.digits.div_euclid(unit),
                    exact: self.digits.rem_euclid(unit) == 0,
                },
                None => Position {
                    floor: if self.digits < 0 { -1 } else { 0 },
                    exact: self.digits == 0,
                },
            },
        };
        if position.floor < min {
            below
        } else if position.floor > max {
            above
        } else {
            position
        }
    }
}

/// The text in `CAST('…' AS DECIMAL(…))`.
pub(super) fn cast_text(expr: &Expr) -> Option<&str> {
    let Expr::Cast(cast) = expr else { return None };
    match cast.expr.as_ref() {
        _ if !cast.field.data_type().is_decimal() => None,
        Expr::Cast(inner) if inner.field.data_type().is_string() => string(&inner.expr),
        other => string(other),
    }
}

/// The text in such a cast that was made of a number in the statement. In a cast of the user, the
/// text is cast to TEXT first.
pub(super) fn literal_text(expr: &Expr) -> Option<&str> {
    let Expr::Cast(cast) = expr else { return None };
    cast.field.data_type().is_decimal().then(|| string(&cast.expr)).flatten()
}

fn string(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => Some(text),
        _ => None,
    }
}

/// A type whose values are exact: integers, and decimals of up to 38 digits.
#[derive(Clone, Debug)]
pub(super) struct ExactType(DataType);

impl ExactType {
    pub(super) fn new(data_type: &DataType) -> Option<ExactType> {
        let known = data_type.is_integer() || matches!(data_type, DataType::Decimal128(..));
        known.then(|| ExactType(data_type.clone()))
    }

    /// Whether another type holds all of its values, perhaps rounded to floats.
    pub(super) fn fits_in(&self, other: &DataType) -> bool {
        other.is_floating()
            || ExactType::new(other).is_some_and(|other| self.scale() <= other.scale())
    }

    fn scale(&self) -> i32 {
        match self.0 {
            DataType::Decimal128(_, scale) => i32::from(scale),
            _ => 0,
        }
    }

    /// The least and the greatest value, in units of the last digit.
    fn range(&self) -> (i128, i128) {
        let signed = |bits: u32| (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1);
        let unsigned = |bits: u32| (0, (1_i128 << bits) - 1);
        match self.0 {
            DataType::Int8 => signed(8),
            DataType::Int16 => signed(16),
            DataType::Int32 => signed(32),
            DataType::UInt8 => unsigned(8),
            DataType::UInt16 => unsigned(16),
            DataType::UInt32 => unsigned(32),
            DataType::UInt64 => unsigned(64),
            DataType::Decimal128(precision, _) => {
                let max =
                    10_i128.checked_pow(precision.into()).map_or(i128::MAX - 1, |power| power - 1);
                (-max, max)
            }
            _ => signed(64),
        }
    }

    pub(super) fn min_value(&self) -> i128 {
        self.range().0
    }

    pub(super) fn max_value(&self) -> i128 {
        self.range().1
    }

    /// A value in units of the last digit, as a literal.
    pub(super) fn literal(&self, value: i128) -> datafusion::error::Result<Expr> {
        let scalar = match self.0 {
            DataType::Decimal128(precision, scale) => {
                ScalarValue::Decimal128(Some(value), precision, scale)
            }
            _ => ScalarValue::Decimal128(Some(value), 38, 0).cast_to(&self.0)?,
        };
        Ok(Expr::Literal(scalar, None))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}e{}", self.digits, self.exponent)
    }
}

/// Whether DataFusion reads these digits without rounding them.
pub(in crate::sql) fn is_read_exactly(digits: &str) -> bool {
    if digits.parse::<u64>().is_ok() {
        return true;
    }
    let significant = digits.bytes().filter(u8::is_ascii_digit).count();
    if significant <= 15 || digits.contains(['e', 'E']) {
        return true;
    }
    let plain = |text: &str| {
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            text
        };
        text.trim_start_matches('0').to_owned()
    };
    digits.parse::<f64>().is_ok_and(|double| plain(&double.to_string()) == plain(digits))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::lit;

    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn parses_exact_digits() {
        for (text, digits, exponent) in [
            ("16.78", 1678, -2),
            ("-0.070", -7, -2),
            ("1.678e1", 1678, -2),
            ("1e300", 1, 300),
            ("1200", 12, 2),
            ("0.00", 0, 0),
            ("-0", 0, 0),
            (".5", 5, -1),
        ] {
            assert_eq!(number(text), Number { digits, exponent }, "{text}");
        }
        for text in ["", ".", "-", "--0", "e5", "x", "1.2.3", "1.-2", "nan"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sums_and_products_are_exact() {
        let sum =
            |a: &str, b: &str| number(a).plus(number(b)).and_then(|number| number.to_decimal());
        assert_eq!(sum("0.06", "0.01"), Some(ScalarValue::Decimal128(Some(7), 2, 2)));
        assert_eq!(sum("1.1", "2.9"), Some(ScalarValue::Decimal128(Some(4), 1, 0)));
        assert_eq!(sum("1e300", "1"), None);
        let product = lit(1.1) * lit(3_i64) - lit(0.3);
        assert_eq!(Number::from_expr(&product), Some(Number { digits: 3, exponent: 0 }));
        assert_eq!(Number::from_expr(&(-lit(1.005))), Some(Number { digits: -1005, exponent: -3 }));
        assert_eq!(Number::from_expr(&(lit(1.0) / lit(3.0))), None);
    }

    #[test]
    fn decimals_have_the_fewest_digits() {
        let decimal = |text: &str| number(text).to_decimal();
        assert_eq!(decimal("16.78"), Some(ScalarValue::Decimal128(Some(1678), 4, 2)));
        assert_eq!(decimal("0.001"), Some(ScalarValue::Decimal128(Some(1), 3, 3)));
        assert_eq!(decimal("-1200"), Some(ScalarValue::Decimal128(Some(-1200), 4, 0)));
        assert_eq!(decimal("0"), Some(ScalarValue::Decimal128(Some(0), 1, 0)));
        assert_eq!(decimal("1e38"), None);
        assert_eq!(decimal("1e-39"), None);
    }

    #[test]
    fn positions_are_floors() {
        let position = |text: &str, data_type: DataType| {
            let position = number(text).position(&ExactType::new(&data_type).unwrap());
            (position.floor, position.exact)
        };
        let money = DataType::Decimal128(4, 2);
        assert_eq!(position("16.78", money.clone()), (1678, true));
        assert_eq!(position("16.785", money.clone()), (1678, false));
        assert_eq!(position("-16.785", money.clone()), (-1679, false));
        assert_eq!(position("99.99", money.clone()), (9999, true));
        assert_eq!(position("99.995", money.clone()), (9999, false));
        assert_eq!(position("100", money.clone()), (9999, false));
        assert_eq!(position("-100", money.clone()), (-10000, false));
        assert_eq!(position("-99.991", money.clone()), (-10000, false));
        assert_eq!(position("1e300", money.clone()), (9999, false));
        assert_eq!(position("-1e300", money.clone()), (-10000, false));
        assert_eq!(position("1e-300", money.clone()), (0, false));
        assert_eq!(position("-1e-300", money.clone()), (-1, false));
        let is_within = |text: &str| number(text).is_within(&ExactType::new(&money).unwrap());
        assert!(["99.99", "99.985", "-99.99", "1e-300"].into_iter().all(is_within));
        assert!(!["99.995", "1e30", "-100"].into_iter().any(is_within));
        assert_eq!(position("2.5", DataType::UInt8), (2, false));
        assert_eq!(position("-2.5", DataType::UInt8), (-1, false));
        assert_eq!(position("9223372036854775808", DataType::Int64), (i128::from(i64::MAX), false));
        assert_eq!(
            position("18446744073709551615", DataType::UInt64),
            (i128::from(u64::MAX), true)
        );
    }
}
