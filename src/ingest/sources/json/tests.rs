//! Tests from text to batches: layouts, types, errors and their positions, chunk sizes, damage.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;

use super::value::MAX_DEPTH;
use super::*;
use crate::error::{Error, Result};
use crate::model::DataType;

fn chunks(name: &str, text: &[u8], size: usize) -> Result<Vec<JsonChunk>> {
    JsonChunks::new(Path::new(name), Box::new(Cursor::new(text.to_vec())))
        .with_chunk_bytes(size)
        .collect()
}

fn batches(text: &[u8], options: &JsonOptions, size: usize) -> Result<Vec<RecordBatch>> {
    let chunks = chunks("t.json", text, size)?;
    let schema = infer(Path::new("t.json"), options, chunks.first())?;
    chunks.iter().map(|chunk| parse_chunk(&schema, chunk)).collect()
}

fn cells(batch: &RecordBatch) -> Vec<(String, String, Vec<String>)> {
    let options = arrow_cast::display::FormatOptions::new().with_null("∅");
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let shown = columns.map(|(field, column)| {
        let formatter = arrow_cast::display::ArrayFormatter::try_new(column, &options).unwrap();
        let values = (0..column.len()).map(|row| formatter.value(row).to_string()).collect();
        (field.name().clone(), DataType::from_arrow(field.data_type()).unwrap().to_string(), values)
    });
    shown.collect()
}

/// `name type: values` of each column of a text of one chunk.
pub(super) fn read_with(text: &str, options: &JsonOptions) -> Result<Vec<String>> {
    let all = batches(text.as_bytes(), options, 1 << 20)?;
    assert_eq!(all.len(), 1);
    Ok(cells(&all[0])
        .into_iter()
        .map(|(name, kind, values)| format!("{name} {kind}: {}", values.join(" ")))
        .collect())
}

fn read(text: &str) -> Vec<String> {
    read_with(text, &JsonOptions::default()).unwrap()
}

fn refused(text: &str) -> String {
    match read_with(text, &JsonOptions::default()) {
        Err(error @ Error::InvalidInput(_)) => error.to_string(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_layout_holds_the_same_rows() {
    let expected = ["a int64: 1 2 ∅", "b utf8: x] ∅ }y", "c utf8: ∅ ∅ [1, {\"d\": \"]\"}]"];
    for text in [
        "{\"a\":1,\"b\":\"x]\"}\n{\"a\":2}\n{\"b\":\"}y\",\"c\":[1, {\"d\": \"]\"}]}\n",
        "\u{feff}{\"a\":1,\"b\":\"x]\"}\r\n\r\n {\"a\" : 2 , \"b\":null}\t\r\n\
         {\"b\":\"}y\",\"c\":[1, {\"d\": \"]\"}]}",
        "{\"a\":1,\"b\":\"x]\"}{\"a\":2} {\"b\":\"}y\",\"c\":[1, {\"d\": \"]\"}]}",
        "[{\"a\":1,\"b\":\"x]\"},{\"a\":2},{\"b\":\"}y\",\"c\":[1, {\"d\": \"]\"}]}]",
        "\u{feff}\r\n[\n  {\n    \"a\": 1,\n    \"b\": \"x]\"\n  },\n  {\"a\": 2}\n,\
         {\"b\":\"}y\",\"c\":[1, {\"d\": \"]\"}]}\n]\n\n",
        "{\n\"a\":1,\n\"b\":\"x]\"}\n{\n\"a\":2\n}\n{\"b\":\"}y\",\"c\":[1, {\"d\": \"]\"}]}",
    ] {
        assert_eq!(read(text), expected, "{text}");
        for size in 1..40 {
            let all = batches(text.as_bytes(), &JsonOptions::default(), size);
            assert_eq!(
                all.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(),
                3,
                "{text} by {size}"
            );
        }
    }
}

/// As `jq` prints an empty object among others.
#[test]
fn objects_over_several_lines_may_follow_an_empty_one() {
    let schema =
        JsonOptions { schema: vec![("a".into(), DataType::Int64)], ..JsonOptions::default() };
    for text in ["{}\n{\n\"a\":1\n}\n", "{}\n{}\n{\"a\":\n1}", "{}\n\n{\"a\":1}\n{}\n"] {
        let rows = read_with(text, &schema).unwrap();
        assert!(rows.first().is_some_and(|cells| cells.contains('1')), "{text}: {rows:?}");
    }
}

#[test]
fn types() {
    for (values, expected) in [
        (&["1", "-2"][..], "int64: 1 -2"),
        (&["1", "1.5", "null"], "float64: 1.0 1.5 ∅"),
        (&["1e3", "-0"], "float64: 1000.0 -0.0"),
        (&["18446744073709551615"], "uint64: 18446744073709551615"),
        (&["99999999999999999999", "1", "-2"], "decimal(38,0): 99999999999999999999 1 -2"),
        (&["18446744073709551615", "-1"], "decimal(38,0): 18446744073709551615 -1"),
        (&["1180591620717411303424"], "decimal(38,0): 1180591620717411303424"),
        (
            &["-99999999999999999999999999999999999999"],
            "decimal(38,0): -99999999999999999999999999999999999999",
        ),
        (
            &["100000000000000000000000000000000000000", "1"],
            "utf8: 100000000000000000000000000000000000000 1",
        ),
        (&["99999999999999999999", "1e2"], "utf8: 99999999999999999999 1e2"),
        (&["9007199254740993", "1.5"], "utf8: 9007199254740993 1.5"),
        (&["99999999999999999999", "1.50"], "utf8: 99999999999999999999 1.50"),
        (&["true", "false"], "bool: true false"),
        (&["true", "1"], "utf8: true 1"),
        (&["\"1\"", "\"2\""], "utf8: 1 2"),
        (&["\"true\""], "utf8: true"),
        (&["\"\""], "utf8: "),
        (&["\"NaN\""], "utf8: NaN"),
        (&["1", "\"x\""], "utf8: 1 x"),
        (&["\"2020-02-29\"", "\"2020-03-01\""], "date: 2020-02-29 2020-03-01"),
        (
            &["\"2020-02-29\"", "\"2020-03-01T01:02:03\""],
            "timestamp(us): 2020-02-29T00:00:00 2020-03-01T01:02:03",
        ),
        (&["\"01:02:03\""], "time(us): 01:02:03"),
        (&["\"2020-02-30\""], "utf8: 2020-02-30"),
        (&["{}", "[ 1 ]"], "utf8: {} [ 1 ]"),
        (&["null"], "null: ∅"),
        (&[r#""\ud83d\ude00\u00e9\n\/\"\\""#, r#""\\""#], "utf8: 😀é\n/\"\\ \\"),
    ] {
        let text: String = values.iter().map(|value| format!("{{\"v\":{value}}}\n")).collect();
        assert_eq!(read(&text), [format!("v {expected}")], "{text}");
    }
    let zoned = batches(b"{\"v\":\"2020-03-01T01:02:03Z\"}", &JsonOptions::default(), 100).unwrap();
    let kind = DataType::from_arrow(zoned[0].column(0).data_type()).unwrap();
    assert_eq!(kind.to_string(), "timestamp(us,UTC)");
}

#[test]
fn keys() {
    assert_eq!(read(r#"{"a":1,"a":2,"\u0062":3}{"b":4,"a":5}"#), ["a int64: 2 5", "b int64: 3 4"]);
    // A repeated key: first a string with escapes, then another kind.
    assert_eq!(read(r#"{"a":"x\n","a":null}{"a":"y"}"#), ["a utf8: ∅ y"]);
    assert_eq!(read("{}\n{\"a\":1}\n{}"), ["a int64: ∅ 1 ∅"]);
    assert!(refused("{}\n{}").contains("--schema"));
    assert!(refused("  \n").contains("there are no rows"));
}

#[test]
fn the_empty_key_has_a_column_with_a_name() {
    assert_eq!(read(r#"{"":1,"a":2}{"a":3,"":4}"#), ["column0 int64: 1 4", "a int64: 2 3"]);
    assert_eq!(read(r#"{"":1}{"column0":2}{"":null}"#), ["column0 int64: 1 2 ∅"]);
    for both in [r#"{"":1,"column0":2}"#, r#"{"column0":1,"":2}"#] {
        let what = "the empty key, whose column is called 'column0', and another of it";
        assert!(refused(both).contains(what), "{both}");
        // The next row is not concerned.
        let text = chunks("t.json", format!("{both}\n{{\"\":3}}").as_bytes(), 100).unwrap();
        let schema = infer(Path::new("t.json"), &JsonOptions::default(), text.first()).unwrap();
        let ParsedRows { batch, bad } = parse_rows(&schema, &text[0]).unwrap();
        assert_eq!((cells(&batch)[0].2.as_slice(), bad.len()), (&["3".to_owned()][..], 1));
    }
}

#[test]
fn empty_objects_are_rows_of_nulls_where_the_table_says_of_what() {
    let prior = vec![("a".to_owned(), DataType::Int64), ("day".to_owned(), DataType::Date)];
    let external_columns = vec!["day".to_owned()];
    let known = JsonOptions { prior, external_columns, ..JsonOptions::default() };
    for text in ["{}\n{}", "[{}, {}]", "{}{ }"] {
        assert_eq!(read_with(text, &known).unwrap(), ["a int64: ∅ ∅"], "{text}");
    }
    assert_eq!(read("{\"a\":{}}\n{}"), ["a utf8: {} ∅"]);
}

#[test]
fn a_key_that_appears_later_is_a_column_of_its_chunk() {
    let text = format!("{}{{\"b\":\"x\",\"a\":1.5}}\n{{\"a\":2}}\n", "{\"a\":1}\n".repeat(3));
    let all = batches(text.as_bytes(), &JsonOptions::default(), 25).unwrap();
    let shown: Vec<_> = all.iter().map(cells).collect();
    let column = |name: &str, kind: &str, values: &[&str]| {
        (
            name.to_owned(),
            kind.to_owned(),
            values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(shown[0], [column("a", "int64", &["1", "1", "1"])]);
    assert_eq!(shown[1], [column("a", "float64", &["1.5"]), column("b", "utf8", &["x"])]);
    assert_eq!(shown[2], [column("a", "int64", &["2"])]);
}

#[test]
fn types_that_the_user_has_named() {
    let types = |types: &[(&str, &str)]| JsonOptions {
        schema: types.iter().map(|(name, t)| ((*name).to_owned(), t.parse().unwrap())).collect(),
        ..JsonOptions::default()
    };
    let text =
        r#"{"d":"12.50","i":" 7","t":"2020-01-01","n":1.5}{"d":1.05,"i":8,"t":null,"n":"","b":1}"#;
    let options = types(&[
        ("d", "decimal(9,2)"),
        ("i", "int8"),
        ("t", "timestamp(ms)"),
        ("n", "float32"),
        ("b", "bool"),
        ("late", "date"),
    ]);
    let expected = [
        "d decimal(9,2): 12.50 1.05",
        "i int8: 7 8",
        "t timestamp(ms): 2020-01-01T00:00:00 ∅",
        "n float32: 1.5 ∅",
        "b bool: ∅ true",
        "late date: ∅ ∅",
    ];
    assert_eq!(read_with(text, &options).unwrap(), expected);
    let error =
        read_with("{\"i\":7}\n{\"i\":300}", &types(&[("i", "int8")])).unwrap_err().to_string();
    for part in ["t.json: line 2, column 'i': 300 is not of type int8", "--schema i:utf8"] {
        assert!(error.contains(part), "{error}");
    }
    let prior =
        JsonOptions { prior: vec![("zip".to_owned(), DataType::Utf8)], ..JsonOptions::default() };
    assert_eq!(read_with("{\"zip\":12345}", &prior).unwrap(), ["zip utf8: 12345"]);
}

#[test]
fn floats_of_a_table_come_back_from_their_texts() {
    let text = "{\"a\":\"NaN\"}\n{\"a\":1}\n{\"a\":\"-Infinity\"}\n{\"a\":\"Infinity\"}\n";
    for data_type in [DataType::Float64, DataType::Float32] {
        let prior = JsonOptions {
            prior: vec![("a".to_owned(), data_type.clone())],
            ..JsonOptions::default()
        };
        assert_eq!(read_with(text, &prior).unwrap(), [format!("a {data_type}: NaN 1.0 -inf inf")]);
        // In a chunk of its own, after a number and before one.
        for text in ["{\"a\":1.5}\n{\"a\":\"NaN\"}\n", "{\"a\":\"NaN\"}\n{\"a\":1.5}\n"] {
            let all = batches(text.as_bytes(), &prior, 1).unwrap();
            assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
            let is_float = |batch: &RecordBatch| {
                cells(batch).iter().all(|(_, kind, _)| kind.starts_with("float"))
            };
            assert!(all.iter().all(is_float), "{text}");
        }
        let other = read_with("{\"a\":\"nan\"}", &prior).unwrap();
        assert_eq!(other, ["a utf8: nan"]);
    }
    assert_eq!(read(text), ["a utf8: NaN 1 -Infinity Infinity"]);
}

#[test]
fn refusals_say_where() {
    for (text, parts) in [
        ("{\"a\":1}\n{\"a\":tru}\n", &["line 2: ", "a value expected", "'t'", "{\"a\":tru}"][..]),
        ("{\"a\":1\n{\"a\":2}\n", &["line "]),
        ("[{\"a\":1}\n{\"a\":2}]", &["line 2: a comma is missing", "byte 9"]),
        ("[{\"a\":1},]x", &["a closing bracket"]),
        ("[{\"a\":1}] x", &["text after the end of the array"]),
        ("[{\"a\":1},\n", &["ends before the array does"]),
        ("[{\"a\":1},\n{\"a\":", &["ends within the value that starts in line 2"]),
        ("[1,2]", &["line 1", "an object"]),
        ("{\"a\":1}\n7\n", &["line 2", "an object"]),
        ("{\"a\":1}}\n", &["line 1"]),
        ("[{\"a\":1},\n{\n\"a\":\n01}]", &["line 4: ", "',' or '}'"]),
        ("{\"a\":\"\\ud800\"}", &["surrogate"]),
        ("{\"a\":\"\\udc00\\ud800\"}", &["surrogate"]),
        ("{\"a\":\"\t\"}", &["a closing quote expected", "0x09"]),
        ("{\"a\":NaN}", &["a value expected"]),
        ("{\"a\":1.}", &["a digit expected"]),
        ("{\"a\":[1,]}", &["a value expected"]),
        ("{\"a\":{\"b\"}}", &["':' expected"]),
        ("{a:1}", &["a key in quotes"]),
    ] {
        let error = refused(text);
        assert!(error.starts_with("t.json"), "{error}");
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
    let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(read(&deep(MAX_DEPTH)).len(), 1);
    assert!(refused(&deep(MAX_DEPTH + 1)).contains("512 deep"));
    assert!(refused(&deep(1 << 20)).contains("512 deep"));
    let wide = JsonChunks::new(Path::new("w"), Box::new(Cursor::new(vec![b'['; 5000])))
        .with_chunk_bytes(64);
    let long = wide.with_row_limit(1000).next().unwrap();
    assert!(matches!(long, Err(Error::LimitExceeded(_))), "{long:?}");
}

#[test]
fn bad_rows_are_left_out_and_told() {
    let rows = "{\"a\":1,\"b\":2}\n{\"a\":x,\"b\":3}\n{\"a\":\"t\",\"b\":4}\n{\"a\":5,\"b\":6}\n\
                {\"b\":\"\\q\"}\n{\"a\":7,\"b\":Z}\n";
    let mut lines = rows.as_bytes().to_vec();
    lines.extend_from_slice(b"{\"a\":\"\xff\"}\n{\"a\":8}\n");
    // The same in an array.
    let mut array = b"[".to_vec();
    array.extend(
        lines.trim_ascii_end().split(|b| *b == b'\n').collect::<Vec<_>>().join(&b",\n"[..]),
    );
    array.push(b']');
    for text in [lines, array] {
        let chunks = chunks("t.json", &text, 1 << 20).unwrap();
        let schema = vec![("a".to_owned(), DataType::Int64), ("b".to_owned(), DataType::Int64)];
        let schema = infer(
            Path::new("t"),
            &JsonOptions { schema, ..JsonOptions::default() },
            chunks.first(),
        )
        .unwrap();
        let parsed = parse_rows(&schema, &chunks[0]).unwrap();
        let shown: Vec<_> =
            cells(&parsed.batch).into_iter().map(|(_, _, values)| values.join(" ")).collect();
        assert_eq!(shown, ["1 5 8", "2 6 ∅"]);
        let bad: Vec<_> =
            parsed.bad.iter().map(|b| (b.line, b.column.as_deref(), b.text.as_slice())).collect();
        assert_eq!(
            bad,
            [
                (2, None, &b"{\"a\":x,\"b\":3}"[..]),
                (3, Some("a"), b"{\"a\":\"t\",\"b\":4}"),
                (5, None, b"{\"b\":\"\\q\"}"),
                (6, None, b"{\"a\":7,\"b\":Z}"),
                (7, None, b"{\"a\":\"\xff\"}"),
            ]
        );
        assert!(parsed.bad[4].reason.contains("--encoding"), "{:?}", parsed.bad[4]);
    }
}

#[test]
fn a_later_value_is_blamed_for_a_type_that_earlier_ones_do_not_fit() {
    let chunk = |text: &str| chunks("t.json", text.as_bytes(), 1 << 20).unwrap().remove(0);
    let schema =
        |text| infer(Path::new("t.json"), &JsonOptions::default(), Some(&chunk(text))).unwrap();
    let (ints, dates) = (schema("{\"i\":1}"), schema("{\"i\":\"2024-01-01\"}"));
    let text = "{\"i\":1}\n{\"i\":9007199254740993}\n{\"i\":9007199254740995}\n\
                {\"i\":0.5}\n{\"i\":7}\n";
    let rows = parse_rows(&ints, &chunk(text)).unwrap();
    assert_eq!((rows.batch.num_rows(), rows.bad.len(), rows.bad[0].line), (4, 1, 4));
    assert_eq!(
        rows.bad[0].reason,
        "0.5 is not of type int64, and 9007199254740993 in line 2 would not be exact as float64; \
         to read the column as text: --schema i:utf8"
    );
    // After a fraction, it is the large integer that conflicts with the others.
    let text = "{\"i\":1}\n{\"i\":0.5}\n{\"i\":9007199254740993}\n";
    let rows = parse_rows(&ints, &chunk(text)).unwrap();
    assert_eq!((rows.batch.num_rows(), rows.bad.len(), rows.bad[0].line), (2, 1, 3));
    // Blanks are a part of strings.
    assert_eq!(parse_rows(&dates, &chunk("{\"i\":\" 2024-01-02\"}")).unwrap().bad.len(), 1);
}

#[test]
fn a_key_in_each_row_is_an_error_before_memory_is_gone() {
    let mut text = String::new();
    (0..70_000).for_each(|i| writeln!(text, "{{\"k{i}\":1}}").unwrap());
    let error = read_with(&text, &JsonOptions::default()).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded(_)), "{error}");
}

/// Every prefix of a text is an error, or has rows of the whole.
#[test]
fn truncations() {
    let lines = "{\"a\":1,\"b\":\"x\\u00e9\"}\n{\"a\":2.5,\"b\":{\"c\":[]}}\n{\"a\":3}\n";
    let array = " [ {\"a\":1,\"b\":\"x\\u00e9\"} ,\n{\"a\":2.5,\"b\":{\"c\":[]}}, {\"a\":3}]\n";
    for text in [lines, array, &lines.replace('\n', " ")] {
        for end in 0..text.len() {
            for size in [7, 1 << 20] {
                let Ok(all) = batches(&text.as_bytes()[..end], &JsonOptions::default(), size)
                else {
                    continue;
                };
                let rows: usize = all.iter().map(RecordBatch::num_rows).sum();
                assert!(
                    rows <= 3
                        && all.iter().flat_map(cells).all(|(name, ..)| name == "a" || name == "b")
                );
                assert!(text != array || end + 1 >= text.len(), "{end}");
            }
        }
    }
}

/// A string in any of its spellings.
fn spelled(text: &str, how: u8) -> String {
    let mut out = String::from("\"");
    for (i, c) in text.chars().enumerate() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' if how & 1 == 0 => out.push_str("\\n"),
            c if c < ' ' || (usize::from(how) + i).is_multiple_of(5) => {
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| write!(out, "\\u{unit:04X}").unwrap());
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

type Row = (Option<i64>, Option<String>, Option<bool>, Option<f64>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let text = proptest::option::of("[a-zA-Z\"\\\\{}\\[\\],:\n\té€😀]{0,12}");
    let float = proptest::option::of(proptest::num::f64::NORMAL);
    let row =
        (proptest::option::of(any::<i64>()), text, proptest::option::of(any::<bool>()), float);
    proptest::collection::vec(row, 1..40)
}

proptest! {
    /// Rows written in any layout, key order, spelling and chunk size are read back unchanged.
    #[test]
    fn what_is_written_is_read(
        rows in rows(),
        layout in 0..3_u8,
        how in any::<u8>(),
        size in 1..200_usize,
    ) {
        let blank = [" ", "", "\t", if layout == 0 { " " } else { "\r\n" }][usize::from(how & 3)];
        let objects: Vec<String> = rows.iter().enumerate().map(|(i, (a, b, c, d))| {
            let mut fields = vec![
                ("a", a.map(|a| a.to_string())),
                ("b", b.as_ref().map(|b| spelled(b, how))),
                ("c", c.map(|c| c.to_string())),
                ("d", d.map(|d| format!("{d:?}"))),
            ];
            fields.rotate_left((usize::from(how) + i * usize::from(how & 1)) % 4);
            let fields: Vec<String> = fields.into_iter().filter_map(|(key, value)| {
                if value.is_none() && (usize::from(how >> 2) + i).is_multiple_of(2) {
                    return None;
                }
                let (key, value) = (spelled(key, how >> 3), value.unwrap_or("null".into()));
                Some(format!("{key}{blank}:{blank}{value}"))
            }).collect();
            format!("{{{blank}{}{blank}}}", fields.join(&format!("{blank},{blank}")))
        }).collect();
        let text = match layout {
            0 => objects.join("\n"),
            1 => format!("{blank}[{blank}{}{blank}]\n", objects.join(&format!("{blank},{blank}"))),
            _ => objects.join(blank),
        };
        let types = [
            ("a", DataType::Int64),
            ("b", DataType::Utf8),
            ("c", DataType::Bool),
            ("d", DataType::Float64),
        ];
        let schema = types.map(|(name, data_type)| (name.to_owned(), data_type)).to_vec();
        let options = JsonOptions { schema, ..JsonOptions::default() };
        let all = batches(text.as_bytes(), &options, size).unwrap();
        let mut read: Vec<Row> = Vec::new();
        for batch in &all {
            use arrow_array::cast::AsArray;
            use arrow_array::types::{Float64Type, Int64Type};
            let column = |name: &str| batch.column_by_name(name).unwrap();
            let (a, b) = (column("a").as_primitive::<Int64Type>(), column("b").as_string::<i32>());
            let (c, d) = (column("c").as_boolean(), column("d").as_primitive::<Float64Type>());
            let rows = a.iter().zip(b.iter()).zip(c.iter()).zip(d.iter());
            read.extend(rows.map(|(((a, b), c), d)| (a, b.map(str::to_owned), c, d)));
        }
        prop_assert_eq!(read, rows);
    }

    /// Random bytes are an error or some rows, and the same number of rows whatever the chunk size.
    #[test]
    fn any_bytes(text in "[\\[\\]{}\",:0-9a-e\\\\ \nntrue.-]{0,60}", size in 1..20_usize) {
        let rows = |size| -> Option<usize> {
            let all = batches(text.as_bytes(), &JsonOptions::default(), size).ok()?;
            Some(all.iter().map(RecordBatch::num_rows).sum())
        };
        if let (Some(whole), Some(pieces)) = (rows(1 << 20), rows(size)) {
            prop_assert_eq!(whole, pieces);
        }
    }
}

#[test]
fn bad_rows_keep_the_blanks_at_their_ends() {
    let text = b"{\"a\":1}\n{\"a\" \x0c \n\x0c\x0c\r\n{\"a\":2} x \t\n{\"a\":3";
    let chunks = chunks("x.jsonl", text, 1 << 20).unwrap();
    let schema = infer(Path::new("x.jsonl"), &JsonOptions::default(), chunks.first()).unwrap();
    let bad = chunks.iter().flat_map(|chunk| parse_rows(&schema, chunk).unwrap().bad);
    let expected: [&[u8]; 4] = [b"{\"a\" \x0c ", b"\x0c\x0c", b"x \t", b"{\"a\":3"];
    assert_eq!(bad.map(|row| row.text).collect::<Vec<_>>(), expected);
}
