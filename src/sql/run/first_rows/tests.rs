use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::common;
use proptest::prelude::*;

use datafusion::physical_expr::PhysicalSortExpr;

use super::*;
use crate::sql::store_tests::Both;

/// A group, a key of the order, and a text that is not a key.
type Row = (i64, i64, String);

fn batch(rows: &[Row]) -> RecordBatch {
    let groups: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
    let texts: ArrayRef =
        Arc::new(rows.iter().map(|row| Some(row.2.as_str())).collect::<StringViewArray>());
    RecordBatch::try_from_iter([("g", groups), ("a", keys), ("s", texts)]).unwrap()
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let numbers = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().iter();
    let texts = batch.column(2).as_string_view().iter().flatten();
    let all = numbers(0).zip(numbers(1)).zip(texts);
    all.map(|((group, key), text)| (*group, *key, text.to_owned())).collect()
}

/// The rows of each partition that are left, by the number of a row in its group.
fn left(partitions: &[Vec<Vec<Row>>], limit: usize, memory: usize) -> Vec<Vec<Row>> {
    let batches = |rows: &Vec<Vec<Row>>| rows.iter().map(|rows| batch(rows)).collect::<Vec<_>>();
    let batches: Vec<Vec<RecordBatch>> = partitions.iter().map(batches).collect();
    let schema = batch(&[]).schema();
    let input = MemorySourceConfig::try_new_exec(&batches, Arc::clone(&schema), None).unwrap();
    let by = SortOptions { descending: true, nulls_first: true };
    let first = FirstRows {
        keys: vec![col("g", &schema).unwrap()],
        order: vec![PhysicalSortExpr::new(col("a", &schema).unwrap(), by)],
        ranking: Ranking::RowNumber,
        limit,
    };
    let plan: Plan = Arc::new(FirstRowsExec::new(input, first));
    let pool = Arc::new(FairSpillPool::new(memory));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let context = Arc::new(TaskContext::default().with_runtime(Arc::clone(&runtime)));
    let running = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let of = |partition: usize| {
        let rows = plan.execute(partition, Arc::clone(&context)).unwrap();
        running.block_on(common::collect(rows)).unwrap().iter().flat_map(self::rows).collect()
    };
    let all = (0..partitions.len()).map(of).collect();
    assert_eq!(runtime.memory_pool.reserved(), 0);
    all
}

/// The first rows of each group, in the order in which they came.
fn first_of(rows: &[Row], limit: usize) -> Vec<Row> {
    let mut groups: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    (0..rows.len()).for_each(|at| groups.entry(rows[at].0).or_default().push(at));
    let mut first = Vec::new();
    for mut of in groups.into_values() {
        of.sort_by_key(|at| -rows[*at].1);
        first.extend(of.into_iter().take(limit));
    }
    first.sort_unstable();
    first.into_iter().map(|at| rows[at].clone()).collect()
}

/// Whether rows come in the same order among others.
fn is_among(rows: &[Row], others: &[Row]) -> bool {
    let mut others = others.iter();
    rows.iter().all(|row| others.any(|other| other == row))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_first_rows_are_never_missing_however_little_memory_there_is(
        partitions in prop::collection::vec(
            prop::collection::vec(
                prop::collection::vec((-2..6i64, -20..20i64, "[ab]{0,30}"), 0..300),
                0..8,
            ),
            1..3,
        ),
        limit in 1..4usize,
        memory in prop_oneof![Just(usize::MAX), 1_000..2_000_000usize],
    ) {
        let found = left(&partitions, limit, memory);
        for (partition, found) in partitions.iter().zip(found) {
            let all: Vec<Row> = partition.iter().flatten().cloned().collect();
            let expected = first_of(&all, limit);
            if memory == usize::MAX {
                prop_assert_eq!(&found, &expected);
            }
            prop_assert!(is_among(&expected, &found) && is_among(&found, &all));
        }
    }
}

/// Rows whose groups come again and again, each time better.
fn rising(groups: i64, rows: i64) -> Vec<Vec<Row>> {
    let row = |n: i64| (n % groups, n, format!("a text of row {n} that is not short"));
    let batch = |start: i64| (start..start + 1000).map(row).collect();
    (0..rows / 1000).map(|number| batch(number * 1000)).collect()
}

#[test]
fn better_and_better_rows_are_held_in_little_memory() {
    let rows = rising(100, 200_000);
    let all: Vec<Row> = rows.iter().flatten().cloned().collect();
    for (memory, most) in [(usize::MAX, 300), (16 << 20, 300), (2 << 20, 200_000)] {
        let found = left(std::slice::from_ref(&rows), 3, memory).remove(0);
        assert!(is_among(&first_of(&all, 3), &found));
        assert!(found.len() <= most, "{} rows in {memory} bytes", found.len());
    }
}

#[test]
fn groups_of_one_row_are_passed_on() {
    let rows = rising(i64::MAX, 100_000);
    let all: Vec<Row> = rows.iter().flatten().cloned().collect();
    for memory in [usize::MAX, 1 << 20] {
        assert!(left(std::slice::from_ref(&rows), 1, memory).remove(0) == all);
    }
}

/// The plan of rows that are numbered by `window` and bounded by a filter.
fn plan(both: &Both, window: &str, bound: &str) -> String {
    let numbered = format!("SELECT *, {window} AS rn FROM t");
    both.explain(&format!("EXPLAIN SELECT id, rn FROM ({numbered}) WHERE {bound}"))
}

#[test]
fn filters_on_the_number_of_a_row_keep_first_rows_below_the_sort() {
    let both = Both::new();
    let window = "row_number() OVER (PARTITION BY small ORDER BY word, id)";
    let bounds = [
        "rn <= 2",
        "rn < 3",
        "2 >= rn",
        "rn = 2",
        "rn IN (2, 1)",
        "rn BETWEEN 1 AND 2",
        "rn <= 5 AND id > 7 AND rn::bigint <= 2",
        "rn <= 2.5",
    ];
    for bound in bounds {
        let plan = plan(&both, window, bound);
        let (sort, first) = (plan.find("SortExec"), plan.find("FirstRowsExec: row_number<=2,"));
        assert!(first.is_some() && sort < first, "{bound}\n{plan}");
    }
    for bound in ["rn > 2", "rn <> 2", "rn <= 2 OR id = 7", "rn + 0 <= 2", "rn <= id"] {
        let plan = plan(&both, window, bound);
        assert!(!plan.contains("FirstRowsExec"), "{bound}\n{plan}");
    }
    // Without groups, too, the sort is above; blocks with the best rows are read first.
    let alone = plan(&both, "rank() OVER (ORDER BY at DESC)", "rn <= 3");
    let (sort, first) = (alone.find("SortExec"), alone.find("FirstRowsExec: rank<=3"));
    assert!(first.is_some() && sort < first && alone.contains("best_first=at DESC"), "{alone}");
    // What needs all rows gets them.
    for window in [
        "percent_rank() OVER (PARTITION BY small ORDER BY id)",
        "count(*) OVER (PARTITION BY small ORDER BY id)",
        "rank() OVER (PARTITION BY small)",
        "ntile(3) OVER (PARTITION BY small ORDER BY id)",
    ] {
        let plan = plan(&both, window, "rn <= 1");
        assert!(!plan.contains("FirstRowsExec"), "{window}\n{plan}");
    }
}

#[test]
fn scans_decode_few_rows_where_groups_and_their_order_are_stored_columns() {
    let both = Both::new();
    let few = plan(&both, "row_number() OVER (PARTITION BY small ORDER BY at DESC)", "rn = 1");
    assert!(few.contains("first=[1 of small by at DESC NULLS FIRST]"), "{few}");
    let few = plan(&both, "dense_rank() OVER (ORDER BY word, id)", "rn < 3");
    assert!(few.contains("first=[2 by word ASC NULLS LAST]"), "{few}");
    for window in [
        "row_number() OVER (PARTITION BY small % 2 ORDER BY at)",
        "row_number() OVER (PARTITION BY small ORDER BY id + 1)",
    ] {
        let all = plan(&both, window, "rn = 1");
        assert!(all.contains("FirstRowsExec") && !all.contains("first=["), "{all}");
    }
    let many = plan(&both, "row_number() OVER (PARTITION BY small ORDER BY at)", "rn <= 65");
    assert!(many.contains("FirstRowsExec") && !many.contains("first=["), "{many}");
    let distinct =
        both.explain("EXPLAIN SELECT DISTINCT ON (word) * FROM t ORDER BY word, id DESC");
    assert!(distinct.contains("first=[1 of word by id DESC NULLS FIRST]"), "{distinct}");
}
