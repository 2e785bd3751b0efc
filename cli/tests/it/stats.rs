//! `sty query --stats` and `EXPLAIN ANALYZE`: what was read, and what was pruned by which
//! statistic.

use serde_json::{Value, json};

use super::shell::Shell;

/// The rows of each of the three segments: two whole blocks and a part of one.
const ROWS: usize = 150_000;
const BLOCK: usize = 65_536;

/// `id` counts up over three segments, and `k` is `id % 10`. In the first segment, `n` is missing
/// and `w` is `a` or `c`; in the others, `w` can be `b` too.
fn store() -> Shell {
    let shell = Shell::new();
    for segment in 0..3 {
        let mut text = String::from("id,k,n,w\n");
        for id in segment * ROWS..(segment + 1) * ROWS {
            let n = if segment == 0 { String::new() } else { (id % 7).to_string() };
            let w = if segment == 0 { ["a", "c"][id % 2] } else { ["a", "b", "c"][id % 3] };
            text += &format!("{id},{},{n},{w}\n", id % 10);
        }
        let name = format!("{segment}.csv");
        shell.file(&name, text);
        shell.stdout(&format!("ingest db/t {name}"));
    }
    shell
}

/// The report on a statement, which must be all that is on stderr.
fn report(shell: &Shell, sql: &str) -> Value {
    let (code, _, stderr) = shell.pipe("query db --stats=json --threads 1", sql);
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stderr).unwrap()
}

/// The counters of the only operator of the store.
fn only_store_operator(report: &Value) -> &Value {
    let operators = report["operators"].as_array().unwrap();
    let mut stored =
        operators.iter().map(|operator| &operator["store"]).filter(|store| !store.is_null());
    let only = stored.next().unwrap();
    assert!(stored.next().is_none(), "{report:#}");
    only
}

fn step<'a>(store: &'a Value, name: &str, detail: &str) -> &'a Value {
    let is_it = |step: &&Value| {
        step["step"] == name
            && (detail.is_empty() || step["detail"].as_str().unwrap().contains(detail))
    };
    let steps = store["steps"].as_array().unwrap();
    let found = steps.iter().find(is_it);
    assert!(found.is_some(), "no {name} {detail} in {store:#}");
    found.unwrap()
}

fn rows(step: &Value) -> (u64, u64) {
    (step["rows_in"].as_u64().unwrap(), step["rows_out"].as_u64().unwrap())
}

/// What a statistic pruned: segments, blocks, rows.
fn pruned(store: &Value, statistic: &str) -> [u64; 3] {
    ["segments", "blocks", "rows"].map(|what| store["pruned"][statistic][what].as_u64().unwrap())
}

#[test]
fn a_range_of_a_sorted_column() {
    let shell = store();
    let (low, high) = (ROWS + 70_000, ROWS + 140_000);
    let filter = format!("WHERE id >= {low} AND id < {high} AND abs(k - 3) <> 0");
    for (sql, executor, output) in [
        (format!("SELECT k, count(*) FROM t {filter} GROUP BY k"), "StoreFragment", "group"),
        (format!("SELECT id + k FROM t {filter}"), "StoreScan", "project"),
    ] {
        let report = report(&shell, &sql);
        assert!(
            report["operators"].as_array().unwrap().iter().any(|o| o["name"] == executor),
            "{report:#}"
        );
        let store = only_store_operator(&report);
        // The first block of the second segment ends before the range.
        assert_eq!(store["segments"], json!({"total": 3, "pruned": 2, "read": 1}), "{store:#}");
        assert_eq!(store["blocks"], json!({"total": 9, "pruned": 7, "read": 2}));
        assert_eq!(pruned(store, "manifest_min_max"), [2, 6, 2 * ROWS as u64]);
        assert_eq!(pruned(store, "zone_map_min_max"), [0, 1, BLOCK as u64]);
        for other in ["manifest_null_count", "zone_map_null_count", "dictionary", "top_n_threshold"]
        {
            assert_eq!(pruned(store, other), [0, 0, 0]);
        }
        let left = ROWS - BLOCK;
        assert_eq!(rows(step(store, "prune", "")), (3 * ROWS as u64, left as u64));
        assert_eq!(rows(step(store, "scan", "")), (left as u64, left as u64));
        // The lower end of the range is in the second block, and its upper end in the third, which
        // is short.
        let short = ROWS - 2 * BLOCK;
        let (from_low, to_high) = (ROWS + 2 * BLOCK - low, high - ROWS - 2 * BLOCK);
        let condition = step(store, "filter", ">=");
        assert_eq!(rows(condition), (left as u64, (from_low + short) as u64));
        assert_eq!(condition["rows_proven"], short);
        assert_eq!(
            (&condition["segments_pruned"], &condition["blocks_pruned"]),
            (&json!(1), &json!(4))
        );
        let condition = step(store, "filter", "<");
        assert_eq!(condition["rows_proven"], BLOCK);
        assert_eq!(rows(condition), (left as u64, (BLOCK + to_high) as u64));
        assert_eq!(
            (&condition["segments_pruned"], &condition["blocks_pruned"]),
            (&json!(1), &json!(3))
        );
        // It rejects a tenth of the rows that the others have left.
        let condition = step(store, "filter", "!=");
        let selected = (high - low) / 10 * 9;
        assert_eq!(condition["rows_out"], selected);
        assert_eq!(rows(step(store, output, "")).0, selected as u64);
        let answer = if output == "group" { 9 } else { selected };
        assert_eq!(step(store, output, "")["rows_out"], answer);
        assert_eq!(report["rows"], answer);
    }
}

#[test]
fn blocks_without_a_row_of_a_sample_are_not_read() {
    let shell = store();
    for (sql, output) in [
        ("SELECT k, sum(id) FROM t USING SAMPLE 1 ROWS (reservoir, 5) GROUP BY k", "group"),
        ("SELECT id + k FROM t USING SAMPLE 1 ROWS (reservoir, 5)", "project"),
    ] {
        let report = report(&shell, sql);
        let store = only_store_operator(&report);
        assert_eq!(store["segments"], json!({"total": 3, "pruned": 2, "read": 1}), "{store:#}");
        assert_eq!(store["blocks"], json!({"total": 9, "pruned": 8, "read": 1}));
        let [segments, blocks, rows] = pruned(store, "sample");
        assert_eq!((segments, blocks), (2, 8));
        assert_eq!(step(store, "filter", "TABLESAMPLE RESERVOIR (1 ROWS)")["rows_out"], 1);
        assert_eq!(step(store, "scan", "")["rows_out"], 3 * ROWS as u64 - rows);
        assert_eq!(step(store, output, "")["rows_out"], 1);
    }
}

#[test]
fn bytes_are_those_of_the_columns_and_blocks_that_were_read() {
    let shell = store();
    let bytes =
        |sql: &str| only_store_operator(&report(&shell, sql))["bytes"]["read"].as_u64().unwrap();
    let (id, k) = (bytes("SELECT sum(id * id) FROM t"), bytes("SELECT sum(k * k) FROM t"));
    assert!(id > 0 && k > 0);
    assert_eq!(bytes("SELECT sum(id + k) FROM t"), id + k);
    // Two halves of the table add up to the whole, and what is pruned is not read.
    let at = 2 * ROWS;
    let low = bytes(&format!("SELECT sum(id * id) FROM t WHERE id < {at}"));
    let high = bytes(&format!("SELECT sum(id * id) FROM t WHERE id >= {at}"));
    assert_eq!(low + high, id);
    // A column is counted once, even if a query for the first rows of an order reads it again.
    assert!(bytes("SELECT id, k FROM t ORDER BY k, id LIMIT 3") <= id + k);
}

#[test]
fn nulls_dictionaries_and_thresholds_prune() {
    let shell = store();
    let counters = |sql: &str| only_store_operator(&report(&shell, sql)).clone();
    for (filter, read) in [("n > 3", 6), ("n IS NOT NULL", 0)] {
        let store = counters(&format!("SELECT count(*) FROM t WHERE {filter} AND k < 20"));
        assert_eq!(pruned(&store, "manifest_null_count"), [1, 3, ROWS as u64], "{store:#}");
        // All other rows are not null, which suffices to count them.
        assert_eq!(pruned(&store, "zone_map_totals")[1], 6 - read, "{store:#}");
        assert_eq!(store["blocks"], json!({"total": 9, "pruned": 9 - read, "read": read}));
    }
    let store = counters("SELECT count(*) FROM t WHERE w = 'b'");
    assert_eq!(pruned(&store, "dictionary"), [0, 3, ROWS as u64], "{store:#}");
    assert_eq!(step(&store, "filter", "w")["rows_out"], 2 * ROWS / 3);
    assert_eq!(store["segments"], json!({"total": 3, "pruned": 0, "read": 2}));
    let store = counters("SELECT id, w FROM t ORDER BY id DESC LIMIT 4");
    assert_eq!(
        pruned(&store, "top_n_threshold"),
        [2, 8, (2 * ROWS + 2 * BLOCK) as u64],
        "{store:#}"
    );
    assert_eq!(store["blocks"], json!({"total": 9, "pruned": 8, "read": 1}));
    assert_eq!(rows(step(&store, "order", "")), ((ROWS - 2 * BLOCK) as u64, 4));
    assert_eq!(store["values"]["fetched"].as_u64().unwrap() % 4, 0);
}

#[test]
fn a_statement_knows_the_rows_that_an_earlier_one_has_found() {
    let shell = store();
    let reports = |sql: &str| -> Vec<Value> {
        let (code, _, stderr) = shell.pipe("query db --stats=json --threads 1", sql);
        assert_eq!(code, 0, "{stderr}");
        let reports = serde_json::Deserializer::from_str(&stderr).into_iter();
        let reports = reports.map(Result::unwrap).filter(|report: &Value| report["rows"] != 0);
        reports.map(|report| only_store_operator(&report).clone()).collect()
    };
    // One block has rows that pass, and one has none.
    let filter =
        format!("WHERE k = 5 AND n = 0 AND w = 'c' AND (id < {} OR id = 400003)", ROWS + 9_000);
    for what in ["count(*)", "id, w"] {
        let sql = format!("SELECT {what} FROM t {filter}");
        let all = reports(&format!(
            "SELECT max(id) FROM t {filter}; {sql}; SET sty.known_rows = off; {sql}"
        ));
        let [first, second, off] = all.as_slice() else { panic!("{all:#?}") };
        assert_eq!(pruned(first, "known_rows"), [0, 0, 0]);
        let read = |store: &Value| store["blocks"]["read"].as_u64().unwrap();
        assert_eq!((read(first), read(second), read(off)), (2, 1, 2), "{second:#}");
        assert_eq!(pruned(second, "known_rows")[..2], [0, 1], "{second:#}");
        let forms = &step(second, "filter", "k")["blocks_tested"];
        assert_eq!(forms["known_rows"], 1, "{second:#}");
        assert_eq!(pruned(off, "known_rows"), [0, 0, 0]);
    }
}

/// A segment without the column has nulls there, which say nothing about texts in other segments:
/// no segment may be left out.
#[test]
fn first_rows_by_a_column_that_came_later() {
    let shell = Shell::new();
    shell.file("old.csv", "id\n1\n2\n");
    shell.file("new.csv", "id,word\n3,b\n4,\n5,a\n");
    shell.stdout("ingest db/t old.csv");
    shell.stdout("ingest db/t new.csv");
    let first = |order: &str, limit: usize| {
        let sql = format!("SELECT id FROM t ORDER BY word {order}, id DESC LIMIT {limit}");
        shell.stdout_of("query db --format csv --threads 1", &sql).replace('\n', " ")
    };
    assert_eq!(first("NULLS LAST", 2), "id 5 3 ");
    assert_eq!(first("NULLS LAST", 5), "id 5 3 4 2 1 ");
    assert_eq!(first("NULLS FIRST", 3), "id 4 2 1 ");
    assert_eq!(first("DESC NULLS LAST", 4), "id 3 5 4 2 ");
}

#[test]
fn an_answer_from_metadata_reads_nothing() {
    let shell = store();
    let report = report(&shell, "SELECT count(*), max(id), min(k) FROM t");
    let store = only_store_operator(&report);
    assert_eq!(store["from_metadata"], true);
    assert_eq!(store["blocks"], json!({"total": 9, "pruned": 0, "read": 0}));
    assert_eq!(store["bytes"]["read"], 0);
    assert_eq!(rows(step(store, "metadata", "")), (3 * ROWS as u64, 1));
    let plan = shell.stdout_of("query db --format jsonl", "EXPLAIN ANALYZE SELECT count(*) FROM t");
    assert!(plan.contains("answered_from_metadata=1"), "{plan}");
}

#[test]
fn explain_analyze_has_the_same_figures() {
    let shell = store();
    let sql =
        format!("EXPLAIN ANALYZE SELECT w, sum(id) FROM t WHERE id < {} GROUP BY w", BLOCK + 1);
    let plan = shell.stdout_of("query db --format jsonl", &sql);
    for figure in [
        "segments=3",
        "segments_pruned=2",
        "segments_read=1",
        "blocks_read=2",
        "blocks_pruned=7",
        "blocks_pruned_by_manifest_min_max=6",
        "blocks_pruned_by_zone_map_min_max=1",
        "filter_1_rows_in=131.1 K",
        "filter_1_rows_out=65.54 K",
        "filter_1_blocks_by_integer_range=1",
        "output_rows=2",
        "time_filter_1=",
        "time_output=",
    ] {
        assert!(plan.contains(figure), "{figure}\n{plan}");
    }
}

#[test]
fn the_rest_of_the_plan_times_memory_and_spills() {
    let shell = store();
    let report = report(&shell, "SELECT median(k) FROM t");
    let operators = report["operators"].as_array().unwrap();
    assert!(operators.iter().any(|operator| operator["rows_out"] == 3 * ROWS), "{report:#}");
    assert_eq!((&report["rows"], &report["spill_files"]), (&json!(1), &json!(0)));
    let figure = |key: &str| report[key].as_f64().unwrap();
    assert!(figure("planning_ms") > 0.0 && figure("execution_ms") > 0.0);
    // Each is rounded to the microsecond.
    assert!(figure("total_ms") + 0.002 >= figure("planning_ms") + figure("execution_ms"));
    if cfg!(target_os = "linux") {
        assert!(report["peak_memory_bytes"].as_u64().unwrap() > 0);
    }
    let line =
        "query db --stats=json --threads 1 --memory-limit 14MiB --temp-dir tmp -o sorted.csv";
    let (code, _, stderr) = shell.pipe(line, "SELECT id, n, w FROM t ORDER BY n, id");
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stderr).unwrap();
    assert!(report["spilled_bytes"].as_u64().unwrap() > 1 << 20, "{report:#}");
    assert!(report["spill_files"].as_u64().unwrap() > 0);
    // The directory was made for them, and they are gone.
    assert_eq!(std::fs::read_dir(shell.path("tmp")).unwrap().count(), 0);
}

#[test]
fn too_little_memory_is_5_and_says_what_helps() {
    let shell = store();
    let (code, stdout, stderr) =
        shell.pipe("query db --threads 4 --memory-limit 1MiB", "SELECT array_agg(id || w) FROM t");
    assert_eq!((code, stdout.as_str()), (5, ""), "{stderr}");
    assert!(stderr.contains("larger --memory-limit or fewer --threads"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn one_report_a_statement_and_none_on_stdout() {
    let shell = store();
    let sql = "SET sty.native = on; SELECT count(*) AS n FROM t WHERE k = 3; SELECT 1 AS one";
    let (code, stdout, stderr) = shell.pipe("query db --stats=json -q", sql);
    assert_eq!((code, stdout.as_str()), (0, "n\n45000\none\n1\n"));
    let reports: Vec<Value> =
        stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sqls: Vec<&str> = reports.iter().map(|report| report["sql"].as_str().unwrap()).collect();
    assert_eq!(sqls.len(), 3);
    assert_eq!(sqls[1], "SELECT count(*) AS n FROM t WHERE k = 3");
    let (code, stdout, stderr) =
        shell.pipe("query db --stats --threads 1", "SELECT k FROM t WHERE id = 5");
    assert_eq!((code, stdout.as_str()), (0, "k\n5\n"));
    for part in
        ["1 row in ", "StoreScan of t", "blocks    1 of 9 read, 8 pruned", "65,536", "id = "]
    {
        assert!(stderr.contains(part), "{part}\n{stderr}");
    }
    assert_eq!(shell.pipe("query db --stats=xml", "SELECT 1").0, 2);
}
