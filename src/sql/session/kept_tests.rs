//! Plans that are kept answer like those that are made anew: what a statement means may have
//! changed since.

use std::time::Duration;

use datafusion::common::ScalarValue;
use tempfile::TempDir;

use super::{Engine, Session, SessionOptions};
use crate::sql::Parameters;
use crate::sql::tests::rows;
use crate::store::Store;

/// Sessions over a store of their own.
struct World {
    engine: Engine,
    _directory: TempDir,
}

impl World {
    fn new(tables: &str) -> World {
        let directory = TempDir::new().unwrap();
        let store = Store::open(directory.path().join("store"));
        let options = SessionOptions {
            threads: Some(2),
            create: true,
            keep_plans: true,
            ..SessionOptions::default()
        };
        let engine = Engine::open(&store, &options).unwrap();
        answer(&engine.session().unwrap(), tables);
        World { engine, _directory: directory }
    }

    fn session(&self) -> Session {
        self.engine.session().unwrap()
    }
}

/// The values of the last statement's answer, a line for each row.
fn answer(session: &Session, sql: &str) -> String {
    answer_with(session, sql, &[])
}

fn answer_with(session: &Session, sql: &str, values: &[&str]) -> String {
    rows(session, sql, values).unwrap().join("\n")
}

/// How many plans a session has kept.
fn kept(session: &Session) -> usize {
    session.kept.as_ref().map_or(0, |kept| kept.count(session.number))
}

const ROWS: &str = "CREATE TABLE t AS SELECT value AS id, value % 10 AS k, value * 0.5 AS v \
                    FROM generate_series(1, 1000)";

#[test]
fn a_kept_plan_answers_for_the_rows_that_there_are() {
    let world = World::new(ROWS);
    let (here, there) = (world.session(), world.session());
    let queries = [
        "SELECT count(*), sum(v) FROM t",
        "SELECT k, sum(id) FROM t GROUP BY k ORDER BY k",
        "SELECT * FROM t WHERE id = 17",
        "SELECT id FROM t WHERE v > 3 ORDER BY v DESC LIMIT 3",
        "SELECT k, max(v) m FROM t GROUP BY k ORDER BY m DESC LIMIT 2",
        "SELECT 1 AS a, 'x' AS b",
    ];
    let check = || {
        for sql in queries {
            let fresh = answer(&world.session(), sql);
            // What comes again is kept, and answers the time after that.
            for _ in 0..3 {
                assert_eq!(answer(&here, sql), fresh, "{sql}");
            }
        }
    };
    check();
    assert_eq!(kept(&here), queries.len());
    for change in [
        "INSERT INTO t VALUES (1001, 3, 9999.5)",
        "DELETE FROM t WHERE k = 4",
        "UPDATE t SET v = -v WHERE id = 17",
        "DROP TABLE t; CREATE TABLE t AS SELECT 17 AS id, 'k' AS k, 8.25 AS v",
    ] {
        answer(&there, change);
        check();
        answer(&here, "SELECT count(*) FROM t");
    }
}

#[test]
fn other_names_and_settings_are_other_plans() {
    let world = World::new(ROWS);
    let session = world.session();
    let count = || answer(&session, "SELECT count(*) FROM t");
    assert_eq!((count(), count()), ("1000".to_owned(), "1000".to_owned()));
    answer(&session, "CREATE VIEW t2 AS SELECT * FROM t WHERE id < 5");
    assert_eq!(answer(&session, "SELECT count(*) FROM t2"), "4");
    answer(&session, "CREATE OR REPLACE VIEW t2 AS SELECT * FROM t WHERE id < 3");
    assert_eq!(answer(&session, "SELECT count(*) FROM t2"), "2");
    let other = world.session();
    let of_w = "SELECT count(*) FROM w";
    answer(&other, "CREATE TABLE w AS SELECT * FROM t WHERE id <= 7");
    assert_eq!((answer(&session, of_w), answer(&session, of_w)), ("7".into(), "7".into()));
    answer(&session, "CREATE VIEW v AS SELECT 1; DROP VIEW v");
    answer(&other, "DROP TABLE w; CREATE TABLE \"W\" AS SELECT * FROM t WHERE id <= 8");
    assert_eq!(answer(&session, of_w), "8");
    let fresh = world.session();
    assert_eq!(
        answer(&fresh, "SELECT arrow_typeof(1.5)"),
        answer(&fresh, "SELECT arrow_typeof(1.5)")
    );
    assert_eq!(kept(&fresh), 1);
    // A setting may change how statements are planned, and what they mean.
    answer(&fresh, "SET sty.native = false");
    assert_eq!(kept(&fresh), 0);
}

#[test]
fn what_depends_on_time_chance_or_the_session_is_planned_each_time() {
    let world = World::new(ROWS);
    let session = world.session();
    for sql in [
        "SELECT now()",
        "SELECT random()",
        "SELECT count(*) FROM t WHERE random() < 0.5",
        "SELECT current_date",
        "SELECT count(*) FROM information_schema.tables",
        "SELECT count(*) FROM generate_series(1, 5)",
        "SELECT * FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.id = 3",
        "SELECT * FROM (SELECT k, id FROM t) PIVOT (sum(id) FOR k IN (1, 2))",
    ] {
        for _ in 0..3 {
            answer(&session, sql);
        }
        assert_eq!(kept(&session), 0, "{sql}");
    }
    let times = (answer(&session, "SELECT now()"), answer(&session, "SELECT now()"));
    assert_ne!(times.0, times.1);
}

#[test]
fn other_parameters_are_bound_to_what_was_kept() {
    let world = World::new(ROWS);
    let session = world.session();
    let sql = "SELECT id, v FROM t WHERE id = $x";
    for value in ["17", "18", "17", "-1", "18.0", "'19'", "null"] {
        let parameter = format!("x={value}");
        let fresh = answer_with(&world.session(), sql, &[&parameter]);
        assert_eq!(answer_with(&session, sql, &[&parameter]), fresh, "{value}");
        assert_eq!(kept(&session), 1);
    }
    // Types of an answer follow from those of its parameters.
    for (value, expected) in [("1", "Int64"), ("true", "Boolean"), ("x", "Utf8View")] {
        let sql = "SELECT arrow_typeof($x)";
        assert_eq!(answer_with(&session, sql, &[&format!("x={value}")]), expected);
    }
    // Equal instants of different zones are different values.
    let text = |zone: Option<&str>| {
        let mut values = Parameters::default();
        let zone = zone.map(Into::into);
        values.set("x", ScalarValue::TimestampMicrosecond(Some(0), zone));
        let mut found = String::new();
        let statement = session.parse("SELECT arrow_typeof($x)").unwrap().remove(0);
        for batch in session.execute(&statement, &values).unwrap() {
            found = format!("{:?}", batch.unwrap().column(0));
        }
        found
    };
    assert_ne!(text(None), text(Some("+02:00")));
    let missing = session.run(sql, &Parameters::default(), |_| Ok(()));
    assert!(missing.unwrap_err().to_string().contains('x'));
}

#[test]
fn each_run_counts_for_itself() {
    let world = World::new(ROWS);
    let session = world.session();
    let read = |sql: &str| {
        let statement = session.parse(sql).unwrap().remove(0);
        let mut stream = session.execute(&statement, &Parameters::default()).unwrap();
        stream.by_ref().for_each(|batch| drop(batch.unwrap()));
        let statistics = stream.statistics();
        let stored = statistics.operators.iter().filter_map(|operator| operator.store.as_ref());
        let counters = stored.map(|stored| &stored.counters);
        counters.map(|it| (it.blocks_read, it.output.rows_in)).collect::<Vec<_>>()
    };
    for sql in ["SELECT k, sum(v) FROM t GROUP BY k", "SELECT v FROM t WHERE id > 990"] {
        let first = read(sql);
        assert_eq!((read(sql), read(sql)), (first.clone(), first), "{sql}");
    }
}

#[test]
fn plans_do_not_keep_tables_open_for_ever() {
    let world = World::new(ROWS);
    let session = world.session();
    answer(&session, "SELECT sum(v) FROM t");
    // What comes once is not kept.
    assert_eq!(kept(&session), 0);
    answer(&session, "SELECT sum(v) FROM t");
    assert_eq!(kept(&session), 1);
    world.engine.close_unused(Duration::from_secs(3600));
    assert_eq!(kept(&session), 1);
    // Another session that writes takes the plan away.
    answer(&world.session(), "INSERT INTO t VALUES (0, 0, 0)");
    assert_eq!(kept(&session), 0);
    answer(&session, "SELECT sum(v) FROM t");
    world.engine.close_unused(Duration::ZERO);
    assert_eq!(kept(&session), 0);
    answer(&session, "SELECT sum(v) FROM t");
    let all = session.kept.clone().unwrap();
    let number = session.number;
    drop(session);
    assert_eq!(all.count(number), 0);
}
