//! Headers, names, types and delimiters.

use std::io::Read;

use super::*;
use crate::ingest::sources::Input;

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
    let (types, rows) = read("x,1\n,2\n\"\",3\n", &options);
    assert_eq!(types, ["utf8", "int64"]);
    assert_eq!(rows, [["x", "1"], ["", "2"], ["", "3"]]);
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
        // Dates whose order is in doubt are dates in the first row, too.
        ("1/1/2020\n5/7/1995\n", false, "column0"),
        ("1/1/2020,a\n1/1/2020,b\n1/2/2020,c\n", false, "column0|column1"),
        ("1-1-2020 10:00,x\n2-1-2020 11:00,x\n", false, "column0|column1"),
        ("day\n1/1/2020\n5/7/1995\n", true, "day"),
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

/// A header is a guess if only its looks suggest it and its names are unknown.
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
    assert_eq!(guessed("alice,1\nbob,2\n", &detect), [Guess::Unnamed(2)]);
    let two = CsvOptions { names: Some(vec!["a".into(), "b".into()]), ..CsvOptions::default() };
    assert_eq!(guessed("alice,1\nbob,2\n", &two), []);
    assert_eq!(guessed("alice,1\nbob,2\n", &no_header()), []);
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
fn blanks_around_values_make_no_column_text() {
    let text = "n, f , day,at,yes,name\n\
                1, 1.5,2024-01-01 , 10:00:00, yes ,x\n\
                3 ,\t-2e3 , 2024-01-02,11:30:00 ,no, y \n";
    let (kinds, rows) = read(text, &CsvOptions::default());
    assert_eq!(kinds, ["int64", "float64", "date", "time(us)", "bool", "utf8"]);
    assert_eq!(rows[0], ["1", "1.5", "2024-01-01", "10:00:00", "true", "x"]);
    assert_eq!(rows[1], ["3", "-2000.0", "2024-01-02", "11:30:00", "false", " y "]);

    // Nothing but blanks is null where the column is not text, and so are words and --null.
    let text = "1, NA,a\n2,  , \n3, 5,  b\n";
    let (kinds, rows) = read(text, &no_header());
    assert_eq!(kinds, ["int64", "int64", "utf8"]);
    assert_eq!(rows, [["1", "∅", "a"], ["2", "∅", " "], ["3", "5", "  b"]]);
    let options = CsvOptions { nulls: vec!["x".into()], ..no_header() };
    let (kinds, rows) = read("1, x, x\n2,5,y\n", &options);
    assert_eq!(
        (kinds, rows[0].clone()),
        (
            vec!["int64".into(), "int64".into(), "utf8".into()],
            vec!["1".into(), "∅".into(), " x".into()]
        )
    );
    let (kinds, rows) = read("1,\" 2\",\" \"\n", &no_header());
    assert_eq!(
        (kinds, rows[0].clone()),
        (
            vec!["int64".into(), "int64".into(), "utf8".into()],
            vec!["1".into(), "2".into(), " ".into()]
        )
    );

    // They come after the first rows, too, and with a value that makes its column wider.
    let options = CsvOptions { infer_rows: 2, ..no_header() };
    let (kinds, rows) =
        read("1,a,2024-01-01\n2,b,2024-01-02\n 3,c,  \n 4.5 ,d, 2024-01-04\n", &options);
    assert_eq!(kinds, ["float64", "utf8", "date"]);
    assert_eq!(rows[2..], [["3.0", "c", "∅"], ["4.5", "d", "2024-01-04"]]);
}

#[test]
fn blanks_before_all_texts_of_a_column_are_noted() {
    let guessed = |text: &str, options: &CsvOptions| {
        let chunk = chunks(text.as_bytes(), options, 1 << 20).unwrap();
        infer(Path::new("t.csv"), options, chunk.first()).unwrap().guesses
    };
    let named = CsvOptions { header: Some(true), ..CsvOptions::default() };
    let noted = |names: &[&str]| {
        [Guess::BlanksBefore(names.iter().map(|name| (*name).to_owned()).collect())]
    };
    assert_eq!(guessed("a, b, c\n1, x, 5\n2, y, 6\n", &named), noted(&["b"]));
    assert_eq!(guessed("a, b\n1, x\n2,y\n", &named), []);
    assert_eq!(guessed("a, b\n1,\" x\"\n", &named), []);
    let kept = CsvOptions { skip_initial_space: Some(false), ..named };
    assert_eq!(guessed("a, b\n1, x\n", &kept), []);
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
fn real_taxi_trips() {
    // What Cargo says when it runs the test: a binary in a shared target folder may be another's.
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let path = Path::new(&folder).join("../shared/data/nyc-taxi.csv.gz");
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
    // Compares every value with the field that it came from, split naively (the sample quotes some
    // names).
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
