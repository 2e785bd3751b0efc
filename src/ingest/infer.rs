//! Infers the type of a column from the text of its fields.
//!
//! Each field narrows the set of types that it can be read as without loss ([`TypeCandidates`]); a
//! column's type is the first one in the set, by order of its bits, or text if the set is empty. So
//! `007`, `+1` or an integer wider than 64 bits make a column text, while `1` beside `1.5` makes it
//! float64.

use std::sync::Arc;

use super::text::layout::Moment;
use super::text::{Text, number, time};
use crate::model::{DataType, TimeUnit};

/// The types that every field seen so far can be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeCandidates {
    bits: u16,
    any: bool,
}

const BOOL: u16 = 1 << 0;
const INT: u16 = 1 << 1;
const UINT: u16 = 1 << 2;
/// Integers of up to 38 digits, of JSON alone.
const WIDE: u16 = 1 << 3;
const FLOAT: u16 = 1 << 4;
const DATE: u16 = 1 << 5;
const STAMP_US: u16 = 1 << 6;
const STAMP_NS: u16 = 1 << 7;
const ZONED_US: u16 = 1 << 8;
const ZONED_NS: u16 = 1 << 9;
const TIME_US: u16 = 1 << 10;
const TIME_NS: u16 = 1 << 11;

impl Default for TypeCandidates {
    fn default() -> Self {
        TypeCandidates { bits: u16::MAX, any: false }
    }
}

impl TypeCandidates {
    /// Adds a field that is not null.
    #[inline]
    pub(crate) fn add(&mut self, text: Text<'_>) {
        self.any = true;
        if self.bits != 0 {
            self.bits &= candidates(text);
        }
    }

    /// Adds a number that JSON says is one, so that integers of more than 64 bits are numbers too.
    pub(crate) fn add_number(&mut self, text: Text<'_>) {
        self.any = true;
        if self.bits != 0 {
            let found = numeric(text);
            let is_wide = found & (INT | UINT) != 0 || is_wide_integer(text);
            self.bits &= found | if is_wide { WIDE } else { 0 };
        }
    }

    /// Adds a string that must not become a number or a boolean, whatever it spells.
    pub(crate) fn add_string(&mut self, text: Text<'_>) {
        self.any = true;
        if self.bits != 0 {
            self.bits &= match text.bytes().first() {
                Some(b'0'..=b'9' | b'-' | b'+') => temporal(text),
                _ => 0,
            };
        }
    }

    /// Adds a value that only text can hold.
    pub(crate) fn add_text_only(&mut self) {
        (self.any, self.bits) = (true, 0);
    }

    /// Adds a quoted empty field: it is null in all columns but text, and does not make a column
    /// text.
    pub(crate) fn add_quoted_empty(&mut self) {
        self.any = true;
    }

    /// Adds `-0`, which as an integer is 0, and as a float has a sign.
    pub(crate) fn add_negative_zero(&mut self) {
        self.any = true;
        self.bits &= INT | FLOAT;
    }

    /// Adds a date or timestamp that a layout has read.
    pub(crate) fn add_moment(&mut self, moment: Moment) {
        self.any = true;
        self.bits &= if moment.has_time {
            instant_types(moment.instant)
        } else {
            midnight_types(moment.instant)
        };
    }

    /// Adds a boolean that a layout has read.
    pub(crate) fn add_boolean(&mut self) {
        self.any = true;
        self.bits &= BOOL;
    }

    /// Whether a field was added that is a value in columns of any type.
    pub(crate) fn has_values(&self) -> bool {
        self.any && self.bits != u16::MAX
    }

    /// Whether all fields can be read as doubles.
    pub(crate) fn can_be_float(&self) -> bool {
        self.bits & FLOAT != 0
    }

    /// The type of a column of these fields.
    pub(crate) fn data_type(&self) -> DataType {
        if !self.any {
            return DataType::Null;
        }
        if self.bits == u16::MAX {
            return DataType::Utf8; // nothing but quoted empty fields
        }
        let zoned = |unit| DataType::Timestamp { unit, zone: Some(Arc::from("UTC")) };
        match self.bits & self.bits.wrapping_neg() {
            BOOL => DataType::Bool,
            INT => DataType::Int64,
            UINT => DataType::UInt64,
            WIDE => DataType::Decimal { precision: 38, scale: 0 },
            FLOAT => DataType::Float64,
            DATE => DataType::Date,
            STAMP_US => DataType::Timestamp { unit: TimeUnit::Microsecond, zone: None },
            STAMP_NS => DataType::Timestamp { unit: TimeUnit::Nanosecond, zone: None },
            ZONED_US => zoned(TimeUnit::Microsecond),
            ZONED_NS => zoned(TimeUnit::Nanosecond),
            TIME_US => DataType::Time { unit: TimeUnit::Microsecond },
            TIME_NS => DataType::Time { unit: TimeUnit::Nanosecond },
            _ => DataType::Utf8,
        }
    }
}

/// The types that one field can be read as without loss; none means text.
fn candidates(text: Text<'_>) -> u16 {
    let bytes = text.bytes();
    match bytes.first() {
        Some(b'0'..=b'9' | b'-' | b'.') => numeric(text) | temporal(text),
        // A distant year.
        Some(b'+') => temporal(text),
        Some(b't' | b'T' | b'f' | b'F') if number::boolean(text).is_some() => BOOL,
        Some(b'i' | b'I' | b'n' | b'N') if number::float64(text).is_some() => FLOAT,
        _ => 0,
    }
}

fn numeric(text: Text<'_>) -> u16 {
    let float = if number::float64(text).is_some() { FLOAT } else { 0 };
    let uint = if number::uint64(text).is_some() { UINT } else { 0 };
    let int = if number::int64(text).is_some() { INT } else { 0 };
    int | uint | float
}

/// Whether a text is an integer of more digits than 64 bits surely hold, and at most 38.
fn is_wide_integer(text: Text<'_>) -> bool {
    text.len() > 18
        && memchr::memchr(b'.', text.bytes()).is_none()
        && number::decimal(text, 38, 0).is_some()
}

fn temporal(text: Text<'_>) -> u16 {
    if let Some(days) = time::date(text) {
        let seconds = i64::from(days) * 86_400;
        return midnight_types(time::Instant { seconds, ..time::Instant::default() });
    }
    if let Some(instant) = time::instant(text) {
        return instant_types(instant);
    }
    time::time_of_day(text).map_or(0, |instant| by_digits(instant, TIME_US, TIME_NS))
}

/// The types of a date.
fn midnight_types(midnight: time::Instant) -> u16 {
    DATE | by_digits(midnight, STAMP_US, STAMP_NS)
}

fn instant_types(instant: time::Instant) -> u16 {
    let (us, ns) = if instant.zoned { (ZONED_US, ZONED_NS) } else { (STAMP_US, STAMP_NS) };
    by_digits(instant, us, ns)
}

fn by_digits(instant: time::Instant, us: u16, ns: u16) -> u16 {
    let micros = if instant.digits <= 6 { us } else { 0 };
    let nanos = if instant.ticks(TimeUnit::Nanosecond).is_some() { ns } else { 0 };
    micros | nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(fields: &[&str]) -> String {
        let mut candidates = TypeCandidates::default();
        for field in fields {
            candidates.add((*field).into());
        }
        candidates.data_type().to_string()
    }

    #[test]
    fn columns() {
        for (fields, expected) in [
            (&[][..], "null"),
            (&["1", "2"], "int64"),
            (&["1", "-2", "2.5"], "float64"),
            (&["1", "nan", "-inf"], "float64"),
            (&["1", "007"], "utf8"),
            (&["1", "+1"], "utf8"),
            (&["1.5", "00.5"], "utf8"),
            (&["1", " 2"], "utf8"),
            (&["18446744073709551615", "1"], "uint64"),
            (&["18446744073709551615", "-1"], "utf8"),
            (&["99999999999999999999"], "utf8"),
            (&["9007199254740993", "1"], "int64"),
            (&["9007199254740993", "1.5"], "utf8"),
            (&["9007199254740992", "1.5"], "float64"),
            (&["true", "FALSE"], "bool"),
            (&["t", "f"], "utf8"),
            (&["true", "1"], "utf8"),
            (&["2013-08-01"], "date"),
            (&["2013-08-01", "-0044-03-15", "+12024-01-01"], "date"),
            (&["-0044-03-15 10:00:00", "2013-08-01"], "timestamp(us)"),
            (&["2013-08-01", "2013-08-01 08:14:37"], "timestamp(us)"),
            (&["2013-08-01 08:14:37", "2013-08-01T08:14:37.1234567"], "timestamp(ns)"),
            (&["2013-08-01 08:14:37Z", "2013-08-01T08:14:37+02:00"], "timestamp(us,UTC)"),
            (&["2013-08-01 08:14:37Z", "2013-08-01T08:14:37"], "utf8"),
            (&["2013-08-01", "2013-08-01 08:14:37Z"], "utf8"),
            (&["9999-01-01", "2013-08-01T08:14:37.1234567"], "utf8"),
            (&["08:14:37", "08:14:37.5"], "time(us)"),
            (&["2013-08-01", "1"], "utf8"),
            (&["-"], "utf8"),
        ] {
            assert_eq!(infer(fields), expected, "{fields:?}");
        }
    }
}
