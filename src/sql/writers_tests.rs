//! Several sessions that write a table at once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};

use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::arrange::Arrange;
use crate::ingest::load::{LoadOptions, load_batches};
use crate::model::{DataType, Schema};
use crate::sql::tests::rows;
use crate::sql::{Engine, Session, SessionOptions, SqlExpressions};
use crate::store::{Store, TableOptions};

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
        // Code that is not optimised takes more of the stack.
        let thread = || std::thread::Builder::new().stack_size(16 << 20);
        let begin = |at| thread().spawn_scoped(scope, move || run(at)).unwrap();
        let threads: Vec<_> = (0..sessions).map(begin).collect();
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
    // It takes its time to be planned, so that others commit meanwhile.
    let others: Vec<String> = (1..300).map(|at| format!("-{at} + 0")).collect();
    let others = others.join(", ");
    let next = format!(
        "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 0 FROM t WHERE id NOT IN ({others})"
    );
    at_once(dir.path(), &options, 6, 5, &next);
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

/// Inserts by as many sessions of one engine, while the table is locked until all of them wait.
/// Returns their outcomes, and how many commits there were.
fn held_up<T: Send>(
    dir: &Path,
    sessions: usize,
    insert: impl Fn(usize, &Session) -> T + Sync,
) -> (Vec<T>, u64) {
    let engine = engine(dir, SessionOptions::default());
    let table = Store::open(dir).table("t").unwrap();
    let before = table.generation().unwrap().unwrap();
    let lock = table.writer(None).unwrap();
    let outcomes = std::thread::scope(|scope| {
        let (engine, insert) = (&engine, &insert);
        let run = move |at| insert(at, &engine.session().unwrap());
        let threads: Vec<_> = (0..sessions).map(|at| scope.spawn(move || run(at))).collect();
        // One that comes later than that is committed by itself, which is right, too.
        std::thread::sleep(Duration::from_millis(500));
        drop(lock);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (outcomes, table.generation().unwrap().unwrap() - before)
}

#[test]
fn inserts_that_come_meanwhile_are_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    ask(dir.path(), "CREATE TABLE t (id BIGINT NOT NULL, day DATE, name TEXT)");
    let insert = |at: usize, session: &Session| match at % 3 {
        0 => rows(session, &format!("INSERT INTO t VALUES ({at}, '2026-01-31', 'v')"), &[]),
        1 => rows(session, &format!("INSERT INTO t (name, id) VALUES ('w', {at} + 0)"), &[]),
        _ => {
            let ids: ArrayRef = Arc::new(Int32Array::from(vec![at as i32]));
            let batch = RecordBatch::try_from_iter([("x", ids)]).unwrap();
            let columns = ["ID".to_owned()];
            let stored = session.insert("t", &columns, std::iter::once(Ok(batch)));
            stored.map(|rows| vec![rows.to_string()])
        }
    };
    let (outcomes, commits) = held_up(dir.path(), 24, insert);
    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap() == ["1"]));
    assert!(commits < 12, "{commits}");
    let all = "SELECT count(*), count(DISTINCT id), sum(id), count(day), count(name) FROM t";
    assert_eq!(ask(dir.path(), all), "24|24|276|8|16");
}

#[test]
fn a_wrong_insert_fails_alone() {
    let dir = tempfile::tempdir().unwrap();
    // What is wrong with a row of this table is found when its partition is.
    let create = (
        Schema::from_names([("id", DataType::Int64), ("small", DataType::Int8)]).unwrap(),
        TableOptions::default(),
    );
    let writer = Store::open(dir.path()).table("t").unwrap().writer(Some(create)).unwrap();
    let arrange = Arrange {
        partition_by: vec!["100 / id AS part".to_owned()],
        compile: Some(Arc::new(SqlExpressions::default())),
        ..Arrange::default()
    };
    let first: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let first = RecordBatch::try_from_iter([("id", first)]).unwrap();
    let options = LoadOptions { arrange, ..LoadOptions::default() };
    load_batches(writer, std::iter::once(Ok(first)), &options).unwrap();
    let values = ["(2, 2)", "(0, 3)", "(4, 1000)", "(5, NULL)", "(6, 'x')", "(7, 7)"];
    let insert = |at: usize, session: &Session| {
        rows(session, &format!("INSERT INTO t VALUES {}", values[at]), &[])
    };
    let (outcomes, _) = held_up(dir.path(), values.len(), insert);
    let failed: Vec<&str> = outcomes
        .iter()
        .zip(values)
        .filter(|(outcome, _)| outcome.is_err())
        .map(|(_, values)| values)
        .collect();
    assert_eq!(failed, ["(0, 3)", "(4, 1000)", "(6, 'x')"]);
    assert_eq!(ask(dir.path(), "SELECT id FROM t ORDER BY id"), "1 2 5 7");
}

#[test]
fn one_that_is_cancelled_leaves_its_group() {
    let dir = tempfile::tempdir().unwrap();
    ask(dir.path(), "CREATE TABLE t (id BIGINT)");
    let insert = |at: usize, session: &Session| {
        let canceller = session.canceller();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                if at.is_multiple_of(2) {
                    canceller.cancel();
                }
            });
            rows(session, &format!("INSERT INTO t VALUES ({at})"), &[])
        })
    };
    let (outcomes, _) = held_up(dir.path(), 6, insert);
    for (at, outcome) in outcomes.iter().enumerate() {
        let is_cancelled = matches!(outcome, Err(Error::Cancelled));
        assert_eq!((is_cancelled, outcome.is_ok()), (at % 2 == 0, at % 2 == 1), "{outcome:?}");
    }
    assert_eq!(ask(dir.path(), "SELECT id FROM t ORDER BY id"), "1 3 5");
}

#[test]
fn a_large_insert_takes_a_road_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    ask(dir.path(), "CREATE TABLE t (id BIGINT)");
    let engine = engine(dir.path(), SessionOptions::default());
    let session = engine.session().unwrap();
    let batch = |number: i64| {
        let ids = Int64Array::from_iter_values(number * 1000..(number + 1) * 1000);
        RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)])
            .map_err(|_| Error::Cancelled)
    };
    assert_eq!(session.insert("t", &[], (0..200).map(batch)).unwrap(), 200_000);
    // An error behind rows that were collected leaves none of them.
    let broken = (0..200).map(|at| if at == 150 { Err(Error::Cancelled) } else { batch(at) });
    assert!(matches!(session.insert("t", &[], broken), Err(Error::Cancelled)));
    let all = "SELECT count(*), sum(id) FROM t";
    assert_eq!(ask(dir.path(), all), "200000|19999900000");
    let generation = || Store::open(dir.path()).table("t").unwrap().generation().unwrap();
    let before = generation();
    assert_eq!(session.insert("t", &[], std::iter::empty()).unwrap(), 0);
    assert_eq!(generation(), before);
}
