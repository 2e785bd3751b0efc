//! Compares tables of a store with the same rows in Parquet files read by DataFusion: every answer
//! is the same, and what can be skipped is not read.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt16Array,
};

use crate::ingest::arrange::{Arrange, SortBy};
use crate::ingest::load::{LoadOptions, load};
use crate::ingest::resume::IfLoaded;
use crate::ingest::sources::Input;
use crate::maintain::compact::{CompactOptions, compact};
use crate::model::Schema;
use crate::sql::BatchStream;
use crate::sql::Parameters;
use crate::sql::Session;
use crate::sql::SessionOptions;
use crate::sql::tests::rows;
use crate::store::{Store, TableOptions};

const ROWS: i64 = 40_000;

/// The `n`th value of a fixed random sequence.
fn noise(n: i64) -> u64 {
    let mut x = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

fn column<T, A: FromIterator<Option<T>> + arrow_array::Array + 'static>(
    range: std::ops::Range<i64>,
    salt: i64,
    value: impl Fn(i64, u64) -> T,
) -> ArrayRef {
    let one = |i: i64| {
        let random = noise(i * 31 + salt);
        (!random.is_multiple_of(11)).then(|| value(i, random))
    };
    Arc::new(range.map(one).collect::<A>())
}

/// Rows with sorted, clustered, constant and random columns. `late` rows have another integer type
/// for `small`, and one more column.
fn batch(range: std::ops::Range<i64>, late: bool) -> RecordBatch {
    let r = || range.clone();
    let specials = [f64::NAN, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, -1.5, 2.25, 1e300];
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(r()));
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", ids),
        (
            "small",
            if late {
                column::<i32, Int32Array>(r(), 1, |_, x| (x % 100_000) as i32 - 5)
            } else {
                column::<u16, UInt16Array>(r(), 1, |_, x| (x % 9) as u16)
            },
        ),
        (
            "float",
            column::<f64, Float64Array>(r(), 2, |i, x| {
                if i < 20_000 { (x % 1000) as f64 / 8.0 } else { specials[x as usize % 8] }
            }),
        ),
        ("single", column::<f32, Float32Array>(r(), 3, |i, x| i as f32 + (x % 7) as f32 / 10.0)),
        (
            "word",
            column::<String, StringArray>(r(), 4, |i, x| {
                format!("{}-{}", ["amber", "blue", "cyan"][i as usize / 14_000], x % 50)
            }),
        ),
        (
            "long",
            column::<String, StringArray>(r(), 5, |i, x| {
                format!("a rather long common prefix of text number {:06} {x}", i)
            }),
        ),
        ("flag", column::<bool, BooleanArray>(r(), 6, |i, x| i > 30_000 || x % 2 == 0)),
        ("day", column::<i32, Date32Array>(r(), 7, |i, _| 19_000 + (i / 100) as i32)),
        (
            "at",
            column::<i64, TimestampMicrosecondArray>(r(), 8, |i, x| {
                (1_700_000_000 + i * 60) * 1_000_000 + (x % 60) as i64
            }),
        ),
    ];
    let money: Decimal128Array = r().map(|i| Some(i128::from(noise(i) % 100_000))).collect();
    columns.push(("money", Arc::new(money.with_precision_and_scale(12, 2).unwrap())));
    if late {
        columns.push(("extra", column::<i64, Int64Array>(r(), 9, |i, _| i / 1000)));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

pub(super) fn write(path: &Path, batch: &RecordBatch) {
    let mut bytes = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    let mut file = tempfile::Builder::new().tempfile_in(path.parent().unwrap()).unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    file.persist(path).unwrap();
}

fn ingest(store: &Store, table: &str, file: &Path) {
    ingest_sorted(store, table, file, Vec::new());
}

pub(super) fn ingest_sorted(store: &Store, table: &str, file: &Path, sort_by: Vec<SortBy>) {
    let options =
        TableOptions { block_rows: 2048, segment_rows: 16_384, ..TableOptions::default() };
    let writer = store.table(table).unwrap().writer(Some((Schema::default(), options))).unwrap();
    let arrange = Arrange { sort_by, ..Arrange::default() };
    let if_loaded = IfLoaded::Again;
    let load_options = LoadOptions { threads: 2, arrange, if_loaded, ..LoadOptions::default() };
    load(writer, vec![Input::path(file)], &load_options).unwrap();
}

pub(super) struct Both {
    pub(super) session: Session,
    directory: tempfile::TempDir,
}

impl Both {
    /// The same rows as table `t` of a store, and as view `p` over Parquet.
    pub(super) fn new() -> Both {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (old, new) = (batch(0..ROWS / 2, false), batch(ROWS / 2..ROWS, true));
        write(&at("old.parquet"), &old);
        write(&at("new.parquet"), &new);
        let store = Store::open(at("db"));
        ingest(&store, "t", &at("old.parquet"));
        ingest(&store, "t", &at("new.parquet"));
        let session = Session::open(
            &store,
            &SessionOptions { threads: Some(2), ..SessionOptions::default() },
        )
        .unwrap();
        // Parquet's statistics ignore NaN; behind a limit, DataFusion's operators see every row.
        let view = format!(
            "SET datafusion.execution.collect_statistics = false;
             CREATE VIEW p AS SELECT * FROM (SELECT *, NULL::bigint AS extra FROM '{}'
             UNION ALL SELECT * FROM '{}') LIMIT 1000000",
            at("old.parquet").display(),
            at("new.parquet").display()
        );
        rows(&session, &view, &[]).unwrap();
        Both { session, directory }
    }

    fn same(&self, sql: &str) {
        let of = |table: &str| rows(&self.session, &sql.replace('@', table), &[]);
        match (of("t"), of("p")) {
            (Ok(ours), Ok(theirs)) => {
                assert!(ours == theirs, "{sql}\nours   {ours:?}\ntheirs {theirs:?}")
            }
            (ours, theirs) => panic!("{sql}: ours {ours:?}, theirs {theirs:?}"),
        }
    }

    pub(super) fn explain(&self, sql: &str) -> String {
        rows(&self.session, sql, &[]).unwrap().join("\n")
    }
}

#[test]
fn answers_are_those_of_datafusion() {
    let both = Both::new();
    for sql in [
        "SELECT * FROM @ ORDER BY id",
        "SELECT count(*), count(small), count(extra), min(id), max(id), sum(id) FROM @",
        "SELECT min(small), max(small), sum(small), min(extra), max(extra) FROM @",
        "SELECT min(float), max(float) FROM @",
        "SELECT min(single), max(single) FROM @ WHERE id < 1000",
        "SELECT min(word), max(word), min(long), max(long), min(flag), max(flag) FROM @",
        "SELECT min(day), max(day), min(at), max(at), min(money), max(money), sum(money) FROM @",
        "SELECT avg(small), count(DISTINCT word), count(DISTINCT small) FROM @",
        "SELECT word, count(*), sum(small) FROM @ GROUP BY word ORDER BY word",
        "SELECT extra, count(*) FROM @ GROUP BY extra ORDER BY extra",
        "SELECT a.id, b.word FROM @ a JOIN @ b ON a.id = b.small WHERE a.id BETWEEN 3 AND 6 ORDER \
         BY a.id, b.word LIMIT 50",
        "SELECT count(*) FROM (SELECT * FROM @ LIMIT 1234)",
        "SELECT 1 FROM @ WHERE id < 3",
        "SELECT id FROM @ WHERE id > 100 ORDER BY id LIMIT 7",
        "SELECT long FROM @ ORDER BY at DESC, id LIMIT 5",
    ] {
        both.same(sql);
    }
}

#[test]
fn filters_are_those_of_datafusion() {
    let both = Both::new();
    for filter in [
        "id = 12345",
        "id >= 39999 OR id < 2",
        "id NOT BETWEEN 10 AND 39990",
        "small = 70000",
        "small < 0",
        "small IN (1, 2, 99999)",
        "small NOT IN (1, 2, NULL)",
        "small > 8.5",
        "float = 0.0",
        "float = -0.0",
        "float > 1e300",
        "float < -1.0",
        "float = 'NaN'::double",
        "float >= 'NaN'::double",
        "float IN (0.0, 2.25)",
        "float IN (-0.0, 1.5, 2.5, 3.5, 4.5, 5.5)",
        "NOT (float < 100)",
        "single = 17.1",
        "single < 20",
        "single = 17.1::real",
        "word = 'amber-7'",
        "word LIKE 'blue%'",
        "word NOT LIKE 'blue%'",
        "word LIKE 'cy_n-1%'",
        "word > 'cyan-3'",
        "starts_with(word, 'cyan')",
        "long LIKE 'a rather long common prefix of text number 0123%'",
        "flag",
        "NOT flag",
        "flag IS NOT TRUE",
        "flag IS NULL",
        "day = DATE '2022-03-01'",
        "day < TIMESTAMP '2022-01-10 12:00:00'",
        "at >= '2023-11-15 00:00:00' AND at < '2023-11-16 00:00:00'",
        "money > 999.5",
        "money = 1.00",
        "extra IS NULL",
        "extra IS NOT NULL AND id < 20100",
        "extra = 25",
        "extra IS DISTINCT FROM 25",
        "extra IS NOT DISTINCT FROM NULL",
        "id % 1000 = 1",
        "CASE WHEN id < 5 THEN true END",
        "id < 5 AND upper(word) = 'AMBER-7' OR id > 39998",
        "id = small",
    ] {
        both.same(&format!(
            "SELECT count(*), sum(id), min(long), max(small) FROM @ WHERE {filter}"
        ));
        both.same(&format!("SELECT count(*), sum(id) FROM @ WHERE NOT ({filter})"));
    }
}

#[test]
fn what_can_be_skipped_is_not_read() {
    let both = Both::new();
    rows(&both.session, "SET sty.native = off", &[]).unwrap();
    for sql in ["SELECT count(*) FROM t", "SELECT min(id), max(word), count(extra) FROM t"] {
        let plan = both.explain(&format!("EXPLAIN {sql}"));
        assert!(!plan.contains("StoreScan"), "{sql}\n{plan}");
    }
    // A timestamp beside a text keeps its unit.
    let plan = both.explain("EXPLAIN SELECT id FROM t WHERE at < '9999-12-31'");
    assert!(
        plan.contains("at@1 < 253402214400000000") && plan.contains("pruned_by=[at]"),
        "{plan}"
    );
    // An uncertain maximum is read.
    assert!(both.explain("EXPLAIN SELECT max(float) FROM t").contains("StoreScan"));
    let plan = both.explain("EXPLAIN ANALYZE SELECT word FROM t WHERE id BETWEEN 12000 AND 12010");
    // Segments of 16,384 rows, blocks of 2,048: one block of one segment is left.
    for counted in [
        "blocks_read=1",
        "segments_read=1",
        "segments_pruned=3",
        "blocks_pruned_by_zone_map_min_max=7",
    ] {
        assert!(plan.contains(counted), "{counted}\n{plan}");
    }
    let plan = both.explain("EXPLAIN ANALYZE SELECT id FROM t LIMIT 10");
    assert!(plan.contains("blocks_read=1") || plan.contains("blocks_read=2"), "{plan}");
}

/// The largest count of this name at the scans in EXPLAIN ANALYZE.
fn counted(plan: &str, what: &str) -> u64 {
    let what = format!("{what}=");
    let values = plan.split(&what).skip(1);
    let number =
        |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    values.map(number).max().unwrap_or(0)
}

#[test]
fn scans_take_what_operators_above_find_out() {
    let both = Both::new();
    // The keys of the smaller side leave one block of the larger one.
    for keys in ["VALUES (12345), (12399)", "VALUES (12345), (null), (12399)"] {
        let join = format!("SELECT id, word FROM t JOIN ({keys}) AS k(key) ON id = key");
        let plan = both.explain(&format!("EXPLAIN ANALYZE {join}"));
        assert!(plan.contains("dynamic=["), "{plan}");
        assert_eq!(counted(&plan, "blocks_read"), 1, "{plan}");
        assert_eq!(counted(&plan, "rows_selected"), 2, "{plan}");
        both.same(&format!("{join} ORDER BY 1").replace("FROM t", "FROM @"));
    }
    // Keys of a dictionary are looked up once per value, not per row.
    let join =
        "SELECT count(small) FROM @ JOIN (VALUES ('blue-7'), ('cyan-3')) AS k(key) ON word = key";
    let plan = both.explain(&format!("EXPLAIN ANALYZE {}", join.replace('@', "t")));
    assert!(plan.contains("filter_1_blocks_by_code_"), "{plan}");
    both.same(join);
    // Rows without a key must come through a join that preserves them.
    both.same(
        "SELECT count(*), count(key) FROM @ LEFT JOIN (VALUES (12345)) AS k(key) ON id = key",
    );
    both.same(
        "SELECT count(*) FROM @ WHERE id NOT IN (SELECT small FROM @ WHERE small IS NOT NULL)",
    );
    both.same(
        "SELECT a.id, b.id FROM @ AS a JOIN @ AS b ON a.id = b.small AND a.word = b.word ORDER BY \
         1, 2 LIMIT 50",
    );
    // To a join, both zeros are equal.
    both.same("SELECT count(*) FROM @ JOIN (VALUES (0.0), (-1.5)) AS k(key) ON float = key");
    both.same(
        "SELECT count(*) FROM @ WHERE float IN (SELECT DISTINCT float FROM @ WHERE id > 39000)",
    );
    // The first rows of a sort above a join.
    let top = "SELECT a.id, b.extra FROM @ AS a JOIN (SELECT DISTINCT extra FROM @) AS b \
        ON a.extra = b.extra ORDER BY a.id DESC LIMIT 3";
    let plan = both.explain(&format!("EXPLAIN {}", top.replace('@', "t")));
    assert!(plan.contains("dynamic=[DynamicFilter [ empty ], DynamicFilter [ empty ]]"), "{plan}");
    both.same(top);
}

#[test]
fn what_is_stored_in_order_is_not_sorted() {
    let both = Both::new();
    let all = "SELECT id, word, small FROM @ WHERE small < 5 ORDER BY id";
    for (sql, sorts, scan) in [
        (all.to_owned(), false, ""),
        (format!("{all} DESC"), false, ", backwards"),
        // `id` is unique, so the keys after it do not matter.
        (format!("{all}, word DESC"), false, ""),
        ("SELECT id, at FROM @ ORDER BY at, id".to_owned(), true, ", best_first=at ASC NULLS LAST"),
        (
            "SELECT id, at FROM @ ORDER BY day DESC NULLS FIRST, id".to_owned(),
            true,
            "best_first=day DESC NULLS FIRST",
        ),
        ("SELECT id + 1 AS next FROM @ ORDER BY word || 'x', next".to_owned(), true, ""),
    ] {
        let plan = both.explain(&format!("EXPLAIN {}", sql.replace('@', "t")));
        assert_eq!(plan.contains("SortExec"), sorts, "{sql}\n{plan}");
        assert!(plan.contains(scan), "{sql}\n{plan}");
        both.same(&sql);
    }
    // The value that a filter compares with is known before the scan begins.
    let above =
        "SELECT id, word FROM @ WHERE id > (SELECT avg(id) FROM @) ORDER BY id DESC LIMIT 4";
    let plan = both.explain(&format!("EXPLAIN ANALYZE {}", above.replace('@', "t")));
    assert!(!plan.contains("FilterExec") && !plan.contains("SortExec"), "{plan}");
    let scan = plan.split("StoreFragment").next().unwrap_or_default();
    assert_eq!(counted(scan, "blocks_read"), 1, "{plan}");
    both.same(above);
    both.same(
        "SELECT count(*) FROM @ WHERE word = (SELECT max(word) FROM @) OR small > (SELECT \
         avg(small) FROM @)",
    );
    both.same(
        "SELECT count(*) FROM @ WHERE id > (SELECT id FROM @ WHERE id < 0) AND random() >= 0",
    );
    // Windows and merges rely on the same order.
    both.same(
        "SELECT id, row_number() OVER (ORDER BY id DESC) FROM @ WHERE id % 7 = 0 ORDER BY id",
    );
    both.same("SELECT id FROM @ WHERE id > (SELECT 39000) ORDER BY id DESC LIMIT 5 OFFSET 3");
}

#[test]
fn names_of_tables() {
    let both = Both::new();
    let error = rows(&both.session, "SELECT * FROM tt", &[]).unwrap_err();
    assert_eq!(error.to_string(), "no table tt; did you mean t?");
    let replaced = rows(&both.session, "CREATE OR REPLACE VIEW t AS SELECT 1", &[]);
    assert!(replaced.is_err());
    assert_eq!(rows(&both.session, "SELECT count(*) FROM T", &[]).unwrap(), ["40000"]);
    let columns = rows(
        &both.session,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 't'",
        &[],
    );
    assert_eq!(columns.unwrap().len(), 11);
    assert!(rows(&both.session, "INSERT INTO t VALUES (1)", &[]).is_err());
}

/// A memory limit that splits groups into partitions of one row each must not make batches of one
/// row each, whose buffers an operator above would pay for.
#[test]
fn groups_in_little_memory_come_out_in_large_batches() {
    let dir = tempfile::tempdir().unwrap();
    let limit = Some(256 << 20);
    let options = SessionOptions {
        threads: Some(1),
        create: true,
        memory_limit: limit,
        ..SessionOptions::default()
    };
    let session = Session::open(&Store::open(dir.path().join("db")), &options).unwrap();
    let text = "'a text of more than twelve bytes, number ' || value";
    let create = format!(
        "CREATE TABLE t AS SELECT {text} AS a, value % 7 AS b FROM generate_series(1, 10000)"
    );
    rows(&session, &create, &[]).unwrap();
    rows(&session, "SET sty.group_memory = 20000", &[]).unwrap();
    let sql = "SELECT a, b, min(a) AS least, count(*) FROM t GROUP BY a, b HAVING count(*) < 22";
    let mut sizes = Vec::new();
    let sized = |stream: BatchStream| {
        for batch in stream {
            sizes.push(batch?.num_rows());
        }
        Ok(())
    };
    session.run(sql, &Parameters::default(), sized).unwrap();
    assert_eq!(sizes.iter().sum::<usize>(), 10_000);
    assert!(sizes.len() < 10, "{sizes:?}");
    let sorted = format!("SELECT a FROM ({sql}) AS t ORDER BY a LIMIT 3000000");
    let sorted = rows(&session, &sorted, &[]).unwrap();
    assert_eq!(sorted.len(), 10_000);
    assert!(sorted.is_sorted());
}

/// Sorted segments that overlap are merged; so are the few segments that compaction leaves, which
/// do not overlap.
#[test]
fn sorted_segments_are_merged_and_not_sorted_again() {
    let both = Both::new();
    let at = |name: &str| both.directory.path().join(name);
    let store = Store::open(at("db"));
    let by = |column: &str, descending| SortBy {
        column: column.to_owned(),
        descending,
        nulls_first: descending,
    };
    for file in ["old.parquet", "new.parquet"] {
        ingest_sorted(&store, "s", &at(file), vec![by("money", true), by("id", false)]);
    }
    let queries = [
        ("SELECT money FROM @ ORDER BY money DESC", ", merged=", false),
        ("SELECT money, word FROM @ WHERE small < 5 ORDER BY money DESC, id", ", merged=", false),
        ("SELECT money FROM @ WHERE money > 500 ORDER BY money", ", backwards", false),
        ("SELECT id, money FROM @ ORDER BY money, id DESC", ", backwards", false),
        ("SELECT id FROM @ ORDER BY money DESC, id LIMIT 20000 OFFSET 10000", "", false),
        (
            "SELECT id, row_number() OVER (ORDER BY money DESC, id) FROM @ ORDER BY money DESC, id",
            ", merged=",
            false,
        ),
        ("SELECT id, money FROM @ ORDER BY money DESC, id DESC", "best_first", true),
        ("SELECT id, money FROM @ ORDER BY id, money", "best_first", true),
    ];
    let check = |compacted: bool| {
        for (sql, scan, sorts) in queries {
            let plan = both.explain(&format!("EXPLAIN {}", sql.replace('@', "s")));
            assert_eq!(plan.contains("SortExec"), sorts, "{sql}\n{plan}");
            assert!(compacted || plan.contains(scan), "{sql}\n{plan}");
            let answer = |table: &str| rows(&both.session, &sql.replace('@', table), &[]).unwrap();
            assert!(answer("s") == answer("p"), "{sql}");
        }
    };
    check(false);
    let plan = both.explain("EXPLAIN SELECT money FROM s ORDER BY money DESC");
    assert!(plan.contains("merged=4"), "{plan}");
    compact(
        &store.table("s").unwrap(),
        &CompactOptions { threads: 2, ..CompactOptions::default() },
    )
    .unwrap();
    check(true);
    let plan = both.explain("EXPLAIN SELECT money FROM s ORDER BY money DESC, id");
    assert!(plan.contains("merged=1"), "{plan}");
}
