//! Several sessions that write a table at once.

use std::path::Path;
use std::time::Duration;

use crate::disk::LockWait;
use crate::error::Result;
use crate::sql::tests::rows;
use crate::sql::{Engine, SessionOptions};
use crate::store::Store;

/// An engine whose statements wait for each other.
fn engine(dir: &Path, options: SessionOptions) -> Engine {
    let wait = LockWait { most: Duration::from_secs(60), ..LockWait::default() };
    let options = SessionOptions { threads: Some(1), create: true, ..options };
    Engine::open(&Store::open(dir).with_wait(wait), &options).unwrap()
}

/// Runs a statement `times` times on each of `sessions` sessions, which belong to two engines.
fn at_once(dir: &Path, options: &SessionOptions, sessions: usize, times: usize, sql: &str) {
    let engines = [engine(dir, options.clone()), engine(dir, options.clone())];
    let run = |number: usize| -> Result<()> {
        let session = engines[number % 2].session()?;
        (0..times).try_for_each(|_| rows(&session, sql, &[]).map(drop))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..sessions).map(|at| scope.spawn(move || run(at))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
}

fn ask(dir: &Path, sql: &str) -> String {
    let session = engine(dir, SessionOptions::default()).session().unwrap();
    rows(&session, sql, &[]).unwrap().join(" ")
}

#[test]
fn a_statement_reads_what_the_writer_before_it_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let options = SessionOptions::default();
    ask(dir.path(), "CREATE TABLE t (id BIGINT, n BIGINT)");
    let next = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 0 FROM t";
    at_once(dir.path(), &options, 6, 5, next);
    let all = "SELECT count(*), count(DISTINCT id), max(id) FROM t";
    assert_eq!(ask(dir.path(), all), "30|30|30");
    at_once(dir.path(), &options, 6, 3, "UPDATE t SET n = (SELECT max(n) + 1 FROM t)");
    assert_eq!(ask(dir.path(), "SELECT min(n), max(n) FROM t"), "18|18");
    // The row with the least number, which each of them finds anew.
    at_once(dir.path(), &options, 6, 2, "DELETE FROM t WHERE id = (SELECT min(id) FROM t)");
    assert_eq!(ask(dir.path(), "SELECT count(*), min(id) FROM t"), "18|13");
    // By a view, and by the name of an attached store.
    let path = dir.path().display();
    let by_view = "CREATE OR REPLACE VIEW v AS SELECT max(id) + 1 AS next FROM t; INSERT INTO t \
                   SELECT next, 0 FROM v";
    at_once(dir.path(), &options, 4, 3, by_view);
    assert_eq!(ask(dir.path(), all), "30|30|42");
    let attached = format!(
        "ATTACH IF NOT EXISTS '{path}' AS also; INSERT INTO t SELECT max(id) + 1, 0 FROM also.t"
    );
    at_once(dir.path(), &options, 4, 2, &attached);
    assert_eq!(ask(dir.path(), all), "38|38|50");
}

#[test]
fn a_table_is_replaced_by_rows_of_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    ask(dir.path(), "CREATE TABLE t AS SELECT 0 AS n");
    let run = |sql: &str| {
        let session = engine(dir.path(), SessionOptions::default()).session().unwrap();
        let mut done = 0;
        while done < 10 {
            // A table that somebody reads just now is not replaced.
            match rows(&session, sql, &[]) {
                Ok(_) => done += 1,
                Err(error) => assert!(error.to_string().contains("read"), "{error}"),
            }
        }
    };
    let run = &run;
    std::thread::scope(|scope| {
        scope.spawn(|| run("CREATE OR REPLACE TABLE t AS SELECT n + 1000 AS n FROM t"));
        scope.spawn(|| run("INSERT INTO t VALUES (1)"));
    });
    // Each replacement has kept all rows that were there.
    assert_eq!(ask(dir.path(), "SELECT count(*), sum((n = 10000)::INT) FROM t"), "11|1");
}

#[test]
fn a_statement_that_begins_once_more_reads_the_same() {
    let dir = tempfile::tempdir().unwrap();
    // Rows too wide for batches of the usual size, so that each statement is planned again.
    let options = SessionOptions { memory_limit: Some(48 << 20), ..SessionOptions::default() };
    ask(dir.path(), "CREATE TABLE t (id BIGINT, s TEXT)");
    let next = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, left(max(w), 1) FROM (SELECT \
                id, 1 AS k FROM t UNION ALL SELECT 0, 1) a JOIN (SELECT 1 AS k, \
                repeat('x', 20000) || value AS w FROM generate_series(1, 200)) b ON a.k = b.k";
    at_once(dir.path(), &options, 4, 4, next);
    let all = "SELECT count(*), count(DISTINCT id), max(id) FROM t";
    assert_eq!(ask(dir.path(), all), "16|16|16");
}
