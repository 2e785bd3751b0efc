//! A batch for the tests of the formats: a column of every type, with ordinary, extreme and missing
//! values.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int64Array, NullArray, RecordBatch, StringViewArray, StructArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};

/// Four rows: of ordinary, extreme and odd values, and of nulls.
pub(super) fn every_type() -> RecordBatch {
    let text = [Some("plain"), Some("a,b\t\"c\"\nd|\\"), Some(""), None];
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None]);
    list.append_value([]);
    list.append_value([Some(-3)]);
    list.append_null();
    let pair: Vec<(Arc<Field>, ArrayRef)> = vec![
        (
            field("x", DataType::Int64),
            Arc::new(Int64Array::from(vec![Some(1), Some(2), None, None])),
        ),
        (field("s", DataType::Utf8View), Arc::new(StringViewArray::from(text.to_vec()))),
    ];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), Some(false), Some(true), None]))),
        ("int", Arc::new(Int64Array::from(vec![Some(7), Some(i64::MIN), Some(i64::MAX), None]))),
        (
            "uint",
            Arc::new(UInt64Array::from(vec![
                Some(9_007_199_254_740_993),
                Some(u64::MAX),
                Some(0),
                None,
            ])),
        ),
        ("float", Arc::new(Float64Array::from(vec![Some(0.1), Some(-0.0), Some(f64::NAN), None]))),
        (
            "real",
            Arc::new(Float32Array::from(vec![
                Some(1e-30),
                Some(f32::INFINITY),
                Some(f32::NEG_INFINITY),
                None,
            ])),
        ),
        ("decimal", decimals()),
        ("date", Arc::new(Date32Array::from(vec![Some(16_617), Some(-1), Some(2_932_896), None]))),
        (
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![
                Some(0),
                Some(86_399_999_999),
                Some(1_000),
                None,
            ])),
        ),
        (
            "stamp",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(0),
                Some(1_435_755_900_500_000),
                Some(-1),
                None,
            ])),
        ),
        (
            "instant",
            Arc::new(
                TimestampSecondArray::from(vec![Some(0), Some(1_435_755_900), Some(-1), None])
                    .with_timezone("Europe/Berlin"),
            ),
        ),
        ("text", Arc::new(StringViewArray::from(text.to_vec()))),
        (
            "wörter",
            Arc::new(StringViewArray::from(vec![
                Some("日本"),
                Some("\u{1b}[31m"),
                Some("007"),
                None,
            ])),
        ),
        (
            "bytes",
            Arc::new(BinaryViewArray::from(vec![
                Some(b"\x00\xff".as_slice()),
                Some(b"abc"),
                Some(b""),
                None,
            ])),
        ),
        (
            "code",
            Arc::new(
                vec![Some("CMT"), Some("VTS"), Some("CMT"), None]
                    .into_iter()
                    .collect::<DictionaryArray<Int8Type>>(),
            ),
        ),
        ("list", Arc::new(list.finish())),
        ("pair", Arc::new(StructArray::from(pair))),
        ("none", Arc::new(NullArray::new(4))),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn decimals() -> ArrayRef {
    let values =
        Decimal128Array::from(vec![Some(12_345), Some(-5), Some(10_i128.pow(38) - 1), None]);
    Arc::new(values.with_precision_and_scale(38, 2).unwrap())
}

fn field(name: &str, data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new(name, data_type, true))
}
