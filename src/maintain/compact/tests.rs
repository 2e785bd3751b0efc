//! Runs, their ranges and their groups.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;

use super::ranges::range_tasks;
use super::runs::{Key, KeyOrder, SortedRun, merge_groups, row_bytes};
use crate::disk::Mapped;
use crate::encoding::{Options, Profile};
use crate::limits::VECTOR;
use crate::model::{ColumnId, DataType, Schema, SortKey};
use crate::segment::Segment;
use crate::segment::writer::{InputColumn, SegmentInput, encode};

fn order(interval: usize) -> Arc<KeyOrder> {
    let schema = Schema::from_names([("k", DataType::Int64)]).unwrap();
    let key = SortKey { column: ColumnId(0), descending: false, nulls_first: false };
    let order = Arc::into_inner(KeyOrder::new(&schema, &[key], &[]).unwrap()).unwrap();
    Arc::new(KeyOrder { interval, step: VECTOR, ..order })
}

fn segment(keys: &[i64]) -> Arc<Segment> {
    let array: ArrayRef = Arc::new(arrow_array::Int64Array::from(keys.to_vec()));
    let column = InputColumn { id: ColumnId(0), data_type: DataType::Int64, arrays: vec![array] };
    let input = SegmentInput { rows: keys.len(), block_rows: 2 * VECTOR, columns: vec![column] };
    let encoded = encode(&input, &Options::new(Profile::Fast)).unwrap();
    let bytes: Vec<u8> = encoded.parts.concat();
    let length = bytes.len() as u64;
    Arc::new(Segment::open(Arc::new(Mapped::from_bytes(&bytes)), "x", 0, length).unwrap())
}

fn run(keys: &[i64], number: usize) -> SortedRun {
    SortedRun::open(segment(keys), &order(15), number).unwrap().unwrap()
}

#[test]
fn a_key_has_its_place() {
    // Three blocks, repeated keys, and missing keys.
    let keys: Vec<i64> = (0..5000).map(|row| row / 3 * 2).collect();
    for number in 0..5 {
        let run = run(&keys, number);
        for key in [-1, 0, 1, 2, 3, 700, 1365, 1366, 3331, 3332, 3333] {
            let probe = run_key(key);
            let expected = keys.iter().filter(|known| **known < key).count();
            assert_eq!(run.rows_before(&probe).unwrap(), expected, "{key}");
        }
    }
    assert!(SortedRun::open(segment(&[1, 3, 2]), &order(1), 0).unwrap().is_none());
}

fn run_key(key: i64) -> Key {
    run(&[key], 0).first
}

#[test]
fn neighbours_are_grouped_by_how_often_they_overlap() {
    let runs = |bounds: &[(i64, i64)]| {
        bounds.iter().map(|(first, last)| run(&[*first, *last], 0)).collect()
    };
    let sizes = |bounds: &[(i64, i64)], most| {
        merge_groups(runs(bounds), most).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert!(sizes(&[], 2).is_empty());
    // One after the other, even with equal keys.
    assert_eq!(sizes(&[(0, 5), (5, 6), (7, 9), (9, 9)], 2), [4]);
    assert_eq!(sizes(&[(0, 9), (1, 8), (2, 7), (3, 6), (4, 5)], 2), [2, 2, 1]);
    assert_eq!(sizes(&[(0, 9), (1, 3), (4, 8), (5, 7)], 2), [3, 1]);
}

#[test]
fn ranges_of_runs_that_are_alike_are_about_equal() {
    // All runs have similar keys: without phases, samples would cluster.
    let runs: Vec<SortedRun> = (0..32)
        .map(|number| {
            let keys: Vec<i64> = (0..4096).map(|row| row * 32 + number).collect();
            SortedRun::open(segment(&keys), &order(VECTOR), number as usize).unwrap().unwrap()
        })
        .collect();
    let (order, bytes) = (Arc::clone(&runs[0].order), 8192 * row_bytes(&runs));
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let tasks = range_tasks(runs, &order, pool, bytes, usize::MAX);
    let mut all = Vec::new();
    for task in tasks {
        let parsed = (task.unwrap().work)().unwrap();
        let keys = parsed.batches[0].column(0);
        let keys = arrow_cast::cast(keys, &arrow_schema::DataType::Int64).unwrap();
        assert!(keys.len() < 3 * 8192, "{}", keys.len());
        all.extend(keys.as_primitive::<arrow_array::types::Int64Type>().values().iter().copied());
    }
    assert_eq!(all, (0..4096 * 32).collect::<Vec<i64>>());
}

#[test]
fn rows_of_one_key_come_in_parts() {
    // Two keys have most of the rows, with some others between them.
    let keys: Vec<i64> = (0..6000)
        .map(|row| match row {
            0..2000 => 5,
            2000..2010 => row,
            2010..5900 => 7000,
            _ => row + 7000,
        })
        .collect();
    let runs: Vec<SortedRun> = (0..3)
        .map(|number| SortedRun::open(segment(&keys), &order(8), number).unwrap().unwrap())
        .collect();
    let (order, bytes) = (Arc::clone(&runs[0].order), 700 * row_bytes(&runs));
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let mut all = Vec::new();
    for task in range_tasks(runs, &order, pool, bytes, usize::MAX) {
        let parsed = (task.unwrap().work)().unwrap();
        let keys =
            arrow_cast::cast(parsed.batches[0].column(0), &arrow_schema::DataType::Int64).unwrap();
        assert!((1..=3 * 768).contains(&keys.len()), "{}", keys.len());
        all.extend(keys.as_primitive::<arrow_array::types::Int64Type>().values().iter().copied());
    }
    let mut expected = keys.repeat(3);
    expected.sort_unstable();
    assert_eq!(all, expected);
}
