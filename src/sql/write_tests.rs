//! CREATE TABLE and INSERT: all or nothing, whatever fails, and what they leave behind.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};

use crate::disk::simulated::{Fault, PowerLoss, SimulatedDisk};
use crate::error::{Error, Result};
use crate::sql::Parameters;
use crate::sql::Session;
use crate::sql::SessionOptions;
use crate::sql::tests::rows;
use crate::store::Store;

const ROOT: &str = "/stores/db";

fn options() -> SessionOptions {
    SessionOptions { threads: Some(2), create: true, ..SessionOptions::default() }
}

fn session_on(disk: &SimulatedDisk) -> Session {
    Session::open(&Store::open_with(Arc::new(disk.clone()), ROOT), &options()).unwrap()
}

fn fresh() -> SimulatedDisk {
    SimulatedDisk::new(Path::new("/stores"))
}

const CREATE: &str =
    "CREATE TABLE t (a BIGINT NOT NULL, b TEXT) AS SELECT value, 'x' FROM generate_series(1, 9)";
const INSERT: &str = "INSERT INTO t SELECT a + 10, b FROM t";

/// What the store holds afterwards, as another session sees it.
fn contents(disk: &SimulatedDisk) -> String {
    match rows(&session_on(disk), "SELECT count(*), sum(a) FROM t", &[]) {
        Ok(answer) => answer.concat(),
        Err(Error::NotFound(_)) => "none".into(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_statement_is_all_or_nothing_whatever_call_fails() {
    for (sql, before, after) in [(CREATE, "none", "9|45"), (INSERT, "9|45", "18|180")] {
        let prepared = || {
            let disk = fresh();
            if sql == INSERT {
                rows(&session_on(&disk), CREATE, &[]).unwrap();
            }
            disk.set_fault(None);
            disk
        };
        let disk = prepared();
        rows(&session_on(&disk), sql, &[]).unwrap();
        let calls = disk.calls();
        assert!(calls > 10);
        disk.lose_power(PowerLoss::Nothing);
        assert_eq!(contents(&disk), after, "what is reported survives");
        for at in 1..=calls {
            let disk = prepared();
            let session = session_on(&disk);
            disk.set_fault(Some(Fault { at, forever: true, after_effect: false }));
            let done = rows(&session, sql, &[]);
            disk.set_fault(None);
            drop(session);
            disk.lose_power(PowerLoss::Some(at));
            let contents = contents(&disk);
            assert!(
                contents == after || done.is_err() && contents == before,
                "{sql}: call {at}: {done:?}, {contents}"
            );
        }
    }
}

#[test]
fn a_statement_that_fails_leaves_nothing() {
    let disk = fresh();
    let session = session_on(&disk);
    for sql in [
        "CREATE TABLE u AS SELECT 1 / (value - 9000) AS a FROM generate_series(1, 10000)",
        "CREATE TABLE u (a INT, b INT DEFAULT 1)",
        "CREATE TABLE u (a BIGINT NOT NULL) AS SELECT nullif(value, 9) FROM generate_series(1, 10)",
        "CREATE TABLE u AS SELECT * FROM nosuch",
        "SELECT 1",
        "INSERT INTO u VALUES (1)",
    ] {
        assert!(rows(&session, sql, &[]).is_err(), "{sql}");
        assert!(!session_store(&disk).exists().unwrap(), "{sql}");
    }
    rows(&session, CREATE, &[]).unwrap();
    let files = disk.files();
    for sql in [
        "INSERT INTO t SELECT value / (value - 9000), 'y' FROM generate_series(1, 10000)",
        "INSERT INTO t SELECT nullif(value, 9), 'y' FROM generate_series(1, 10)",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE u (a INT PRIMARY KEY)",
    ] {
        assert!(rows(&session, sql, &[]).is_err(), "{sql}");
        assert_eq!(disk.files(), files, "{sql}");
    }
    assert_eq!(rows(&session, "SELECT 1", &[]).unwrap(), ["1"]);
}

fn session_store(disk: &SimulatedDisk) -> Store {
    Store::open_with(Arc::new(disk.clone()), ROOT)
}

#[test]
fn one_writer_at_a_time() {
    let disk = fresh();
    let session = session_on(&disk);
    rows(&session, CREATE, &[]).unwrap();
    let other = session_store(&disk).table("t").unwrap().writer(None).unwrap();
    let error = rows(&session, INSERT, &[]).unwrap_err();
    assert!(error.to_string().contains("one writer at a time"), "{error}");
    drop(other);
    assert_eq!(rows(&session, INSERT, &[]).unwrap(), ["9"]);
}

#[test]
fn a_cancelled_insert_has_cleaned_up_when_it_returns() {
    let disk = fresh();
    let session = session_on(&disk);
    rows(&session, CREATE, &[]).unwrap();
    let files = disk.files();
    let canceller = session.canceller();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        canceller.cancel();
    });
    let endless = "INSERT INTO t SELECT value, 'z' FROM generate_series(1, 100000000000)";
    assert!(matches!(rows(&session, endless, &[]), Err(Error::Cancelled)));
    stopper.join().unwrap();
    session.canceller().reset();
    assert_eq!(disk.files(), files);
    assert_eq!(rows(&session, INSERT, &[]).unwrap(), ["9"]);
}

#[test]
fn parameters_and_prepared_statements_write() {
    let disk = fresh();
    let session = session_on(&disk);
    rows(&session, "CREATE TABLE t AS SELECT $n AS a, $w AS b", &["n=7", "w=seven"]).unwrap();
    assert_eq!(
        rows(&session, "INSERT INTO t VALUES ($n, $w), (9, 'nine')", &["n=8", "w=eight"]).unwrap(),
        ["2"]
    );
    rows(&session, "PREPARE more AS INSERT INTO t SELECT a + 100, b FROM t WHERE a > 7", &[])
        .unwrap();
    assert_eq!(rows(&session, "EXECUTE more", &[]).unwrap(), ["2"]);
    // A prepared statement is as exact as one that runs at once.
    rows(&session, "PREPARE cut AS INSERT INTO t VALUES ($1, 'x')", &[]).unwrap();
    let error = rows(&session, "EXECUTE cut(2.5)", &[]).unwrap_err().to_string();
    assert!(error.contains("column 'a' is int64, which does not hold 2.5 as it is"), "{error}");
    assert_eq!(rows(&session, "SELECT count(*) FROM t WHERE b = 'x'", &[]).unwrap(), ["0"]);
    rows(&session, "CREATE VIEW v AS SELECT a + $least AS n FROM t", &["least=100"]).unwrap_err();
    rows(
        &session,
        "CREATE TEMP VIEW v AS SELECT count(*) AS n FROM t WHERE a > $least",
        &["least=100"],
    )
    .unwrap();
    assert_eq!(rows(&session, "SELECT n FROM v", &[]).unwrap(), ["2"]);
    rows(&session, "INSERT INTO t VALUES (101, 'more')", &[]).unwrap();
    assert_eq!(rows(&session, "SELECT n FROM v", &[]).unwrap(), ["3"]);
}

#[test]
fn an_insert_can_be_explained_and_is_not_run() {
    let disk = fresh();
    let session = session_on(&disk);
    rows(&session, CREATE, &[]).unwrap();
    let plan = rows(&session, "EXPLAIN INSERT INTO t SELECT a, b FROM t WHERE a > 3", &[])
        .unwrap()
        .concat();
    assert!(plan.contains("StoreScan"), "{plan}");
    assert_eq!(contents(&disk), "9|45");
}

/// A session that is not allowed to make a store.
#[test]
fn a_store_that_is_not_there_is_said_so() {
    let disk = fresh();
    let strict = SessionOptions { create: false, ..options() };
    let missing = |result: Result<()>| match &result {
        Err(Error::NotFound(what)) => what.contains("no store at"),
        _ => false,
    };
    assert!(missing(Session::open(&session_store(&disk), &strict).map(drop)));
    let session = session_on(&disk);
    for sql in ["SELECT 1", "SELECT * FROM t", "EXPLAIN SELECT 1", "CREATE VIEW v AS SELECT 1"] {
        let run = session.run(sql, &Parameters::default(), |mut stream| {
            stream.try_for_each(|batch| batch.map(drop))
        });
        assert!(missing(run), "{sql}");
    }
    rows(
        &session,
        "SET sty.native = off; CREATE TABLE IF NOT EXISTS t (a INT); SELECT count(*) FROM t",
        &[],
    )
    .unwrap();
}

#[test]
fn sessions_may_be_kept_from_writing_and_from_files() {
    let disk = fresh();
    rows(&session_on(&disk), CREATE, &[]).unwrap();
    let store = Store::open_with(Arc::new(disk.clone()), ROOT);
    let before = disk.files();
    let reader = SessionOptions { read_only: true, no_files: true, ..options() };
    let session = Session::open(&store, &reader).unwrap();
    for (sql, part) in [
        (INSERT, "read-only"),
        ("CREATE TABLE u AS SELECT 1 AS a", "read-only"),
        ("DELETE FROM t WHERE a = 1", "read-only"),
        ("UPDATE t SET b = 'y'", "read-only"),
        ("SELECT * FROM 'x.csv'", "no files"),
        ("CREATE EXTERNAL TABLE e (a INT) STORED AS CSV LOCATION '/tmp/x.csv'", "no files"),
    ] {
        let error = rows(&session, sql, &[]).unwrap_err().to_string();
        assert!(error.contains(part), "{sql}: {error}");
    }
    assert_eq!(rows(&session, "SELECT count(*), sum(a) FROM t", &[]).unwrap().concat(), "9|45");
    assert_eq!(disk.files(), before);
    let elsewhere = Store::open_with(Arc::new(disk.clone()), "/stores/nosuch");
    assert!(matches!(Session::open(&elsewhere, &reader), Err(Error::NotFound(_))));
}

#[test]
fn a_damaged_table_and_one_out_of_reach_are_not_missing() {
    let disk = fresh();
    rows(&session_on(&disk), CREATE, &[]).unwrap();
    disk.deny(Some(Path::new("/stores/db/t")));
    for sql in ["SELECT * FROM t", INSERT, "CREATE TABLE t (a INT)", "DELETE FROM t"] {
        let error = rows(&session_on(&disk), sql, &[]).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{sql}: {error}");
    }
    disk.deny(None);
    crate::disk::Disk::remove(&disk, Path::new("/stores/db/t/CURRENT")).unwrap();
    for sql in ["SELECT * FROM t", INSERT, "CREATE TABLE t (a INT)", "DELETE FROM t"] {
        let error = rows(&session_on(&disk), sql, &[]).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{sql}: {error}");
    }
}

/// Makes a table of two batches, the second of which perhaps fails.
fn create_table(disk: &SimulatedDisk, replaces: bool, fails: bool) -> Result<u64> {
    let session = session_on(disk);
    let batch = |from: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 10));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    };
    let columns = batch(0).schema();
    let second = match fails {
        true => Err(Error::InvalidInput("no more".into())),
        false => Ok(batch(10)),
    };
    session.create_table("t", &columns, replaces, [Ok(batch(0)), second].into_iter())
}

#[test]
fn a_table_of_a_programs_rows_is_all_or_nothing() {
    let disk = fresh();
    // There is a store, without tables.
    rows(&session_on(&disk), CREATE, &[]).unwrap();
    rows(&session_on(&disk), "DROP TABLE t", &[]).unwrap();
    assert!(create_table(&disk, false, true).is_err());
    assert_eq!(contents(&disk), "none");
    assert_eq!(create_table(&disk, false, false).unwrap(), 20);
    assert_eq!(contents(&disk), "20|190");
    let error = create_table(&disk, false, false).unwrap_err();
    assert!(error.to_string().contains("there is a table or view t already"), "{error}");
    rows(&session_on(&disk), "INSERT INTO t VALUES (5)", &[]).unwrap();
    assert!(create_table(&disk, true, true).is_err());
    assert_eq!(contents(&disk), "21|195");
    assert_eq!(create_table(&disk, true, false).unwrap(), 20);
    assert_eq!(contents(&disk), "20|190");
    let session = session_on(&disk).read_only();
    let none = std::iter::empty();
    assert!(session.create_table("u", &arrow_schema::Schema::empty(), false, none).is_err());
}
