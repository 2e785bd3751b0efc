//! One column of a batch, ready to be printed cell by cell. The array's type is resolved once per
//! batch, so that a cell costs a jump and the bytes that it appends.
//!
//! This is the one rule by which values become text, whatever the output format:
//!
//! | type | CSV, TSV, table, Markdown | JSON |
//! | --- | --- | --- |
//! | integers, decimals | plain digits, exact | the same, as numbers, also beyond 2⁵³ |
//! | floats | the shortest text of the same value (`0.1`, `1e300`, `-0.0`) | the same |
//! | not finite | `NaN`, `inf`, `-inf` | strings `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | booleans | `true`, `false` | the same |
//! | dates | `2015-07-01` | the same, as strings |
//! | timestamps | `2015-07-01 13:05:00[.123456]`, with a zone `…+02:00` | `T` for the space |
//! | times | `13:05:00[.123456]` | the same, as strings |
//! | text | as it is | as strings |
//! | binary | `\x` and hexadecimal digits | the same, as strings |
//! | lists, structs, maps | their JSON | JSON |
//!
//! A fraction of a second has three, six or nine digits, as few as hold it, and is omitted if it is
//! zero.

mod bits;
mod drawn;

use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::{json_text, number, time};

/// A column of a batch.
pub(super) struct Cells<'a> {
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

/// A typed view of the column's values.
enum Values<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float16(&'a [<Float16Type as ArrowPrimitiveType>::Native]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128], i8),
    Date(&'a [i32]),
    DateMillis(&'a [i64]),
    Timestamp { values: &'a [i64], per_second: i64, zone: Option<Tz> },
    Time32 { values: &'a [i32], per_second: i64 },
    Time64 { values: &'a [i64], per_second: i64 },
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    FixedBinary(&'a FixedSizeBinaryArray),
    List { bounds: Vec<(usize, usize)>, values: Box<Cells<'a>> },
    Struct(Vec<(String, Cells<'a>)>),
    Map { bounds: Vec<(usize, usize)>, keys: Box<Cells<'a>>, values: Box<Cells<'a>> },
    Dictionary { keys: Vec<usize>, values: Box<Cells<'a>> },
    Other(Box<ArrayFormatter<'a>>),
}

/// What the text of a column's cells may hold, which decides on quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Text of the user, which may hold anything and may be empty.
    Free,
    /// JSON of a nested value, or the text of a rare type. It may hold delimiters and is never
    /// empty.
    Composite,
    /// Digits and a few signs, which need no quotes.
    Plain,
}

impl<'a> Cells<'a> {
    /// Resolves the array's type.
    pub(super) fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(Cells { nulls: array.nulls().cloned(), values: Values::new(array)? })
    }

    /// Whether the row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return true;
        }
        match &self.values {
            Values::Null => true,
            Values::Dictionary { keys, values } => {
                keys.get(row).is_none_or(|key| values.is_null(*key))
            }
            _ => false,
        }
    }

    /// What [`Cells::write_text`] may append.
    pub(super) fn text_kind(&self) -> TextKind {
        match &self.values {
            Values::Utf8(_) | Values::LargeUtf8(_) | Values::Utf8View(_) => TextKind::Free,
            Values::List { .. } | Values::Struct(_) | Values::Map { .. } | Values::Other(_) => {
                TextKind::Composite
            }
            Values::Dictionary { values, .. } => values.text_kind(),
            _ => TextKind::Plain,
        }
    }

    /// The value itself, if the column is text.
    pub(super) fn text(&self, row: usize) -> Option<&str> {
        match &self.values {
            Values::Utf8(values) => Some(values.value(row)),
            Values::LargeUtf8(values) => Some(values.value(row)),
            Values::Utf8View(values) => Some(values.value(row)),
            Values::Dictionary { keys, values } => values.text(*keys.get(row)?),
            _ => None,
        }
    }

    /// The value itself, if the column holds floats.
    pub(super) fn float(&self, row: usize) -> Option<f64> {
        match &self.values {
            Values::Float16(values) => values.get(row).map(|value| f64::from(*value)),
            Values::Float32(values) => values.get(row).map(|value| f64::from(*value)),
            Values::Float64(values) => values.get(row).copied(),
            Values::Dictionary { keys, values } => values.float(*keys.get(row)?),
            _ => None,
        }
    }

    /// The value as a number to draw: days and times as seconds. Not for texts, booleans and nested
    /// values.
    pub(super) fn number(&self, row: usize) -> Option<f64> {
        if self.is_null(row) { None } else { self.values.number(row) }
    }

    /// The numbers of a list.
    pub(super) fn numbers(&self, row: usize) -> Option<Vec<Option<f64>>> {
        match &self.values {
            Values::List { bounds, values } if !self.is_null(row) => {
                let (from, to) = *bounds.get(row)?;
                Some((from..to).map(|item| values.number(item)).collect())
            }
            _ => None,
        }
    }

    /// Appends the value's text without quotes, or nothing for null.
    pub(super) fn write_text(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if !self.is_null(row) { self.values.write_text(row, out, b' ') } else { Ok(()) }
    }

    /// Appends the value as JSON.
    pub(super) fn write_json(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        self.values.write_json(row, out)
    }
}

impl<'a> Values<'a> {
    fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Values::UInt8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Values::UInt16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Values::UInt32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::UInt64(array.as_primitive::<UInt64Type>().values()),
            DataType::Float16 => Values::Float16(array.as_primitive::<Float16Type>().values()),
            DataType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal128(_, scale) => {
                Values::Decimal(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            DataType::Utf8 => Values::Utf8(array.as_string()),
            DataType::LargeUtf8 => Values::LargeUtf8(array.as_string()),
            DataType::Utf8View => Values::Utf8View(array.as_string_view()),
            DataType::Binary => Values::Binary(array.as_binary()),
            DataType::LargeBinary => Values::LargeBinary(array.as_binary()),
            DataType::BinaryView => Values::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Values::FixedBinary(array.as_fixed_size_binary()),
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..) => Values::temporal(array)?,
            _ => Values::composite(array)?,
        })
    }

    fn temporal(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let seconds = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
        Ok(match array.data_type() {
            DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values()),
            DataType::Date64 => Values::DateMillis(array.as_primitive::<Date64Type>().values()),
            DataType::Time32(unit) => {
                let values = match unit {
                    TimeUnit::Second => array.as_primitive::<Time32SecondType>().values(),
                    _ => array.as_primitive::<Time32MillisecondType>().values(),
                };
                Values::Time32 { values, per_second: seconds(unit) }
            }
            DataType::Time64(unit) => {
                let values = match unit {
                    TimeUnit::Nanosecond => array.as_primitive::<Time64NanosecondType>().values(),
                    _ => array.as_primitive::<Time64MicrosecondType>().values(),
                };
                Values::Time64 { values, per_second: seconds(unit) }
            }
            DataType::Timestamp(unit, zone) => {
                let values = match unit {
                    TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                    TimeUnit::Millisecond => {
                        array.as_primitive::<TimestampMillisecondType>().values()
                    }
                    TimeUnit::Microsecond => {
                        array.as_primitive::<TimestampMicrosecondType>().values()
                    }
                    TimeUnit::Nanosecond => {
                        array.as_primitive::<TimestampNanosecondType>().values()
                    }
                };
                let zone = zone.as_deref().map(str::parse).transpose()?;
                Values::Timestamp { values, per_second: seconds(unit), zone }
            }
            _ => Values::Other(Box::new(ArrayFormatter::try_new(array, &FALLBACK_FORMAT)?)),
        })
    }

    fn composite(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let boxed = |array: &'a dyn Array| Cells::new(array).map(Box::new);
        Ok(match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let bounds =
                    list.offsets().windows(2).map(|w| (w[0] as usize, w[1] as usize)).collect();
                Values::List { bounds, values: boxed(list.values())? }
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let bounds =
                    list.offsets().windows(2).map(|w| (w[0] as usize, w[1] as usize)).collect();
                Values::List { bounds, values: boxed(list.values())? }
            }
            DataType::FixedSizeList(_, size) => {
                let list = array.as_fixed_size_list();
                let size = usize::try_from(*size).unwrap_or(0);
                let bounds = (0..list.len()).map(|i| (i * size, (i + 1) * size)).collect();
                Values::List { bounds, values: boxed(list.values())? }
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter();
                let named = columns
                    .zip(fields)
                    .map(|(column, f)| Ok((f.name().clone(), Cells::new(column)?)));
                Values::Struct(named.collect::<Result<_, ArrowError>>()?)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let bounds =
                    map.offsets().windows(2).map(|w| (w[0] as usize, w[1] as usize)).collect();
                Values::Map { bounds, keys: boxed(map.keys())?, values: boxed(map.values())? }
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = boxed(dictionary.values().as_ref())?;
                // Keys of null rows are arbitrary, and there may be no value at all to point at.
                let keys = if dictionary.values().is_empty() {
                    vec![0; array.len()]
                } else {
                    dictionary.normalized_keys()
                };
                Values::Dictionary { keys, values }
            }
            _ => Values::Other(Box::new(ArrayFormatter::try_new(array, &FALLBACK_FORMAT)?)),
        })
    }

    /// Appends the value's text, with `separator` separator date and time.
    fn write_text(&self, row: usize, out: &mut Vec<u8>, separator: u8) -> Result<(), ArrowError> {
        match self {
            Values::Null => {}
            Values::Bool(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" })
            }
            Values::Int8(values) => number::integer(values[row], out),
            Values::Int16(values) => number::integer(values[row], out),
            Values::Int32(values) => number::integer(values[row], out),
            Values::Int64(values) => number::integer(values[row], out),
            Values::UInt8(values) => number::integer(values[row], out),
            Values::UInt16(values) => number::integer(values[row], out),
            Values::UInt32(values) => number::integer(values[row], out),
            Values::UInt64(values) => number::integer(values[row], out),
            Values::Float16(values) => number::float32(values[row].to_f32(), out),
            Values::Float32(values) => number::float32(values[row], out),
            Values::Float64(values) => number::float64(values[row], out),
            Values::Decimal(values, scale) => number::decimal(values[row], *scale, out),
            Values::Date(values) => time::date(i64::from(values[row]), out),
            Values::DateMillis(values) => time::timestamp(values[row], 1_000, None, separator, out),
            Values::Timestamp { values, per_second, zone } => {
                time::timestamp(values[row], *per_second, zone.as_ref(), separator, out);
            }
            Values::Time32 { values, per_second } => {
                time::time(i64::from(values[row]), *per_second, out)
            }
            Values::Time64 { values, per_second } => time::time(values[row], *per_second, out),
            Values::Utf8(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::LargeUtf8(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Utf8View(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Binary(values) => number::hex(values.value(row), out),
            Values::LargeBinary(values) => number::hex(values.value(row), out),
            Values::BinaryView(values) => number::hex(values.value(row), out),
            Values::FixedBinary(values) => number::hex(values.value(row), out),
            Values::Dictionary { keys, values } => {
                values.values.write_text(keys[row], out, separator)?
            }
            Values::List { .. } | Values::Struct(_) | Values::Map { .. } => {
                self.write_json(row, out)?
            }
            Values::Other(formatter) => write_fallback(formatter, row, out)?,
        }
        Ok(())
    }

    fn write_json(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match self {
            Values::Null => out.extend_from_slice(b"null"),
            Values::Float16(values) if !values[row].is_finite() => {
                write_not_finite(values[row].to_f64(), out)
            }
            Values::Float32(values) if !values[row].is_finite() => {
                write_not_finite(f64::from(values[row]), out)
            }
            Values::Float64(values) if !values[row].is_finite() => {
                write_not_finite(values[row], out)
            }
            Values::Utf8(values) => json_text::string(values.value(row), out),
            Values::LargeUtf8(values) => json_text::string(values.value(row), out),
            Values::Utf8View(values) => json_text::string(values.value(row), out),
            Values::Binary(_)
            | Values::LargeBinary(_)
            | Values::BinaryView(_)
            | Values::FixedBinary(_) => {
                out.extend_from_slice(b"\"\\");
                self.write_text(row, out, b'T')?;
                out.push(b'"');
            }
            Values::Date(_)
            | Values::DateMillis(_)
            | Values::Timestamp { .. }
            | Values::Time32 { .. }
            | Values::Time64 { .. } => {
                out.push(b'"');
                self.write_text(row, out, b'T')?;
                out.push(b'"');
            }
            Values::Dictionary { keys, values } => values.write_json(keys[row], out)?,
            Values::List { bounds, values } => write_list(bounds[row], values, out)?,
            Values::Struct(fields) => write_object(fields, row, out)?,
            Values::Map { bounds, keys, values } => write_map(bounds[row], keys, values, out)?,
            Values::Other(formatter) => {
                let mut text = Vec::new();
                write_fallback(formatter, row, &mut text)?;
                json_text::string(&String::from_utf8_lossy(&text), out);
            }
            _ => self.write_text(row, out, b'T')?,
        }
        Ok(())
    }
}

/// How rare types are shown: intervals, durations, wide decimals, unions.
const FALLBACK_FORMAT: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

fn write_fallback(
    formatter: &ArrayFormatter<'_>,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    use std::fmt::Write as _;
    let mut text = String::new();
    write!(text, "{}", formatter.value(row)).map_err(|_| {
        ArrowError::ComputeError(format!("the value in row {row} cannot be shown as text"))
    })?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_not_finite(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(match value {
        v if v.is_nan() => b"\"NaN\"".as_slice(),
        v if v > 0.0 => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    });
}

fn write_list(
    (start, end): (usize, usize),
    values: &Cells<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    out.push(b'[');
    for row in start..end {
        if row > start {
            out.push(b',');
        }
        values.write_json(row, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_object(
    fields: &[(String, Cells<'_>)],
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    out.push(b'{');
    for (at, (name, cells)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json_text::string(name, out);
        out.push(b':');
        cells.write_json(row, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends a map as an object. A key that is not text becomes a string of its text.
fn write_map(
    (start, end): (usize, usize),
    keys: &Cells<'_>,
    values: &Cells<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    out.push(b'{');
    for row in start..end {
        if row > start {
            out.push(b',');
        }
        let mut key = Vec::new();
        keys.write_text(row, &mut key)?;
        json_text::string(&String::from_utf8_lossy(&key), out);
        out.push(b':');
        values.write_json(row, out)?;
    }
    out.push(b'}');
    Ok(())
}
