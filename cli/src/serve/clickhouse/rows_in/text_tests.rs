//! Bodies of text, as ClickHouse and its users write them.

use std::io::Read;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::{BodyFormat, Reader, parameter};
use crate::errors::Failure;
use crate::serve::clickhouse::formats::{Finished, Format, Writer, every_type};
use crate::serve::clickhouse::types::Type;

fn read(
    format: BodyFormat,
    declared: &SchemaRef,
    body: &[u8],
) -> Result<Vec<RecordBatch>, Failure> {
    let mut reader = Reader::new(format, declared, 0, 16 << 20, body);
    std::iter::from_fn(|| reader.next_batch().transpose()).collect()
}

fn written(format: Format, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = Writer::new(format, &batches[0].schema(), 0).unwrap();
    let mut out = Vec::new();
    for batch in batches {
        writer.write(batch, &mut out).unwrap();
    }
    writer.finish(&Finished::default(), &mut out).unwrap();
    out
}

fn declared(columns: &[(&str, &str)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, found)| Type::parse(found).unwrap().field(name));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn lines(batches: &[RecordBatch]) -> String {
    match batches {
        [] => String::new(),
        _ => String::from_utf8(written(Format::TabSeparated, batches)).unwrap(),
    }
}

#[test]
fn answers_are_read_back() {
    let all = every_type();
    let schema = all.schema();
    let is_kept = |at: &usize| schema.field(*at).name() != "interval";
    let kept: Vec<usize> = (0..all.num_columns()).filter(is_kept).collect();
    let sample = all.project(&kept).unwrap();
    // Null lists, maps and structs arrive as empty ones, and those whose fields are null.
    let expected = written(Format::TabSeparated, std::slice::from_ref(&sample));
    let fields = sample
        .schema()
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            name @ ("pair" | "d-3") => Type::of_field(field).field(name),
            _ => Arc::clone(field),
        })
        .collect::<Vec<_>>();
    let declared = Arc::new(Schema::new(fields));
    for (format, body) in [
        (BodyFormat::Values, Format::Values),
        (BodyFormat::TabSeparated, Format::TabSeparated),
        (BodyFormat::TabSeparatedWithNames, Format::TabSeparatedWithNames),
        (BodyFormat::TabSeparatedWithNamesAndTypes, Format::TabSeparatedWithNamesAndTypes),
    ] {
        let body = written(body, std::slice::from_ref(&sample));
        let batches = read(format, &declared, &body).unwrap();
        assert!(written(Format::TabSeparated, &batches) == expected, "{format:?}");
        for length in 0..body.len() {
            let _ = read(format, &declared, &body[..length]);
        }
    }
}

#[test]
fn rows_of_literals() {
    let columns = [
        ("n", "Nullable(Int32)"),
        ("s", "String"),
        ("t", "DateTime64(3)"),
        ("b", "Bool"),
        ("l", "Array(Nullable(String))"),
        ("m", "Map(String, Int64)"),
        ("p", "Tuple(Float64, Decimal(5, 2))"),
    ];
    let declared = declared(&columns);
    let body = b" (1,'it''s \\'x\\' \\x41\\q)',1577836800, true, ['a)',NULL], {'k':1}, (1e3,-0.5)) ,
        ( null , '' , '2020-01-01 00:00:00.25' , 0 , [ ] , map('x', 1, 'y', -2) , tuple(nan, 1) );\n";
    let batches = read(BodyFormat::Values, &declared, body).unwrap();
    assert_eq!(
        lines(&batches),
        "1\tit\\'s \\'x\\' A\\\\q)\t2020-01-01 00:00:00.000\ttrue\t['a)',NULL]\t{'k':1}\t(1000,-0.5)\n\
         \\N\t\t2020-01-01 00:00:00.250\tfalse\t[]\t{'x':1,'y':-2}\t(nan,1)\n"
    );
    assert!(read(BodyFormat::Values, &declared, b" \n").unwrap().is_empty());
}

#[test]
fn what_is_no_literal_is_refused() {
    let numbers = declared(&[("n", "Int32"), ("s", "Array(String)")]);
    for (body, says) in [
        ("(1,['a']", "ends"),
        ("1,['a']", "parenthesis"),
        ("(1)", "','"),
        ("(1,['a'],2)", "')'"),
        ("(1,'a')", "'['"),
        ("(1,['a)", "ends"),
        ("(1,['a'", "ends"),
        ("(1 + 1,['a'])", "nothing but literals"),
        ("(abs(1),['a'])", "nothing but literals"),
        ("(x,['a'])", "'x'"),
        ("(99999999999,['a'])", "column 'n'"),
        ("(1,['a']),(NULL,[])", "cannot be null"),
        ("(1,['a']),(,[])", "row 2"),
    ] {
        let failure = read(BodyFormat::Values, &numbers, body.as_bytes()).unwrap_err();
        assert!(failure.message.contains(says), "{body}: {}", failure.message);
    }
    for body in ["1\t['a']\textra\n", "1\n", "x\t['a']\n", "1\t['a'\n", "1\t['a']x\n"] {
        assert!(read(BodyFormat::TabSeparated, &numbers, body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn lines_of_fields() {
    let declared = declared(&[("a", "Nullable(Int32)"), ("b", "Nullable(String)")]);
    let read = |format, body: &[u8]| lines(&read(format, &declared, body).unwrap());
    assert_eq!(
        read(BodyFormat::TabSeparated, b"1\tx\\ty\\\\\n\\N\t\\N\n"),
        "1\tx\\ty\\\\\n\\N\t\\N\n"
    );
    assert_eq!(read(BodyFormat::TabSeparated, b"1\t\r\n2\tz"), "1\t\n2\tz\n");
    // What stands behind a backslash ends neither a field nor a line.
    assert_eq!(
        read(BodyFormat::TabSeparated, b"1\tx\\\ny\\\tz\\\\\n2\tw\\\r\n3\t\\\n"),
        "1\tx\\ny\\tz\\\\\n2\tw\\r\n3\t\\n\n"
    );
    assert_eq!(read(BodyFormat::TabSeparatedRaw, b"1\tx\\\n"), "1\tx\\\\\n");
    for before in (64 << 10) - 6..(64 << 10) {
        let long = "x".repeat(before);
        let body = format!("1\t{long}\\\ny\n2\tz\n");
        let expected = format!("1\t{long}\\ny\n2\tz\n");
        assert!(read(BodyFormat::TabSeparated, body.as_bytes()) == expected, "{before}");
    }
    assert_eq!(read(BodyFormat::TabSeparatedRaw, b"1\tx\\ty\n"), "1\tx\\\\ty\n");
    assert_eq!(read(BodyFormat::TabSeparatedWithNames, b"b\ta\nx\t1\n"), "1\tx\n");
    assert_eq!(read(BodyFormat::TabSeparatedWithNames, b"b\nx\n"), "\\N\tx\n");
    assert_eq!(
        read(BodyFormat::TabSeparatedWithNamesAndTypes, b"b\ta\nString\tInt32\nx\t1\n"),
        "1\tx\n"
    );
    assert_eq!(read(BodyFormat::TabSeparatedWithNamesAndTypes, b""), "");
    let names = [b'\t'; 1000];
    let mut reader =
        Reader::new(BodyFormat::TabSeparatedWithNames, &declared, 0, 1 << 20, &names[..]);
    let failure = reader.next_batch().unwrap_err();
    assert!(failure.message.contains("more columns"), "{}", failure.message);
}

#[test]
fn bytes_and_times_of_the_declared_types() {
    let field = |name, data_type| Field::new(name, data_type, false);
    let instant = DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into()));
    let declared = Arc::new(Schema::new(vec![
        field("b", DataType::Binary),
        field("t", instant),
        field("d", DataType::Time64(TimeUnit::Microsecond)),
    ]));
    let body =
        b"('\\xff\\0', 1577836800.5, '13:05:00.25'), ('', '2020-07-01 00:00:00', '00:00:00')";
    let batches = read(BodyFormat::Values, &declared, body).unwrap();
    assert_eq!(batches[0].column(0).as_binary::<i32>().value(0), b"\xff\0");
    assert_eq!(
        String::from_utf8_lossy(&written(
            Format::TabSeparated,
            &[batches[0].project(&[1, 2]).unwrap()]
        )),
        "2020-01-01 01:00:00.500000000\t13:05:00.250\n2020-07-01 00:00:00.000000000\t00:00:00\n"
    );
}

#[test]
fn rows_have_a_bound_and_come_in_batches() {
    let texts = declared(&[("a", "String")]);
    let mut reader =
        Reader::new(BodyFormat::Values, &texts, 0, 1 << 20, b"('".chain(std::io::repeat(b'x')));
    assert_eq!(reader.next_batch().unwrap_err().code, "limit-exceeded");
    let endless = std::io::repeat(b'x');
    let mut reader = Reader::new(BodyFormat::TabSeparated, &texts, 0, 1 << 20, endless);
    assert_eq!(reader.next_batch().unwrap_err().code, "limit-exceeded");

    let many: Vec<String> = (0..100_000).map(|number| format!("('{number}')")).collect();
    let batches = read(BodyFormat::Values, &texts, many.join(",").as_bytes()).unwrap();
    assert!(batches.len() > 1);
    let all = arrow_select::concat::concat_batches(&texts, &batches).unwrap();
    assert_eq!(all.num_rows(), 100_000);
    assert_eq!(all.column(0).as_string::<i32>().value(99_999), "99999");
}

#[test]
fn parameters_have_their_type() {
    let shown = |found: &str, text: &str| {
        let found = Type::parse(found)?;
        let array = parameter(&found, text.as_bytes())?;
        assert_eq!((array.len(), array.data_type()), (1, &found.arrow()));
        let schema = Arc::new(Schema::new(vec![found.field("x")]));
        let batch = RecordBatch::try_new(schema, vec![array])?;
        Ok::<_, Failure>(String::from_utf8(written(Format::Values, &[batch])).unwrap())
    };
    for (found, text, expected) in [
        ("UInt8", "7", "(7)"),
        ("Int32", "-5", "(-5)"),
        ("String", "it's\\ta\\\\b", "('it\\'s\\ta\\\\b')"),
        ("String", "", "('')"),
        ("String", "a\\\nb\\\tc\\q", "('a\\nb\\tc\\\\q')"),
        ("Nullable(String)", "\\N", "(NULL)"),
        ("Float64", "1e-3", "(0.001)"),
        ("Float64", "inf", "(inf)"),
        ("Bool", "true", "(true)"),
        ("Date", "2020-01-01", "('2020-01-01')"),
        ("DateTime", "2020-01-01 00:00:00", "('2020-01-01 00:00:00')"),
        ("DateTime64(3, 'UTC')", "2020-01-01 00:00:00.5", "('2020-01-01 00:00:00.500')"),
        ("DateTime", "1577836800", "('2020-01-01 00:00:00')"),
        ("Decimal(5, 2)", "1.5", "(1.5)"),
        ("Array(String)", "['a','b\\'c']", "(['a','b\\'c'])"),
        ("Array(Nullable(Int64))", "[1,NULL]", "([1,NULL])"),
        ("Map(String, UInt8)", "{'a':1}", "({'a':1})"),
        ("Tuple(UInt8, String)", "(1,'x')", "((1,'x'))"),
        ("LowCardinality(String)", "x", "('x')"),
        (
            "UUID",
            "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
            "('61f0c404-5cb3-11e7-907b-a6006ad3dba0')",
        ),
        ("UUID", "61F0C4045CB311E7907BA6006AD3DBA0", "('61f0c404-5cb3-11e7-907b-a6006ad3dba0')"),
    ] {
        assert_eq!(shown(found, text).unwrap(), expected, "{found}");
    }
    for (found, text) in [
        ("UInt8", "300"),
        ("UInt8", "x"),
        ("UInt8", "\\N"),
        ("UInt8", ""),
        ("Array(UInt8)", "1,2"),
        ("Array(UInt8)", "[1,2"),
        ("Decimal(5, 2)", "123456"),
        ("Date", "yesterday"),
        ("UUID", "zz"),
        ("Nullable(UUID)", "61f0c4045cb311e7-907b-a6006ad3dba0"),
        ("Array(UUID)", "['61f0c404-5cb3-11e7-907b-a6006ad3dba0','x']"),
    ] {
        let failure = shown(found, text).unwrap_err();
        assert!(failure.message.contains("parameter"), "{}", failure.message);
    }
}
