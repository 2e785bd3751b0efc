//! Bodies as ClickHouse writes them, bodies that lie, and bodies that are damaged.

use std::io::{self, Read};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, cast::AsArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::{BodyFormat, Reader};
use crate::errors::Failure;
use crate::serve::clickhouse::formats::{Finished, Format, Writer, every_type};
use crate::serve::clickhouse::types::Type;

const MOST: u64 = 64 << 20;

fn read(
    format: BodyFormat,
    declared: &SchemaRef,
    revision: u32,
    body: &[u8],
) -> Result<Vec<RecordBatch>, Failure> {
    let mut reader = Reader::new(format, declared, revision, MOST, body);
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        batches.push(batch);
    }
    Ok(batches)
}

fn written(format: Format, batches: &[RecordBatch], revision: u32) -> Vec<u8> {
    let mut writer = Writer::new(format, &batches[0].schema(), revision).unwrap();
    let mut out = Vec::new();
    for batch in batches {
        writer.write(batch, &mut out).unwrap();
    }
    writer.finish(&Finished::default(), &mut out).unwrap();
    out
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The columns of a body that have these types.
fn declared(columns: &[(&str, &str)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, found)| Type::parse(found).unwrap().field(name));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The rows as lines.
fn lines(batches: &[RecordBatch]) -> String {
    match batches {
        [] => String::new(),
        _ => String::from_utf8(written(Format::TabSeparated, batches, 0)).unwrap(),
    }
}

/// The sample without what has no bytes of its own there: texts for times of day, intervals, and
/// bytes that are not UTF-8.
fn sample() -> (RecordBatch, SchemaRef) {
    let all = every_type();
    let schema = all.schema();
    let kept: Vec<usize> =
        (0..all.num_columns()).filter(|at| schema.field(*at).name() != "bytes").collect();
    let sample = all.project(&kept).unwrap();
    let schema = sample.schema();
    let fields = schema.fields().iter().map(|field| {
        let found = Type::of_field(field);
        found.field(field.name())
    });
    let declared = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    (sample, declared)
}

#[test]
fn answers_are_read_back() {
    let (sample, declared) = sample();
    let parts = [sample.slice(0, 2), sample.slice(2, 2)];
    let expected = lines(std::slice::from_ref(&sample));
    for revision in [0, 54_405, 54_460] {
        let body = written(Format::Native, &parts, revision);
        let batches = read(BodyFormat::Native, &declared, revision, &body).unwrap();
        assert_eq!(batches.len(), 2);
        assert_eq!(lines(&batches), expected);
    }
    for (format, body) in [
        (BodyFormat::RowBinary, Format::RowBinary),
        (BodyFormat::RowBinaryWithNames, Format::RowBinaryWithNames),
        (BodyFormat::RowBinaryWithNamesAndTypes, Format::RowBinaryWithNamesAndTypes),
    ] {
        let batches = read(format, &declared, 0, &written(body, &parts, 0)).unwrap();
        assert_eq!(lines(&batches), expected, "{format:?}");
    }
}

/// Columns may be declared in the types of the sample itself, which are cast to.
#[test]
fn values_are_cast_to_the_declared_types() {
    let all = every_type();
    // Intervals have no text that is read, and a null struct arrives as one whose fields are null.
    let kept: Vec<usize> = (0..all.num_columns())
        .filter(|at| !["interval", "pair"].contains(&all.schema().field(*at).name().as_str()))
        .collect();
    let sample = all.project(&kept).unwrap();
    let body = written(Format::Native, std::slice::from_ref(&sample), 0);
    let batches = read(BodyFormat::Native, &sample.schema(), 0, &body).unwrap();
    assert_eq!(batches[0].schema(), sample.schema());
    assert!(written(Format::RowBinary, &batches, 0) == written(Format::RowBinary, &[sample], 0));
}

/// Blocks that ClickHouse 26.9 wrote.
#[test]
fn types_that_are_only_read() {
    for (types, native, row_binary, expected) in [
        (
            &[
                ("a", "Date"),
                ("b", "Date32"),
                ("c", "DateTime('UTC')"),
                ("d", "DateTime64(3, 'UTC')"),
            ][..],
            "04010161044461746556470162064461746533 32bbf1ffff016308 4461746554696d6500e10b5e0164144461746554\
             696d65363428332c20275554432729f435a183b6ffffff",
            "5647bbf1ffff00e10b5ef435a183b6ffffff",
            "2020-01-01\t1960-01-01\t2020-01-01 00:00:00\t1960-01-01 00:00:00.500\n",
        ),
        (
            &[("a", "Enum8('a' = 1, 'b' = -2)"), ("b", "Enum16('a' = 1, 'b' = 1000)")],
            "0201016118456e756d3828276227203d202d322c20276127203d203129fe01621b456e756d313628276127203d\
             20312c20276227203d203130303029e803",
            "fee803",
            "b\tb\n",
        ),
        (
            &[("u", "UUID"), ("f", "FixedString(4)")],
            "020101750455554944e711b35c04c4f061a0dbd36a00a67b9001660e4669786564537472696e6728342961620000",
            "e711b35c04c4f061a0dbd36a00a67b9061620000",
            "61f0c404-5cb3-11e7-907b-a6006ad3dba0\tab\n",
        ),
        (
            &[("a", "LowCardinality(String)")],
            "01030161164c6f7743617264696e616c69747928537472696e67290100000000000000000600000000000003000000\
             0000000000013001310300000000000000010201",
            "013001310130",
            "0\n1\n0\n",
        ),
        (
            &[("a", "LowCardinality(Nullable(String))")],
            "01030161204c6f7743617264696e616c697479284e756c6c61626c6528537472696e67292901000000000000000006\
             0000000000000300000000000000000001780300000000000000020002",
            "00017801000178",
            "x\n\\N\nx\n",
        ),
        (
            &[("a", "Array(LowCardinality(String))")],
            "010201611d4172726179284c6f7743617264696e616c69747928537472696e672929010000000000000002000000000\
             000000400000000000000000600000000000003000000000000000001780179040000000000000001020102",
            "02017801790201780179",
            "['x','y']\n['x','y']\n",
        ),
        (
            &[("a", "Array(LowCardinality(String))")],
            "010201611d4172726179284c6f7743617264696e616c69747928537472696e67292901000000000000000000000000\
             0000000000000000000000",
            "0000",
            "[]\n[]\n",
        ),
        (
            &[("a", "Tuple(UInt8, LowCardinality(String))")],
            "01010161245475706c652855496e74382c204c6f7743617264696e616c69747928537472696e672929010000000000\
             00000100060000000000000200000000000000000171010000000000000001",
            "010171",
            "(1,'q')\n",
        ),
    ] {
        let declared = declared(types);
        let native = bytes_of(&native.replace(' ', ""));
        let batches = read(BodyFormat::Native, &declared, 0, &native).unwrap();
        assert_eq!(lines(&batches), expected);
        let fixed = types.iter().map(|(name, found)| {
            let found = Type::parse(found).unwrap();
            (name.to_string(), found.to_string())
        });
        let mut body = vec![types.len() as u8];
        let (names, found): (Vec<String>, Vec<String>) = fixed.unzip();
        for text in names.iter().chain(&found) {
            body.push(text.len() as u8);
            body.extend_from_slice(text.as_bytes());
        }
        body.extend_from_slice(&bytes_of(row_binary));
        let batches = read(BodyFormat::RowBinaryWithNamesAndTypes, &declared, 0, &body).unwrap();
        assert_eq!(lines(&batches), expected);
    }
}

#[test]
fn columns_come_by_name() {
    let wanted = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Utf8View, true),
        Field::new("n", DataType::Int64, false),
    ]));
    let body = |names: &[&str]| {
        let mut body = vec![names.len() as u8, 1];
        for name in names {
            body.push(name.len() as u8);
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(b"\x05UInt8\x07");
        }
        body
    };
    let read = |names: &[&str]| read(BodyFormat::Native, &wanted, 0, &body(names));
    assert_eq!(lines(&read(&["n"]).unwrap()), "\\N\t7\n");
    assert_eq!(lines(&read(&["n", "s"]).unwrap()), "7\t7\n");
    for (names, says) in [
        (&["s"][..], "'n'"),
        (&["n", "x"], "'x'"),
        (&["n", "n"], "two columns"),
        (&["n", "s", "x"], "3 columns"),
    ] {
        let failure = read(names).unwrap_err();
        assert!(failure.message.contains(says), "{}", failure.message);
    }
}

#[test]
fn values_that_the_declared_type_does_not_take_are_errors() {
    let one = |found: &str, wanted: DataType, data: &[u8]| {
        let schema = Arc::new(Schema::new(vec![Field::new("x", wanted, false)]));
        let mut body = vec![1, 1, 1, b'x', found.len() as u8];
        body.extend_from_slice(found.as_bytes());
        body.extend_from_slice(data);
        read(BodyFormat::Native, &schema, 0, &body)
    };
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    for (found, wanted, data, says) in [
        ("Nullable(Int8)", DataType::Int8, &[1, 0][..], "cannot be null"),
        ("Nullable(Int8)", DataType::Int8, &[2, 0], "neither 0 nor 1"),
        ("UInt64", DataType::Int8, &[0, 1, 0, 0, 0, 0, 0, 0], "'x'"),
        ("String", DataType::Utf8, &[2, 0xFF, 0xFE], "UTF-8"),
        ("String", DataType::Int32, &[1, b'a'], "'x'"),
        ("Decimal(3, 0)", DataType::Decimal128(3, 0), &[0xE8, 3, 0, 0], "1000"),
        ("Enum8('a' = 1)", DataType::Utf8, &[2], "no name for 2"),
        ("DateTime64(7)", nanos, &[0xFF; 8], ""),
        (
            "DateTime64(7)",
            DataType::Int8,
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
            "years",
        ),
    ] {
        match one(found, wanted, data) {
            Ok(_) => assert!(says.is_empty(), "{found}"),
            Err(failure) => {
                assert!(!says.is_empty() && failure.message.contains(says), "{}", failure.message);
            }
        }
    }
}

/// Bytes are stored as they come in a column of bytes.
#[test]
fn texts_may_be_bytes() {
    let field = |name, data_type| Field::new(name, data_type, true);
    let list = DataType::List(Arc::new(field("item", DataType::BinaryView)));
    let wanted = Arc::new(Schema::new(vec![field("b", DataType::Binary), field("l", list)]));
    let mut body = b"\x02\x01\x01b\x06String\x02\xFF\x00\x01l\x0dArray(String)".to_vec();
    body.extend_from_slice(&1_u64.to_le_bytes());
    body.extend_from_slice(b"\x01\x80");
    let batches = read(BodyFormat::Native, &wanted, 0, &body).unwrap();
    assert_eq!(batches[0].column(0).as_binary::<i32>().value(0), b"\xFF\0");
    let items = batches[0].column(1).as_list::<i32>().value(0);
    assert_eq!(items.as_binary_view().value(0), b"\x80");
}

/// Any bit that is flipped, and any end that is missing, is read or refused.
#[test]
fn damaged_bodies_do_no_harm() {
    let (sample, declared) = sample();
    for (format, body) in [
        (BodyFormat::Native, Format::Native),
        (BodyFormat::RowBinary, Format::RowBinary),
        (BodyFormat::RowBinaryWithNamesAndTypes, Format::RowBinaryWithNamesAndTypes),
    ] {
        let body = written(body, std::slice::from_ref(&sample), 0);
        for length in 1..body.len() {
            let cut = read(format, &declared, 0, &body[..length]);
            // Rows of nothing but their values may end anywhere between two.
            assert!(cut.is_err() || format != BodyFormat::Native, "{length} bytes");
        }
        for bit in (0..8 * body.len()).step_by(3) {
            let mut damaged = body.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let _ = read(format, &declared, 0, &damaged);
        }
    }
    let codes = self::declared(&[("a", "LowCardinality(Nullable(String))")]);
    let body = bytes_of(
        "01030161204c6f7743617264696e616c697479284e756c6c61626c6528537472696e67292901000000000000000006\
         0000000000000300000000000000000001780300000000000000020002",
    );
    for bit in 0..8 * body.len() {
        let mut damaged = body.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let _ = read(BodyFormat::Native, &codes, 0, &damaged);
    }
}

/// What a body claims costs nothing before it is there.
#[test]
fn claims_are_not_believed() {
    let claim = |found: &str, rest: &[u8]| {
        let mut body = vec![1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1, b'a'];
        body.push(found.len() as u8);
        body.extend_from_slice(found.as_bytes());
        body.extend_from_slice(rest);
        body
    };
    for found in
        ["UInt8", "UInt64", "String", "Array(UInt8)", "Nullable(Nothing)", "Map(String, Date)"]
    {
        let columns = declared(&[("a", found)]);
        assert!(read(BodyFormat::Native, &columns, 0, &claim(found, &[1; 100])).is_err());
    }
    // A text, an array and a map of 2⁶² bytes or items.
    let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F];
    for found in ["String", "Array(UInt8)", "Array(Array(String))", "Map(String, UInt8)"] {
        let columns = declared(&[("a", found)]);
        let failure = read(BodyFormat::RowBinary, &columns, 0, &huge).unwrap_err();
        assert!(failure.message.contains("ends") || failure.code == "limit-exceeded");
    }
}

/// A source of the same byte without an end.
struct Endless(u8);

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        out.fill(self.0);
        Ok(out.len())
    }
}

#[test]
fn a_block_has_a_bound() {
    let texts = declared(&[("a", "String")]);
    let head = b"\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\x01a\x06String";
    let body = head.chain(Endless(7));
    let mut reader = Reader::new(BodyFormat::Native, &texts, 0, 1 << 20, body);
    assert_eq!(reader.next_batch().unwrap_err().code, "limit-exceeded");

    // Nulls of a long type cost more than their byte.
    let nulls = declared(&[("a", "Nullable(FixedString(1000000))")]);
    let mut body = b"\x01\x01a\x1eNullable(FixedString(1000000))".to_vec();
    body.extend_from_slice(&[1; 1_000]);
    let mut reader =
        Reader::new(BodyFormat::RowBinaryWithNamesAndTypes, &nulls, 0, 1 << 20, body.as_slice());
    let failure = loop {
        match reader.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no bound"),
            Err(failure) => break failure,
        }
    };
    assert_eq!(failure.code, "limit-exceeded");

    // A dictionary of one long text for many rows.
    let codes = declared(&[("a", "LowCardinality(String)")]);
    let mut body = b"\x01\x80\x08\x01a\x16LowCardinality(String)".to_vec();
    body.extend_from_slice(&1_u64.to_le_bytes());
    body.extend_from_slice(&(1_u64 << 9).to_le_bytes());
    body.extend_from_slice(&1_u64.to_le_bytes());
    body.extend_from_slice(&[0x80, 0x80, 0x04]);
    body.extend_from_slice(&[b'x'; 1 << 16]);
    body.extend_from_slice(&1024_u64.to_le_bytes());
    body.extend_from_slice(&[0; 1024]);
    let mut reader = Reader::new(BodyFormat::Native, &codes, 0, 32 << 20, body.as_slice());
    assert_eq!(reader.next_batch().unwrap_err().code, "limit-exceeded");
    let mut reader = Reader::new(BodyFormat::Native, &codes, 0, 128 << 20, body.as_slice());
    assert_eq!(reader.next_batch().unwrap().unwrap().num_rows(), 1024);

    // An enumeration of one long name: each row is a byte.
    let texts = declared(&[("a", "String")]);
    let name = format!("Enum8('{}' = 1)", "x".repeat(60_000));
    let mut body = b"\x01\x80\x08\x01a".to_vec();
    body.extend_from_slice(&[name.len() as u8 | 0x80, (name.len() >> 7) as u8 | 0x80]);
    body.push((name.len() >> 14) as u8);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(&[1; 1024]);
    let mut reader = Reader::new(BodyFormat::Native, &texts, 0, 32 << 20, body.as_slice());
    assert_eq!(reader.next_batch().unwrap_err().code, "limit-exceeded");
    let mut reader = Reader::new(BodyFormat::Native, &texts, 0, 128 << 20, body.as_slice());
    assert_eq!(reader.next_batch().unwrap().unwrap().num_rows(), 1024);
}

/// Rows of any number come in batches of bounded size.
#[test]
fn rows_come_in_batches() {
    let numbers: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..200_000).map(|number: i32| number.to_string())));
    let all = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
    let body = written(Format::RowBinaryWithNames, std::slice::from_ref(&all), 0);
    let batches = read(BodyFormat::RowBinaryWithNames, &all.schema(), 0, &body).unwrap();
    assert!(batches.len() > 1);
    assert_eq!(arrow_select::concat::concat_batches(&all.schema(), &batches).unwrap(), all);
    assert!(read(BodyFormat::RowBinaryWithNames, &all.schema(), 0, b"").unwrap().is_empty());
    assert!(read(BodyFormat::Native, &all.schema(), 0, b"").unwrap().is_empty());
    assert_eq!(BodyFormat::named("rowbinary"), Some(BodyFormat::RowBinary));
    assert_eq!(BodyFormat::named("CSV"), None);
}
