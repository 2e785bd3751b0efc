//! Makes an Arrow array of the collected values of a column.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, ListArray,
    MapArray, NullArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, Fields, TimeUnit};

use super::build::{Build, Store};
use super::input::Input;
use super::offsets::offsets;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::invalid;
use crate::serve::clickhouse::types::Type;

/// Characters of a UUID as text.
const UUID_LETTERS: usize = 36;

impl Build {
    /// The array of the column, whose type is that of [`Type::arrow`], or bytes for a text.
    /// What it takes beyond the bytes that were read is charged.
    pub(super) fn finish(self, input: &mut Input<'_>) -> Result<ArrayRef, Failure> {
        let Build { found, nulls, rows, store, as_bytes } = self;
        let nulls = nulls.map(|nulls| NullBuffer::from_iter(nulls.into_iter().map(|null| !null)));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match store {
            Store::Nothing => Ok(Arc::new(NullArray::new(rows))),
            Store::Fixed { width, bytes } => fixed(&found, width, bytes, nulls, as_bytes, input),
            Store::Text { ends, bytes } => text(&ends, bytes, nulls, as_bytes),
            Store::Items { ends, items } => list(&found, &ends, *items, input),
            Store::Elements(elements) => tuple(&found, elements, input),
            Store::Dictionary { plain, column } => column.map_or_else(|| plain.finish(input), Ok),
        }
    }
}

fn fixed(
    found: &Type,
    width: usize,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
    as_bytes: bool,
    input: &mut Input<'_>,
) -> Result<ArrayRef, Failure> {
    Ok(match found {
        Type::Bool => {
            let values = BooleanBuffer::from_iter(bytes.iter().map(|byte| *byte != 0));
            Arc::new(BooleanArray::new(values, nulls))
        }
        Type::Int8 => primitive::<Int8Type, 1>(&bytes, nulls, i8::from_le_bytes),
        Type::Int16 => primitive::<Int16Type, 2>(&bytes, nulls, i16::from_le_bytes),
        Type::Int32 => primitive::<Int32Type, 4>(&bytes, nulls, i32::from_le_bytes),
        Type::Int64 => primitive::<Int64Type, 8>(&bytes, nulls, i64::from_le_bytes),
        Type::UInt8 => primitive::<UInt8Type, 1>(&bytes, nulls, u8::from_le_bytes),
        Type::UInt16 => primitive::<UInt16Type, 2>(&bytes, nulls, u16::from_le_bytes),
        Type::UInt32 => primitive::<UInt32Type, 4>(&bytes, nulls, u32::from_le_bytes),
        Type::UInt64 => primitive::<UInt64Type, 8>(&bytes, nulls, u64::from_le_bytes),
        Type::Float32 => primitive::<Float32Type, 4>(&bytes, nulls, f32::from_le_bytes),
        Type::Float64 => primitive::<Float64Type, 8>(&bytes, nulls, f64::from_le_bytes),
        Type::Date => {
            primitive::<Date32Type, 2>(&bytes, nulls, |day| i32::from(u16::from_le_bytes(day)))
        }
        Type::Date32 => primitive::<Date32Type, 4>(&bytes, nulls, i32::from_le_bytes),
        Type::DateTime(_) | Type::DateTime64(..) => date_times(found, &bytes, nulls)?,
        Type::Decimal { precision, scale } => {
            decimals(width, &bytes, nulls, *precision, *scale as i8)?
        }
        Type::Enum8(names) | Type::Enum16(names) => {
            enumeration(names, width, &bytes, nulls, input)?
        }
        Type::Uuid => {
            input.charge((bytes.len() / width * UUID_LETTERS) as u64)?;
            uuids(&bytes, nulls)
        }
        _ => fixed_texts(width, bytes, nulls, as_bytes)?,
    })
}

fn primitive<T: ArrowPrimitiveType, const N: usize>(
    bytes: &[u8],
    nulls: Option<NullBuffer>,
    value: impl Fn([u8; N]) -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = bytes.as_chunks().0.iter().map(|bytes| value(*bytes)).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

fn date_times(found: &Type, bytes: &[u8], nulls: Option<NullBuffer>) -> Result<ArrayRef, Failure> {
    let DataType::Timestamp(unit, zone) = found.arrow() else {
        return Err(invalid(format!("{found} is no time")));
    };
    let (places, factor) = match (found, unit) {
        (Type::DateTime64(digits, _), TimeUnit::Second) => (0, *digits),
        (Type::DateTime64(digits, _), TimeUnit::Millisecond) => (3, *digits),
        (Type::DateTime64(digits, _), TimeUnit::Microsecond) => (6, *digits),
        (Type::DateTime64(digits, _), TimeUnit::Nanosecond) => (9, *digits),
        _ => (0, 0),
    };
    let factor = 10_i64.pow(u32::from(places - factor.min(places)));
    let ticks: Option<Vec<i64>> = match found {
        Type::DateTime(_) => {
            let seconds = bytes.as_chunks().0.iter();
            Some(seconds.map(|bytes| i64::from(u32::from_le_bytes(*bytes))).collect())
        }
        _ => {
            let ticks = bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
            let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let scaled = ticks.enumerate().map(|(row, ticks)| match ticks.checked_mul(factor) {
                None if is_null(row) => Some(0),
                scaled => scaled,
            });
            scaled.collect()
        }
    };
    let Some(ticks) = ticks else {
        let message = format!("a time of type {found} is beyond the years that can be stored");
        return Err(invalid(message));
    };
    let ticks = ScalarBuffer::from(ticks);
    Ok(match unit {
        TimeUnit::Second => Arc::new(
            PrimitiveArray::<TimestampSecondType>::new(ticks, nulls).with_timezone_opt(zone),
        ),
        TimeUnit::Millisecond => Arc::new(
            PrimitiveArray::<TimestampMillisecondType>::new(ticks, nulls).with_timezone_opt(zone),
        ),
        TimeUnit::Microsecond => Arc::new(
            PrimitiveArray::<TimestampMicrosecondType>::new(ticks, nulls).with_timezone_opt(zone),
        ),
        TimeUnit::Nanosecond => Arc::new(
            PrimitiveArray::<TimestampNanosecondType>::new(ticks, nulls).with_timezone_opt(zone),
        ),
    })
}

fn decimals(
    width: usize,
    bytes: &[u8],
    nulls: Option<NullBuffer>,
    precision: u8,
    scale: i8,
) -> Result<ArrayRef, Failure> {
    if width == 32 {
        let values = bytes.as_chunks().0.iter().map(|bytes| i256::from_le_bytes(*bytes));
        let array = PrimitiveArray::<Decimal256Type>::new(values.collect::<Vec<_>>().into(), nulls);
        let array: Decimal256Array = array.with_precision_and_scale(precision, scale)?;
        array.validate_decimal_precision(precision).map_err(|error| beyond(&error))?;
        return Ok(Arc::new(array));
    }
    let values: Vec<i128> = match width {
        4 => {
            let values = bytes.as_chunks().0.iter();
            values.map(|bytes| i128::from(i32::from_le_bytes(*bytes))).collect()
        }
        8 => {
            let values = bytes.as_chunks().0.iter();
            values.map(|bytes| i128::from(i64::from_le_bytes(*bytes))).collect()
        }
        _ => bytes.as_chunks().0.iter().map(|bytes| i128::from_le_bytes(*bytes)).collect(),
    };
    let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
    let array: Decimal128Array = array.with_precision_and_scale(precision, scale)?;
    array.validate_decimal_precision(precision).map_err(|error| beyond(&error))?;
    Ok(Arc::new(array))
}

/// A decimal that has more digits than its type.
fn beyond(error: &ArrowError) -> Failure {
    match error {
        ArrowError::InvalidArgumentError(what) => invalid(what.clone()),
        other => invalid(other.to_string()),
    }
}

fn enumeration(
    names: &[(String, i16)],
    width: usize,
    bytes: &[u8],
    nulls: Option<NullBuffer>,
    input: &mut Input<'_>,
) -> Result<ArrayRef, Failure> {
    let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let mut known: Vec<(i16, &str)> =
        names.iter().map(|(name, value)| (*value, name.as_str())).collect();
    known.sort_unstable();
    let name = |(row, bytes): (usize, &[u8])| {
        let value = match bytes {
            [low, high] => i16::from_le_bytes([*low, *high]),
            [byte, ..] => i16::from(*byte as i8),
            [] => 0,
        };
        match known.binary_search_by_key(&value, |(value, _)| *value) {
            _ if is_null(row) => Ok(None),
            Ok(at) => Ok(known.get(at).map(|(_, name)| *name)),
            Err(_) => Err(invalid(format!("an enumeration has no name for {value}"))),
        }
    };
    // A name may be long, and its number is a byte or two.
    let mut length = 0;
    for row in bytes.chunks_exact(width).enumerate() {
        length += name(row)?.map_or(0, |name: &str| name.len() as u64);
    }
    input.charge(length)?;
    let values = bytes.chunks_exact(width).enumerate().map(name);
    let values: StringArray = values.collect::<Result<_, Failure>>()?;
    Ok(Arc::new(values))
}

/// Two halves, of which each has its lowest byte first.
fn uuids(bytes: &[u8], nulls: Option<NullBuffer>) -> ArrayRef {
    let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let texts = bytes.as_chunks::<16>().0.iter().enumerate().map(|(row, bytes)| {
        // The value as one number has the halves in the other order.
        let number = u128::from_le_bytes(*bytes).rotate_left(64);
        let part = |from: u32, digits: u32| {
            (number >> (128 - 4 * (from + digits))) & ((1 << (4 * digits)) - 1)
        };
        (!is_null(row)).then(|| {
            let (first, second, third) = (part(0, 8), part(8, 4), part(12, 4));
            format!(
                "{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}",
                part(16, 4),
                part(20, 12)
            )
        })
    });
    Arc::new(texts.collect::<StringArray>())
}

/// Texts of one length, of which the zeros at the end are no part; as bytes they are.
fn fixed_texts(
    width: usize,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
    as_bytes: bool,
) -> Result<ArrayRef, Failure> {
    if as_bytes {
        let ends: Vec<usize> = (1..=bytes.len() / width).map(|row| row * width).collect();
        return text(&ends, bytes, nulls, true);
    }
    let (mut ends, mut texts) = (Vec::new(), Vec::new());
    for fixed in bytes.chunks_exact(width) {
        let length = fixed.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        texts.extend_from_slice(&fixed[..length]);
        ends.push(texts.len());
    }
    text(&ends, texts, nulls, false)
}

fn text(
    ends: &[usize],
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
    as_bytes: bool,
) -> Result<ArrayRef, Failure> {
    let offsets = offsets(ends)?;
    if as_bytes {
        return Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?));
    }
    if let Err(error) = std::str::from_utf8(&bytes) {
        let row = ends.partition_point(|end| *end <= error.valid_up_to());
        return Err(invalid(format!("the text of row {row} of a block is not UTF-8"))
            .hint("a column of bytes takes any bytes"));
    }
    Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?))
}

fn list(
    found: &Type,
    ends: &[usize],
    items: Build,
    input: &mut Input<'_>,
) -> Result<ArrayRef, Failure> {
    let offsets = offsets(ends)?;
    match found {
        Type::Map(key, value) => {
            let Store::Elements(elements) = items.store else {
                return Err(invalid("the entries of a map are no pairs"));
            };
            let columns = elements.into_iter().map(|element| element.finish(input));
            let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
            let names = [("keys", key.as_ref(), false), ("values", value, value.is_nullable())];
            let fields: Fields = names
                .into_iter()
                .zip(&columns)
                .map(|((name, _, nullable), column)| {
                    arrow_schema::Field::new(name, column.data_type().clone(), nullable)
                })
                .collect();
            let entries = StructArray::try_new(fields, columns, None)?;
            let field = arrow_schema::Field::new("entries", entries.data_type().clone(), false);
            Ok(Arc::new(MapArray::try_new(Arc::new(field), offsets, entries, None, false)?))
        }
        _ => {
            let nullable = match found {
                Type::Array(item) => item.is_nullable(),
                _ => true,
            };
            let items = items.finish(input)?;
            let field = arrow_schema::Field::new("item", items.data_type().clone(), nullable);
            Ok(Arc::new(ListArray::try_new(Arc::new(field), offsets, items, None)?))
        }
    }
}

fn tuple(found: &Type, elements: Vec<Build>, input: &mut Input<'_>) -> Result<ArrayRef, Failure> {
    let columns = elements.into_iter().map(|element| element.finish(input));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let DataType::Struct(fields) = found.arrow() else {
        return Err(invalid(format!("{found} is no tuple")));
    };
    // Texts may have become bytes.
    let fields: Fields = fields
        .iter()
        .zip(&columns)
        .map(|(field, column)| {
            arrow_schema::Field::clone(field).with_data_type(column.data_type().clone())
        })
        .collect();
    Ok(Arc::new(StructArray::try_new(fields, columns, None)?))
}
