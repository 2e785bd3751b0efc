//! The values of a statement's parameters, from PostgreSQL's texts and binary forms.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringViewBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, IntervalUnit, TimeUnit};
use stylobate::internal::ingest::interval;
use stylobate::internal::sql::items_of_array;

use super::binary::{EPOCH_DAYS, EPOCH_MICROS};
use super::errors::PgError;
use super::numerics;
use super::oids::Type;
use super::types::{PgType, TEXT};
use super::uuids;

/// Items of an array that are joined at a time: each is an array of its own before.
const ITEMS_AT_ONCE: usize = 1024;
/// The type in which a parameter of a type of PostgreSQL is kept; `None` if that says nothing.
pub(super) fn arrow_type(oid: u32) -> Result<Option<DataType>, PgError> {
    let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
    let Some(known) = Type::from_oid(oid) else {
        return match oid {
            0 => Ok(None),
            _ => Err(PgError::of("0A000", format!("values of the type {oid} are not taken"))),
        };
    };
    Ok(Some(match known {
        Type::UNKNOWN => return Ok(None),
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::TEXT
        | Type::VARCHAR
        | Type::BPCHAR
        | Type::CHAR
        | Type::NAME
        | Type::UUID
        | Type::JSON
        | Type::JSONB
        | Type::REGCLASS => DataType::Utf8View,
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        other => match other.item().map(|item| arrow_type(item.oid())).transpose()?.flatten() {
            Some(item) => list(item),
            None => {
                let what = format!("values of the type {other} are not taken");
                return Err(PgError::of("0A000", what));
            }
        },
    }))
}

/// The type of a parameter as a client sees it.
pub(super) fn oid(declared: u32, known: Option<&DataType>) -> u32 {
    match declared {
        0 | 705 => known.map_or(TEXT, |known| PgType::of(known).oid),
        declared => declared,
    }
}

/// Reads a value, which becomes an array of one row. 1 is binary.
pub(super) fn read(
    oid: u32,
    target: Option<&DataType>,
    format: i16,
    value: Option<&[u8]>,
) -> Result<ArrayRef, PgError> {
    let target = match target {
        Some(DataType::Dictionary(_, values)) => values.as_ref(),
        Some(target) => target,
        None => &DataType::Utf8View,
    };
    let Some(bytes) = value else { return Ok(new_null_array(target, 1)) };
    let array = match format {
        1 => binary(oid, bytes)?,
        0 => text(Type::from_oid(oid), utf8(bytes)?, target)?,
        other => return Err(PgError::of("08P01", format!("format {other} is not known"))),
    };
    let is_decimal = |it: &DataType| matches!(it, DataType::Decimal128(..));
    let is_same =
        array.data_type() == target || is_decimal(array.data_type()) && is_decimal(target);
    match is_same {
        true => Ok(array),
        false => cast(&array, target),
    }
}

/// The same values in another type; an error if one has no place in it.
pub(super) fn cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, PgError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, target, &options).map_err(|error| wrong(&error))
}

fn wrong(error: &ArrowError) -> PgError {
    let code = match error {
        ArrowError::InvalidArgumentError(_) => "22003",
        _ => "22P02",
    };
    PgError::of(code, format!("the value of a parameter: {error}"))
}

fn utf8(bytes: &[u8]) -> Result<&str, PgError> {
    std::str::from_utf8(bytes)
        .map_err(|_| PgError::of("22021", "the value of a parameter is no UTF-8"))
}

fn text_array(text: &str) -> ArrayRef {
    let mut values = StringViewBuilder::new();
    values.append_value(text);
    Arc::new(values.finish())
}

fn bytes_array(bytes: &[u8]) -> ArrayRef {
    let mut values = BinaryBuilder::new();
    values.append_value(bytes);
    Arc::new(values.finish())
}

fn text(known: Option<Type>, text: &str, target: &DataType) -> Result<ArrayRef, PgError> {
    Ok(match target {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 if known == Some(Type::UUID) => {
            let uuid = uuids::read(text);
            let wrong = || PgError::of("22P02", format!("'{text}' is no UUID"));
            text_array(&uuid.ok_or_else(wrong)?)
        }
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => text_array(text),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = text.strip_prefix("\\x").and_then(from_hex);
            let what = "bytes are \\x and hexadecimal digits";
            bytes_array(&bytes.ok_or_else(|| PgError::of("22P02", what))?)
        }
        DataType::Decimal128(..) => numerics::of_text(text)?,
        DataType::Interval(_) => {
            let wrong = || PgError::of("22007", format!("'{text}' is no interval"));
            Arc::new(IntervalMonthDayNanoArray::from(vec![interval(text).ok_or_else(wrong)?]))
        }
        DataType::List(item) => {
            let items = items_of_array(text).ok_or_else(|| {
                PgError::of("22P02", format!("'{text}' is no array of one dimension"))
            })?;
            let known = known.and_then(Type::item);
            list(&items_of_text(known, items, item.data_type())?)?
        }
        DataType::Boolean => {
            let is_true = match text.trim().to_ascii_lowercase().as_str() {
                "t" | "true" | "y" | "yes" | "on" | "1" => true,
                "f" | "false" | "n" | "no" | "off" | "0" => false,
                other => return Err(PgError::of("22P02", format!("'{other}' is no boolean"))),
            };
            Arc::new(BooleanArray::from(vec![is_true]))
        }
        DataType::Date32 | DataType::Timestamp(..) if is_infinity(text) => return Err(infinite()),
        other => {
            let text = match other {
                DataType::Date32 => without_zone(text.trim()),
                _ => text.trim(),
            };
            let array: ArrayRef = Arc::new(StringArray::from(vec![text]));
            cast(&array, other)?
        }
    })
}

/// The items of an array, each read as a value by itself is.
fn items_of_text(
    known: Option<Type>,
    items: Vec<Option<String>>,
    target: &DataType,
) -> Result<ArrayRef, PgError> {
    let is_plain = target.is_integer() || target.is_string() && known != Some(Type::UUID);
    if is_plain {
        return cast(&(Arc::new(StringArray::from(items)) as ArrayRef), target);
    }
    let read = items.iter().map(|item| match item {
        None => Ok(new_null_array(target, 1)),
        Some(item) => cast(&text(known, item, target)?, target),
    });
    joined(read, target)
}

/// Whether a text is PostgreSQL's word for a time before or after all others.
fn is_infinity(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['-', '+']);
    text.eq_ignore_ascii_case("infinity") || text.eq_ignore_ascii_case("inf")
}

/// A date or time without the zone behind it, such as `+02` or `-03:30`: PostgreSQL does not look
/// at one where the type has none.
fn without_zone(text: &str) -> &str {
    let is_zone = |zone: &str| {
        let digits = zone.bytes().filter(u8::is_ascii_digit).count();
        (2..=6).contains(&digits) && zone.bytes().all(|it| it.is_ascii_digit() || it == b':')
    };
    // The signs of a date come first.
    let from = text.find([' ', 'T']).map_or(text.len(), |at| at + 1);
    let sign = text.get(from..).and_then(|rest| rest.find(['+', '-'])).map(|at| from + at);
    match sign.and_then(|at| Some((at, text.get(at + 1..)?))) {
        Some((at, zone)) if is_zone(zone) => text.get(..at).unwrap_or(text).trim_end(),
        _ => text,
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    digits.map(|two| byte(two).filter(|_| two.len() == 2)).collect()
}

/// An array with one row, which is a list.
fn list(items: &ArrayRef) -> Result<ArrayRef, PgError> {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([items.len()]);
    let list = ListArray::try_new(field, offsets, Arc::clone(items), None);
    Ok(Arc::new(list.map_err(|error| wrong(&error))?))
}

/// The error of a date or time that PostgreSQL has and a store has not.
fn infinite() -> PgError {
    let what = "infinity, or a time beyond all that can be stored, is no date or time here";
    PgError::of("22008", what).hint("NULL, or a day that is far enough away")
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], PgError> {
    bytes.try_into().map_err(|_| {
        let what = format!("the value of a parameter has {} bytes, not {N}", bytes.len());
        PgError::of("22P03", what)
    })
}

fn binary(oid: u32, bytes: &[u8]) -> Result<ArrayRef, PgError> {
    let known = Type::from_oid(oid).unwrap_or(Type::TEXT);
    Ok(match known {
        Type::BOOL => Arc::new(BooleanArray::from(vec![fixed(bytes)? != [0]])),
        Type::INT2 => Arc::new(Int16Array::from(vec![i16::from_be_bytes(fixed(bytes)?)])),
        Type::INT4 => Arc::new(Int32Array::from(vec![i32::from_be_bytes(fixed(bytes)?)])),
        Type::INT8 => Arc::new(Int64Array::from(vec![i64::from_be_bytes(fixed(bytes)?)])),
        Type::OID => Arc::new(Int64Array::from(vec![i64::from(u32::from_be_bytes(fixed(bytes)?))])),
        Type::FLOAT4 => Arc::new(Float32Array::from(vec![f32::from_be_bytes(fixed(bytes)?)])),
        Type::FLOAT8 => Arc::new(Float64Array::from(vec![f64::from_be_bytes(fixed(bytes)?)])),
        Type::NUMERIC => numerics::of_binary(bytes)?,
        Type::BYTEA => bytes_array(bytes),
        Type::DATE => {
            let days = i32::from_be_bytes(fixed(bytes)?);
            let is_finite = days != i32::MIN && days != i32::MAX;
            let days = days.checked_add(EPOCH_DAYS).filter(|_| is_finite);
            Arc::new(Date32Array::from(vec![days.ok_or_else(infinite)?]))
        }
        Type::TIME => {
            Arc::new(Time64MicrosecondArray::from(vec![i64::from_be_bytes(fixed(bytes)?)]))
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(fixed(bytes)?);
            let is_finite = micros != i64::MIN && micros != i64::MAX;
            let micros = micros.checked_add(EPOCH_MICROS).filter(|_| is_finite);
            let array = TimestampMicrosecondArray::from(vec![micros.ok_or_else(infinite)?]);
            match known {
                Type::TIMESTAMPTZ => Arc::new(array.with_timezone("UTC")),
                _ => Arc::new(array),
            }
        }
        Type::INTERVAL => {
            let bytes: [u8; 16] = fixed(bytes)?;
            let (micros, rest) = bytes.split_at(8);
            let (days, months) = rest.split_at(4);
            let micros = i64::from_be_bytes(fixed(micros)?);
            let nanoseconds = micros.checked_mul(1000);
            let value = arrow_buffer::IntervalMonthDayNano {
                months: i32::from_be_bytes(fixed(months)?),
                days: i32::from_be_bytes(fixed(days)?),
                nanoseconds: nanoseconds
                    .ok_or_else(|| PgError::of("22008", "an interval is too long"))?,
            };
            Arc::new(IntervalMonthDayNanoArray::from(vec![value]))
        }
        Type::UUID => text_array(&uuids::spelled(u128::from_be_bytes(fixed(bytes)?))),
        // The number of its version, and text.
        Type::JSONB => match bytes.split_first() {
            Some((1, text)) => text_array(utf8(text)?),
            _ => return Err(PgError::of("22P03", "jsonb is of an unknown version")),
        },
        array if array.item().is_some() => array_of_binary(bytes)?,
        _ => text_array(utf8(bytes)?),
    })
}

fn array_of_binary(bytes: &[u8]) -> Result<ArrayRef, PgError> {
    let wrong = || PgError::of("22P03", "the value of a parameter is no array of one dimension");
    let int = |at: usize| -> Result<i32, PgError> {
        let four = bytes.get(at..at + 4).ok_or_else(wrong)?;
        Ok(i32::from_be_bytes(fixed(four)?))
    };
    let item = int(8)?.cast_unsigned();
    let data_type = arrow_type(item)?.unwrap_or(DataType::Utf8View);
    if let DataType::List(_) = data_type {
        return Err(wrong());
    }
    let count = match int(0)? {
        0 => 0,
        1 => usize::try_from(int(12)?).map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    let mut at = 20;
    let read = (0..count).map(|_| {
        let length = int(at)?;
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            return Ok(new_null_array(&data_type, 1));
        };
        let value = bytes.get(at..at.saturating_add(length)).ok_or_else(wrong)?;
        at += length;
        cast(&binary(item, value)?, &data_type)
    });
    list(&joined(read, &data_type)?)
}

/// Arrays of one item each as one array.
fn joined(
    items: impl Iterator<Item = Result<ArrayRef, PgError>>,
    data_type: &DataType,
) -> Result<ArrayRef, PgError> {
    let (mut last, mut joined): (Vec<ArrayRef>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for item in items {
        last.push(item?);
        if last.len() == ITEMS_AT_ONCE {
            joined.push(concat(&last)?);
            last.clear();
        }
    }
    joined.append(&mut last);
    match joined.is_empty() {
        true => Ok(new_null_array(data_type, 0)),
        false => concat(&joined),
    }
}

fn concat(arrays: &[ArrayRef]) -> Result<ArrayRef, PgError> {
    let parts: Vec<&dyn arrow_array::Array> = arrays.iter().map(AsRef::as_ref).collect();
    arrow_select::concat::concat(&parts).map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::postgres::columns::Column;
    use crate::serve::postgres::{binary as binary_form, text as text_form};

    fn spelled(array: &ArrayRef) -> String {
        let mut out = Vec::new();
        text_form::write(&Column::new(array).unwrap(), 0, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_what_they_were_in_both_forms() {
        for (oid, text) in [
            (16, "t"),
            (21, "-5"),
            (23, "7"),
            (20, "9223372036854775807"),
            (700, "1.5"),
            (701, "-1e+20"),
            (1700, "123.4500"),
            (1700, "-0.000001"),
            (1700, "0"),
            (1700, "100000000"),
            (25, "größe"),
            (17, "\\x00ff"),
            (1082, "1999-12-31"),
            (1114, "2015-07-01 13:05:00.5"),
            (1184, "2015-07-01 13:05:00+00"),
            (1186, "1 mon -2 days +03:00:04.5"),
            (1007, "{1,NULL,3}"),
            (1016, "{}"),
            (1182, "{1999-12-31,NULL}"),
            (1231, "{1.5000000000,-0.2500000000}"),
            (1009, "{a,NULL,\"b c\"}"),
            (1000, "{t,f,NULL}"),
            (1001, "{\"\\\\x61\",NULL,\"\\\\xff\"}"),
            (1115, "{\"1969-12-31 23:59:59.5\"}"),
        ] {
            let target = arrow_type(oid).unwrap();
            let read_text = read(oid, target.as_ref(), 0, Some(text.as_bytes())).unwrap();
            assert_eq!(spelled(&read_text), text);
            let mut bytes = Vec::new();
            binary_form::write(&Column::new(&read_text).unwrap(), 0, &mut bytes);
            let read_binary = read(oid, target.as_ref(), 1, Some(&bytes)).unwrap();
            assert_eq!(spelled(&read_binary), text);
            for length in 0..bytes.len() {
                // No panic, whatever is cut off.
                let _ = read(oid, target.as_ref(), 1, bytes.get(..length));
            }
        }
    }

    #[test]
    fn a_uuid_becomes_its_text() {
        let text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let bytes = 0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11_u128.to_be_bytes();
        let target = arrow_type(2950).unwrap();
        for (form, given) in [(0, text.as_bytes()), (1, &bytes[..])] {
            let value = read(2950, target.as_ref(), form, Some(given)).unwrap();
            assert_eq!(spelled(&value), text);
        }
        assert!(read(2950, target.as_ref(), 1, Some(&bytes[1..])).is_err());
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        let code = |oid, text: &str| {
            let target = arrow_type(oid).unwrap();
            read(oid, target.as_ref(), 0, Some(text.as_bytes())).unwrap_err().code
        };
        for (oid, text) in [(23, "x"), (16, "maybe"), (1700, "1.2.3"), (1082, "soon"), (17, "\\x0")]
        {
            assert_eq!(code(oid, text), "22P02", "{text}");
        }
        assert_eq!(code(1700, "1e99"), "22003");
        assert_eq!((code(2950, "a0ee"), code(2951, "{a0ee}")), ("22P02", "22P02"));
        assert_eq!((code(1001, "{\\\\xf}"), code(1000, "{t,maybe}")), ("22P02", "22P02"));
        let uuids = "{a0eebc999c0b4ef8bb6d6bb9bd380a11,NULL}";
        let uuids = read(2951, arrow_type(2951).unwrap().as_ref(), 0, Some(uuids.as_bytes()));
        assert_eq!(spelled(&uuids.unwrap()), "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}");
        assert!(read(23, Some(&DataType::Int32), 1, Some(&[0; 3])).is_err());
        assert!(arrow_type(600).is_err());
        // Arrays of arrays have dimensions in PostgreSQL, not items that are arrays.
        let int = |number: i32| number.to_be_bytes();
        let (mut nested, head) = (Vec::new(), [int(1), int(0), int(1007), int(1), int(1)].concat());
        for _ in 0..100_000 {
            nested.extend([&head[..], &int(i32::MAX)].concat());
        }
        assert_eq!(binary(1007, &nested).unwrap_err().code, "22P03");
        let many = [&[int(1), int(0), int(23), int(3000), int(1)].concat(), &[0xff; 12_000][..]];
        assert_eq!(spelled(&binary(1007, &many.concat()).unwrap()).matches("NULL").count(), 3000);
        let day = |text: &str| {
            spelled(&read(1082, Some(&DataType::Date32), 0, Some(text.as_bytes())).unwrap())
        };
        assert_eq!(
            (day("1969-12-31 +00"), day("1969-12-31")),
            (day("1969-12-31 -03:30"), day(" 1969-12-31 "))
        );
        // A date or time without an end has no place in a store, in either form.
        for (oid, ends) in [
            (1082, [i32::MIN, i32::MAX].map(|it| it.to_be_bytes().to_vec())),
            (1114, [i64::MIN, i64::MAX].map(|it| it.to_be_bytes().to_vec())),
            (1184, [i64::MIN, i64::MAX - 1].map(|it| it.to_be_bytes().to_vec())),
        ] {
            let target = arrow_type(oid).unwrap();
            for value in ends {
                let refused = read(oid, target.as_ref(), 1, Some(&value)).unwrap_err();
                assert_eq!(refused.code, "22008", "{oid} {value:?}");
            }
            for text in ["infinity", "-Infinity"] {
                assert_eq!(code(oid, text), "22008", "{oid} {text}");
            }
        }
        let json = read(3802, Some(&DataType::Utf8View), 1, Some(b"\x01[1]")).unwrap();
        assert_eq!(spelled(&json), "[1]");
        assert!(read(3802, Some(&DataType::Utf8View), 1, Some(b"[1]")).is_err());
        let uuid = read(2950, Some(&DataType::Utf8View), 1, Some(&[0xab; 16])).unwrap();
        assert_eq!(spelled(&uuid), "abababab-abab-abab-abab-abababababab");
    }
}
