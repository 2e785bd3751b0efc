//! Values as bytes, as `RowBinary` and `Native` have them alike: little-endian integers, and texts
//! behind their length.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::i256;

use crate::errors::Failure;
use crate::serve::clickhouse::columns::{Column, Values};
use crate::serve::clickhouse::types::Type;

/// Appends an integer in groups of seven bits, the lowest first.
pub(super) fn varuint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a text behind its length.
pub(super) fn text(text: &[u8], out: &mut Vec<u8>) {
    varuint(text.len() as u64, out);
    out.extend_from_slice(text);
}

/// Appends a value that is no array, tuple or map, and is not null.
pub(super) fn write_value(values: &Values, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    match values {
        Values::Bool(values) => out.push(u8::from(values.value(row))),
        Values::Int8(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Int16(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Int32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Int64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::UInt8(values) => out.push(values[row]),
        Values::UInt16(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::UInt32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::UInt64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Float32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Float64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Decimal { values, precision, scale } => {
            decimal(i256::from_i128(values[row]), *precision, *scale, out)?;
        }
        Values::Decimal256 { values, precision, scale } => {
            decimal(values[row], *precision, *scale, out)?;
        }
        Values::Date(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::DateTime { ticks, .. } => out.extend_from_slice(&ticks[row].to_le_bytes()),
        Values::Text(texts) => text(texts.bytes(row), out),
        Values::Nothing | Values::Array { .. } | Values::Tuple { .. } | Values::Map { .. } => {}
    }
    Ok(())
}

/// Appends what stands in the place of a null.
pub(super) fn write_default(values: &Values, out: &mut Vec<u8>) {
    let width = match values {
        // The length of an empty text.
        Values::Bool(_) | Values::Int8(_) | Values::UInt8(_) | Values::Text(_) => 1,
        Values::Int16(_) | Values::UInt16(_) => 2,
        Values::Int32(_) | Values::UInt32(_) | Values::Float32(_) | Values::Date(_) => 4,
        Values::Int64(_) | Values::UInt64(_) | Values::Float64(_) | Values::DateTime { .. } => 8,
        Values::Decimal { precision, scale, .. } | Values::Decimal256 { precision, scale, .. } => {
            decimal_width(*precision, *scale)
        }
        Values::Nothing => {
            out.push(b'0');
            return;
        }
        Values::Array { .. } | Values::Tuple { .. } | Values::Map { .. } => 0,
    };
    out.resize(out.len() + width, 0);
}

/// The bytes of a decimal. A negative scale is digits in front of the point.
fn decimal_width(precision: u8, scale: i8) -> usize {
    let digits = match u8::try_from(scale) {
        Ok(scale) => precision.max(scale),
        Err(_) => precision.saturating_add(scale.unsigned_abs()),
    };
    match digits {
        0..=9 => 4,
        10..=18 => 8,
        19..=38 => 16,
        _ => 32,
    }
}

fn decimal(value: i256, precision: u8, scale: i8, out: &mut Vec<u8>) -> Result<(), Failure> {
    let width = decimal_width(precision, scale);
    let wrong = || {
        let message = format!("{value} is too large for a decimal of {precision} digits");
        Failure::failed(message)
    };
    let value = if scale < 0 {
        let zeros = i256::from_i128(10).checked_pow(u32::from(scale.unsigned_abs()));
        zeros.and_then(|zeros| value.checked_mul(zeros)).ok_or_else(wrong)?
    } else {
        value
    };
    let bytes = value.to_le_bytes();
    let (kept, cut) = bytes.split_at(width);
    // What is cut off repeats the sign.
    let sign = if kept.last().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
    if cut.iter().any(|byte| *byte != sign) || value.is_negative() != (sign == 0xFF) {
        return Err(wrong());
    }
    out.extend_from_slice(kept);
    Ok(())
}

/// Checks that the columns of a batch have the bytes of the types that were announced.
pub(super) fn check_types(batch: &RecordBatch, types: &[Type]) -> Result<(), Failure> {
    let columns = batch.columns().iter().zip(types).zip(batch.schema_ref().fields());
    for ((array, announced), field) in columns {
        let found = Type::of(array.data_type(), false);
        if !found.has_bytes_of(announced) {
            let name = field.name();
            let message = format!("column '{name}' was announced as {announced} and is {found}");
            return Err(Failure::failed(message));
        }
    }
    Ok(())
}

/// Null in a column that says it has none.
pub(super) fn unexpected_null(column: &Column, row: usize, nullable: bool) -> Result<(), Failure> {
    if !nullable && column.is_null(row) {
        return Err(Failure::failed(format!(
            "row {row} of an answer is null in a column that cannot be"
        )));
    }
    Ok(())
}
