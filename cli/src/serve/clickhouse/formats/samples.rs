//! An answer with a column of every type, for the tests of the formats. `golden/` has it as
//! ClickHouse writes it.

use std::sync::Arc;

use arrow_array::builder::{
    Int32Builder, ListBuilder, MapBuilder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::types::{Int8Type, IntervalMonthDayNano};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal32Array,
    Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, LargeStringArray, NullArray, RecordBatch, StringArray,
    StringViewArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, Field, Schema};

/// Texts that formats must escape or quote.
const TEXTS: [&str; 4] = ["plain", "a,b\t'c'\n\"d\"|\\`/\u{2028}é", "", "NULL"];

/// Four rows: of ordinary, extreme and odd values, and of nulls.
pub(crate) fn every_type() -> RecordBatch {
    let columns: Vec<(&str, bool, ArrayRef)> = [numbers(), times(), texts(), nested()].concat();
    let field = |(name, nullable, array): &(&str, bool, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), *nullable)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

fn numbers() -> Vec<(&'static str, bool, ArrayRef)> {
    let decimals: [Option<i32>; 4] = [Some(12_300), Some(-5), Some(999_999_999), None];
    let wide = |digits: u32, shown: &[Option<i32>; 4]| -> Vec<Option<i128>> {
        let shown = shown.iter().enumerate();
        let last = 10_i128.pow(digits) - 1;
        shown.map(|(at, value)| if at == 2 { Some(last) } else { value.map(i128::from) }).collect()
    };
    let small = Decimal32Array::from(decimals.to_vec()).with_precision_and_scale(9, 3).unwrap();
    let narrow: Vec<Option<i64>> =
        wide(18, &decimals).into_iter().map(|v| v.map(|v| v as i64)).collect();
    let narrow = Decimal64Array::from(narrow).with_precision_and_scale(18, 2).unwrap();
    let money = Decimal128Array::from(wide(5, &[Some(150), Some(-99_999), None, None]));
    let money = money.with_precision_and_scale(5, 2).unwrap();
    let thousands = Decimal128Array::from(vec![Some(12), Some(-7), Some(0), None]);
    let thousands = thousands.with_precision_and_scale(3, -3).unwrap();
    let broad = Decimal128Array::from(wide(38, &decimals)).with_precision_and_scale(38, 10);
    let vast = [Some("12340"), Some("-5"), Some(&*"9".repeat(76)), None];
    let vast: Decimal256Array = vast.iter().map(|v| v.and_then(i256::from_string)).collect();
    vec![
        ("yes", true, array(BooleanArray::from(vec![Some(true), Some(false), Some(true), None]))),
        ("i8", false, array(Int8Array::from(vec![1, i8::MIN, i8::MAX, 0]))),
        ("i16", false, array(Int16Array::from(vec![1, i16::MIN, i16::MAX, 0]))),
        ("i32", true, array(Int32Array::from(vec![Some(1), Some(i32::MIN), Some(i32::MAX), None]))),
        ("i64", true, array(Int64Array::from(vec![Some(1), Some(i64::MIN), Some(i64::MAX), None]))),
        ("u8", true, array(UInt8Array::from(vec![Some(1), Some(0), Some(u8::MAX), None]))),
        ("u16", false, array(UInt16Array::from(vec![1, 0, u16::MAX, 7]))),
        ("u32", false, array(UInt32Array::from(vec![1, 0, u32::MAX, 7]))),
        ("u64", false, array(UInt64Array::from(vec![1, 9_007_199_254_740_993, u64::MAX, 7]))),
        ("f32", false, array(Float32Array::from(vec![0.1, -0.0, f32::INFINITY, 1e-30]))),
        ("f64", true, array(Float64Array::from(vec![Some(0.1), Some(1e21), Some(f64::NAN), None]))),
        ("f64s", false, array(Float64Array::from(vec![1.5e-7, 1e20, f64::NEG_INFINITY, 3.0]))),
        ("d9", true, array(small)),
        ("d18", true, array(narrow)),
        ("d5", true, array(money)),
        ("d-3", true, array(thousands)),
        ("d38", true, array(broad.unwrap())),
        ("d76", true, array(vast.with_precision_and_scale(76, 20).unwrap())),
    ]
}

fn times() -> Vec<(&'static str, bool, ArrayRef)> {
    let micros = [Some(0), Some(1_435_755_900_500_000), Some(-1), None];
    let instants = [Some(0), Some(1_435_755_900), Some(-2_208_988_800), None];
    let millis = vec![0, 1_435_755_900_123, -1, 86_400_000];
    let interval = IntervalMonthDayNano::new(14, -3, 5_000_000_000);
    let intervals = vec![Some(interval), Some(IntervalMonthDayNano::default()), None, None];
    vec![
        ("date", true, array(Date32Array::from(vec![Some(16_617), Some(-25_567), Some(-1), None]))),
        ("day", false, array(Date32Array::from(vec![0, 120_529, -1, 1]))),
        ("ms", false, array(TimestampMillisecondArray::from(millis.clone()))),
        ("date64", false, array(Date64Array::from(millis))),
        ("us", true, array(TimestampMicrosecondArray::from(micros.to_vec()))),
        ("ns", true, array(TimestampNanosecondArray::from(micros.to_vec()))),
        ("s", true, array(TimestampSecondArray::from(instants.to_vec()))),
        (
            "berlin",
            true,
            array(TimestampSecondArray::from(instants.to_vec()).with_timezone("Europe/Berlin")),
        ),
        (
            "kolkata",
            true,
            array(TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("Asia/Kolkata")),
        ),
        (
            "time",
            true,
            array(Time64MicrosecondArray::from(
                micros.map(|v| v.map(|v| v.abs() / 20_000)).to_vec(),
            )),
        ),
        ("interval", true, array(IntervalMonthDayNanoArray::from(intervals))),
    ]
}

fn texts() -> Vec<(&'static str, bool, ArrayRef)> {
    let some: Vec<Option<&str>> =
        TEXTS.iter().enumerate().map(|(at, text)| (at < 3).then_some(*text)).collect();
    let bytes: Vec<Option<&[u8]>> = vec![Some(b"\x00\xff\x07"), Some(b"abc"), Some(b""), None];
    let fixed = [b"ab", b"cd", b"\0\0", b"xy"];
    let codes = vec![Some("CMT"), Some("VTS"), Some("CMT"), None];
    vec![
        ("text", false, array(StringArray::from(TEXTS.to_vec()))),
        ("view", true, array(StringViewArray::from(some.clone()))),
        ("large", true, array(LargeStringArray::from(some))),
        ("bytes", true, array(BinaryArray::from(bytes))),
        ("fixed", false, array(FixedSizeBinaryArray::try_from_iter(fixed.into_iter()).unwrap())),
        ("code", true, array(codes.into_iter().collect::<DictionaryArray<Int8Type>>())),
        (
            "wör\"t'er\\",
            true,
            array(StringArray::from(vec![Some("日本"), Some("\u{1b}"), None, None])),
        ),
        ("none", true, array(NullArray::new(4))),
    ]
}

fn nested() -> Vec<(&'static str, bool, ArrayRef)> {
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None]);
    list.append_value([]);
    list.append_value([Some(-3)]);
    list.append_null();
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    lists.append_value([Some(vec![Some("it's"), None]), Some(vec![])]);
    lists.append_value(Vec::<Option<Vec<Option<&str>>>>::new());
    lists.append_value([Some(vec![Some(TEXTS[1])])]);
    lists.append_value([Some(vec![]), Some(vec![Some("x")])]);
    let mut stamps = ListBuilder::new(TimestampMillisecondBuilder::new());
    for row in [vec![Some(0), None], vec![], vec![Some(-1)], vec![Some(86_400_000)]] {
        stamps.append_value(row);
    }
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in [&["a", "b\"'"][..], &[], &["x"], &[]] {
        for (at, key) in row.iter().enumerate() {
            map.keys().append_value(key);
            map.values().append_option((at == 0).then_some(7));
        }
        map.append(!row.is_empty()).unwrap();
    }
    let inner = StructArray::from(vec![
        (field("a b", DataType::Int32, false), array(Int32Array::from(vec![1, 2, 3, 4]))),
        (field("c", DataType::Utf8, false), array(StringArray::from(TEXTS.to_vec()))),
    ]);
    let inner_type = inner.data_type().clone();
    let yes = array(BooleanArray::from(vec![Some(true), None, Some(false), None]));
    let pair = StructArray::new(
        vec![field("yes", DataType::Boolean, true), field("inner", inner_type, false)].into(),
        vec![yes, array(inner)],
        Some(NullBuffer::from(vec![true, true, false, true])),
    );
    let unnamed = StructArray::from(vec![
        (field("1", DataType::Date32, false), array(Date32Array::from(vec![0, 1, -1, 2]))),
        (
            field("2", DataType::Float64, false),
            array(Float64Array::from(vec![1.0, f64::NAN, 2.5, 0.0])),
        ),
    ]);
    vec![
        ("list", true, array(list.finish())),
        ("lists", true, array(lists.finish())),
        ("stamps", false, array(stamps.finish())),
        ("map", true, array(map.finish())),
        ("pair", true, array(pair)),
        ("unnamed", false, array(unnamed)),
    ]
}

fn array(array: impl arrow_array::Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn field(name: &str, data_type: DataType, nullable: bool) -> Arc<Field> {
    Arc::new(Field::new(name, data_type, nullable))
}
