//! Every row is accounted for: which rows an ingest rejects, counts and writes down, and which it
//! stores all the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use stylobate::{CsvOptions, Error, Input, LoadOptions, OnError, Schema, TableOptions};

use super::loading::{Database, data_type, files_in, options, schema, segment_bytes, text, values};

const HEADER: &str = "file,line,column,reason,raw\n";

fn skip() -> LoadOptions {
    let schema = vec![("id".to_owned(), data_type("int64"))];
    LoadOptions {
        on_error: OnError::Skip,
        csv: CsvOptions { schema, ..CsvOptions::default() },
        ..options()
    }
}

fn to_file(file: &Path) -> LoadOptions {
    LoadOptions { on_error: OnError::Reject { file: file.to_path_buf(), replace: false }, ..skip() }
}

fn rejects_file(db: &Database) -> PathBuf {
    db.directory.path().join("bad.csv")
}

#[test]
fn good_rows_are_stored_and_bad_ones_written_down() {
    let db = Database::new();
    let csv = "id,v\n1,a\nx,b\n2,c\n3\n4,\"d\ne\"\n5,\"f\n6,g\n";
    let report = db.load("t", vec![text(csv)], &to_file(&rejects_file(&db))).unwrap();
    assert_eq!((report.rows_read, report.rows_stored, report.rows_rejected), (7, 4, 3));
    assert_eq!(values(&db.table("t"), "id"), ["1", "2", "4", "6"]);
    assert_eq!(values(&db.table("t"), "v"), ["a", "c", "d\ne", "g"]);
    let expected = format!(
        "{HEADER}input.csv,3,id,'x' is not of type int64,\"x,b\"\ninput.csv,5,,\"1 field, \
         expected 2\",3\n\
         input.csv,8,,a quoted field does not end,\"5,\"\"f\"\n"
    );
    assert_eq!(std::fs::read_to_string(rejects_file(&db)).unwrap(), expected);
    assert_eq!(report.generation, 1);
    let shown: Vec<String> = report.first_rejects.iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "input.csv: line 3, column 'id': 'x' is not of type int64");
    // The rejects file can itself be loaded.
    let again = db.load_files("bad", &[rejects_file(&db)]).unwrap();
    assert_eq!(
        (again.rows_stored, values(&db.table("bad"), "raw")),
        (3, vec!["x,b".into(), "3".into(), "5,\"f".into()])
    );
}

#[test]
fn fail_and_skip_and_rows_without_fault() {
    let db = Database::new();
    let bad = "id,v\n1,a\nx,b\n";
    let typed = LoadOptions { on_error: OnError::Fail, ..skip() };
    let error = db.load("t", vec![text(bad)], &typed).unwrap_err().to_string();
    assert!(error.contains("line 3, column 1 ('id'): 'x' is not of type int64"), "{error}");
    assert!(!db.table("t").path().exists());
    let report = db.load("t", vec![text(bad)], &skip()).unwrap();
    assert_eq!((report.rows_read, report.rows_stored, report.rows_rejected), (2, 1, 1));
    assert_eq!(report.first_rejects.len(), 1);
    let good = db.load("t", vec![text("id,v\n1,a\n")], &to_file(&rejects_file(&db))).unwrap();
    assert_eq!(
        (good.rows_read, good.rows_stored, good.rows_rejected, good.generation),
        (1, 1, 0, 2)
    );
    assert_eq!(files_in(db.directory.path()), ["db"], "no rejected row, no file");
}

#[test]
fn all_rows_may_be_bad() {
    let db = Database::new();
    let report =
        db.load("t", vec![text("id,v\nx,a\ny,b\n1\n")], &to_file(&rejects_file(&db))).unwrap();
    assert_eq!((report.rows_read, report.rows_stored, report.rows_rejected), (3, 0, 3));
    assert_eq!(schema(&db.table("t"))[0], "id: int64");
    assert_eq!(std::fs::read_to_string(rejects_file(&db)).unwrap().lines().count(), 4);
}

#[test]
fn a_bound_on_rejected_rows_ends_the_ingest_with_nothing_stored() {
    let db = Database::new();
    let csv = "id,v\n1,a\nx,b\ny,c\n4,d\nz,e\n";
    for (max, fits) in [(3, true), (2, false), (0, false)] {
        let db = Database::new();
        let bounded = LoadOptions { max_errors: Some(max), ..to_file(&rejects_file(&db)) };
        let loaded = db.load("t", vec![text(csv)], &bounded);
        assert_eq!(loaded.is_ok(), fits, "{max}: {loaded:?}");
        assert_eq!(rejects_file(&db).exists(), fits);
        if let Err(error) = loaded {
            assert!(matches!(error, Error::Rejected { rejected: 3, .. }), "{error:?}");
            let message = error.to_string();
            assert!(
                message.contains("3 rows rejected")
                    && message.contains("input.csv: line 3, column 'id'"),
                "{message}"
            );
            assert!(!db.table("t").path().exists());
            let left = files_in(db.directory.path());
            assert!(left.iter().all(|name| name == "db"), "{left:?}");
        }
    }
    let unbounded =
        db.load("t", vec![text(csv)], &LoadOptions { max_errors: None, ..skip() }).unwrap();
    assert_eq!(unbounded.rows_rejected, 3);
}

/// Several chunks of text, with bad rows of every kind and good multi-line rows among them.
fn large(rows: usize) -> String {
    let filler = "0123456789".repeat(20);
    let mut csv = String::from("id,v,w\n");
    for i in 0..rows {
        let _ = match i % 500 {
            17 => writeln!(csv, "x{i},\"{filler}\",{i}"),
            130 => writeln!(csv, "{i},{filler}"),
            255 => writeln!(csv, "{i},\"{filler},{i}"),
            256 | 470 => writeln!(csv, "{i},\"{filler}\n{i}\",{i}"),
            390 => writeln!(csv, "{i},\"{filler}\" {i},{i}"),
            _ => writeln!(csv, "{i},{filler},{}", i % 7),
        };
    }
    csv
}

#[test]
fn the_number_of_threads_changes_neither_rows_nor_rejects() {
    const ROWS: usize = 60_000;
    let csv = large(ROWS);
    let db = Database::new();
    let load = |table: &str, threads: usize| {
        let file = db.directory.path().join(format!("{table}.csv"));
        let options = LoadOptions { threads, memory_limit: Some(1), ..to_file(&file) };
        let report = db.load(table, vec![text(&csv)], &options).unwrap();
        assert_eq!(report.rows_read, report.rows_stored + report.rows_rejected);
        (report.rows_stored, std::fs::read_to_string(file).unwrap())
    };
    let one = load("one", 1);
    assert!(one == load("four", 4));
    assert!(segment_bytes(&db.table("one")) == segment_bytes(&db.table("four")));
    // Each bad row is rejected alone, and each good one between bad ones is stored.
    let bad = 4 * ROWS / 500;
    assert_eq!(one.0, (ROWS - bad) as u64);
    let ids = values(&db.table("one"), "id");
    let good = (0..ROWS).filter(|i| ![17, 130, 255, 390].contains(&(i % 500)));
    assert!(good.map(|i| i.to_string()).eq(ids));
    // Rejects are in the order of the lines.
    let lines: Vec<u64> = one
        .1
        .lines()
        .filter_map(|line| line.strip_prefix("input.csv,")?.split(',').next()?.parse().ok())
        .collect();
    assert_eq!(lines.len(), bad);
    assert!(lines.is_sorted());
}

#[test]
fn rows_are_counted_by_input() {
    let db = Database::new();
    let one = db.file("one.csv", b"id,v\n1,1\n2,2\n");
    let two = db.file("two.csv", b"id,v\n3,3\n4\n5,x\n");
    let empty = db.file("zero.csv", b"");
    let inputs = [&one, &two, &empty].map(Input::path).into();
    let report = db.load("t", inputs, &skip()).unwrap();
    let found: Vec<_> = report
        .inputs
        .iter()
        .map(|i| (i.name.clone(), i.rows_read, i.rows_rejected, i.bytes))
        .collect();
    assert_eq!(found, [(one, 2, 0, 13), (two, 3, 2, 15), (empty, 0, 0, 0)]);
    assert_eq!((report.rows_read, report.rows_rejected, report.bytes_in), (5, 2, 28));
    // The types of the first file hold for the next one; a later ingest keeps to those of the
    // table.
    assert_eq!(schema(&db.table("t")), ["id: int64", "v: int64"]);
    let later = db.load("t", vec![text("id,v\n6,y\n7,7\n8,0.5\n")], &skip()).unwrap();
    assert_eq!((later.rows_stored, later.rows_rejected), (2, 1));
    assert_eq!(schema(&db.table("t")), ["id: int64", "v: float64"]);
    assert_eq!(values(&db.table("t"), "v"), ["1.0", "2.0", "3.0", "7.0", "0.5"]);
}

/// A column that has no values when types are inferred gets the type of its first values. Values
/// that do not fit it, in a chunk of their own, are rejected row by row.
#[test]
fn a_type_found_late_holds_for_the_rest() {
    let filler = "x".repeat(2000);
    let row = |v: &str| format!("1,{filler},{v}\n");
    // 4 MiB hold about 2,100 of these rows.
    let csv = format!(
        "id,f,v\n{}{}{}{}",
        row("").repeat(3000),
        row("5").repeat(3000),
        row("y").repeat(3000),
        row("6")
    );
    for threads in [1, 4] {
        let db = Database::new();
        let report = db.load("t", vec![text(&csv)], &LoadOptions { threads, ..skip() }).unwrap();
        assert_eq!((report.rows_read, report.rows_rejected), (9001, 3000));
        assert_eq!(schema(&db.table("t")), ["id: int64", "f: utf8", "v: int64"]);
        assert_eq!(values(&db.table("t"), "v").last().unwrap(), "6");
    }
}

#[test]
fn what_is_not_about_a_row_is_an_error_all_the_same() {
    let db = Database::new();
    let path = |name: &str, bytes: &[u8]| Input::path(db.file(name, bytes));
    let noise: Vec<u8> =
        (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let inputs = [
        (path("header.csv", b"id,\"v\"x\n1,2\n"), "closing quote"),
        (path("noise.csv", &noise), "does not look like text"),
        (path("cut.csv.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2]), "damaged or cut off"),
        (path("columns.csv", b"id,v\n1,2\n"), ""),
    ];
    for (input, part) in inputs {
        let name = input.name().to_path_buf();
        let file = rejects_file(&db);
        let csv = CsvOptions { header: Some(true), ..CsvOptions::default() };
        let loaded = db.load("t", vec![input], &LoadOptions { csv, ..to_file(&file) });
        match loaded {
            Ok(_) => assert!(part.is_empty(), "{} was loaded", name.display()),
            Err(error) => assert!(!part.is_empty() && error.to_string().contains(part), "{error}"),
        }
        assert!(!file.exists());
    }
}

/// Rows that were rejected, as they stand in the file or corrected there, are rows of their input.
#[test]
fn rejected_rows_are_loaded_back() {
    let db = Database::new();
    let csv = "id;v\n1;a\nx;\"b;\"\"\nb\"\n2;c\n3\n4;d;\n5;\"e\" x\n6;\"f\nié\n";
    let a = db.file("day=7/a.csv", csv.as_bytes());
    let jsonl = "{\"id\": 7, \"v\": \"g\"}\n{\"id\": \"y\", \"v\": \"h\"}\n{\"id\": 9\n";
    let b = db.file("day=8/b.jsonl", jsonl.as_bytes());
    let pretty = db.file("c.json", b"[{\"id\": 10}, {\n\"id\":\n\"z\"}, {\"id\": \"w\"}]");
    let with_rejects = |inputs, file: &Path, from_rejects| {
        let mut options = LoadOptions { from_rejects, ..to_file(file) };
        options.csv.delimiter = Some(b';');
        db.load("t", inputs, &options).unwrap()
    };
    let bad = rejects_file(&db);
    let report = with_rejects([&a, &b, &pretty].map(Input::path).into(), &bad, false);
    assert_eq!((report.rows_stored, report.rows_rejected), (4, 10), "{report:?}");
    // As it is: the same rows are rejected, with the same places and reasons.
    let again = db.directory.path().join("again.csv");
    let report = with_rejects(vec![Input::path(&bad)], &again, true);
    assert_eq!((report.rows_stored, report.rows_rejected), (0, 10));
    let text = std::fs::read_to_string(&bad).unwrap();
    assert_eq!(text, std::fs::read_to_string(&again).unwrap());
    // Corrected.
    let corrected = text
        .replace("\"x;", "\"21;")
        .replace(",3\n", ",3;c\n")
        .replace("4;d;", "4;d")
        .replace("5;\"\"e\"\" x", "5;e")
        .replace("6;\"\"f", "6;f")
        .replace("\"\"y\"\"", "8")
        .replace("\"\"id\"\": 9", "\"\"id\"\": 9}")
        .replace("\"\"z\"\"", "11")
        .replace("\"\"w\"\"", "12");
    let file = db.file("corrected.csv", corrected.as_bytes());
    let left = db.directory.path().join("left.csv");
    let report = with_rejects(vec![Input::path(&file)], &left, true);
    assert_eq!((report.rows_stored, report.rows_rejected), (9, 1), "{report:?}");
    assert_eq!(
        std::fs::read_to_string(&left).unwrap(),
        format!("{HEADER}{},10,,\"1 field, expected 2\",ié\n", a.display())
    );
    let twice = LoadOptions { from_rejects: true, ..skip() };
    let refused = db.load("t", vec![Input::path(&file)], &twice).unwrap_err().to_string();
    assert!(refused.contains("corrected.csv was loaded before"), "{refused}");
    let rows = |column| values(&db.table("t"), column);
    let ids = ["1", "2", "7", "10", "21", "3", "4", "5", "6", "8", "9", "11", "12"];
    assert_eq!(rows("id"), ids);
    assert_eq!(rows("v")[4], "b;\"\nb");
    let days = ["7", "7", "8", "∅", "7", "7", "7", "7", "7", "8", "8", "∅", "∅"];
    assert_eq!(rows("day"), days);
    // A file that is no such file, and rows of an input that is gone.
    let from = |file: &Path, names: Option<&[&str]>| {
        let mut options = LoadOptions { from_rejects: true, ..options() };
        options.csv.names = names.map(|names| names.iter().map(|n| (*n).to_owned()).collect());
        db.load("u", vec![Input::path(file)], &options)
    };
    let error = from(&b, None).unwrap_err().to_string();
    assert!(
        error.contains("is no file of rejected rows: its first line is not file,line,"),
        "{error}"
    );
    let gone = db.file("gone.csv", format!("{HEADER}no.csv,3,id,bad,\"1,x\"\n").as_bytes());
    let error = from(&gone, None).unwrap_err().to_string();
    for part in ["gone.csv: rows of no.csv need the columns", "no such file", "--names A,B,…"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(from(&gone, Some(&["id", "v"])).unwrap().rows_stored, 1);
    assert_eq!(schema(&db.table("u")), ["id: int64", "v: utf8"]);
}

/// A row of another encoding has its own bytes in the file, and is loaded back with a name for it.
#[test]
fn rows_that_are_not_utf_8_are_kept_as_they_are() {
    let db = Database::new();
    let a = db.file("a.csv", b"id,v\n1,a\n2,caf\xe9 \"q\"\n");
    let bad = rejects_file(&db);
    let report = db.load("t", vec![Input::path(&a)], &to_file(&bad)).unwrap();
    assert_eq!((report.rows_stored, report.rows_rejected), (1, 1));
    let bytes = std::fs::read(&bad).unwrap();
    assert!(bytes.ends_with(b",\"2,caf\xe9 \"\"q\"\"\"\n"), "{}", String::from_utf8_lossy(&bytes));
    let latin1 = Input::path(&bad).encoded("latin1".parse().unwrap());
    let options = LoadOptions { from_rejects: true, ..options() };
    assert_eq!(db.load("t", vec![latin1], &options).unwrap().rows_stored, 1);
    assert_eq!(values(&db.table("t"), "v"), ["a", "café \"q\""]);
}

#[test]
fn rows_without_a_value_that_is_required_are_rejected() {
    let db = Database::new();
    let load = |table: &str, input: Input, options: &LoadOptions| {
        let mut required =
            Schema::from_names([("id", data_type("int64")), ("v", data_type("utf8"))]).unwrap();
        required.require(0);
        let writer = db.table(table).writer(Some((required, TableOptions::default())))?;
        stylobate::load(writer, vec![input], options)
    };
    let inputs = [
        ("a.csv", "id,v\n1,a\n,b\n2\n\"\",\"c\nc\"\nx,d\n3,e\n", 3),
        (
            "b.jsonl",
            "{\"id\":1,\"v\":\"a\"}\n{\"v\":\"b\"}\n{\n{\"id\":null}\n{\"id\":\"x\"}\n{\"id\":3}\n",
            2,
        ),
    ];
    for (name, text, line) in inputs {
        let file = db.file(name, text.as_bytes());
        let strict = load(name, Input::path(&file), &options()).unwrap_err().to_string();
        assert!(strict.contains("line "), "{strict}");
        let skip = LoadOptions { on_error: OnError::Skip, ..options() };
        let report = load(name, Input::path(&file), &skip).unwrap();
        assert_eq!((report.rows_stored, report.rows_rejected), (2, 4), "{name}");
        assert_eq!(values(&db.table(name), "id"), ["1", "3"]);
        let first = report.first_rejects[0].to_string();
        let what = "column 'id': no value, and the column is NOT NULL";
        assert!(first.ends_with(&format!("{name}: line {line}, {what}")), "{first}");
    }
    let error = load("t", text("id,v\n1,a\n\n,b\n"), &options()).unwrap_err();
    let what = "input.csv: line 4: column 'id' is NOT NULL, but the row has no value in it";
    assert!(error.to_string().contains(what), "{error}");
    // A column that the whole input lacks is no matter of rows.
    let skip_all = LoadOptions { on_error: OnError::Skip, ..options() };
    let error = load("t", text("v,w\na,b\n"), &skip_all).unwrap_err();
    assert!(error.to_string().contains("no column 'id', which is NOT NULL"), "{error}");
}
