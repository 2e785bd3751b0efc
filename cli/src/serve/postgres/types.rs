//! The types of PostgreSQL, and which of them a type of ours is.
//!
//! | here | there |
//! | --- | --- |
//! | integers of 8 and 16 bits, unsigned ones of 8 | int2 |
//! | i32, u16; i64, u32; u64 | int4; int8; numeric |
//! | floats of 16 and 32 bits; 64 | float4; float8 |
//! | decimals | numeric |
//! | booleans, texts, bytes | bool, text, bytea |
//! | dates, times | date, time |
//! | timestamps; with a zone | timestamp; timestamptz, in UTC |
//! | intervals, durations | interval |
//! | lists | arrays, of one dimension |
//! | structs, maps, and what else there is | text |

use arrow_schema::DataType;

use super::oids::Type;

/// A type of PostgreSQL as columns of an answer have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgType {
    pub(super) oid: u32,
    /// Bytes of a value; -1 if they differ.
    pub(super) size: i16,
    /// Precision and scale of a numeric; else -1.
    pub(super) modifier: i32,
}

/// Texts; what a parameter is of which nothing is known.
pub(super) const TEXT: u32 = 25;

impl PgType {
    /// The type of a column.
    pub(super) fn of(data_type: &DataType) -> PgType {
        let known = scalar(data_type);
        let (of, size) = match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                (scalar(item.data_type()).array().unwrap_or(Type::TEXT_ARRAY), -1)
            }
            _ => (known, size(known)),
        };
        let modifier = match data_type {
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale)
                if *scale >= 0 =>
            {
                (i32::from(*precision) << 16 | i32::from(*scale)) + 4
            }
            _ => -1,
        };
        PgType { oid: of.oid(), size, modifier }
    }
}

/// The type of one value.
fn scalar(data_type: &DataType) -> Type {
    match data_type {
        DataType::Boolean => Type::BOOL,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => Type::INT2,
        DataType::UInt16 | DataType::Int32 => Type::INT4,
        DataType::UInt32 | DataType::Int64 => Type::INT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::Float16 | DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Type::BYTEA,
        DataType::Date32 => Type::DATE,
        DataType::Time32(_) | DataType::Time64(_) => Type::TIME,
        DataType::Date64 | DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        DataType::Dictionary(_, values) => scalar(values),
        DataType::RunEndEncoded(_, values) => scalar(values.data_type()),
        _ => Type::TEXT,
    }
}

/// The bytes of a value; -1 if they differ.
pub(super) fn size(of: Type) -> i16 {
    match of {
        Type::BOOL | Type::CHAR => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID | Type::REGCLASS => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL | Type::UUID => 16,
        Type::NAME => 64,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn columns_have_types_of_postgresql() {
        let of = |data_type: &DataType| PgType::of(data_type);
        assert_eq!(of(&DataType::Int64), PgType { oid: 20, size: 8, modifier: -1 });
        assert_eq!(of(&DataType::Utf8View), PgType { oid: 25, size: -1, modifier: -1 });
        let numeric = PgType { oid: 1700, size: -1, modifier: (10 << 16 | 2) + 4 };
        assert_eq!(of(&DataType::Decimal128(10, 2)), numeric);
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        assert_eq!(of(&list), PgType { oid: 1007, size: -1, modifier: -1 });
    }
}
