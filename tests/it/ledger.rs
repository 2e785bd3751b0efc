//! Files that have changed since they were loaded, or have another name: what the ledger notices,
//! and rows that were added to a file.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stylobate::{CommitEvery, IfLoaded, Input, LoadOptions, LoadReport, OnError, Result};

use super::loading::{Database, data_type, options, schema, values};

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn replace(path: &Path, text: &str) {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    // Clocks of file systems are coarse.
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
}

fn load(db: &Database, file: &Path, if_loaded: IfLoaded) -> Result<LoadReport> {
    load_with(db, &[file.to_path_buf()], &LoadOptions { if_loaded, ..options() })
}

fn load_with(db: &Database, files: &[PathBuf], options: &LoadOptions) -> Result<LoadReport> {
    db.load("t", files.iter().map(Input::path).collect(), options)
}

fn refusal(loaded: Result<LoadReport>) -> String {
    loaded.unwrap_err().to_string()
}

#[test]
fn a_file_that_has_grown_is_noticed_and_its_new_rows_are_taken_again_and_again() {
    let db = Database::new();
    let x = db.file("x.csv", b"id,v\n1,a\n");
    load(&db, &x, IfLoaded::Error).unwrap();
    append(&x, "2,b\n");
    let error = refusal(load(&db, &x, IfLoaded::Error));
    for part in [
        "x.csv was loaded before with 9 bytes and has 13 now; nothing was changed",
        "--if-loaded new-rows takes only the rows that were added",
        "--if-loaded skip",
        "--if-loaded again",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let skipped = load(&db, &x, IfLoaded::Skip).unwrap();
    assert_eq!((skipped.rows_read, skipped.loaded_before.len(), skipped.changed.len()), (0, 0, 1));
    assert_eq!((skipped.changed[0].bytes_loaded, skipped.changed[0].bytes), (9, 13));
    for (more, read) in [("", 1), ("3,c\n4,d\n", 2), ("\n\n", 0), ("5,\"e\ne\"\n", 1)] {
        append(&x, more);
        let report = load(&db, &x, IfLoaded::NewRows).unwrap();
        assert_eq!((report.rows_stored, report.added.len()), (read, 1), "{more:?}");
        // Only the new bytes are read.
        assert_eq!(report.bytes_in, if more.is_empty() { 4 } else { more.len() as u64 });
        let again = load(&db, &x, IfLoaded::NewRows).unwrap();
        assert_eq!((again.rows_read, again.loaded_before.len()), (0, 1), "{more:?}");
        assert!(refusal(load(&db, &x, IfLoaded::Error)).contains("was loaded before"));
    }
    assert_eq!(values(&db.table("t"), "id"), ["1", "2", "3", "4", "5"]);
    assert_eq!(values(&db.table("t"), "v")[4], "e\ne");
    // The whole file, as if it were new.
    assert_eq!(load(&db, &x, IfLoaded::Again).unwrap().rows_stored, 5);
}

#[test]
fn rows_are_new_only_after_the_bytes_that_were_loaded() {
    let db = Database::new();
    let x = db.file("x.csv", b"id,v\n1,a\n");
    load(&db, &x, IfLoaded::Error).unwrap();
    for (text, why) in [
        ("id,v\n9,z\n2,b\n", "its first bytes are not those that were loaded"),
        ("id,v\n", "it has become shorter"),
    ] {
        replace(&x, text);
        let error = refusal(load(&db, &x, IfLoaded::NewRows));
        assert!(error.contains(why) && error.contains("x.csv was loaded before with 9"), "{error}");
        assert_eq!(load(&db, &x, IfLoaded::Skip).unwrap().changed.len(), 1);
    }
    // Other bytes, but as many.
    replace(&x, "id,v\n2,b\n");
    let error = refusal(load(&db, &x, IfLoaded::NewRows));
    assert!(error.contains("has been changed since, though not its size"), "{error}");
    // Other contents under a known name are new rows, not rows that were loaded.
    let y = db.file("again.csv", b"id,v\n1,a\n");
    let load_y = || db.load("again", vec![Input::path(&y)], &options());
    load_y().unwrap();
    replace(&y, "id,v\n7,b\n8,c\n");
    let report = load_y().unwrap();
    assert_eq!((report.rows_stored, report.replaced.len()), (2, 1));
    assert_eq!((report.replaced[0].bytes_loaded, report.replaced[0].bytes), (9, 13));
    assert!(refusal(load_y()).contains("was loaded before"));
    assert_eq!(values(&db.table("again"), "id"), ["1", "7", "8"]);

    // A last line that was complete but for its end, and one that was not.
    let y = db.file("y.csv", b"id,v\n2,b");
    load(&db, &y, IfLoaded::Error).unwrap();
    append(&y, "\r\n3,c");
    assert_eq!(load(&db, &y, IfLoaded::NewRows).unwrap().rows_stored, 0);
    append(&y, "c\n4,d\n");
    assert_eq!(load(&db, &y, IfLoaded::NewRows).unwrap().rows_stored, 2);
    assert_eq!(values(&db.table("t"), "id"), ["1", "2", "3", "4"]);
    assert_eq!(values(&db.table("t"), "v")[2], "cc");
    let z = db.file("z.csv", b"id,v\n5,e");
    load(&db, &z, IfLoaded::Error).unwrap();
    append(&z, "e\n");
    let error = refusal(load(&db, &z, IfLoaded::NewRows));
    assert!(error.contains("its last line was loaded before it was complete"), "{error}");

    let compressed =
        db.file("z.csv.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    load(&db, &compressed, IfLoaded::Error).unwrap();
    append(&compressed, "x");
    let error = refusal(load(&db, &compressed, IfLoaded::NewRows));
    assert!(error.contains("it is compressed"), "{error}");
}

#[test]
fn new_rows_after_a_header_alone_or_nothing_have_its_names() {
    let db = Database::new();
    for (name, head) in [("header.csv", "\u{feff}id,v\n"), ("blank.csv", "\n"), ("none.csv", "")] {
        let file = db.file(name, head.as_bytes());
        let load = |if_loaded| {
            db.load(name, vec![Input::path(&file)], &LoadOptions { if_loaded, ..options() })
        };
        // A table without columns is not made of nothing.
        assert_eq!(load(IfLoaded::Error).is_ok(), head.contains("id"), "{name}");
        append(&file, if head.contains("id") { "1,a\n" } else { "id,v\n1,a\n" });
        assert_eq!(load(IfLoaded::NewRows).unwrap().rows_stored, 1, "{name}");
        assert_eq!(schema(&db.table(name)), ["id: int64", "v: utf8"], "{name}");
    }
}

/// A bad row among those that were loaded has no say in the types of new ones.
#[test]
fn new_rows_have_types_of_their_own() {
    let db = Database::new();
    let x = db.file("x.csv", b"id,v\n1,a\nx,b\n7\n");
    let mut typed = LoadOptions { on_error: OnError::Skip, ..options() };
    typed.csv.schema = vec![("id".to_owned(), data_type("int64"))];
    load_with(&db, std::slice::from_ref(&x), &typed).unwrap();
    append(&x, "2,c\n");
    assert_eq!(load(&db, &x, IfLoaded::NewRows).unwrap().rows_stored, 1);
    append(&x, "3.5,d\n");
    assert_eq!(load(&db, &x, IfLoaded::NewRows).unwrap().rows_stored, 1);
    assert_eq!(values(&db.table("t"), "id"), ["1.0", "2.0", "3.5"]);
}

#[test]
fn json_that_is_not_in_lines_has_no_new_rows() {
    let db = Database::new();
    for (name, text, more) in [
        ("array.json", "[{\"id\": 1}]\n", " "),
        ("values.json", "{\"id\":\n1}\n", "{\"id\":\n2}\n"),
    ] {
        let file = db.file(name, text.as_bytes());
        load(&db, &file, IfLoaded::Error).unwrap();
        append(&file, more);
        let error = refusal(load(&db, &file, IfLoaded::NewRows));
        assert!(error.contains("can be told in JSON lines alone"), "{error}");
    }
}

/// A quoted field that was cut off at the old end would make rows of its own lines.
#[test]
fn a_field_that_goes_on_among_the_new_rows_is_refused() {
    let db = Database::new();
    let x = db.file("x.csv", b"id,v\n1,a\n2,\"b\n");
    let skip = LoadOptions { on_error: OnError::Skip, ..options() };
    let load = |if_loaded| {
        load_with(&db, std::slice::from_ref(&x), &LoadOptions { if_loaded, ..skip.clone() })
    };
    assert_eq!(load(IfLoaded::Error).unwrap().rows_rejected, 1);
    append(&x, "3,c\"\n4,d\n");
    let error = refusal(load(IfLoaded::NewRows));
    assert!(error.contains("the quoted field that starts in line 3"), "{error}");
    assert_eq!(values(&db.table("t"), "id"), ["1"]);
}

#[test]
fn messages_about_new_rows_have_the_lines_of_the_whole_file() {
    let db = Database::new();
    for (name, head, good, bad) in [
        ("x.csv", "# a note\nsep=;\nid;v\n1;a\n\n", "2;\"b\n\nb\"\n3;c\n", "x;d\n"),
        ("x.jsonl", "{\"id\": 1}\n\n\n\n\n", "{\"id\": 2}\n\n\n{\"id\": 3}\n", "{\"id\": \"x\"}\n"),
    ] {
        let x = db.file(name, head.as_bytes());
        let with = |if_loaded| {
            let mut options = LoadOptions { if_loaded, ..options() };
            options.csv.skip_lines = 1;
            db.load(name, vec![Input::path(&x)], &options)
        };
        with(IfLoaded::Error).unwrap();
        append(&x, good);
        append(&x, bad);
        let error = refusal(with(IfLoaded::NewRows));
        assert!(error.contains("line 10"), "{name}: {error}");
        replace(&x, &format!("{head}{good}"));
        assert_eq!(with(IfLoaded::NewRows).unwrap().rows_stored, 2, "{name}");
        append(&x, bad.replace("x", "4").replace("\"4\"", "4").as_str());
        assert_eq!(with(IfLoaded::NewRows).unwrap().rows_stored, 1, "{name}");
        assert_eq!(values(&db.table(name), "id"), ["1", "2", "3", "4"]);
    }
}

#[test]
fn the_same_bytes_under_another_name_are_noticed() {
    let db = Database::new();
    let load = |file: &Path, if_loaded| load(&db, file, if_loaded);
    let a = db.file("a.csv", b"id,v\n1,a\n");
    load(&a, IfLoaded::Error).unwrap();
    let b = db.file("elsewhere/b.csv", b"id,v\n1,a\n");
    let moved = db.file("elsewhere/a.csv", b"id,v\n1,a\n");
    let error = refusal(load(&moved, IfLoaded::Error));
    assert!(error.contains("a.csv was loaded before as") && error.contains("a.csv"), "{error}");
    for skip in [IfLoaded::Skip, IfLoaded::NewRows] {
        let skipped = load(&b, skip).unwrap();
        assert_eq!((skipped.rows_read, skipped.loaded_before.len()), (0, 1));
    }
    // As many bytes, but others.
    let c = db.file("c.csv", b"id,v\n2,b\n");
    let other = load(&c, IfLoaded::Error).unwrap();
    assert_eq!((other.rows_stored, other.same_bytes.len()), (1, 0));
    let same = load(&b, IfLoaded::Error).unwrap();
    assert_eq!((same.rows_stored, same.same_bytes.len()), (1, 1));
    assert!(same.same_bytes[0].0.ends_with("b.csv") && same.same_bytes[0].1.ends_with("a.csv"));
    // Files without rows, and those whose directories say more, may be equal.
    for name in ["d.csv", "e.csv"] {
        let file = db.file(name, b"id,v\n");
        assert_eq!(load(&file, IfLoaded::Error).unwrap().rows_read, 0);
    }
    for name in ["day=1/x.csv", "day=2/x.csv"] {
        let file = db.file(name, b"id,v\n3,c\n");
        assert_eq!(load(&file, IfLoaded::Error).unwrap().rows_read, 1, "{name}");
    }
}

#[test]
fn the_same_typed_file_under_another_name_is_noticed() {
    let bytes = std::fs::read(crate::project().join("tests/inputs/polars.arrow")).unwrap();
    let db = Database::new();
    let a = db.file("a.arrow", &bytes);
    let rows = load(&db, &a, IfLoaded::Error).unwrap().rows_stored;
    let b = db.file("b.arrow", &bytes);
    let skipped = load(&db, &b, IfLoaded::Skip).unwrap();
    assert_eq!((skipped.rows_read, skipped.loaded_before.len()), (0, 1));
    let same = load(&db, &b, IfLoaded::Error).unwrap();
    assert!(same.rows_stored == rows && rows > 0 && same.same_bytes.len() == 1);
    append(&a, "more");
    let error = refusal(load(&db, &a, IfLoaded::NewRows));
    assert!(error.contains("it is neither CSV nor JSON lines"), "{error}");
}

/// A load that commits on the way takes new rows in one commit, with any file before and after.
#[test]
fn new_rows_are_committed_all_or_not_at_all() {
    let db = Database::new();
    let filler = "w".repeat(60);
    let rows = |from: u64, to: u64| {
        (from..to).fold(String::new(), |mut text, id| {
            let _ = writeln!(text, "{id},{filler}");
            text
        })
    };
    let x = db.file("x.csv", format!("id,v\n{}", rows(0, 10)).as_bytes());
    let often = |if_loaded| LoadOptions {
        commit_every: Some(CommitEvery::Rows(1)),
        if_loaded,
        ..options()
    };
    load_with(&db, std::slice::from_ref(&x), &often(IfLoaded::Error)).unwrap();
    // Several chunks, and a bad row at the end.
    append(&x, &rows(10, 200_000));
    append(&x, "200000\n");
    let y = db.file("y.csv", b"id,v\n300000,y\n");
    let files = [x.clone(), y.clone()];
    let bad = refusal(load_with(&db, &files, &often(IfLoaded::NewRows)));
    assert!(bad.contains("x.csv: line 200002: 1 field"), "{bad}");
    assert_eq!(db.table("t").snapshot().unwrap().rows(), 10);
    // A file that cannot be opened ends the load after them, and before their commit.
    replace(&x, &format!("id,v\n{}", rows(0, 200_000)));
    let missing = [x.clone(), db.directory.path().join("none.csv")];
    assert!(load_with(&db, &missing, &often(IfLoaded::NewRows)).is_err());
    assert_eq!(db.table("t").snapshot().unwrap().rows(), 10);
    let report = load_with(&db, &files, &often(IfLoaded::NewRows)).unwrap();
    assert_eq!((report.rows_stored, report.commits), (199_991, 2));
    let ids = values(&db.table("t"), "id");
    assert!(ids.iter().map(|id| id.parse::<u64>().unwrap()).eq((0..200_000).chain([300_000])));
}
