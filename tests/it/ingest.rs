//! Ingest through the library: what is appended, widened or refused, and what a refusal leaves
//! behind.

use std::fmt::Write as _;
use std::io::Write as _;

use stylobate::{CsvOptions, Error, Input, LoadOptions};

use super::loading::{
    Database, data_type, files_in, options, schema, segment_bytes, stored_types, text, values,
};

fn with_schema(columns: &[(&str, &str)]) -> LoadOptions {
    let schema =
        columns.iter().map(|(name, spelled)| (name.to_string(), data_type(spelled))).collect();
    LoadOptions { csv: CsvOptions { schema, ..CsvOptions::default() }, ..options() }
}

#[test]
fn an_append_keeps_rows_and_matches_columns_by_name() {
    let db = Database::new();
    db.load_text("t", "a,b,c\n1,x,1.5\n2,y,2.5\n").unwrap();
    let report = db.load_text("t", "c,a,b\n3.5,3,z\n").unwrap();
    assert_eq!((report.rows_stored, report.segments), (1, 1));
    let t = db.table("t");
    assert_eq!(schema(&t), ["a: int64", "b: utf8", "c: float64"]);
    assert_eq!(values(&t, "a"), ["1", "2", "3"]);
    assert_eq!(values(&t, "b"), ["x", "y", "z"]);
    assert_eq!(values(&t, "c"), ["1.5", "2.5", "3.5"]);
    assert_eq!(t.snapshot().unwrap().rows(), 3);
}

#[test]
fn new_columns_are_null_in_old_rows_and_missing_ones_in_new_rows() {
    let db = Database::new();
    db.load_text("t", "a,b\n1,x\n").unwrap();
    db.load_text("t", "a,d\n2,2020-01-02\n").unwrap();
    let t = db.table("t");
    assert_eq!(schema(&t), ["a: int64", "b: utf8", "d: date"]);
    assert_eq!(values(&t, "a"), ["1", "2"]);
    assert_eq!(values(&t, "b"), ["x", "∅"]);
    assert_eq!(values(&t, "d"), ["∅", "2020-01-02"]);
    assert_eq!(stored_types(&t, "d"), [None, Some("date".to_string())]);
}

#[test]
fn files_of_one_load_may_bring_different_columns() {
    let db = Database::new();
    db.load(
        "t",
        vec![text("a,b\n1,x\n2,y\n"), text("c,a\ntrue,3\n"), text("b\n\nz\n")],
        &options(),
    )
    .unwrap();
    let t = db.table("t");
    assert_eq!(values(&t, "a"), ["1", "2", "3", "∅", "∅"]);
    assert_eq!(values(&t, "b"), ["x", "y", "∅", "∅", "z"]);
    assert_eq!(values(&t, "c"), ["∅", "∅", "true", "∅", "∅"]);
}

#[test]
fn an_append_that_shares_no_column_is_refused() {
    let db = Database::new();
    db.load_text("t", "id,fare\n1,2.5\n").unwrap();
    let message = refused(&db, vec![text("7,x\n8,y\n")], &options());
    for part in ["(column0, column1)", "(id, fare)", "--names"] {
        assert!(message.contains(part), "{message}");
    }
    let names =
        CsvOptions { names: Some(vec!["id".into(), "tip".into()]), ..CsvOptions::default() };
    db.load("t", vec![text("7,x\n8,y\n")], &LoadOptions { csv: names, ..options() }).unwrap();
    assert_eq!(values(&db.table("t"), "id"), ["1", "7", "8"]);
}

#[test]
fn what_was_guessed_is_reported_once() {
    let db = Database::new();
    let inputs = vec![
        text("name;city\nbob;rome\n"),
        text("name;city\nalice;bern\n"),
        text("name\tland\nx\ty\n"),
    ];
    let report = db.load("t", inputs, &options()).unwrap();
    let guesses: Vec<String> =
        report.guesses.iter().map(|(file, guess)| format!("{}: {guess}", file.display())).collect();
    assert_eq!(guesses.len(), 4, "{guesses:?}");
    for (guess, part) in guesses.iter().zip(["';'", "(name, city)", "'\\t'", "(name, land)"]) {
        assert!(guess.starts_with("input.csv: ") && guess.contains(part), "{guess}");
    }
    assert_eq!(values(&db.table("t"), "city"), ["rome", "bern", "∅"]);
    let told = CsvOptions { header: Some(true), delimiter: Some(b';'), ..CsvOptions::default() };
    let report =
        db.load("u", vec![text("name;city\nbob;rome\n")], &LoadOptions { csv: told, ..options() });
    assert_eq!(report.unwrap().guesses, []);
}

/// First values, type of the first load if it is fixed, later values, type of the table afterwards,
/// all values then.
type Widening = (&'static str, Option<&'static str>, &'static str, &'static str, [&'static str; 3]);

const WIDENINGS: [Widening; 8] = [
    ("1\n-2", None, "2.5", "float64", ["1.0", "-2.0", "2.5"]),
    (
        "9007199254740992\n-9007199254740992",
        None,
        "0.5",
        "float64",
        ["9007199254740992.0", "-9007199254740992.0", "0.5"],
    ),
    ("\n", None, "text", "utf8", ["∅", "∅", "text"]),
    ("\n", None, "7", "int64", ["∅", "∅", "7"]),
    ("1\n-128", Some("int8"), "300", "int64", ["1", "-128", "300"]),
    ("7\n255", Some("uint8"), "-1", "int64", ["7", "255", "-1"]),
    (
        "2020-02-29\n1969-12-31",
        None,
        "2021-03-01 12:30:00",
        "timestamp(us)",
        ["2020-02-29T00:00:00", "1969-12-31T00:00:00", "2021-03-01T12:30:00"],
    ),
    (
        "2020-02-29 01:02:03\n1960-01-01 00:00:00.000001",
        None,
        "2020-01-01 00:00:00.123456789",
        "timestamp(ns)",
        ["2020-02-29T01:02:03", "1960-01-01T00:00:00.000001", "2020-01-01T00:00:00.123456789"],
    ),
];

#[test]
fn a_later_load_widens_a_column_without_rewriting_it() {
    for (first, fixed, later, widened, expected) in WIDENINGS {
        let db = Database::new();
        let fixed: Vec<_> = fixed.iter().map(|fixed| ("v", *fixed)).collect();
        db.load("t", vec![text(&format!("v\n{first}\n"))], &with_schema(&fixed)).unwrap();
        let t = db.table("t");
        let (before, narrow) = (segment_bytes(&t), stored_types(&t, "v"));
        db.load_text("t", &format!("v\n{later}\n")).unwrap();
        assert_eq!(schema(&t), [format!("v: {widened}")], "{first:?}");
        assert_eq!(values(&t, "v"), expected, "{first:?}");
        assert_eq!(segment_bytes(&t)[..1], before, "{first:?}: the old segment is as it was");
        assert_eq!(stored_types(&t, "v")[..1], narrow, "{first:?}");
        assert_ne!(stored_types(&t, "v")[0].as_deref(), Some(widened));
    }
}

#[test]
fn a_later_file_of_one_load_widens_a_column() {
    for (first, fixed, later, widened, expected) in WIDENINGS {
        if fixed.is_some() {
            continue;
        }
        let db = Database::new();
        let inputs = vec![text(&format!("v\n{first}\n")), text(&format!("v\n{later}\n"))];
        db.load("t", inputs, &options()).unwrap();
        let t = db.table("t");
        assert_eq!(schema(&t), [format!("v: {widened}")], "{first:?}");
        assert_eq!(values(&t, "v"), expected, "{first:?}");
    }
}

/// A CSV of `rows` rows `i,value(i)`, under the header `id,v`.
fn numbered(rows: usize, value: impl Fn(usize) -> String) -> String {
    let mut csv = String::from("id,v\n");
    for i in 0..rows {
        writeln!(csv, "{i},{}", value(i)).unwrap();
    }
    csv
}

/// Segments are closed as early as a limit can make them.
fn small_segments() -> LoadOptions {
    LoadOptions { memory_limit: Some(1), ..options() }
}

#[test]
fn a_later_row_of_one_file_widens_a_column_and_segments_stay_narrow() {
    const ROWS: usize = 700_000;
    let db = Database::new();
    let csv =
        numbered(ROWS, |i| if i == ROWS - 1 { "0.5".to_string() } else { (i % 1000).to_string() });
    let report = db.load("t", vec![text(&csv)], &small_segments()).unwrap();
    assert!(report.segments > 1, "the bound in bytes is honoured");
    let t = db.table("t");
    let stored = stored_types(&t, "v");
    assert_eq!(
        (stored[0].as_deref(), stored[stored.len() - 1].as_deref()),
        (Some("int64"), Some("float64"))
    );
    assert_eq!(schema(&t), ["id: int64", "v: float64"]);
    let read = values(&t, "v");
    assert_eq!((read.len(), read[ROWS - 1].as_str()), (ROWS, "0.5"));
    assert!((0..ROWS - 1).step_by(997).all(|i| read[i] == format!("{}.0", i % 1000)));
}

#[test]
fn segments_of_any_size_hold_the_same_rows() {
    let csv = numbered(600_000, |i| format!("{:x}", i.wrapping_mul(0x9E37_79B9) % 100_003));
    let db = Database::new();
    let large = db.load("large", vec![text(&csv)], &options()).unwrap();
    let small = db.load("small", vec![text(&csv)], &small_segments()).unwrap();
    assert_eq!(large.segments, 1);
    assert!(small.segments > 1);
    assert_eq!(large.rows_stored, small.rows_stored);
    for column in ["id", "v"] {
        assert_eq!(values(&db.table("large"), column), values(&db.table("small"), column));
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_byte() {
    let csv = numbered(400_000, |i| match i % 7 {
        0 => String::new(),
        n => format!("{}", (i * i * n) % 10_007),
    });
    let db = Database::new();
    for (table, threads) in [("one", 1), ("four", 4)] {
        db.load(table, vec![text(&csv)], &LoadOptions { threads, ..small_segments() }).unwrap();
    }
    assert!(segment_bytes(&db.table("one")) == segment_bytes(&db.table("four")));
}

/// The message of a refusal, which must leave the table as it is.
fn refused(db: &Database, inputs: Vec<Input>, options: &LoadOptions) -> String {
    let t = db.table("t");
    let state = || {
        (
            t.generation().unwrap(),
            t.snapshot().map(|s| s.rows()).ok(),
            files_in(&t.path().join("data")),
        )
    };
    let before = state();
    let error = db.load("t", inputs, options).unwrap_err();
    assert!(matches!(error, Error::InvalidInput(_)), "{error:?}");
    assert_eq!(state(), before, "nothing is committed and nothing left behind");
    if before.0.is_none() {
        assert!(!t.path().exists(), "a table that never came to be leaves no directory");
    }
    error.to_string()
}

#[test]
fn a_type_that_does_not_fit_is_refused_with_the_reason() {
    for (first, later, types) in [
        ("1", "x", ["int64", "utf8"]),
        ("x", "2020-01-01 00:00:00Z", ["", ""]),
        ("true", "5", ["bool", "int64"]),
        ("2020-01-01", "5", ["date", "int64"]),
        ("2020-01-01", "2020-01-01 00:00:00Z", ["date", "timestamp(us,UTC)"]),
        ("1.5", "2020-01-01", ["float64", "date"]),
    ] {
        let db = Database::new();
        db.load_text("t", &format!("v\n{first}\n")).unwrap();
        if types[0].is_empty() {
            // Anything fits a text column.
            db.load_text("t", &format!("v\n{later}\n")).unwrap();
            assert_eq!(values(&db.table("t"), "v"), [first, later]);
            continue;
        }
        let message = refused(&db, vec![text(&format!("v\n{later}\n"))], &options());
        for part in ["'v'", types[0], types[1]] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(values(&db.table("t"), "v"), [if first == "1.5" { "1.5" } else { first }]);
    }
}

#[test]
fn a_malformed_row_is_named_and_nothing_is_committed() {
    let file_and_rows = |bad: &str| {
        let mut csv = String::from("id,fare\n");
        (0..30_000).for_each(|i| writeln!(csv, "{i},{}.25", i % 90).unwrap());
        writeln!(csv, "{bad}").unwrap();
        csv
    };
    for (bad, parts) in [
        (
            "30000,many",
            &["input.csv", "line 30002", "'fare'", "'many'", "float64", "--schema fare:utf8"][..],
        ),
        ("30000", &["input.csv", "line 30002", "1 field", "expected 2"]),
        ("30000,1,2", &["input.csv", "line 30002", "3 fields", "expected 2"]),
        ("\"30000\"x,1", &["input.csv", "line 30002", "closing quote"]),
        ("\"30000,1", &["input.csv", "line 30002", "does not end"]),
    ] {
        let fresh = Database::new();
        let filled = Database::new();
        filled.load_text("t", "id,fare\n-1,0.5\n").unwrap();
        for db in [&fresh, &filled] {
            let message =
                refused(db, vec![text("id,fare\n1,2.5\n"), text(&file_and_rows(bad))], &options());
            for part in parts {
                assert!(message.contains(part), "{message}: {part}");
            }
        }
        assert_eq!(values(&filled.table("t"), "id"), ["-1"]);
        filled.load_text("t", "id,fare\n2,1.5\n").unwrap();
        assert_eq!(files_in(&filled.table("t").path().join("data")).len(), 2);
    }
}

#[test]
fn a_value_that_is_not_of_its_named_type_is_refused() {
    for (spelled, value) in [
        ("int8", "128"),
        ("decimal(5,2)", "1.234"),
        ("decimal(5,2)", "1000"),
        ("date", "2021-02-29"),
        ("bool", "2"),
    ] {
        let db = Database::new();
        let message =
            refused(&db, vec![text(&format!("a,v\n1,{value}\n"))], &with_schema(&[("v", spelled)]));
        for part in ["line 2", "'v'", value, spelled] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn whole_numbers_that_a_float_would_round_are_never_widened_to_one() {
    const ODD: &str = "9007199254740993";
    // Across loads, across files of a load, and across segments of one file.
    let db = Database::new();
    db.load_text("t", &format!("v\n{ODD}\n")).unwrap();
    assert!(refused(&db, vec![text("v\n0.5\n")], &options()).contains("'v'"));

    let db = Database::new();
    let inputs = || vec![text(&format!("v\n{ODD}\n")), text("v\n0.5\n")];
    assert!(refused(&db, inputs(), &options()).contains("'v'"));

    let db = Database::new();
    let csv = numbered(700_000, |i| match i {
        0 => ODD.to_string(),
        699_999 => "0.5".to_string(),
        i => i.to_string(),
    });
    assert!(refused(&db, vec![text(&csv)], &small_segments()).contains("'v'"));
}

#[test]
fn times_that_a_finer_unit_cannot_hold_are_never_widened_to_it() {
    const FINE: &str = "2020-01-01 00:00:00.123456789";
    for far in ["9999-12-31", "9999-12-31 00:00:00"] {
        let db = Database::new();
        db.load_text("t", &format!("v\n{far}\n")).unwrap();
        let message = refused(&db, vec![text(&format!("v\n{FINE}\n"))], &options());
        assert!(message.contains("'v'") && message.contains("timestamp(ns)"), "{message}");

        let db = Database::new();
        let inputs = vec![text(&format!("v\n{far}\n")), text(&format!("v\n{FINE}\n"))];
        let message = refused(&db, inputs, &options());
        assert!(message.contains("'v'") && message.contains("timestamp(ns)"), "{message}");

        let db = Database::new();
        let last = 699_999;
        let csv =
            numbered(last + 1, |i| if i == last { FINE.to_string() } else { far.to_string() });
        let message = refused(&db, vec![text(&csv)], &small_segments());
        assert!(message.contains("'v'") && message.contains("timestamp(ns)"), "{message}");
    }
}

#[test]
fn leading_zeros_stay_text() {
    let db = Database::new();
    db.load_text("t", "zip,n\n007,1\n12345,2\n").unwrap();
    let t = db.table("t");
    assert_eq!(schema(&t), ["zip: utf8", "n: int64"]);
    assert_eq!(values(&t, "zip"), ["007", "12345"]);
    // In a text column, a later file with only digits is text too.
    db.load_text("t", "zip,n\n10001,3\n").unwrap();
    assert_eq!(values(&t, "zip"), ["007", "12345", "10001"]);
    // And in a number column, such a text is not a number.
    assert!(refused(&db, vec![text("zip,n\n1,008\n")], &options()).contains("'n'"));
}

#[test]
fn an_empty_field_is_null_and_a_quoted_one_is_empty_text() {
    let db = Database::new();
    db.load_text("t", "a,s,n\n1,,\n2,\"\",\"\"\n3,NA,7\n").unwrap();
    let t = db.table("t");
    assert_eq!(values(&t, "s"), ["∅", "", "NA"]);
    assert_eq!(values(&t, "n"), ["∅", "∅", "7"]);
    let nulls = CsvOptions { nulls: vec!["NA".to_string()], ..CsvOptions::default() };
    let nulls = LoadOptions { csv: nulls, ..options() };
    db.load("u", vec![text("a,s,n\n1,NA,NA\n2,\"NA\",3\n")], &nulls).unwrap();
    assert_eq!(values(&db.table("u"), "s"), ["∅", "NA"]);
    assert_eq!(values(&db.table("u"), "n"), ["∅", "3"]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_and_tab_separated_files_are_recognised() {
    let db = Database::new();
    let (first, second) = (b"a\tb\n1\tx,y\n".as_slice(), b"a\tb\n2\t\"z\tz\"\n".as_slice());
    let files = [
        db.file("in/1.tsv", first),
        db.file("in/2.tsv.gz", &gzip(second)),
        db.file("in/3.tsv.zst", &zstd::encode_all(first, 3).unwrap()),
        // Several members, as `cat a.gz b.gz` makes them, under a name that says nothing about the
        // compression.
        db.file("in/4.tsv", &[gzip(b"a\tb\n3\tw\n"), gzip(b"4\tv\n")].concat()),
    ];
    let sizes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    let report = db.load_files("t", &files).unwrap();
    assert_eq!((report.rows_stored, report.bytes_in), (5, sizes));
    let t = db.table("t");
    assert_eq!(schema(&t), ["a: int64", "b: utf8"]);
    assert_eq!(values(&t, "a"), ["1", "2", "1", "3", "4"]);
    assert_eq!(values(&t, "b"), ["x,y", "z\tz", "x,y", "w", "v"]);
}

#[test]
fn a_compressed_file_that_ends_early_is_refused() {
    let whole = numbered(50_000, |i| (i * 7919 % 10_007).to_string());
    for (name, bytes) in [
        ("cut.csv.gz", gzip(whole.as_bytes())),
        ("cut.csv.zst", zstd::encode_all(whole.as_bytes(), 1).unwrap()),
    ] {
        let db = Database::new();
        let file = db.file(name, &bytes[..bytes.len() / 2]);
        let message = refused(&db, vec![Input::path(file)], &options());
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn patterns_and_directories_name_many_files() {
    let db = Database::new();
    for i in 0..120 {
        db.file(&format!("in/part-{i:03}.csv"), format!("id,name\n{i},n{i}\n").as_bytes());
    }
    db.file("in/.hidden.csv", b"something,else\n1,2\n");
    db.file("in/_SUCCESS", b"");
    let input = db.directory.path().join("in");
    let ids = |table: &str| {
        values(&db.table(table), "id").iter().map(|id| id.parse().unwrap()).collect::<Vec<u64>>()
    };
    let report = db.load_files("pattern", &[input.join("part-0*.csv")]).unwrap();
    assert_eq!((report.rows_stored, report.segments), (100, 1));
    assert_eq!(ids("pattern"), (0..100).collect::<Vec<_>>());
    let report = db.load_files("directory", std::slice::from_ref(&input)).unwrap();
    assert_eq!((report.rows_stored, report.segments), (120, 1));
    assert_eq!(ids("directory"), (0..120).collect::<Vec<_>>());
    let missing = db.load_files("pattern", &[input.join("none-*.csv")]).unwrap_err();
    assert!(matches!(missing, Error::NotFound(_)), "{missing}");
}

#[test]
fn a_table_may_have_very_many_columns() {
    const COLUMNS: usize = 20_000;
    let row = |cell: &dyn Fn(usize) -> String| (0..COLUMNS).map(cell).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (1..=4).map(|n| row(&|i| (i * n).to_string())).collect();
    let csv = format!("{}\n{}\n", row(&|i| format!("c{i}")), rows.join("\n"));
    let db = Database::new();
    db.load_text("t", &csv).unwrap();
    db.load_text("t", &csv).unwrap();
    let last = values(&db.table("t"), "c19999");
    assert_eq!(last, ["19999", "39998", "59997", "79996"].repeat(2));
}

#[test]
fn rows_of_nothing_are_rows() {
    let db = Database::new();
    let report = db.load_text("t", "only\n\n\nx\n\n").unwrap();
    assert_eq!(report.rows_stored, 4);
    assert_eq!(values(&db.table("t"), "only"), ["∅", "∅", "x", "∅"]);
    // An empty file adds nothing if the columns are known.
    assert_eq!(db.load_text("t", "").unwrap().rows_stored, 0);
    assert!(db.load_text("new", "").unwrap_err().to_string().contains("is empty"));
    // A header alone gives the table its columns, but no segment.
    let report = db.load_text("u", "a,b\n").unwrap();
    assert_eq!((report.rows_stored, report.segments), (0, 0));
    assert_eq!(schema(&db.table("u")), ["a: null", "b: null"]);
}
