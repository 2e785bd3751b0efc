//! `sty bench`, and the timer of `sty query`.

use super::shell::Shell;

fn store() -> Shell {
    let shell = Shell::new();
    shell.file("t.csv", "k,x\n1,0.1\n2,0.2\n1,0.3\n");
    shell.stdout("ingest db/t t.csv");
    shell.file(
        "q.sql",
        "SET sty.native = off; SELECT k, sum(x) FROM t GROUP BY k;\n\
         -- again\nSELECT count(*) FROM t",
    );
    shell
}

#[test]
fn figures_of_each_statement_as_json() {
    let shell = store();
    let text = shell.stdout("bench db -f q.sql --runs 3 --threads 1 --format json");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let statements = report["statements"].as_array().unwrap();
    assert_eq!(statements.len(), 2, "SET is not timed");
    for (statement, rows) in statements.iter().zip([2, 1]) {
        let keys: Vec<&str> = statement.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "answer_hash",
            "median_ms",
            "min_ms",
            "p90_ms",
            "peak_memory_bytes",
            "rows",
            "runs",
            "sql",
        ];
        assert_eq!(keys, expected);
        assert_eq!((&statement["runs"], &statement["rows"]), (&3.into(), &rows.into()));
        let figure = |key: &str| statement[key].as_f64().unwrap();
        assert!(
            0.0 < figure("min_ms")
                && figure("min_ms") <= figure("median_ms")
                && figure("median_ms") <= figure("p90_ms")
        );
        assert_eq!(statement["answer_hash"].as_str().unwrap().len(), 16);
    }
    // The same answer from the other executor and in another order has the same hash.
    shell.file("other.sql", "SELECT k, sum(x) FROM t GROUP BY k ORDER BY k DESC");
    let other: serde_json::Value = serde_json::from_str(
        &shell.stdout("bench db -f other.sql --runs 1 --warm-up 0 --format json"),
    )
    .unwrap();
    assert_eq!(other["statements"][0]["answer_hash"], statements[0]["answer_hash"]);
}

#[test]
fn a_table_for_people_and_the_number_of_what_fails() {
    let shell = store();
    let table = shell.stdout("bench db -f q.sql --runs 1 --format table");
    assert!(table.contains("median ms") && table.contains("SELECT count(*) FROM t"), "{table}");
    let (code, stdout, stderr) = shell.pipe("bench db --runs 1", "SELECT 1; SELECT y FROM t");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("statement 2: "), "{stderr}");
    assert_eq!(shell.run("bench db --runs 0").0, 2);
}

#[test]
fn the_timer_reports_every_statement() {
    let shell = store();
    let (code, _, stderr) = shell.run("query db -f q.sql --timer");
    assert_eq!(code, 0);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{stderr}");
    assert!(lines[0].starts_with("done in ") && lines[1].starts_with("2 rows in "), "{stderr}");
}
