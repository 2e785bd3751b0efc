use std::io::{Cursor, Read};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};

use super::*;
use crate::ingest::sources::Input;

fn chunks(text: &[u8], options: &CsvOptions, size: usize) -> Result<Vec<CsvChunk>> {
    let bytes = Box::new(Cursor::new(text.to_vec()));
    CsvChunks::new(Path::new("t.csv"), bytes, options).with_chunk_bytes(size).collect()
}

/// The batches of a text whose schema comes from all of it.
fn read_in(text: &[u8], options: &CsvOptions, size: usize) -> Result<Vec<RecordBatch>> {
    let whole = chunks(text, options, 1 << 20)?;
    let schema = infer(Path::new("t.csv"), options, whole.first())?;
    chunks(text, options, size)?.iter().map(|chunk| parse_chunk(&schema, chunk)).collect()
}

/// Every cell as text; nulls as `∅`.
fn cells(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let formatted: Vec<Vec<String>> =
            batch.columns().iter().map(|column| show(column)).collect();
        for row in 0..batch.num_rows() {
            rows.push(formatted.iter().map(|column| column[row].clone()).collect());
        }
    }
    rows
}

fn show(array: &dyn Array) -> Vec<String> {
    use arrow_schema::DataType as ArrowType;
    if let ArrowType::Timestamp(unit, Some(_)) = array.data_type() {
        let clock = arrow_cast::cast(array, &ArrowType::Timestamp(*unit, None)).unwrap();
        return show(&clock).iter().map(|text| format!("{text}Z")).collect();
    }
    let text = arrow_cast::cast(array, &ArrowType::Utf8).unwrap();
    text.as_string::<i32>().iter().map(|v| v.unwrap_or("∅").to_owned()).collect()
}

fn types(batch: &RecordBatch) -> Vec<String> {
    let fields = batch.schema().fields().clone();
    fields.iter().map(|f| DataType::from_arrow(f.data_type()).unwrap().to_string()).collect()
}

fn read(text: &str, options: &CsvOptions) -> (Vec<String>, Vec<Vec<String>>) {
    let batches = read_in(text.as_bytes(), options, 1 << 20).unwrap();
    (types(&batches[0]), cells(&batches))
}

fn no_header() -> CsvOptions {
    CsvOptions { header: Some(false), ..CsvOptions::default() }
}

#[test]
fn tricky_text() {
    let table: &[(&str, &[&[&str]])] = &[
        ("a,b\nc,d\n", &[&["a", "b"], &["c", "d"]]),
        ("a,b\r\nc,d\r\n", &[&["a", "b"], &["c", "d"]]),
        ("a,b\nc,d", &[&["a", "b"], &["c", "d"]]),
        ("a,b\r\nc,d\r", &[&["a", "b"], &["c", "d"]]),
        ("a,b\rc,d\r", &[&["a", "b"], &["c", "d"]]),
        ("\r\ra;b\rc;d", &[&["a", "b"], &["c", "d"]]),
        ("\"x\ry\n\"\"\r\",b\rc,\"d\"\r", &[&["x\ry\n\"\r", "b"], &["c", "d"]]),
        ("a,x\ry\nc,d\n", &[&["a", "x\ry"], &["c", "d"]]),
        ("a,b\r\r\n\r\r\nc,\"d\"\r\r\n", &[&["a", "b"], &["c", "d"]]),
        ("\u{feff}a,b\n", &[&["a", "b"]]),
        ("a,\"b\"\n", &[&["a", "b"]]),
        ("a,\"b\"\r\n", &[&["a", "b"]]),
        ("a,\"\"\n\"\",b\n", &[&["a", ""], &["", "b"]]),
        ("a,\n,b\n", &[&["a", "∅"], &["∅", "b"]]),
        ("\"x\"\"y\",\"\"\"\"\n", &[&["x\"y", "\""]]),
        ("\"two\nlines\",\"a,b\"\nx,y\n", &[&["two\nlines", "a,b"], &["x", "y"]]),
        ("\"two\r\nlines\",z\r\n", &[&["two\r\nlines", "z"]]),
        ("5\" pipe,a\"b\nx,y\"\n", &[&["5\" pipe", "a\"b"], &["x", "y\""]]),
        ("a,b\n\n\r\nc,d\n\n", &[&["a", "b"], &["c", "d"]]),
        ("\n\na,b\n", &[&["a", "b"]]),
        ("a\n\nb\n", &[&["a"], &["∅"], &["b"]]),
        ("é,日本語\n🦀,\"ü,\"\n", &[&["é", "日本語"], &["🦀", "ü,"]]),
        (" a , b\n", &[&[" a ", " b"]]),
    ];
    for (text, expected) in table {
        let options = no_header();
        for size in [1, 2, 3, 7, 1 << 20] {
            let batches = read_in(text.as_bytes(), &options, size)
                .unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(cells(&batches), *expected, "{text:?} in chunks of {size}");
        }
    }
}

#[test]
fn types_are_inferred_and_007_stays_text() {
    let text = "1,1.5,007,true,2013-08-01,2013-08-01 08:14:37,08:14:37,x,,18446744073709551615\n\
                2,3,8,FALSE,2013-08-02,2013-08-01,23:59:59,\"1\",,7\n";
    let (types, rows) = read(text, &no_header());
    assert_eq!(
        types,
        [
            "int64",
            "float64",
            "utf8",
            "bool",
            "date",
            "timestamp(us)",
            "time(us)",
            "utf8",
            "null",
            "uint64"
        ]
    );
    assert_eq!(rows[0][2], "007");
    assert_eq!(rows[1][5], "2013-08-01T00:00:00");
}

#[test]
fn nulls() {
    let options = CsvOptions { nulls: vec!["NA".into(), "-1".into()], ..no_header() };
    let (types, rows) = read("1,NA,\"NA\"\n-1,x,y\nNA,,\"\"\n", &options);
    assert_eq!(types, ["int64", "utf8", "utf8"]);
    assert_eq!(rows, [["1", "∅", "NA"], ["∅", "x", "y"], ["∅", "∅", ""]]);
    let options = CsvOptions { empty_is_null: false, ..no_header() };
    assert_eq!(read("1,x\n,\n\"\",y\n", &options).1, [["1", "x"], ["∅", ""], ["∅", "y"]]);
}

#[test]
fn headers() {
    let names = |text: &str, options: &CsvOptions| {
        let chunk = chunks(text.as_bytes(), options, 1 << 20).unwrap();
        let schema = infer(Path::new("t.csv"), options, chunk.first()).unwrap();
        (schema.header, schema.names().collect::<Vec<_>>().join("|"))
    };
    let detect = CsvOptions::default();
    let header = CsvOptions { header: Some(true), ..CsvOptions::default() };
    for (text, found, expected) in [
        ("id,name\n1,x\n", true, "id|name"),
        ("Größe (m),name\n1,x\n", true, "Größe (m)|name"),
        ("name,city\nx,y\n", true, "name|city"),
        ("Größe (m),name\ny,x\n", false, "column0|column1"),
        ("1,name\n2,x\n", false, "column0|column1"),
        ("a,a\n1,2\n", true, "a|a_1"),
        ("a,a\nx,y\n", false, "column0|column1"),
        (",a\n0,2\n", true, "column0|a"),
        (",a\n0,x\n", false, "column0|column1"),
        (",,x\n1,2,y\n", false, "column0|column1|column2"),
        ("\"a\",\"b \"\n1,2\n", true, "a|b"),
    ] {
        assert_eq!(names(text, &detect), (found, expected.to_owned()), "{text:?}");
    }
    assert_eq!(names("a,a,,a_1\n1,2,3,4\n", &header).1, "a|a_2|column2|a_1");
    let given = CsvOptions { names: Some(vec!["p".into(), "q".into()]), ..CsvOptions::default() };
    assert_eq!(names("id,name\n1,x\n", &given), (true, "p|q".to_owned()));
    let both = CsvOptions {
        schema: vec![("p".into(), DataType::Int64), ("q".into(), DataType::Utf8)],
        ..no_header()
    };
    assert_eq!(names("1,x\n", &both).1, "p|q");
    assert_eq!(names("", &both).1, "p|q");
    assert_eq!(read("id,name\n", &header), (vec!["null".into(), "null".into()], vec![]));
}

/// A header is a guess when only its looks speak for it, and nobody knows its names.
#[test]
fn guesses() {
    let guessed = |text: &str, options: &CsvOptions| {
        let chunk = chunks(text.as_bytes(), options, 1 << 20).unwrap();
        infer(Path::new("t.csv"), options, chunk.first()).unwrap().guesses
    };
    let detect = CsvOptions::default();
    let names = || vec![Guess::Header(vec!["alice".into(), "berlin".into()])];
    assert_eq!(guessed("alice,berlin\nbob,paris\n", &detect), names());
    assert_eq!(guessed("alice,berlin\n", &detect), names());
    assert_eq!(guessed("alice,berlin\nbob,1\n", &detect), []);
    assert_eq!(guessed("alice;berlin\nbob;1\n", &detect), [Guess::Delimiter(b';')]);
    assert_eq!(guessed("alice,1\nbob,2\n", &detect), []);
    for header in [true, false] {
        let told =
            CsvOptions { header: Some(header), delimiter: Some(b'|'), ..CsvOptions::default() };
        assert_eq!(guessed("alice|berlin\nbob|paris\n", &told), []);
    }
    let given = CsvOptions { names: Some(vec!["p".into(), "q".into()]), ..CsvOptions::default() };
    assert_eq!(guessed("alice,berlin\nbob,paris\n", &given), names());
    let known = |names: &[&str]| {
        names.iter().map(|name| (name.to_string(), DataType::Utf8)).collect::<Vec<_>>()
    };
    let prior = |names| CsvOptions { prior: known(names), ..CsvOptions::default() };
    assert_eq!(guessed("alice,berlin\nbob,paris\n", &prior(&["x", "berlin", "alice"])), []);
    assert_eq!(guessed("alice,berlin\nbob,paris\n", &prior(&["berlin"])), names());
    let asked = CsvOptions { schema: known(&["berlin"]), ..CsvOptions::default() };
    assert_eq!(guessed("alice,berlin\nbob,paris\n", &asked), []);
}

#[test]
fn a_delimiter_is_found_and_holds_for_all_chunks() {
    let text = format!("id;text\n{}", "1;\"a;b\"\n2;c,d\n".repeat(100));
    for size in [20, 300, 1 << 20] {
        let batches = read_in(text.as_bytes(), &CsvOptions::default(), size).unwrap();
        let rows = cells(&batches);
        assert_eq!(
            (rows.len(), &rows[198], &rows[199]),
            (200, &vec!["1".into(), "a;b".into()], &vec!["2".into(), "c,d".into()])
        );
    }
}

/// A schema from `sample`, and what it makes of `text`.
fn after(
    sample: &str,
    text: &str,
    options: &CsvOptions,
) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let first = chunks(sample.as_bytes(), options, 1 << 20)?;
    let schema = infer(Path::new("t.csv"), options, first.first())?;
    let mut chunk = chunks(text.as_bytes(), options, 1 << 20)?.remove(0);
    (chunk.number, chunk.line) = (1, 101);
    let batch = parse_chunk(&schema, &chunk)?;
    Ok((types(&batch), cells(&[batch])))
}

#[test]
fn columns_widen_along_the_lattice() {
    for (sample, text, data_type, cell) in [
        ("1", "1\n2.5", "float64", "1.0"),
        ("2013-08-01", "2013-08-01\n2013-08-01 08:14:37", "timestamp(us)", "2013-08-01T00:00:00"),
        (
            "2013-08-01 08:14:37",
            "2013-08-01 08:14:37\n2013-08-01 08:14:37.1234567",
            "timestamp(ns)",
            "2013-08-01T08:14:37",
        ),
        ("\"\"", "5\nx", "utf8", "5"),
        ("NA", "007\n12", "utf8", "007"),
        ("NA", "12\n7", "int64", "12"),
        ("NA", "\n\"\"", "utf8", "∅"),
        ("1.5", "7\n8", "float64", "7.0"),
    ] {
        let options = CsvOptions { nulls: vec!["NA".into()], ..no_header() };
        let line = |rows: &str| rows.lines().map(|l| format!("k,{l}\n")).collect::<String>();
        let (types, rows) = after(&line(sample), &line(text), &options).unwrap();
        assert_eq!(
            (types[1].as_str(), rows[0][1].as_str()),
            (data_type, cell),
            "{sample} then {text}"
        );
    }
}

#[test]
fn errors_name_file_line_column_value_and_type() {
    let error = |sample: &str, text: &str, options: &CsvOptions| {
        after(sample, text, options).unwrap_err().to_string()
    };
    assert_eq!(
        error("1,x\n", "1,x\n2,\"a\nb\"\n007,y\n", &no_header()),
        "t.csv: line 104, column 1 ('column0'): '007' is not of type int64; to read the column as text: \
         --schema column0:utf8"
    );
    let fixed = CsvOptions { schema: vec![("column0".into(), DataType::Int8)], ..no_header() };
    assert_eq!(
        error("1,x\n", "300,x\n", &fixed),
        "t.csv: line 101, column 1 ('column0'): '300' is not of type int8; --schema gives that type; as text it \
         would be --schema column0:utf8"
    );
    assert!(error("1.5\n", "9007199254740993\n", &no_header()).contains("float64"));
    assert!(
        error("1\n", "9007199254740993\n1.5\n", &no_header())
            .contains("'9007199254740993' is not of type float64")
    );
    assert!(error("1\n", "x\n", &no_header()).contains("'x' is not of type int64"));
    let long = error("1\n", &format!("{}\n", "é".repeat(500)), &no_header());
    assert!(long.contains(&format!("'{}…'", "é".repeat(80))), "{long}");
    assert_eq!(
        error("1,2\n", "1,2\n\n1,2,3\n", &no_header()),
        "t.csv: line 103: 3 fields, expected 2; is the delimiter ',' right (--delimiter), or a quote missing?"
    );
    assert!(
        error("1,2\n", "1,2\n1\n1,2\n", &no_header()).contains("line 102: 1 field, expected 2")
    );
    assert!(
        error("a,b\n", "a,b\na,\"b\" c\n", &no_header())
            .contains("line 102: text after a closing quote")
    );
    assert!(
        error("a,b\n", "a,b\na,\"b\n\n", &no_header())
            .contains("line 102: a quoted field starts here")
    );
    let options = no_header();
    let error = |text: &[u8]| read_in(text, &options, 1 << 20).unwrap_err().to_string();
    assert!(
        error(b"a,b\nc,\xe9t\xe9\n")
            .contains("t.csv: line 2, column 2 ('column1'): '\u{fffd}t\u{fffd}' is not UTF-8")
    );
    assert!(error(b"a,b\nc,\xc3\nd,\xa9\n").contains("line 2, column 2"));
    assert!(error(b"\xff\xfea\0").contains("UTF-16"));
    assert!(error(b"").contains("is empty"));
    let missing = CsvOptions { schema: vec![("nope".into(), DataType::Utf8)], ..no_header() };
    assert!(
        read_in(b"1,2\n", &missing, 9)
            .unwrap_err()
            .to_string()
            .contains("no column is called 'nope'")
    );
}

#[test]
fn a_missing_quote_is_found_within_a_bound() {
    let text = format!("a,b\nc,\"d\n{}", "e,f\n".repeat(600_000));
    let options = no_header();
    let mut chunks =
        CsvChunks::new(Path::new("t.csv"), Box::new(Cursor::new(text.into_bytes())), &options)
            .with_chunk_bytes(4096)
            .with_row_limit(1 << 20);
    assert_eq!(chunks.next().unwrap().unwrap().text, b"a,b\n");
    let error = chunks.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::LimitExceeded(_)));
    assert!(error.to_string().contains("starts in line 2 is longer than 1 MiB"), "{error}");
    assert!(chunks.next().is_none());
}

#[test]
fn line_feeds_after_a_block_of_carriage_returns_are_refused() {
    let text = "1,x\r".repeat(CHUNK_BYTES / 4 + 1) + "2,y\n";
    let error = chunks(text.as_bytes(), &no_header(), CHUNK_BYTES).unwrap_err().to_string();
    assert!(
        error.contains("end with a carriage return first, and with a line feed later"),
        "{error}"
    );
    let all = chunks(text.trim_end().as_bytes(), &no_header(), CHUNK_BYTES).unwrap();
    let lines =
        all.iter().map(|chunk| memchr::memchr_iter(b'\n', &chunk.text).count()).sum::<usize>();
    assert_eq!((all.len(), lines), (2, CHUNK_BYTES / 4 + 2));
}

#[test]
fn named_types_are_lenient_and_prior_types_preferred() {
    let t = |text: &str| text.parse::<DataType>().unwrap();
    let schema = vec![
        ("column0".to_owned(), t("int16")),
        ("column1".to_owned(), t("bool")),
        ("column2".to_owned(), t("decimal(10,2)")),
        ("column3".to_owned(), t("timestamp(s,UTC)")),
        ("column4".to_owned(), t("float32")),
        ("column5".to_owned(), t("time(ms)")),
        ("column6".to_owned(), t("binary")),
    ];
    let options = CsvOptions { schema, ..no_header() };
    let (types, rows) = read(" +007,t,1.5,2013-08-01 08:14:37,0.1,08:14:37.5,1\n", &options);
    assert_eq!(
        types,
        ["int16", "bool", "decimal(10,2)", "timestamp(s,UTC)", "float32", "time(ms)", "binary"]
    );
    assert_eq!(rows[0], ["7", "true", "1.50", "2013-08-01T08:14:37Z", "0.1", "08:14:37.500", "1"]);
    let prior = vec![
        ("column0".to_owned(), t("utf8")),
        ("column1".to_owned(), t("int8")),
        ("column2".to_owned(), t("int8")),
        ("column3".to_owned(), t("timestamp(us)")),
    ];
    let options = CsvOptions { prior, ..no_header() };
    assert_eq!(
        read("1,1,300,2013-08-01\n", &options).0,
        ["utf8", "int8", "int64", "timestamp(us)"]
    );
}

#[test]
fn other_delimiters_and_projections() {
    let options = CsvOptions { quote: b'\'', ..CsvOptions::for_format(Format::Tsv) };
    assert_eq!(read("a\tb\n1\t'x\ty'\n", &options).1, [["1", "x\ty"]]);
    let first = chunks(b"1,a,2\n3,b,4\n", &no_header(), 99).unwrap();
    let schema = infer(Path::new("t"), &no_header(), first.first()).unwrap();
    let batch = parse_columns(&schema, &first[0], &[2, 0]).unwrap();
    assert_eq!(cells(&[batch]), [["2", "1"], ["4", "3"]]);
    assert_eq!(parse_columns(&schema, &first[0], &[]).unwrap().num_rows(), 2);
    assert!(parse_columns(&schema, &first[0], &[3]).is_err());
    assert!(CsvOptions { delimiter: Some(b'"'), ..CsvOptions::default() }.check().is_err());
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn written(rows: &[Vec<Option<String>>], quote_all: bool, end: &str) -> String {
        let mut text = String::new();
        for row in rows {
            for (i, cell) in row.iter().enumerate() {
                text.push_str(if i > 0 { "," } else { "" });
                let Some(cell) = cell else { continue };
                if quote_all || cell.is_empty() || cell.contains([',', '"', '\n', '\r']) {
                    text.push_str(&format!("\"{}\"", cell.replace('"', "\"\"")));
                } else {
                    text.push_str(cell);
                }
            }
            text.push_str(end);
        }
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn tables_come_back(
            rows in prop::collection::vec(prop::collection::vec(prop::option::of("[a-c,\"\r\n ü0-9]{0,9}"), 3), 1..40),
            quote_all: bool, crlf: bool, size in 1_usize..300,
        ) {
            let text = written(&rows, quote_all, if crlf { "\r\n" } else { "\n" });
            let schema = ["column0", "column1", "column2"].map(|n| (n.to_owned(), DataType::Utf8)).to_vec();
            let options = CsvOptions { schema, ..no_header() };
            let found = cells(&read_in(text.as_bytes(), &options, size).unwrap());
            let expected: Vec<Vec<String>> =
                rows.iter().map(|r| r.iter().map(|c| c.clone().unwrap_or("∅".into())).collect()).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn numbers_come_back(
            rows in prop::collection::vec((any::<i64>(), any::<f64>().prop_filter("finite", |f| f.is_finite()), any::<u64>()), 1..60),
            size in 1_usize..300,
        ) {
            let text: String = rows.iter().map(|(i, f, u)| format!("{i},{f:?},{u}\n")).collect();
            let schema = vec![("column2".to_owned(), DataType::UInt64)];
            let batches = read_in(text.as_bytes(), &CsvOptions { schema, ..no_header() }, size).unwrap();
            let mut row = 0;
            for batch in batches {
                let ints = batch.column(0).as_primitive::<arrow_array::types::Int64Type>();
                let floats = batch.column(1).as_primitive::<arrow_array::types::Float64Type>();
                let unsigned = batch.column(2).as_primitive::<arrow_array::types::UInt64Type>();
                for i in 0..batch.num_rows() {
                    prop_assert_eq!((ints.value(i), floats.value(i).to_bits(), unsigned.value(i)), (rows[row].0, rows[row].1.to_bits(), rows[row].2));
                    row += 1;
                }
            }
            prop_assert_eq!(row, rows.len());
        }

        #[test]
        fn any_bytes(text in prop::collection::vec(prop::sample::select(&b"a1,\"\n\r-.:T\xc3\xa9"[..]), 0..300), size in 1_usize..99) {
            for header in [None, Some(true), Some(false)] {
                let options = CsvOptions { header, ..CsvOptions::default() };
                let small = read_in(&text, &options, size).map(|b| cells(&b));
                let large = read_in(&text, &options, 1 << 20).map(|b| cells(&b));
                if let (Ok(small), Ok(large)) = (&small, &large) {
                    // A column without values in a small chunk has another type, but the same
                    // number of rows.
                    prop_assert_eq!(small.len(), large.len());
                }
            }
        }
    }
}

#[test]
fn empty_lines_before_the_first_row_are_no_chunk() {
    for (text, line, offset) in
        [("\n\r\n\na;b\n1;2\n", 4, 4), ("\n\u{e9}\u{e9}", 2, 1), ("\n\n\r\n", 4, 4)]
    {
        for size in 1..20 {
            let first = chunks(text.as_bytes(), &CsvOptions::default(), size).unwrap();
            let first = first.first().map(|chunk| (chunk.number, chunk.line, chunk.offset));
            assert_eq!(
                first.unwrap_or((0, line, offset)),
                (0, line, offset),
                "{text:?} in chunks of {size}"
            );
        }
    }
    // Only what the file begins with is a byte-order mark.
    let later = chunks("\n\n\n\u{feff}a\n1\n".as_bytes(), &CsvOptions::default(), 3).unwrap();
    assert_eq!((later[0].offset, later[0].text.starts_with(b"\xef\xbb\xbf")), (3, true));
    let batches = read_in(b"\n\na;b\n1;2\n", &CsvOptions::default(), 1).unwrap();
    assert_eq!(cells(&batches), [["1", "2"]]);
}

#[test]
fn tiles_and_chunks_of_a_large_text_agree() {
    let mut text = String::from("id,name,score,when\n");
    for i in 0..30_000 {
        let name = match i % 5 {
            0 => format!("\"quoted, {i}\""),
            1 => format!("\"line\n{i} \"\"x\"\"\""),
            2 => String::new(),
            _ => format!("plain{i}"),
        };
        let blank = if i % 1000 == 7 { "\n" } else { "" };
        text.push_str(&format!(
            "{i},{name},{}.{:02},2013-08-{:02} 00:00:{:02}\n{blank}",
            i % 90,
            i % 97,
            1 + i % 28,
            i % 60
        ));
    }
    let expected = cells(&read_in(text.as_bytes(), &CsvOptions::default(), 1 << 24).unwrap());
    assert_eq!(expected.len(), 30_000);
    assert_eq!(expected[29_996][1], "line\n29996 \"x\"");
    for size in [10_000, 131_072, 300_001] {
        assert!(
            cells(&read_in(text.as_bytes(), &CsvOptions::default(), size).unwrap()) == expected,
            "{size}"
        );
    }
}

#[test]
fn real_taxi_trips() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/nyc-taxi.csv.gz");
    if !path.exists() {
        return;
    }
    let mut text = Vec::new();
    Input::path(&path).open().unwrap().bytes.read_to_end(&mut text).unwrap();
    let options = CsvOptions { header: None, ..CsvOptions::default() };
    let batches = read_in(&text, &options, 300_000).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10_000);
    let whole = &read_in(&text, &options, 1 << 24).unwrap()[0];
    let types = types(whole);
    assert_eq!(
        types[..8].join(" "),
        "int64 int64 timestamp(us) timestamp(us) utf8 int64 float64 float64"
    );
    // Every field, split naively (the sample quotes some names), against the text that its value
    // came from.
    let rows = cells(std::slice::from_ref(whole));
    for (line, row) in std::str::from_utf8(&text).unwrap().lines().zip(&rows) {
        if line.contains('"') {
            continue;
        }
        for ((field, cell), data_type) in line.split(',').zip(row).zip(&types) {
            match (field, data_type.as_str()) {
                ("", _) => assert_eq!(cell, "∅"),
                (_, "float64") => {
                    assert_eq!(field.parse::<f64>().unwrap(), cell.parse::<f64>().unwrap())
                }
                (_, "timestamp(us)") => assert_eq!(field.replace(' ', "T"), *cell),
                _ => assert_eq!(field, cell),
            }
        }
    }
}
