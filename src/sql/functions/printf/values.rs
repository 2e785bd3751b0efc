//! Values as a format asks for them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;

use super::decimal::Decimal;
use super::pieces::Spec;
use crate::sql::types::times::PRINTED;

/// The values of an argument.
pub(super) struct Values {
    array: ArrayRef,
    /// Their texts, of floats too: those of single precision have fewer digits.
    texts: ArrayRef,
    /// Whether they are decimals with digits behind the point, whose texts have all digits.
    are_decimals: bool,
}

/// A value.
enum Value<'v> {
    Whole(i128),
    Float(f64),
    Decimal(&'v str),
    Text(&'v str),
}

impl Values {
    pub(super) fn new(array: &ArrayRef) -> DataFusionResult<Values> {
        let printed = CastOptions { format_options: PRINTED, ..CastOptions::default() };
        let texts = cast_with_options(array, &DataType::Utf8, &printed)?;
        let numbers = match array.data_type() {
            DataType::UInt64 => cast(array, &DataType::UInt64)?,
            of if of.is_integer() || *of == DataType::Boolean => cast(array, &DataType::Int64)?,
            of if of.is_floating() => cast(&texts, &DataType::Float64)?,
            DataType::Decimal128(_, 0) => array.clone(),
            _ => texts.clone(),
        };
        Ok(Values { array: numbers, texts, are_decimals: array.data_type().is_decimal() })
    }

    pub(super) fn is_valid(&self, row: usize) -> bool {
        self.array.is_valid(row)
    }

    fn text(&self, row: usize) -> &str {
        self.texts.as_string::<i32>().value(row)
    }

    fn value(&self, row: usize) -> Value<'_> {
        match self.array.data_type() {
            DataType::Int64 => {
                Value::Whole(self.array.as_primitive::<Int64Type>().value(row).into())
            }
            DataType::UInt64 => {
                Value::Whole(self.array.as_primitive::<UInt64Type>().value(row).into())
            }
            DataType::Decimal128(..) => {
                Value::Whole(self.array.as_primitive::<Decimal128Type>().value(row))
            }
            DataType::Float64 => Value::Float(self.array.as_primitive::<Float64Type>().value(row)),
            _ if self.are_decimals => Value::Decimal(self.text(row)),
            _ => Value::Text(self.text(row)),
        }
    }

    /// A value as a format asks for it.
    pub(super) fn written(&self, row: usize, spec: &Spec) -> DataFusionResult<String> {
        let value = self.value(row);
        Ok(match (spec.kind, value) {
            (Some('s'), _) | (None, Value::Text(_)) => text(self.text(row), spec),
            // Booleans are numbers by now.
            (None, Value::Whole(_)) if self.text(row).starts_with(['t', 'f']) => {
                text(self.text(row), spec)
            }
            (None | Some('d' | 'x' | 'X' | 'o' | 'b'), Value::Whole(number)) => whole(number, spec),
            (Some('c'), Value::Whole(code)) => {
                let character = u32::try_from(code).ok().and_then(char::from_u32);
                match character {
                    Some(character) => text(character.encode_utf8(&mut [0; 4]), spec),
                    None => return exec_err!("%c: {code} is no character"),
                }
            }
            (Some('c'), Value::Text(given)) if given.chars().count() == 1 => text(given, spec),
            (Some('f' | 'F' | 'e' | 'E' | 'g' | 'G'), Value::Whole(number)) => {
                written(number < 0, &number.unsigned_abs(), spec)
            }
            (None | Some('f' | 'F' | 'e' | 'E' | 'g' | 'G'), Value::Decimal(number)) => {
                written(number.starts_with('-'), &Decimal::new(number), spec)
            }
            (None | Some('f' | 'F' | 'e' | 'E' | 'g' | 'G'), Value::Float(number)) => {
                float(number, spec)
            }
            (kind, _) => {
                return exec_err!(
                    "the format {} does not fit the value {}; cast one to the other",
                    kind.unwrap_or('?'),
                    self.text(row)
                );
            }
        })
    }
}

/// A text, cut to the precision.
fn text(given: &str, spec: &Spec) -> String {
    let cut: String = given.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
    padded("", &cut, spec, '<')
}

fn whole(number: i128, spec: &Spec) -> String {
    // As a computer has negative numbers: of 64 bits, unless they are longer.
    let bits = match i64::try_from(number) {
        Ok(short) if short < 0 => u128::from(short as u64),
        _ => number as u128,
    };
    let (prefix, mut digits) = match spec.kind {
        Some('x') => ("0x", format!("{bits:x}")),
        Some('X') => ("0X", format!("{bits:X}")),
        Some('o') => ("0", format!("{bits:o}")),
        Some('b') => ("0b", format!("{bits:b}")),
        _ => ("", number.unsigned_abs().to_string()),
    };
    if let Some(least) = spec.precision {
        digits.insert_str(0, &"0".repeat(least.saturating_sub(digits.len())));
    }
    if let Some(separator) = spec.separator {
        digits = grouped(&digits, separator);
    }
    let is_decimal = matches!(spec.kind, None | Some('d'));
    let sign = if is_decimal { sign(number < 0, spec) } else { String::new() };
    let prefix = if spec.alternate { prefix } else { "" };
    padded(&format!("{sign}{prefix}"), &digits, spec, '>')
}

fn float(number: f64, spec: &Spec) -> String {
    let is_negative = number.is_sign_negative() && !number.is_nan();
    if !number.is_finite() {
        let plain = Spec { zeros: false, ..spec.clone() };
        let name = if number.is_nan() { "nan" } else { "inf" };
        return padded(&sign(is_negative, spec), name, &plain, '>');
    }
    written(is_negative, &number.abs(), spec)
}

/// The size of a number. Of a whole one and of a decimal, all digits count, though a double has no
/// room for them.
pub(super) trait Size {
    /// Writes the number with this many digits behind the point.
    fn fixed(&self, digits: usize) -> String;

    /// Writes it with one digit before the point and this many behind it, as Rust does: `1.5e2`.
    fn exponential(&self, digits: usize) -> String;

    /// The fewest digits that read back as the same number.
    fn shortest(&self) -> String;
}

impl Size for f64 {
    fn fixed(&self, digits: usize) -> String {
        format!("{self:.digits$}")
    }

    fn exponential(&self, digits: usize) -> String {
        format!("{self:.digits$e}")
    }

    fn shortest(&self) -> String {
        let rust = format!("{self:e}");
        match exponent(&rust) {
            -4..16 => format!("{self:?}"),
            _ => scientific(&rust),
        }
    }
}

impl Size for u128 {
    fn fixed(&self, digits: usize) -> String {
        let point = if digits > 0 { "." } else { "" };
        format!("{self}{point}{}", "0".repeat(digits))
    }

    fn exponential(&self, digits: usize) -> String {
        format!("{self:.digits$e}")
    }

    fn shortest(&self) -> String {
        self.to_string()
    }
}

impl Size for Decimal {
    fn fixed(&self, digits: usize) -> String {
        self.fixed(digits)
    }

    fn exponential(&self, digits: usize) -> String {
        self.exponential(digits)
    }

    fn shortest(&self) -> String {
        self.shortest()
    }
}

/// A number as floats are written.
fn written(is_negative: bool, size: &impl Size, spec: &Spec) -> String {
    let digits = spec.precision.unwrap_or(6);
    let mut written = match (spec.kind, spec.precision) {
        (Some('f' | 'F'), _) => size.fixed(digits),
        (Some('e' | 'E'), _) => scientific(&size.exponential(digits)),
        (None, None) => size.shortest(),
        _ => general(size, digits.max(1), spec.alternate),
    };
    if matches!(spec.kind, Some('E' | 'G' | 'F')) {
        written = written.to_uppercase();
    }
    if let Some(separator) = spec.separator {
        let whole = written.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = written.split_at(whole);
        written = format!("{}{rest}", grouped(whole, separator));
    }
    padded(&sign(is_negative, spec), &written, spec, '>')
}

fn sign(is_negative: bool, spec: &Spec) -> String {
    match is_negative {
        true => "-".to_owned(),
        false => spec.sign.map(String::from).unwrap_or_default(),
    }
}

/// `1.5e2` as C writes it: `1.5e+02`.
fn scientific(rust: &str) -> String {
    let (mantissa, exponent) = rust.split_once('e').unwrap_or((rust, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn exponent(rust: &str) -> i32 {
    rust.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// C's `%g`: so many digits, without zeros behind them, with an exponent where that is shorter.
fn general(size: &impl Size, digits: usize, keeps_zeros: bool) -> String {
    let rust = size.exponential(digits - 1);
    let exponent = exponent(&rust);
    let trimmed = |text: &str| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let most = i32::try_from(digits).unwrap_or(i32::MAX);
    if (-4..most).contains(&exponent) {
        let behind = usize::try_from(most - 1 - exponent).unwrap_or(0);
        return trimmed(&size.fixed(behind));
    }
    let (mantissa, rest) = rust.split_once('e').unwrap_or((&rust, "0"));
    scientific(&format!("{}e{rest}", trimmed(mantissa)))
}

/// Digits in groups of three.
fn grouped(digits: &str, separator: char) -> String {
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    grouped
}

/// A sign and what follows it, as wide as asked for.
fn padded(sign: &str, text: &str, spec: &Spec, usual: char) -> String {
    let missing = spec.width.saturating_sub(sign.chars().count() + text.chars().count());
    let fill = |count: usize| spec.fill.unwrap_or(' ').to_string().repeat(count);
    let has_own_side = spec.align.is_some_and(|align| align != '>');
    if spec.zeros && usual == '>' && !has_own_side && spec.fill.is_none() {
        return format!("{sign}{}{text}", "0".repeat(missing));
    }
    match spec.align.unwrap_or(usual) {
        '<' => format!("{sign}{text}{}", fill(missing)),
        '^' => format!("{}{sign}{text}{}", fill(missing / 2), fill(missing - missing / 2)),
        _ => format!("{}{sign}{text}", fill(missing)),
    }
}
