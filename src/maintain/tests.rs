//! Compaction and modification of small tables, checked against the expected rows.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, StringArray};

use super::*;
use crate::error::{Error, Result};
use crate::expr::{Expression, Function, Predicate, Traits};
use crate::ingest::arrange::{Arrange, SortBy};
use crate::ingest::load::{LoadOptions, load};
use crate::ingest::rewrite::decode;
use crate::ingest::sources::Input;
use crate::model::{ColumnId, DataType, Schema};
use crate::query::Condition;
use crate::store::{Snapshot, Store, Table, TableOptions};

/// Rows of a full segment.
const FULL: usize = 4096;

type Row = (Option<i64>, String, i64);

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Rows of a number, a text, and their own row number.
fn rows(from: i64, count: i64, state: &mut u64) -> Vec<Row> {
    let row = |n| {
        let a = random(state) as i64 % 1000;
        ((a % 50 != 7).then_some(a - 500), format!("t{}", random(state) % 13), n)
    };
    (from..from + count).map(row).collect()
}

fn csv(rows: &[Row]) -> Input {
    let mut text = String::from("a,b,id\n");
    for (a, b, id) in rows {
        text += &format!("{},{b},{id}\n", a.map_or(String::new(), |a| a.to_string()));
    }
    Input::reader("x.csv", Box::new(Cursor::new(text.into_bytes())))
}

fn add(table: &Table, rows: &[Row], arrange: Arrange) {
    let small =
        TableOptions { block_rows: 1024, segment_rows: FULL as u32, ..TableOptions::default() };
    let writer = table.writer(Some((Schema::default(), small))).unwrap();
    load(writer, vec![csv(rows)], &LoadOptions { threads: 2, arrange, ..LoadOptions::default() })
        .unwrap();
}

fn table(dir: &Path) -> Table {
    Store::open(dir).table("t").unwrap()
}

fn read(snapshot: &Snapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in snapshot.segments().unwrap().iter() {
        let segment = snapshot.open_segment(entry).unwrap();
        for block in 0..segment.blocks() {
            let range = segment.block_range(block);
            let count = (range.end - range.start) as usize;
            let batch = decode(&segment, block, 0..count, snapshot.schema().columns()).unwrap();
            let int = |at: usize| {
                arrow_cast::cast(batch.column(at), &arrow_schema::DataType::Int64).unwrap()
            };
            let (a, id) = (int(0), int(2));
            let b = arrow_cast::cast(batch.column(1), &arrow_schema::DataType::Utf8).unwrap();
            let (a, b, id) = (
                a.as_primitive::<Int64Type>(),
                b.as_string::<i32>(),
                id.as_primitive::<Int64Type>(),
            );
            rows.extend(
                (0..count).map(|i| {
                    (a.is_valid(i).then(|| a.value(i)), b.value(i).to_owned(), id.value(i))
                }),
            );
        }
    }
    assert!(super::verify(snapshot).problems.is_empty());
    rows
}

fn by(column: &str, descending: bool) -> SortBy {
    SortBy { column: column.to_owned(), descending, nulls_first: descending }
}

fn options() -> CompactOptions {
    CompactOptions { threads: 2, ..CompactOptions::default() }
}

#[test]
fn small_neighbours_become_one_and_rows_stay_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (table, mut state, mut all) = (table(dir.path()), 1, Vec::new());
    for count in [5000, 10, 20, 4096, 3000, 700] {
        let new = rows(all.len() as i64, count, &mut state);
        add(&table, &new, Arrange::default());
        all.extend(new);
    }
    let before = table.snapshot().unwrap();
    let report = compact(&table, &options()).unwrap();
    let after = table.snapshot().unwrap();
    let sizes: Vec<u64> = after.segments().unwrap().iter().map(|segment| segment.rows).collect();
    assert_eq!(sizes, [4096, 934, 4096, 3700], "{report:?}");
    assert_eq!((report.segments_before, report.segments_after), (6, 4));
    // A reader of the old generation can continue.
    assert_eq!((read(&before), read(&after)), (all.clone(), all));
    assert_eq!(compact(&table, &options()).unwrap().rows, 0);
}

#[test]
fn a_sorted_table_is_sorted_as_a_whole() {
    for (descending, memory_limit) in [(false, None), (true, Some(1 << 20)), (false, Some(1))] {
        let dir = tempfile::tempdir().unwrap();
        let (table, mut state, mut all) = (table(dir.path()), 5, Vec::new());
        let arrange = Arrange {
            sort_by: vec![by("a", descending), by("b", !descending)],
            ..Arrange::default()
        };
        for count in [6000, 5000, 9000, 30] {
            let new = rows(all.len() as i64, count, &mut state);
            add(&table, &new, arrange.clone());
            all.extend(new);
        }
        let sorted = |rows: &[Row]| {
            let place = |null: bool, first: bool| if null == first { 0 } else { 1 };
            let mut rows = rows.to_vec();
            rows.sort_by(|x, y| {
                let a = x.0.cmp(&y.0);
                let a = if descending { a.reverse() } else { a };
                let a =
                    place(x.0.is_none(), descending).cmp(&place(y.0.is_none(), descending)).then(a);
                let b = x.1.cmp(&y.1);
                a.then(if descending { b } else { b.reverse() })
            });
            rows
        };
        let keys = |rows: &[Row]| rows.iter().map(|(a, b, _)| (*a, b.clone())).collect::<Vec<_>>();
        let report = compact(&table, &CompactOptions { memory_limit, ..options() }).unwrap();
        let snapshot = table.snapshot().unwrap();
        let found = read(&snapshot);
        assert_eq!(keys(&found), keys(&sorted(&all)), "{report:?}");
        assert_eq!(found.iter().map(|row| row.2).collect::<BTreeSet<_>>().len(), all.len());
        let full = snapshot
            .segments()
            .unwrap()
            .iter()
            .filter(|segment| segment.rows == FULL as u64)
            .count();
        assert!(memory_limit == Some(1) || full == all.len() / FULL, "{full} full ones");
        if memory_limit.is_none() {
            // Neighbouring segments share their first key but are in order, so they are left alone.
            assert_eq!(compact(&table, &options()).unwrap().rows, 0);
        }
    }
}

#[test]
fn many_runs_are_merged_in_groups_where_memory_is_small() {
    let dir = tempfile::tempdir().unwrap();
    let (table, mut state, mut all) = (table(dir.path()), 3, Vec::new());
    for _ in 0..3 {
        // Rows of 16 KB, so that few fit into a range: two runs are merged at a time.
        let mut new = rows(all.len() as i64, 700, &mut state);
        new.iter_mut().for_each(|row| row.1 = row.1.repeat(8000));
        add(&table, &new, Arrange::default());
        all.extend(new);
    }
    let limited =
        CompactOptions { sort_by: vec![by("a", false)], memory_limit: Some(1), ..options() };
    let report = compact(&table, &limited).unwrap();
    // Sorted runs of 4 MiB, their merging and the result: the rows are written at least four times.
    let written = report.bytes_written
        / table.snapshot().unwrap().segments().unwrap().iter().map(|s| s.length).sum::<u64>();
    assert!(written >= 4, "{report:?}");
    // Nulls come last; rows with equal keys keep their order.
    all.sort_by_key(|row| (row.0.is_none(), row.0));
    assert_eq!(read(&table.snapshot().unwrap()), all);
    let files = std::fs::read_dir(dir.path().join("t/data")).unwrap().count();
    assert_eq!(files, report.segments_after as usize);
}

#[test]
fn an_order_is_given_afterwards_and_kept_by_new_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (table, mut state) = (table(dir.path()), 9);
    let all = rows(0, 10_000, &mut state);
    add(&table, &all, Arrange::default());
    let wrong = CompactOptions { sort_by: vec![by("x", false)], ..options() };
    assert!(matches!(compact(&table, &wrong), Err(Error::NotFound(_))));
    compact(&table, &CompactOptions { sort_by: vec![by("b", false)], ..options() }).unwrap();
    let texts = |rows: Vec<Row>| rows.into_iter().map(|row| row.1).collect::<Vec<_>>();
    assert!(texts(read(&table.snapshot().unwrap())).is_sorted());
    add(&table, &rows(10_000, 2000, &mut state), Arrange::default());
    let snapshot = table.snapshot().unwrap();
    assert_eq!(snapshot.root().arrangement.sort_by[0].column, ColumnId(1));
    assert!(texts(read(&snapshot)[10_000..].to_vec()).is_sorted());
    let arrange = Arrange { sort_by: vec![by("id", false)], ..Arrange::default() };
    let writer = table.writer(None).unwrap();
    let refused = load(writer, vec![csv(&all)], &LoadOptions { arrange, ..LoadOptions::default() });
    assert!(matches!(refused, Err(Error::InvalidInput(_))));
}

#[test]
fn partitions_are_compacted_listed_and_dropped_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let (table, mut state, mut all) = (table(dir.path()), 3, Vec::new());
    let arrange = Arrange { partition_by: vec!["b AS kind".to_owned()], ..Arrange::default() };
    for count in [3000, 2000, 4000] {
        let new = rows(all.len() as i64, count, &mut state);
        add(&table, &new, arrange.clone());
        all.extend(new);
    }
    let expected = |name: &str| all.iter().filter(|row| row.1 == name).cloned().collect::<Vec<_>>();
    let listed = partitions(&table.snapshot().unwrap()).unwrap();
    assert_eq!(listed.len(), 13);
    assert!(
        listed.iter().all(|p| p.segments == 3 && p.rows == expected(&p.path[5..]).len() as u64),
        "{listed:?}"
    );
    let report =
        compact(&table, &CompactOptions { partition: Some("kind=t3".to_owned()), ..options() })
            .unwrap();
    assert_eq!((report.partitions, report.segments_before, report.segments_after), (1, 3, 1));
    assert_eq!(compact(&table, &options()).unwrap().partitions, 12);
    let rows_of = |name: &str| {
        let snapshot = table.snapshot().unwrap();
        read(&snapshot).into_iter().filter(|row| row.1 == name).collect::<Vec<_>>()
    };
    assert_eq!(rows_of("t3"), expected("t3"));
    let (_, dropped) =
        drop_partitions(&table, &["kind=t3".to_owned(), "kind=t12".to_owned()]).unwrap();
    assert_eq!(dropped.rows as usize, expected("t3").len() + expected("t12").len());
    assert!(rows_of("t3").is_empty() && rows_of("t12").is_empty());
    assert_eq!(rows_of("t1"), expected("t1"));
    assert!(matches!(drop_partitions(&table, &["kind=t".to_owned()]), Err(Error::NotFound(_))));
    assert!(!table.path().join("data/kind=t3").exists());
    // Requesting the table's own arrangement changes nothing; requesting another one is an error.
    add(&table, &rows(0, 10, &mut state), arrange);
    let other = Arrange { partition_by: vec!["a".to_owned()], ..Arrange::default() };
    let writer = table.writer(None).unwrap();
    assert!(
        load(writer, vec![csv(&all)], &LoadOptions { arrange: other, ..LoadOptions::default() })
            .is_err()
    );
}

/// `id % divisor = 0`, and an error where id is 12345.
#[derive(Debug)]
struct Divisible(i64);

impl Function for Divisible {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let ids = inputs[0].as_primitive::<Int64Type>();
        Ok(std::sync::Arc::new(
            ids.iter().map(|id| id.map(|id| id % self.0 == 0)).collect::<BooleanArray>(),
        ))
    }
}

fn divisible(divisor: i64) -> Condition {
    let function: std::sync::Arc<dyn Function> = std::sync::Arc::new(Divisible(divisor));
    let expression = computed(vec![2], function, arrow_schema::DataType::Boolean);
    Condition::new(expression, Predicate::Unknown)
}

fn computed(
    inputs: Vec<usize>,
    function: std::sync::Arc<dyn Function>,
    data_type: arrow_schema::DataType,
) -> Expression {
    let traits = Traits::default();
    Expression {
        inputs,
        function: Some(function),
        data_type,
        traits,
        choice: None,
        text: "".into(),
    }
}

#[derive(Debug)]
struct Plus(i64);

impl Function for Plus {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        let values = inputs[0].as_primitive::<Int64Type>();
        let add = |value: Option<i64>| match value {
            // An error for rows that are not selected must not surface.
            Some(value) if value % 2 != 0 => Err(Error::InvalidInput("odd".into())),
            other => Ok(other.map(|value| value + self.0)),
        };
        Ok(std::sync::Arc::new(values.iter().map(add).collect::<Result<Int64Array>>()?))
    }
}

#[derive(Debug)]
struct Constant(&'static str);

impl Function for Constant {
    fn evaluate(&self, _: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(std::sync::Arc::new(StringArray::from(vec![self.0; rows])))
    }
}

#[test]
fn rows_are_deleted_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (table, mut state) = (table(dir.path()), 17);
    let mut all = rows(0, 9000, &mut state);
    let arrange = Arrange { partition_by: vec!["b AS kind".to_owned()], ..Arrange::default() };
    add(&table, &all, arrange);
    let in_order = |mut rows: Vec<Row>| {
        rows.sort_by_key(|row| row.2);
        rows
    };
    let schema = table.snapshot().unwrap().schema().clone();
    let change = |condition: Option<Condition>, set| Modification {
        columns: schema.columns().to_vec(),
        conditions: condition.into_iter().collect(),
        set,
        ..Modification::default()
    };
    let options = ModifyOptions { threads: 2, ..ModifyOptions::default() };
    let held = table.snapshot().unwrap();
    let (commit, report) =
        modify(&table, table.writer(None).unwrap(), &change(Some(divisible(3)), None), &options)
            .unwrap();
    assert!(commit.is_some() && report.rows == 3000 && report.removed == 0, "{report:?}");
    assert_eq!(in_order(read(&held)), all);
    all.retain(|row| row.2 % 3 != 0);
    assert_eq!(in_order(read(&table.snapshot().unwrap())), all);
    // Nothing changes, so there is no commit.
    assert_eq!(
        modify(&table, table.writer(None).unwrap(), &change(Some(divisible(3)), None), &options)
            .unwrap()
            .0,
        None
    );
    // Some rows move to another partition and change their number.
    let plus: std::sync::Arc<dyn Function> = std::sync::Arc::new(Plus(100_000));
    let plus = computed(vec![2], plus, arrow_schema::DataType::Int64);
    let text: std::sync::Arc<dyn Function> = std::sync::Arc::new(Constant("moved"));
    let text = computed(vec![], text, arrow_schema::DataType::Utf8);
    let set = change(Some(divisible(4)), Some(vec![(2, plus), (1, text)]));
    modify(&table, table.writer(None).unwrap(), &set, &options).unwrap();
    for row in all.iter_mut().filter(|row| row.2 % 4 == 0) {
        (row.1, row.2) = ("moved".to_owned(), row.2 + 100_000);
    }
    let snapshot = table.snapshot().unwrap();
    assert_eq!(in_order(read(&snapshot)), in_order(all.clone()));
    let moved =
        partitions(&snapshot).unwrap().into_iter().find(|p| &*p.path == "kind=moved").unwrap();
    assert_eq!(moved.rows as usize, all.iter().filter(|row| row.1 == "moved").count());
    modify(&table, table.writer(None).unwrap(), &change(None, None), &options).unwrap();
    assert_eq!((table.snapshot().unwrap().rows(), read(&table.snapshot().unwrap()).len()), (0, 0));
}

#[test]
fn columns_come_go_and_change_their_names_and_types() {
    let dir = tempfile::tempdir().unwrap();
    let (table, mut state) = (table(dir.path()), 2);
    add(
        &table,
        &rows(0, 100, &mut state),
        Arrange { sort_by: vec![by("id", false)], ..Arrange::default() },
    );
    let before = table.snapshot().unwrap();
    let types = |snapshot: &Snapshot| {
        let columns = snapshot.schema().columns().iter();
        columns.map(|column| format!("{}: {}", column.name, column.data_type)).collect::<Vec<_>>()
    };
    let int = before.schema().columns()[0].data_type.clone();
    alter(
        &table,
        &[
            Alteration::Add { name: "new".into(), data_type: "decimal(9,2)".parse().unwrap() },
            Alteration::Drop { name: "b".into() },
            Alteration::Rename { from: "a".into(), to: "b".into() },
            Alteration::Widen { name: "b".into(), data_type: "float64".parse().unwrap() },
            Alteration::Keep(1000),
        ],
    )
    .unwrap();
    let after = table.snapshot().unwrap();
    assert_eq!(
        types(&after),
        ["b: float64".to_owned(), format!("id: {int}"), "new: decimal(9,2)".to_owned()]
    );
    assert_eq!((after.rows(), after.root().history.keep, types(&before).len()), (100, 1000, 3));
    assert_eq!(after.schema().columns()[2].id, ColumnId(3));
    let refused = [
        Alteration::Drop { name: "id".into() },
        Alteration::Drop { name: "gone".into() },
        Alteration::Rename { from: "id".into(), to: "new".into() },
        Alteration::Widen { name: "b".into(), data_type: "int64".parse().unwrap() },
        Alteration::Add { name: "id".into(), data_type: "bool".parse().unwrap() },
    ];
    for refused in refused {
        assert!(alter(&table, std::slice::from_ref(&refused)).is_err(), "{refused:?}");
    }
    // New rows use the new names, and a column with the dropped name is a new one.
    let text = "b,id,x\n1.5,7,yes\n";
    let writer = table.writer(None).unwrap();
    let input = Input::reader("y.csv", Box::new(Cursor::new(text.as_bytes().to_vec())));
    load(writer, vec![input], &LoadOptions::default()).unwrap();
    assert_eq!(table.snapshot().unwrap().schema().columns().len(), 4);
    compact(&table, &CompactOptions { all: true, ..options() }).unwrap();
    assert_eq!(table.snapshot().unwrap().rows(), 101);
}

#[test]
fn a_cast_says_how_far_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    let mut state = 3;
    add(&table, &rows(0, 9000, &mut state), Arrange::default());
    alter(&table, &[Alteration::Add { name: "new".into(), data_type: DataType::Int64 }]).unwrap();
    for column in ["id", "new"] {
        let asked = Cast { column: column.into(), data_type: DataType::Float64, nulls: Vec::new() };
        let options = CastOptions { threads: 2, ..CastOptions::default() };
        let done = || options.done.load(Ordering::Relaxed);
        would_cast(&table, &asked, &options).unwrap();
        assert_eq!(done(), 9000, "{column}");
        cast(&table, &asked, &options).unwrap();
        assert_eq!(done(), 18_000, "{column}");
    }
}
