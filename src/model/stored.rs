//! The stored form of data types, shared by manifests and segments: a tag byte, and the type's
//! parameters.

use std::sync::Arc;

use super::{DataType, TimeUnit};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;

/// Appends a data type.
pub(crate) fn write_type(data_type: &DataType, out: &mut Writer) {
    let tag = match data_type {
        DataType::Null => 0,
        DataType::Bool => 1,
        DataType::Int8 => 2,
        DataType::Int16 => 3,
        DataType::Int32 => 4,
        DataType::Int64 => 5,
        DataType::UInt8 => 6,
        DataType::UInt16 => 7,
        DataType::UInt32 => 8,
        DataType::UInt64 => 9,
        DataType::Float32 => 10,
        DataType::Float64 => 11,
        DataType::Decimal { .. } => 12,
        DataType::Date => 13,
        DataType::Timestamp { .. } => 14,
        DataType::Time { .. } => 15,
        DataType::Utf8 => 16,
        DataType::Binary => 17,
        DataType::Uuid => 18,
        DataType::Interval => 19,
    };
    out.u8(tag);
    match data_type {
        DataType::Decimal { precision, scale } => {
            out.u8(*precision);
            out.u8(*scale as u8);
        }
        DataType::Timestamp { unit, zone } => {
            out.u8(unit_number(*unit));
            out.blob(zone.as_deref().unwrap_or("").as_bytes());
        }
        DataType::Time { unit } => out.u8(unit_number(*unit)),
        _ => {}
    }
}

pub(crate) fn read_type(cursor: &mut Cursor<'_>) -> Result<DataType> {
    Ok(match cursor.u8()? {
        0 => DataType::Null,
        1 => DataType::Bool,
        2 => DataType::Int8,
        3 => DataType::Int16,
        4 => DataType::Int32,
        5 => DataType::Int64,
        6 => DataType::UInt8,
        7 => DataType::UInt16,
        8 => DataType::UInt32,
        9 => DataType::UInt64,
        10 => DataType::Float32,
        11 => DataType::Float64,
        12 => {
            let (precision, scale) = (cursor.u8()?, cursor.u8()? as i8);
            if !(1..=38).contains(&precision) || scale.unsigned_abs() > 38 {
                return Err(cursor.corrupt(format!("decimal({precision},{scale})")));
            }
            DataType::Decimal { precision, scale }
        }
        13 => DataType::Date,
        14 => {
            let unit = read_unit(cursor)?;
            let zone = cursor.text(limits::MAX_NAME_BYTES)?;
            DataType::Timestamp { unit, zone: (!zone.is_empty()).then(|| Arc::from(zone)) }
        }
        15 => DataType::Time { unit: read_unit(cursor)? },
        16 => DataType::Utf8,
        17 => DataType::Binary,
        18 => DataType::Uuid,
        19 => DataType::Interval,
        tag => {
            return Err(Error::Unsupported(format!(
                "data type number {tag}, from a newer version?"
            )));
        }
    })
}

fn unit_number(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

fn read_unit(cursor: &mut Cursor<'_>) -> Result<TimeUnit> {
    Ok(match cursor.u8()? {
        0 => TimeUnit::Second,
        1 => TimeUnit::Millisecond,
        2 => TimeUnit::Microsecond,
        3 => TimeUnit::Nanosecond,
        other => return Err(cursor.corrupt(format!("time unit {other}"))),
    })
}
