//! Joins by ranges beside the same joins by a condition that is none for them.
#![allow(clippy::unwrap_used)]

use crate::sql::tests::rows;
use crate::sql::{Session, SessionOptions};

#[test]
fn joins_by_ranges_have_the_rows_of_joins_by_conditions() {
    let session = Session::new(&SessionOptions::default()).unwrap();
    for (point, low, high) in [
        ("x", "x", "x + w"),
        ("x::double / 7", "x::double / 7", "(x + w)::double / 7"),
        (
            "(x / 100.0)::decimal(18, 2)",
            "(x / 100.0)::decimal(18, 2)",
            "((x + w) / 100.0)::decimal(18, 2)",
        ),
        (
            "DATE '2000-01-01' + x::int",
            "DATE '2000-01-01' + x::int",
            "DATE '2000-01-01' + (x + w)::int",
        ),
        (
            "TIMESTAMP '2000-01-01' + x * INTERVAL '1 second'",
            "TIMESTAMP '2000-01-01' + x * INTERVAL '1 second'",
            "TIMESTAMP '2000-01-01' + x * INTERVAL '1 second' + w * INTERVAL '1 second'",
        ),
        ("x::text", "x::text", "(x + w)::text"),
    ] {
        let numbers = "CASE WHEN value % 11 = 0 THEN NULL ELSE value * 7919 % 3001 - 1500 END AS x";
        let points = format!(
            "(SELECT id, {point} AS p FROM (SELECT value AS id, {numbers} FROM generate_series(1, 700)))"
        );
        let ranges = format!(
            "(SELECT id, {low} AS low, {high} AS high FROM (SELECT value AS id, {numbers}, \
             CASE WHEN value % 13 = 0 THEN NULL ELSE value % 60 - 5 END AS w \
             FROM generate_series(1, 300)))"
        );
        for condition in [
            "a.p BETWEEN b.low AND b.high",
            "b.low < a.p AND b.high > a.p",
            "a.p >= b.low AND a.p < b.high AND (a.id + b.id) % 3 <> 1",
        ] {
            for from in [format!("{points} a, {ranges} b"), format!("{ranges} b, {points} a")] {
                let ask = |condition: &str| {
                    let sql = format!("SELECT a.id, b.id AS other FROM {from} WHERE {condition}");
                    let plan = rows(&session, &format!("EXPLAIN {sql}"), &[]).unwrap().join("\n");
                    let mut answer = rows(&session, &sql, &[]).unwrap();
                    answer.sort();
                    (plan.contains("RangeJoinExec"), answer)
                };
                let (by_ranges, found) = ask(condition);
                let (by_condition, expected) = ask(&format!("a.id + b.id < 0 OR {condition}"));
                assert_eq!((by_ranges, by_condition), (point != "x::text", false), "{condition}");
                assert_eq!(found, expected, "{condition} of {point} in {from}");
                assert!(found.len() > 100, "{condition}");
            }
        }
    }
}

#[test]
fn sides_without_rows_are_joined_to_nothing() {
    let session = Session::new(&SessionOptions::default()).unwrap();
    let numbers = |rows: u32| format!("(SELECT value AS x FROM generate_series(1, {rows}))");
    for (left, right) in [(0, 9), (9, 0), (0, 0)] {
        let sql = format!(
            "SELECT count(*) FROM {} a JOIN {} b ON a.x BETWEEN b.x - 1 AND b.x + 1",
            numbers(left),
            numbers(right)
        );
        assert_eq!(rows(&session, &sql, &[]).unwrap(), ["0"]);
    }
}
