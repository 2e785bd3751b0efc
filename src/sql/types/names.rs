//! The meaning of type names in SQL that DataFusion does not know, or understands differently from
//! PostgreSQL and DuckDB.
//!
//! Where this stands on the road of a query: while a statement is planned. In DataFusion (55.2),
//! `TIMESTAMP` has nanoseconds, which end in 2262; here it has microseconds unless a precision is
//! given, and so has `TIME`, as in files. In DataFusion, `TIMESTAMPTZ` has a zone only if the
//! session has one, and then the timestamps of `generate_series` have it, too; here the zone is
//! always UTC. The unsigned integers have their names in DuckDB, and all types those by which
//! answers and `sty schema` call them, but for `int8`, which has 64 bits in PostgreSQL and DuckDB.
//! JSON and JSONB are texts.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, TimeUnit};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, ExactNumberInfo, ObjectName, ObjectNamePart, TimezoneInfo,
};

use crate::model;
use crate::sql::types::zones::UTC;

/// Plans the types of a statement.
#[derive(Debug)]
pub(in crate::sql) struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> DataFusionResult<Option<FieldRef>> {
        if *sql_type == SqlType::Uuid {
            return Ok(Some(Arc::new(model::DataType::Uuid.to_field("", true))));
        }
        Ok(arrow_type(sql_type).map(|data_type| Arc::new(Field::new("", data_type, true))))
    }
}

/// `None` if DataFusion plans the type.
fn arrow_type(sql_type: &SqlType) -> Option<DataType> {
    match sql_type {
        SqlType::Timestamp(digits, zone) => {
            let has_zone = matches!(zone, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
            Some(DataType::Timestamp(unit_of(*digits)?, has_zone.then(|| UTC.into())))
        }
        // PostgreSQL's long names, which `pg_dump` writes.
        SqlType::Character(_) | SqlType::CharacterVarying(_) | SqlType::CharVarying(_) => {
            Some(DataType::Utf8View)
        }
        SqlType::Dec(ExactNumberInfo::Precision(digits)) => decimal(*digits, 0),
        SqlType::Dec(ExactNumberInfo::PrecisionAndScale(digits, scale)) => decimal(*digits, *scale),
        SqlType::Blob(None)
        | SqlType::Binary(None)
        | SqlType::Varbinary(None)
        | SqlType::Bytes(None) => Some(DataType::Binary),
        SqlType::Datetime(digits) => Some(DataType::Timestamp(unit_of(*digits)?, None)),
        SqlType::Datetime64(digits, zone) => {
            let unit = match digits {
                0 => TimeUnit::Second,
                1..=3 => TimeUnit::Millisecond,
                4..=6 => TimeUnit::Microsecond,
                7..=9 => TimeUnit::Nanosecond,
                _ => return None,
            };
            let is_utc = zone.as_deref().is_some_and(|zone| zone.eq_ignore_ascii_case(UTC));
            match zone {
                Some(_) if !is_utc => None,
                zone => Some(DataType::Timestamp(unit, zone.as_ref().map(|_| UTC.into()))),
            }
        }
        SqlType::Date32 => Some(DataType::Date32),
        // What is no JSON text stays as it is: functions find nothing in it.
        SqlType::JSON | SqlType::JSONB => Some(DataType::Utf8View),
        SqlType::FixedString(_) => Some(DataType::Utf8View),
        SqlType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => match digits {
            None | Some(6) => Some(DataType::Time64(TimeUnit::Microsecond)),
            Some(9) => Some(DataType::Time64(TimeUnit::Nanosecond)),
            _ => None,
        },
        SqlType::Int16 => Some(DataType::Int16),
        SqlType::Int32 => Some(DataType::Int32),
        SqlType::Int64 => Some(DataType::Int64),
        SqlType::UTinyInt | SqlType::UInt8 => Some(DataType::UInt8),
        SqlType::USmallInt | SqlType::UInt16 => Some(DataType::UInt16),
        SqlType::UInt32 => Some(DataType::UInt32),
        SqlType::UBigInt | SqlType::UInt64 => Some(DataType::UInt64),
        SqlType::Float32 => Some(DataType::Float32),
        // Bits of the mantissa.
        SqlType::Float(ExactNumberInfo::Precision(25..)) => Some(DataType::Float64),
        SqlType::Float64 => Some(DataType::Float64),
        SqlType::Custom(name, given) if given.is_empty() => named(name),
        _ => None,
    }
}

/// The unit of a timestamp of so many digits of a second, or of none that are given.
fn unit_of(digits: Option<u64>) -> Option<TimeUnit> {
    Some(match digits {
        Some(0) => TimeUnit::Second,
        Some(3) => TimeUnit::Millisecond,
        None | Some(6) => TimeUnit::Microsecond,
        Some(9) => TimeUnit::Nanosecond,
        _ => return None,
    })
}

fn decimal(digits: u64, scale: i64) -> Option<DataType> {
    let (digits, scale) = (u8::try_from(digits).ok()?, i8::try_from(scale).ok()?);
    let fits =
        (1..=DECIMAL128_MAX_PRECISION).contains(&digits) && (0..=digits as i8).contains(&scale);
    fits.then_some(DataType::Decimal128(digits, scale))
}

/// Types whose names the parser does not know.
fn named(name: &ObjectName) -> Option<DataType> {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let timestamp = |unit| DataType::Timestamp(unit, None);
    Some(match name.value.to_ascii_lowercase().as_str() {
        "int1" => DataType::Int8,
        // PostgreSQL's, in quotes; the parser knows them without.
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "bool" => DataType::Boolean,
        "text" | "varchar" | "bpchar" => DataType::Utf8View,
        "date" => DataType::Date32,
        "timestamp" => timestamp(TimeUnit::Microsecond),
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" | "uinteger" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" => DataType::Float32,
        "utf8" => DataType::Utf8View,
        "timestamp_s" => timestamp(TimeUnit::Second),
        "timestamp_ms" => timestamp(TimeUnit::Millisecond),
        "timestamp_us" => timestamp(TimeUnit::Microsecond),
        "timestamp_ns" => timestamp(TimeUnit::Nanosecond),
        _ => return None,
    })
}
