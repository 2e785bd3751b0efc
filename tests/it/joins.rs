//! Joins run in the order in which the fewest rows are joined, whatever order a statement names its
//! tables in; what their keys leave out is not read.

use arrow_cast::display::{ArrayFormatter, FormatOptions};

use crate::both::{Answer, Both};

/// All cells of an answer as lines of text.
fn text(answer: Answer) -> String {
    let mut lines = Vec::new();
    for batch in answer.unwrap() {
        for column in batch.columns() {
            let cells = ArrayFormatter::try_new(column, &FormatOptions::default()).unwrap();
            lines.extend((0..column.len()).map(|row| cells.value(row).to_string()));
        }
    }
    lines.join("\n")
}

fn store(folder: &std::path::Path) -> Both {
    let both = Both::open(&folder.join("db"), 2);
    for sql in [
        "CREATE TABLE big AS SELECT CAST(value AS INT) AS id, CAST(value % 50 AS INT) AS k, \
         CAST(value % 11 AS INT) AS b FROM generate_series(1, 20000) AS s(value)",
        "CREATE TABLE mid AS SELECT CAST(value AS INT) AS id, CAST(value % 50 AS INT) AS k \
         FROM generate_series(1, 1000) AS s(value)",
        "CREATE TABLE tiny AS SELECT * FROM (VALUES (1, 3), (2, 5)) AS t(id, b)",
    ] {
        both.change(sql).unwrap();
    }
    both
}

/// The scanned tables of a plan from the top. Where one side of a join is a join, too, it comes
/// second: the first becomes the hash table.
fn tables(plan: &str) -> Vec<&str> {
    let after = plan.split("StoreScan: table=").skip(1);
    after.filter_map(|rest| rest.split([',', '\n']).next()).collect()
}

#[test]
fn joins_of_few_rows_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let both = store(folder.path());
    let kinds = [
        "big JOIN mid ON big.k = mid.k JOIN tiny ON tiny.b = big.b",
        "big LEFT JOIN mid ON big.k = mid.k JOIN tiny ON tiny.b = big.b",
        "tiny JOIN (mid JOIN big ON big.k = mid.k) ON tiny.b = big.b",
        "mid, big, tiny WHERE big.k = mid.k AND tiny.b = big.b",
    ];
    for joined in kinds {
        let sql = format!("SELECT sum(big.id + mid.id) FROM {joined}");
        for plan in both.ask(&format!("EXPLAIN {sql}")).map(text) {
            assert_eq!(tables(&plan), ["mid", "tiny", "big"], "{joined}\n{plan}");
        }
        let [on, off] = both.ask(&sql).map(text);
        assert_eq!(on, off);
    }
}

#[test]
fn a_filter_that_might_fail_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let both = store(folder.path());
    // Where b is 0, the quotient does not exist; no such row reaches the second join.
    let sql = "SELECT count(*) FROM big JOIN mid ON big.id = mid.id AND big.b <> 0 \
               JOIN tiny ON tiny.id = mid.k AND 100 / big.b > tiny.b";
    let [on, off] = both.ask(sql).map(text);
    assert_eq!((on.as_str(), off.as_str()), ("37", "37"));
}

#[test]
fn groups_that_a_join_does_not_ask_for_are_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let both = store(folder.path());
    let grouped = "(SELECT id, count(*) AS n FROM big GROUP BY id) AS g";
    let sql = format!("SELECT sum(n) FROM {grouped} JOIN tiny ON g.id = tiny.id");
    let [plan, _] = both.ask(&format!("EXPLAIN ANALYZE {sql}")).map(text);
    assert!(plan.contains("StoreFragment") && plan.contains("dynamic=["), "{plan}");
    assert!(plan.contains("rows_selected=2"), "{plan}");
    let [on, off] = both.ask(&sql).map(text);
    assert_eq!((on.as_str(), off.as_str()), ("2", "2"));
    // Filters on groups decide which of them are the first: they are not known below the limit.
    let first = "(SELECT id, count(*) AS n FROM big GROUP BY id ORDER BY id DESC LIMIT 5) AS g";
    let sql = format!("SELECT count(*) FROM {first} JOIN tiny ON g.id = tiny.id");
    assert_eq!(both.ask(&sql).map(text), ["0", "0"]);
}
