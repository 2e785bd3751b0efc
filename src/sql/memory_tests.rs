//! Statements that need more memory than there is, or would take more before they read a row.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use crate::error::Error;
use crate::ingest::arrange::SortBy;
use crate::sql::store_tests::{ingest_sorted, write};
use crate::sql::tests::rows;
use crate::sql::{Session, SessionOptions};
use crate::store::Store;

/// A session with so many MiB over a store with 200,000 rows of texts.
fn session(directory: &tempfile::TempDir, memory: u64) -> Session {
    let options = SessionOptions {
        threads: Some(2),
        create: true,
        memory_limit: Some(memory << 20),
        ..SessionOptions::default()
    };
    let session = Session::open(&Store::open(directory.path().join("db")), &options).unwrap();
    let create = "CREATE TABLE IF NOT EXISTS t AS SELECT value AS n, \
         'a text of some length that is number ' || (value * 7919 % 200003) AS s \
         FROM generate_series(1, 200000)";
    rows(&session, create, &[]).unwrap();
    session
}

fn plan(session: &Session, sql: &str) -> String {
    rows(session, &format!("EXPLAIN {sql}"), &[]).unwrap().join("\n")
}

#[test]
fn an_offset_fetches_no_row_that_it_skips() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 256);
    for (sql, skip) in [
        ("SELECT n, s FROM t ORDER BY s, n LIMIT 3 OFFSET 50000", "limit=50003, skip=50000"),
        ("SELECT n FROM t ORDER BY s LIMIT 3 OFFSET 199998", "limit=200001, skip=199998"),
        ("SELECT s FROM t WHERE n > 9 ORDER BY n DESC LIMIT 3 OFFSET 1", "limit=4, skip=1"),
        ("SELECT n FROM t ORDER BY n LIMIT 3 OFFSET 300000", "limit=300003, skip=300000"),
        ("SELECT n FROM t ORDER BY n LIMIT 0 OFFSET 3", ""),
    ] {
        let plan = plan(&session, sql);
        assert!(plan.contains(skip) && (skip.is_empty() || !plan.contains("LimitExec")), "{plan}");
        let answer = rows(&session, sql, &[]).unwrap();
        rows(&session, "SET sty.native = off", &[]).unwrap();
        assert_eq!(answer, rows(&session, sql, &[]).unwrap(), "{sql}");
        rows(&session, "SET sty.native = on", &[]).unwrap();
        rows(&session, "SET sty.group_memory = 1000000", &[]).unwrap();
        assert_eq!(answer, rows(&session, sql, &[]).unwrap(), "{sql}");
        rows(&session, &format!("SET sty.group_memory = {}", usize::MAX), &[]).unwrap();
    }
}

#[test]
fn limits_of_many_rows_are_sorts_that_spill() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 32);
    let many = "SELECT DISTINCT s || '!' AS x, n FROM t ORDER BY x, n LIMIT 150000";
    let plan_of_many = plan(&session, many);
    assert!(!plan_of_many.contains("TopK"), "{plan_of_many}");
    assert!(plan_of_many.contains("GlobalLimitExec: skip=0, fetch=150000"), "{plan_of_many}");
    let few = plan(&session, &many.replace("150000", "1500"));
    assert!(few.contains("TopK"), "{few}");
    let first = rows(&session, many, &[]).unwrap();
    assert!(first.len() == 150_000 && first.is_sorted());
}

#[test]
fn a_sort_of_more_rows_than_fit_spills() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 24);
    for sql in
        ["SELECT s FROM t ORDER BY s", "SELECT s || s || s || s || s AS x FROM t ORDER BY x, n"]
    {
        let sorted = rows(&session, sql, &[]).unwrap();
        assert!(sorted.len() == 200_000 && sorted.is_sorted(), "{sql}");
    }
}

/// What is stored in order is not sorted: its parts are merged, and readers run ahead of the merge.
#[test]
fn a_merge_of_stored_order_finds_memory() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 12);
    let file = dir.path().join("t.parquet");
    let texts: ArrayRef =
        Arc::new((0..200_000).map(|n| Some(format!("{n:060}"))).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
    write(&file, &RecordBatch::try_from_iter([("n", numbers), ("s", texts)]).unwrap());
    let by_n = SortBy { column: "n".to_owned(), descending: false, nulls_first: false };
    ingest_sorted(&Store::open(dir.path().join("db")), "ordered", &file, vec![by_n]);
    let sql = "SELECT n, s || s || s FROM ordered ORDER BY n DESC";
    let plan = plan(&session, sql);
    assert!(plan.contains("BufferExec") && !plan.contains("SortExec"), "{plan}");
    for _ in 0..5 {
        let sorted = rows(&session, sql, &[]).unwrap();
        assert!(sorted.len() == 200_000 && sorted[0].starts_with("199999|"), "{}", sorted[0]);
    }
}

/// The hash table of the join takes more than the half that the writer leaves.
#[test]
fn the_rows_of_a_new_table_may_need_a_join_of_sorted_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 32);
    let join = "SELECT a.n, a.s || b.s AS s FROM (SELECT n + 0 AS n, s || s AS s FROM t) a \
         JOIN (SELECT n * 1 AS n, s || s || s AS s FROM t) b ON a.n = b.n";
    rows(&session, &format!("CREATE TABLE joined AS {join}"), &[]).unwrap();
    rows(&session, &format!("INSERT INTO joined {join}"), &[]).unwrap();
    let counted = rows(&session, "SELECT count(*), sum(n), count(DISTINCT s) FROM joined", &[]);
    assert_eq!(counted.unwrap(), ["400000|40000200000|200000"]);
}

/// The values of few groups take several times the memory.
#[test]
fn values_of_groups_spill() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 48);
    let distinct = "SELECT n % 2 AS k, count(*), count(DISTINCT (n, s)) FROM t GROUP BY k \
         ORDER BY k";
    assert_eq!(rows(&session, distinct, &[]).unwrap(), ["0|100000|100000", "1|100000|100000"]);
    for (sql, expected) in [
        ("SELECT count(*), count(DISTINCT (n, s)) FROM t", "200000|200000"),
        ("SELECT mode(s) = (SELECT min(s) FROM t), count(*) FROM t", "true|200000"),
        ("SELECT quantile_disc(s, 0) = min(s), quantile_disc(s, 1) = max(s) FROM t", "true|true"),
    ] {
        assert_eq!(rows(&session, sql, &[]).unwrap(), [expected], "{sql}");
    }
    // What such a statement becomes.
    let medians = "SELECT k, median(v), quantile_cont(v, 0.25) FROM (SELECT n % 2 AS k, \
         CAST(n AS DOUBLE) AS v FROM t) GROUP BY k ORDER BY k";
    let expected = rows(&session, medians, &[]).unwrap();
    assert!(!plan(&session, medians).contains("#rank"));
    rows(&session, "SET datafusion.optimizer.prefer_hash_join = false", &[]).unwrap();
    assert!(plan(&session, medians).contains("#rank"));
    assert_eq!(rows(&session, medians, &[]).unwrap(), expected);
}

/// The left side of a join by ranges takes several times the memory.
#[test]
fn a_join_by_ranges_has_its_left_side_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 24);
    let sql = "SELECT count(*), sum(a.n), sum(b.p), max(length(a.s)) > 80 FROM (SELECT n, n + 2 \
         AS e, s || s AS s FROM t) a JOIN (SELECT n + 1 AS p, s || s AS s FROM t) b ON b.p \
         BETWEEN a.n AND a.e AND a.s <> b.s || 'x'";
    // Each point is in three ranges, but the first and the last one in two.
    let expected = ["599998|60000099999|60000699997|true"];
    assert_eq!(rows(&session, sql, &[]).unwrap(), expected);
    rows(&session, "SET datafusion.optimizer.prefer_hash_join = false", &[]).unwrap();
    let plan = plan(&session, sql);
    assert!(plan.contains("left=in parts"), "{plan}");
    assert_eq!(rows(&session, sql, &[]).unwrap(), expected);
}

/// Neither side fits in a hash table, and the conditions compare both.
#[test]
fn joins_with_conditions_beside_their_keys_sort_their_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 32);
    let a = "(SELECT n + 0 AS n, s || s || s AS s FROM t) a";
    let b = "(SELECT n * 1 AS n, s || s || s || s AS s FROM t) b";
    let condition = "a.n = b.n AND (a.n + b.n) % 4 = 0 AND a.s < b.s";
    for (from, expected) in [
        (format!("{a} JOIN {b} ON {condition}"), "100000|10000100000"),
        (format!("{a} WHERE EXISTS (SELECT 1 FROM {b} WHERE {condition})"), "100000|10000100000"),
        (
            format!("{a} WHERE NOT EXISTS (SELECT 1 FROM {b} WHERE {condition})"),
            "100000|10000000000",
        ),
    ] {
        let sql = format!("SELECT count(*), sum(a.n) FROM {from}");
        assert_eq!(rows(&session, &sql, &[]).unwrap(), [expected], "{sql}");
    }
    // All pairs of 20 rows in order, and each last or first row alone.
    let condition = "a.n // 20 = b.n // 20 AND a.n < b.n";
    for (join, expected) in [
        ("LEFT", "1909982|1909982|1899981"),
        ("RIGHT", "1909982|1899981|1909982"),
        ("FULL", "1919983|1909982|1909982"),
    ] {
        let sql = format!(
            "SELECT count(*), count(a.n), count(b.n), max(length(b.s)) FROM {a} {join} JOIN {b} \
             ON {condition}"
        );
        let answer = rows(&session, &sql, &[]).unwrap();
        assert!(answer[0].starts_with(expected), "{sql}: {answer:?}");
    }
    // What goes by the order of the join still does.
    let sql = format!(
        "SELECT sum(r), max(length(s)) > 100 FROM (SELECT row_number() OVER (PARTITION BY a.n \
         ORDER BY b.n) AS r, b.s FROM {a} LEFT JOIN {b} ON a.n = b.n AND a.s < b.s)"
    );
    assert_eq!(rows(&session, &sql, &[]).unwrap(), ["200000|true"]);
}

/// The same rows as those of hash joins, in batches that end anywhere among the pairs of a row.
#[test]
fn outer_joins_of_sorted_inputs_have_the_rows_of_hash_joins() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 256);
    let a = "(SELECT n, CASE WHEN n % 11 > 0 THEN n % 7 END AS k, s FROM t WHERE n <= 200) a";
    let b = "(SELECT n, CASE WHEN n % 13 > 0 THEN n % 9 - 1 END AS k, s FROM t WHERE n <= 150) b";
    for batch_rows in [2, 7, 64, 8192] {
        let batch = format!("SET datafusion.execution.batch_size = {batch_rows}");
        rows(&session, &batch, &[]).unwrap();
        for condition in [
            "a.n < b.n",
            "a.n > 190 + b.n",
            "(a.n + b.n) % 50 = 0",
            "a.n % 3 = 0",
            "b.n % 3 = 0 AND a.s > b.s",
            "coalesce(a.n, 0) + coalesce(b.n, 0) > 250",
            "CASE WHEN a.n % 2 = 0 THEN NULL ELSE a.n = b.n END",
        ] {
            for join in ["FULL", "LEFT", "RIGHT"] {
                let sql = format!(
                    "SELECT a.n, b.n, a.k, b.k, length(a.s) + length(b.s) FROM {a} {join} JOIN {b} \
                     ON a.k = b.k AND {condition} ORDER BY ALL"
                );
                let expected = rows(&session, &sql, &[]).unwrap();
                rows(&session, "SET datafusion.optimizer.prefer_hash_join = false", &[]).unwrap();
                let sorted = plan(&session, &sql);
                assert!(sorted.contains("SortMergeJoinExec"), "{sorted}");
                assert_eq!(rows(&session, &sql, &[]).unwrap(), expected, "{batch_rows} {sql}");
                rows(&session, "SET datafusion.optimizer.prefer_hash_join = true", &[]).unwrap();
            }
        }
    }
}

/// All inner rows have the same key, and wait for its last outer row.
#[test]
fn inner_rows_of_a_full_join_wait_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 32);
    rows(&session, "SET datafusion.optimizer.prefer_hash_join = false", &[]).unwrap();
    let sql = "SELECT count(*), count(a.n), count(b.n), sum(length(b.s)) > 10000000 FROM (SELECT \
         n, n // 1000000 AS k FROM t WHERE n < 4) a FULL JOIN (SELECT n, n // 1000000 AS k, s || s \
         AS s FROM t) b ON a.k = b.k AND a.n > b.n";
    // The pairs 2-1, 3-1 and 3-2; 1 alone on the left, and all but two on the right.
    assert_eq!(rows(&session, sql, &[]).unwrap(), ["200002|4|200001|true"]);
}

#[test]
fn not_in_over_nulls_sorts_its_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let small = session(&dir, 24);
    let left = "(SELECT n, CASE WHEN n % 10 > 0 THEN n END AS k, s || s || s AS s FROM t)";
    for (right, expected) in [
        // Odd numbers, none of which is a multiple of ten.
        ("SELECT n * 2 FROM t", "100000|10000000000|true"),
        ("SELECT CASE WHEN n < 200000 THEN n * 2 END FROM t", "0|∅|∅"),
        ("SELECT n FROM t WHERE n * 2 < 0", "200000|20000100000|true"),
    ] {
        let sql = format!(
            "SELECT count(*), sum(n), max(length(s)) > 100 FROM {left} WHERE k NOT IN ({right})"
        );
        assert_eq!(rows(&small, &sql, &[]).unwrap(), [expected], "{sql}");
    }
    let session = session(&dir, 256);
    rows(&session, "SET datafusion.execution.batch_size = 16", &[]).unwrap();
    for (left, right) in [
        ("CASE WHEN n % 3 > 0 THEN n END", "CASE WHEN n % 5 > 0 THEN n * 2 ELSE 7 END"),
        ("CASE WHEN n % 3 > 0 THEN s END", "CASE WHEN n % 2 > 0 THEN s ELSE '' END"),
        ("CASE WHEN n % 3 > 0 THEN s END", "CASE WHEN n < 299 THEN s END"),
        ("CASE WHEN n > 900 THEN n END", "CASE WHEN n = 5 THEN n END"),
        (
            "CASE WHEN n % 5 > 0 THEN n / 4.0e0 - 1 END",
            "CASE WHEN n % 3 > 0 THEN -0.0e0 ELSE n END",
        ),
    ] {
        let sql = format!(
            "SELECT n, s FROM t WHERE n <= 1000 AND {left} NOT IN (SELECT {right} FROM t WHERE \
             n < 300) ORDER BY n"
        );
        let expected = rows(&session, &sql, &[]).unwrap();
        rows(&session, "SET datafusion.optimizer.prefer_hash_join = false", &[]).unwrap();
        let sorted = plan(&session, &sql);
        assert!(sorted.contains("NotInExec"), "{sorted}");
        assert_eq!(rows(&session, &sql, &[]).unwrap(), expected, "{sql}");
        rows(&session, "SET datafusion.optimizer.prefer_hash_join = true", &[]).unwrap();
    }
}

/// States are handed out before the last row has come, and values come again after that.
#[test]
fn distinct_and_sorted_values_of_groups_spill() {
    let dir = tempfile::tempdir().unwrap();
    let sql = "SELECT count(*), sum(length(a)), sum(length(b)), sum(len(c)) FROM (SELECT n % 50021, \
         string_agg(DISTINCT s, ',' ORDER BY s DESC) AS a, string_agg(s, ',' ORDER BY n) AS b, \
         array_agg(DISTINCT n % 7) AS c FROM t GROUP BY n % 50021)";
    let expected = rows(&session(&dir, 1024), sql, &[]).unwrap();
    let small = session(&dir, 48);
    assert_eq!(rows(&small, sql, &[]).unwrap(), expected);
    let explained = rows(&small, &format!("EXPLAIN ANALYZE {sql}"), &[]).unwrap().join("\n");
    let mut groups = explained.lines().filter(|line| line.contains("AggregateExec: mode=Final"));
    assert!(
        groups.any(|line| line.contains("spill_count=") && !line.contains("spill_count=0")),
        "{explained}"
    );
}

#[test]
fn long_patterns_are_refused_wherever_they_come_from() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 256);
    let long = "%a".repeat(40_000);
    let alternatives = vec!["a1"; 40_000].join("|");
    for condition in [
        format!("s LIKE '{long}'"),
        format!("s NOT ILIKE '{long}'"),
        format!("s SIMILAR TO '{long}'"),
        format!("s ~ '{alternatives}'"),
        format!("s !~* '{alternatives}'"),
        format!("regexp_like(s, '{alternatives}')"),
        format!("regexp_replace(s, '{alternatives}', 'x') = s"),
        "s LIKE repeat('%a', 40000)".to_owned(),
    ] {
        let shown = &condition[..condition.len().min(40)];
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        match rows(&session, &sql, &[]) {
            Err(Error::LimitExceeded(what)) => assert!(what.contains("a pattern of"), "{what}"),
            other => panic!("{shown}: {other:?}"),
        }
    }
    let long = format!("SELECT count(*) FROM t WHERE s LIKE '{}'", "%a".repeat(1000));
    assert_eq!(rows(&session, &long, &[]).unwrap(), ["0"]);
}

#[test]
fn rows_of_a_window_over_whole_partitions_wait_in_files() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 24);
    let all = "SELECT sum(c), count(DISTINCT m), sum(length(x)) FROM (SELECT s || s || s || s AS x, \
         count(*) OVER () AS c, max(s) OVER () AS m FROM t)";
    let answer = rows(&session, all, &[]).unwrap();
    assert_eq!(answer, ["40000000000|1|33955580"]);
    let explained = rows(&session, &format!("EXPLAIN ANALYZE {all}"), &[]).unwrap().join("\n");
    let line = explained.lines().find(|line| line.contains("WholePartitionsExec")).unwrap();
    assert!(line.contains("spilled_rows=") && !line.contains("spilled_rows=0"), "{line}");
    let parts = "SELECT max(q), sum(length(x)) FROM (SELECT s || s || s || s AS x, ntile(4) OVER \
         (ORDER BY n) AS q FROM t)";
    let small = self::session(&dir, 12);
    assert_eq!(rows(&small, parts, &[]).unwrap(), ["4|33955580"]);
    let explained = rows(&small, &format!("EXPLAIN ANALYZE {parts}"), &[]).unwrap().join("\n");
    let line = explained.lines().find(|line| line.contains("WholePartitionsExec")).unwrap();
    assert!(line.contains("spilled_rows=") && !line.contains("spilled_rows=0"), "{line}");
    let lists = "SELECT max(length(l)) FROM (SELECT string_agg(s, ',') OVER (PARTITION BY n / 50) \
         AS l FROM t)";
    assert_eq!(rows(&session, lists, &[]).unwrap(), ["2173"]);
    let whole = "SELECT max(q), sum(length(x)) FROM (SELECT s || s || s || s AS x, count(*) OVER \
         (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS q FROM t)";
    match rows(&small, whole, &[]) {
        Err(Error::LimitExceeded(what)) => assert!(what.contains("must fit in memory"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// What is known of other windows, and of the rows, beside functions of whole partitions.
#[test]
fn rows_of_partitions_that_do_not_fit_wait_for_ranks_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 20);
    let long = "s || s || s || s AS x";
    for by in ["", "PARTITION BY n // 30000", "PARTITION BY n // 3000", "PARTITION BY n // 7"] {
        for keys in ["n // 3", "n // 45000, n % 3", "0 * n", "-n"] {
            let sql = format!(
                "SELECT count(*), sum(length(x)) FROM (SELECT {long}, percent_rank() OVER w AS p, \
                 cume_dist() OVER w AS c, rank() OVER w AS r, count(*) OVER w AS upto, count(*) \
                 OVER ({by}) AS a FROM t WINDOW w AS ({by} ORDER BY {keys})) WHERE p = CAST(r - 1 \
                 AS DOUBLE) / greatest(a - 1, 1) AND c = CAST(upto AS DOUBLE) / a"
            );
            assert_eq!(rows(&session, &sql, &[]).unwrap(), ["200000|33955580"], "{sql}");
        }
        let sql = format!(
            "SELECT count(*), sum(length(x)) FROM (SELECT {long}, ntile(7) OVER w AS q, \
             row_number() OVER w - 1 AS r, count(*) OVER ({by}) AS a FROM t WINDOW w AS ({by} \
             ORDER BY n)) WHERE q = CASE WHEN r < a % 7 * (a // 7 + 1) THEN r // (a // 7 + 1) + 1 \
             ELSE a % 7 + (r - a % 7 * (a // 7 + 1)) // greatest(a // 7, 1) + 1 END"
        );
        assert_eq!(rows(&session, &sql, &[]).unwrap(), ["200000|33955580"], "{sql}");
        let sql = format!(
            "SELECT count(*), sum(length(x)) FROM (SELECT {long}, min(n) OVER ({by}) AS low, \
             max(n) OVER ({by}) AS high, first_value(n) OVER w AS f, last_value(s) OVER w AS l, \
             nth_value(n, 2) OVER w AS two, nth_value(n, 100000) OVER w AS far, first_value(CASE \
             WHEN n % 5 = 4 THEN n END) IGNORE NULLS OVER w AS valid, last_value(CASE WHEN n < 0 \
             THEN s END) IGNORE NULLS OVER w AS none, sum(n) OVER w AS total, max(n) FILTER (WHERE \
             n % 5 = 4) OVER w AS most, count(*) FILTER (WHERE n % 5 = 4) OVER w AS c FROM t \
             WINDOW w AS ({by} ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED \
             FOLLOWING)) WHERE f = low AND l = 'a text of some length that is number ' || (high * \
             7919 % 200003) AND two IS NOT DISTINCT FROM \
             CASE WHEN high > low THEN low + 1 END AND far IS NOT \
             DISTINCT FROM CASE WHEN high - low > 99998 THEN low + 99999 END AND valid IS NOT \
             DISTINCT FROM CASE WHEN low + (9 - low % 5) % 5 <= high THEN low + (9 - low % 5) % 5 \
             END AND none IS NULL AND total = (low + high) * (high - low + 1) // 2 AND c = \
             (high + 1) // 5 - low // 5 AND most IS NOT DISTINCT FROM CASE WHEN c > 0 THEN (high + \
             1) // 5 * 5 - 1 END"
        );
        assert_eq!(rows(&session, &sql, &[]).unwrap(), ["200000|33955580"], "{sql}");
    }
}

#[test]
fn running_windows_hold_no_texts_that_they_have_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 20);
    // 30 MB of texts.
    let create = "CREATE TABLE long AS SELECT value AS n, value % 7 AS g, \
         repeat('text of number ' || value, 500) AS s FROM generate_series(1, 3000)";
    rows(&session, create, &[]).unwrap();
    let length = "SELECT sum(length(s)) FROM long";
    // The shortest text is "text of number 1".
    let length: i64 = rows(&session, length, &[]).unwrap()[0].parse().unwrap();
    for (window, sum) in [
        ("row_number() OVER (ORDER BY n)", 3000 * 3001 / 2),
        ("rank() OVER (ORDER BY s)", 3000 * 3001 / 2),
        ("lag(n, 1, 0) OVER (PARTITION BY g ORDER BY n)", 2993 * 2994 / 2),
        ("length(lead(s, 2, 'ab') OVER (ORDER BY n))", length - 500 * 2 * 16 + 4),
        ("length(first_value(s) OVER (ORDER BY n))", 3000 * 500 * 16),
    ] {
        let sql = format!("SELECT sum(length(s) + w) FROM (SELECT s, {window} AS w FROM long)");
        assert_eq!(rows(&session, &sql, &[]).unwrap(), [(length + sum).to_string()], "{sql}");
    }
}

#[test]
fn windows_over_whole_partitions_are_aggregated_where_they_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 64);
    for (window, mode) in [
        ("sum(n) OVER (PARTITION BY s)", "rows=hashed"),
        (
            "sum(n) OVER (PARTITION BY s), rank() OVER (PARTITION BY s ORDER BY n)",
            "rows=aggregated",
        ),
        ("count(DISTINCT n) OVER (PARTITION BY s)", "rows=aggregated"),
        ("string_agg(s, ',') OVER (PARTITION BY n / 3)", "rows=aggregated"),
        ("sum(n) FILTER (WHERE n > 1) OVER (PARTITION BY s)", "rows=waiting"),
        ("avg(n) FILTER (WHERE n > 1) OVER (PARTITION BY s)", "rows=together"),
        (
            "count(*) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            "=together",
        ),
        ("ntile(3) OVER (ORDER BY n)", "rows=waiting"),
        ("lag(n) OVER (ORDER BY n), cume_dist() OVER (ORDER BY n)", "rows=waiting"),
    ] {
        let plan = plan(&session, &format!("SELECT {window} FROM t"));
        assert!(plan.contains("WholePartitionsExec") && plan.contains(mode), "{window}: {plan}");
    }
    // What collects values is shared like others.
    let twice = "WITH w AS (SELECT n, string_agg(s, ',') OVER (PARTITION BY n / 3) AS l FROM t) \
         SELECT count(*) FROM w a JOIN w b ON a.l = b.l";
    let plan = plan(&session, twice);
    assert!(plan.contains("SharedExec"), "{plan}");
    // A partition has all memory that is not another's, on any number of threads.
    let many = SessionOptions {
        threads: Some(8),
        memory_limit: Some(64 << 20),
        ..SessionOptions::default()
    };
    let many = Session::open(&Store::open(dir.path().join("db")), &many).unwrap();
    let ranked = "SELECT count(*), max(q) FROM (SELECT *, count(*) OVER (ORDER BY n ROWS BETWEEN \
         CURRENT ROW AND UNBOUNDED FOLLOWING) AS q FROM t) WHERE q > 0";
    assert_eq!(rows(&many, ranked, &[]).unwrap(), ["200000|200000"]);
}

#[test]
fn texts_and_lists_that_grow_are_counted_before_they_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir, 64);
    for (sql, what) in [
        ("SELECT string_agg(s, ',') OVER (ORDER BY n) FROM t", "rows of a window"),
        ("SELECT string_agg(s, ',') OVER () FROM t", "a window gives to"),
        ("SELECT array_agg(n) OVER (ORDER BY n ROWS 100000 PRECEDING) FROM t", "rows of a window"),
        ("SELECT max(length(repeat(s, 1000000))) FROM t", "repeat would"),
    ] {
        let error = rows(&session, sql, &[]).unwrap_err();
        assert!(matches!(&error, Error::LimitExceeded(text) if text.contains(what)), "{error}");
    }
    for (sql, answer) in [
        ("SELECT sum(length(s || '-' || s)) > 1 FROM t", "true"),
        ("SELECT sum(length(repeat(s, 9) || repeat(s, 9))) = 18 * sum(length(s)) FROM t", "true"),
        (
            "SELECT max(length(concat(repeat(s, 9), repeat(s, 9)))) = 18 * max(length(s)) FROM t",
            "true",
        ),
        (
            "SELECT max(length(regexp_replace(repeat(s, 9), 'e', repeat('y', 9999), 'g'))) > 9999 \
             FROM t WHERE n < 2000",
            "true",
        ),
        ("SELECT count(DISTINCT regexp_replace(s, '[0-9]', 'x', 'g')) FROM t", "6"),
    ] {
        assert_eq!(rows(&session, sql, &[]).unwrap(), [answer], "{sql}");
    }
}
