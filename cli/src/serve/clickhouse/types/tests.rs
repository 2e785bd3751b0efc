//! Names of types in both directions.

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use super::Type;
use crate::serve::clickhouse::formats::every_type;

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

#[test]
fn arrow_types_have_clickhouse_names() {
    let zone = Some("Europe/Berlin".into());
    let pair = |a: &str, b: &str| {
        let fields =
            vec![Field::new(a, DataType::Int8, false), Field::new(b, DataType::Utf8View, true)];
        DataType::Struct(fields.into())
    };
    let entries = Field::new("entries", pair("key", "value"), false);
    let code = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    for (data_type, name) in [
        (DataType::Boolean, "Bool"),
        (DataType::Float16, "Float32"),
        (DataType::Decimal128(5, 2), "Decimal(5, 2)"),
        (DataType::Decimal128(3, -3), "Decimal(6, 0)"),
        (DataType::Decimal256(76, 10), "Decimal(76, 10)"),
        (DataType::LargeBinary, "String"),
        (DataType::FixedSizeBinary(3), "String"),
        (DataType::Date32, "Date32"),
        (DataType::Timestamp(TimeUnit::Second, None), "DateTime64(0)"),
        (DataType::Timestamp(TimeUnit::Microsecond, zone), "DateTime64(6, 'Europe/Berlin')"),
        (DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())), "DateTime64(9, 'UTC')"),
        (
            DataType::Timestamp(TimeUnit::Second, Some("+02:00".into())),
            "DateTime64(0, 'Etc/GMT-2')",
        ),
        (
            DataType::Timestamp(TimeUnit::Second, Some("-1100".into())),
            "DateTime64(0, 'Etc/GMT+11')",
        ),
        (DataType::Timestamp(TimeUnit::Second, Some("+05:30".into())), "DateTime64(0, 'UTC')"),
        (DataType::Timestamp(TimeUnit::Second, Some("Z".into())), "DateTime64(0, 'UTC')"),
        (DataType::Time64(TimeUnit::Nanosecond), "String"),
        (DataType::Interval(IntervalUnit::MonthDayNano), "String"),
        (code, "String"),
        (list(DataType::Int64), "Array(Nullable(Int64))"),
        (list(list(DataType::Utf8)), "Array(Array(Nullable(String)))"),
        (pair("a", "b"), "Tuple(a Int8, b Nullable(String))"),
        (pair("a b", "null"), "Tuple(`a b` Int8, `null` Nullable(String))"),
        (pair("`\\", ""), "Tuple(Int8, Nullable(String))"),
        (pair("`\\", "é"), "Tuple(`\\`\\\\` Int8, `é` Nullable(String))"),
        (pair("1", "2"), "Tuple(Int8, Nullable(String))"),
        (pair("a", "a"), "Tuple(Int8, Nullable(String))"),
        (DataType::Map(Arc::new(entries), false), "Map(Int8, Nullable(String))"),
    ] {
        assert_eq!(Type::of(&data_type, false).to_string(), name);
    }
    assert_eq!(Type::of(&DataType::Null, true).to_string(), "Nullable(Nothing)");
    assert_eq!(Type::of(&DataType::Int8, true).to_string(), "Nullable(Int8)");
    assert_eq!(Type::of(&list(DataType::Int8), true).to_string(), "Array(Nullable(Int8))");
    let nullable = Type::of(&pair("a", "b"), true).to_string();
    assert_eq!(nullable, "Tuple(a Nullable(Int8), b Nullable(String))");
}

/// Names are read as the types that they were written for.
#[test]
fn names_read_back() {
    for field in every_type().schema().fields() {
        let found = Type::of_field(field);
        assert_eq!(Type::parse(&found.to_string()).unwrap(), found);
        assert_eq!(Type::of(&found.arrow(), found.is_nullable()), found);
    }
    for name in [
        "LowCardinality(Nullable(String))",
        "FixedString(16)",
        "Date",
        "DateTime",
        "DateTime('Asia/Kolkata')",
        "DateTime64(9, 'UTC')",
        "Enum8('a' = 1, 'it\\'s' = -2, '' = 0)",
        "Enum16('a' = 1000, 'b\\\\' = -32768)",
        "UUID",
        "Array(Tuple(a UInt8, `b c` Array(LowCardinality(String))))",
        "Map(LowCardinality(String), Map(Date, Float32))",
    ] {
        assert_eq!(Type::parse(name).unwrap().to_string(), name);
    }
}

#[test]
fn other_spellings_of_types() {
    for (name, same) in [
        (" Array ( Nullable( UInt8 ) ) ", "Array(Nullable(UInt8))"),
        ("Decimal64(3)", "Decimal(18, 3)"),
        ("Decimal(5)", "Decimal(5, 0)"),
        ("numeric(5,2)", "Decimal(5, 2)"),
        ("Enum('a', 'b' = 300)", "Enum16('a' = 1, 'b' = 300)"),
        ("Enum8('a','b')", "Enum8('a' = 1, 'b' = 2)"),
        ("Nested(a UInt8, b String)", "Array(Tuple(a UInt8, b String))"),
        ("Tuple(\n    yes Bool,\n    no Bool)", "Tuple(yes Bool, no Bool)"),
        ("Tuple(Array Int8, String)", "Tuple(Array Int8, String)"),
        ("BIGINT", "Int64"),
        ("varchar(255)", "String"),
        ("double precision", "Float64"),
        ("timestamp", "DateTime"),
        ("boolean", "Bool"),
        ("DateTime64", "DateTime64(3)"),
    ] {
        assert_eq!(Type::parse(name).unwrap().to_string(), same, "{name}");
    }
}

#[test]
fn what_is_no_type_is_refused() {
    let nested = |levels: usize| format!("{}Int8{}", "Array(".repeat(levels), ")".repeat(levels));
    assert!(Type::parse(&nested(30)).is_ok());
    for name in [
        &nested(40),
        &nested(5_000),
        &"x".repeat(1 << 20),
        "",
        "Int8)",
        "Array",
        "Array(",
        "Array(Int8",
        "Array()",
        "Tuple()",
        "Map(String)",
        "Map(Nullable(String), Int8)",
        "Nullable(Array(Int8))",
        "Nullable(Nullable(Int8))",
        "LowCardinality(Array(Int8))",
        "FixedString(0)",
        "FixedString(4294967296)",
        "FixedString(-1)",
        "Decimal(0, 0)",
        "Decimal(77, 0)",
        "Decimal(5, 6)",
        "Decimal(99999999999999999999, 0)",
        "DateTime('Nowhere/Land')",
        "DateTime64(10)",
        "Enum8()",
        "Enum8('a' = 128)",
        "Enum8('a' = 1",
        "Enum8('a",
        "Enum8('a\\",
        "Enum16('a' = 32768)",
        "Int7",
        "Größe",
        "Int128",
        "IntervalDay",
        "AggregateFunction(sum, Int8)",
        "JSON",
    ] {
        let failure = Type::parse(name).unwrap_err();
        assert!(failure.message.len() < 500, "{}", failure.message);
    }
    assert_eq!(Type::parse("UInt256").unwrap_err().code, "unsupported");
    assert_eq!(Type::parse("Int7").unwrap_err().code, "invalid-input");
}

/// Any beginning of a name, and any name with a character too many, is read or refused.
#[test]
fn damaged_names_do_no_harm() {
    let name = "Array(Tuple(a Enum8('x\\'' = 1), `b\\`é` Map(String, DateTime64(3, 'UTC'))))";
    for (at, _) in name.char_indices() {
        assert!(Type::parse(&name[..at]).is_err());
        for inserted in ["'", "`", "\\", "(", ")", ",", "é", "\0", " 9"] {
            let _ = Type::parse(&format!("{}{inserted}{}", &name[..at], &name[at..]));
        }
    }
}
