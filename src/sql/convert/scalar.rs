//! Converts single values: DataFusion's literals to ours, our bounds to DataFusion's.

use datafusion::scalar::ScalarValue;

use crate::model::{DataType, Scalar, TimeUnit};

/// A literal as a scalar, with its type; `None` for null and for types that no column has.
pub(crate) fn to_scalar(value: &ScalarValue) -> Option<(Scalar, DataType)> {
    use ScalarValue as V;
    let data_type = DataType::from_arrow(&value.data_type())?;
    let scalar = match value {
        V::Boolean(Some(v)) => Scalar::Int(i128::from(*v)),
        V::Int8(Some(v)) => Scalar::Int(i128::from(*v)),
        V::Int16(Some(v)) => Scalar::Int(i128::from(*v)),
        V::Int32(Some(v))
        | V::Date32(Some(v))
        | V::Time32Second(Some(v))
        | V::Time32Millisecond(Some(v)) => Scalar::Int(i128::from(*v)),
        V::Int64(Some(v))
        | V::Time64Microsecond(Some(v))
        | V::Time64Nanosecond(Some(v))
        | V::TimestampSecond(Some(v), _)
        | V::TimestampMillisecond(Some(v), _)
        | V::TimestampMicrosecond(Some(v), _)
        | V::TimestampNanosecond(Some(v), _) => Scalar::Int(i128::from(*v)),
        V::UInt8(Some(v)) => Scalar::Int(i128::from(*v)),
        V::UInt16(Some(v)) => Scalar::Int(i128::from(*v)),
        V::UInt32(Some(v)) => Scalar::Int(i128::from(*v)),
        V::UInt64(Some(v)) => Scalar::Int(i128::from(*v)),
        V::Decimal128(Some(v), _, _) => Scalar::Int(*v),
        V::Float32(Some(v)) => Scalar::Float(f64::from(*v)),
        V::Float64(Some(v)) => Scalar::Float(*v),
        V::Utf8(Some(v)) | V::LargeUtf8(Some(v)) | V::Utf8View(Some(v)) => {
            Scalar::Bytes(v.as_bytes().into())
        }
        V::Binary(Some(v)) | V::LargeBinary(Some(v)) | V::BinaryView(Some(v)) => {
            Scalar::Bytes(v.as_slice().into())
        }
        _ => return None,
    };
    Some((scalar, data_type))
}

/// A stored value as DataFusion's, in the Arrow type of the column; `None` if it does not fit the
/// type.
pub(crate) fn from_scalar(value: &Scalar, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue as V;
    Some(match (data_type, value) {
        (DataType::Float32, Scalar::Float(v)) => V::Float32(Some(*v as f32)),
        (DataType::Float64, Scalar::Float(v)) => V::Float64(Some(*v)),
        (DataType::Utf8 | DataType::Uuid, Scalar::Bytes(v)) => {
            V::Utf8View(Some(std::str::from_utf8(v).ok()?.to_owned()))
        }
        (DataType::Binary, Scalar::Bytes(v)) => V::BinaryView(Some(v.to_vec())),
        (data_type, Scalar::Int(v)) => from_int(*v, data_type)?,
        _ => return None,
    })
}

fn from_int(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue as V;
    Some(match data_type {
        DataType::Bool => V::Boolean(Some(value != 0)),
        DataType::Int8 => V::Int8(Some(i8::try_from(value).ok()?)),
        DataType::Int16 => V::Int16(Some(i16::try_from(value).ok()?)),
        DataType::Int32 => V::Int32(Some(i32::try_from(value).ok()?)),
        DataType::Int64 => V::Int64(Some(i64::try_from(value).ok()?)),
        DataType::UInt8 => V::UInt8(Some(u8::try_from(value).ok()?)),
        DataType::UInt16 => V::UInt16(Some(u16::try_from(value).ok()?)),
        DataType::UInt32 => V::UInt32(Some(u32::try_from(value).ok()?)),
        DataType::UInt64 => V::UInt64(Some(u64::try_from(value).ok()?)),
        DataType::Date => V::Date32(Some(i32::try_from(value).ok()?)),
        DataType::Decimal { precision, scale } => V::Decimal128(Some(value), *precision, *scale),
        DataType::Timestamp { unit, zone } => {
            let (value, zone) = (Some(i64::try_from(value).ok()?), zone.clone());
            match unit {
                TimeUnit::Second => V::TimestampSecond(value, zone),
                TimeUnit::Millisecond => V::TimestampMillisecond(value, zone),
                TimeUnit::Microsecond => V::TimestampMicrosecond(value, zone),
                TimeUnit::Nanosecond => V::TimestampNanosecond(value, zone),
            }
        }
        DataType::Time { unit: TimeUnit::Second } => {
            V::Time32Second(Some(i32::try_from(value).ok()?))
        }
        DataType::Time { unit: TimeUnit::Millisecond } => {
            V::Time32Millisecond(Some(i32::try_from(value).ok()?))
        }
        DataType::Time { unit: TimeUnit::Microsecond } => {
            V::Time64Microsecond(Some(i64::try_from(value).ok()?))
        }
        DataType::Time { unit: TimeUnit::Nanosecond } => {
            V::Time64Nanosecond(Some(i64::try_from(value).ok()?))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_the_round_trip() {
        for name in [
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "date",
            "decimal(12,2)",
            "timestamp(s)",
            "timestamp(ms,UTC)",
            "timestamp(us)",
            "timestamp(ns)",
            "time(s)",
            "time(ms)",
            "time(us)",
            "time(ns)",
            "float32",
            "float64",
            "utf8",
            "binary",
        ] {
            let data_type: DataType = name.parse().unwrap();
            let scalar = match &data_type {
                DataType::Float32 | DataType::Float64 => Scalar::Float(1.0),
                DataType::Utf8 | DataType::Binary => Scalar::Bytes(b"1".as_slice().into()),
                _ => Scalar::Int(1),
            };
            let theirs = from_scalar(&scalar, &data_type).unwrap();
            assert_eq!(theirs.data_type(), data_type.to_arrow(), "{name}");
            assert_eq!(to_scalar(&theirs), Some((scalar, data_type)));
        }
        assert_eq!(from_scalar(&Scalar::Int(300), &DataType::Int8), None);
        assert_eq!(to_scalar(&ScalarValue::Int8(None)), None);
    }
}
