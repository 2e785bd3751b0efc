//! The queries of LocustDB's benchmarks, as its author wrote them, over trips: under its dialect
//! they answer like the same queries with GROUP BY and single quotes.

use super::shell::Shell;

/// Each with the same query in the default dialect.
const QUERIES: [(&str, &str); 9] = [
    (
        "select cab_type, count(0) from test;",
        "SELECT cab_type, count(*) FROM test GROUP BY cab_type",
    ),
    (
        "select passenger_count, count(0), sum(total_amount) from test;",
        "SELECT passenger_count, count(*), sum(total_amount) FROM test GROUP BY passenger_count",
    ),
    (
        "select passenger_count, to_year(pickup_datetime), count(0) from test;",
        "SELECT passenger_count, year(pickup_datetime), count(*) FROM test GROUP BY 1, 2",
    ),
    (
        "select passenger_count, to_year(pickup_datetime), trip_distance / 1000, count(0) from \
         test;",
        "SELECT passenger_count, year(pickup_datetime), trip_distance / 1000, count(*) FROM test \
         GROUP BY 1, 2, 3",
    ),
    (
        "select trip_id from test where (passenger_count = 5) AND (vendor_id = \"CMT\") AND \
         (total_amount < 500) AND (store_and_fwd_flag = \"Y\") limit 100;",
        "SELECT trip_id FROM test WHERE passenger_count = 5 AND vendor_id = 'CMT' AND \
         total_amount < 500 AND store_and_fwd_flag = 'Y'",
    ),
    (
        "SELECT passenger_count, trip_distance, total_amount FROM test ORDER BY total_amount DESC \
         LIMIT 100;",
        "SELECT passenger_count, trip_distance, total_amount FROM test ORDER BY total_amount DESC \
         LIMIT 100",
    ),
    (
        "SELECT passenger_count, pickup_puma, dropoff_puma, count(0) FROM test;",
        "SELECT passenger_count, pickup_puma, dropoff_puma, count(*) FROM test GROUP BY 1, 2, 3",
    ),
    (
        "SELECT trip_id / 5, sum(total_amount) FROM test;",
        "SELECT trip_id / 5, sum(total_amount) FROM test GROUP BY trip_id / 5",
    ),
    (
        "select vendor_id, passenger_count, count(1) from test;",
        "SELECT vendor_id, passenger_count, count(*) FROM test GROUP BY vendor_id, passenger_count",
    ),
];

#[test]
fn queries_without_group_by_answer_like_those_with_it() {
    let shell = Shell::new();
    shell.stdout("gen trips --rows 20000 --seed 3 --format parquet --output trips");
    shell.stdout("ingest db/test trips");
    let rows = |sql: &str| {
        let (code, stdout, stderr) = shell.pipe("query db --threads 1", sql);
        assert_eq!(code, 0, "{sql}\n{stderr}");
        let mut rows: Vec<String> = stdout.lines().skip(1).map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    };
    for (theirs, ours) in QUERIES {
        let found = rows(&format!("SET sty.dialect = 'locustdb'; {theirs}"));
        assert!(!found.is_empty(), "{theirs}");
        assert_eq!(found, rows(ours), "{theirs}");
    }
}
