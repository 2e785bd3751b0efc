//! Groups that are partitioned, not grouped before, spilled and split, against the same groups in
//! memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType as ArrowType, SortOptions};

use super::picked_tests::picked;
use super::tests::{aggregate, aggregates, all_of, column, computed, fragment, rows, shown, store};
use super::words::one_zero;
use super::*;
use crate::error::{Error, Result};
use crate::expr::{Expression, Traits};
use crate::store::Snapshot;

/// Limits under which a grouping runs, and what it must do of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    threads: usize,
    limits: GroupLimits,
    /// Bytes that may be reserved.
    memory: usize,
    spills: bool,
}

fn scrambled(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    let text =
        |v: i64| format!("{:x} and some more", v.wrapping_mul(0x5851_f42d_4c95_7f2d) % 30_011);
    Arc::new(values.iter().map(|v| v.filter(|v| v % 17 > 0).map(text)).collect::<StringViewArray>())
}

fn third(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Float64Type>();
    Arc::new(
        values
            .iter()
            .map(|v| v.map(|v| ((v * 100.0) as i64 % 1000) as f64 / 3.0))
            .collect::<Float64Array>(),
    )
}

fn single(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    let float = |v: i64| if v % 5 == 0 { -0.0 } else { (v % 3_001) as f32 / 7.0 };
    Arc::new(values.iter().map(|v| v.filter(|v| v % 11 > 0).map(float)).collect::<Float32Array>())
}

fn remainder(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    Arc::new(
        values
            .iter()
            .map(|v| v.filter(|v| v % 13 > 0).map(|v| v % 20_011 - 3))
            .collect::<Int64Array>(),
    )
}

pub(super) fn keys(of: &str) -> Vec<Expression> {
    let plain = Traits::default;
    let text = || computed(vec![3], ArrowType::Utf8View, plain(), scrambled);
    let float = || computed(vec![2], ArrowType::Float64, plain(), third);
    let small = || computed(vec![3], ArrowType::Float32, plain(), single);
    let whole = || computed(vec![4], ArrowType::Int64, plain(), remainder);
    match of {
        "slots" => vec![column(3)],
        "digits" => vec![column(4)],
        "narrow" => vec![small(), column(0)],
        "double" => vec![float()],
        "wide" => vec![whole(), column(1), small()],
        "text" => vec![text()],
        _ => vec![column(1), text(), whole()],
    }
}

/// What comes of a run, with the bytes and files that it spilled.
fn within<T>(
    case: Case,
    dir: &Path,
    states: bool,
    run: impl for<'c> FnOnce(&'c Context<'c>) -> Result<T>,
) -> Result<(T, u64, u64)> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(case.threads).build().unwrap();
    let held = AtomicUsize::new(0);
    let reserve = |bytes: usize| {
        let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= case.memory);
        let grown = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        grown.map(drop).map_err(|_| Error::LimitExceeded("no more memory".into()))
    };
    let release = |bytes: usize| {
        assert!(held.fetch_sub(bytes, Ordering::Relaxed) >= bytes);
    };
    let recorder = Recorder::default();
    let context = Context {
        pool: &pool,
        cancelled: &|| false,
        reserve: &reserve,
        release: &release,
        temp_dir: dir,
        limits: case.limits,
        known_rows: true,
        states,
        recorder: &recorder,
        timed: false,
    };
    let out = run(&context)?;
    let spilled = recorder.counters();
    assert_eq!(held.load(Ordering::Relaxed), 0);
    Ok((out, spilled.spilled_bytes, spilled.spill_files))
}

/// What a fragment answers, with the bytes and files that it spilled.
fn batch_within(
    case: Case,
    fragment: &Fragment,
    snapshot: &Snapshot,
    dir: &Path,
) -> Result<(RecordBatch, u64, u64)> {
    within(case, dir, fragment.states, |context| {
        let mut answer = run(fragment, snapshot, context)?;
        let mut parts = Vec::new();
        loop {
            parts.append(&mut answer.batches);
            if !answer.more()? {
                break;
            }
        }
        Ok(arrow_select::concat::concat_batches(&fragment.schema, &parts).unwrap())
    })
}

/// What a fragment answers, sorted, with the bytes and files that it spilled.
pub(super) fn run_within(
    case: Case,
    fragment: &Fragment,
    snapshot: &Snapshot,
    dir: &Path,
) -> Result<(Vec<String>, u64, u64)> {
    let (whole, bytes, files) = batch_within(case, fragment, snapshot, dir)?;
    Ok((shown(&whole), bytes, files))
}

pub(super) fn cases() -> Vec<Case> {
    let usual = GroupLimits::default();
    let small = GroupLimits { in_table: 100, unmerged: 1_000, serial: 0, free: 0, ..usual };
    let never_merged = GroupLimits { unmerged: usize::MAX, ..small };
    vec![
        Case { threads: 1, limits: usual, memory: usize::MAX, spills: false },
        Case { threads: 3, limits: usual, memory: usize::MAX, spills: false },
        Case {
            threads: 2,
            limits: GroupLimits { direct: 0, ..usual },
            memory: usize::MAX,
            spills: false,
        },
        Case { threads: 3, limits: small, memory: usize::MAX, spills: false },
        // Aggregates wait for the first groups of an order.
        Case {
            threads: 2,
            limits: GroupLimits { late_groups: 2, ..small },
            memory: usize::MAX,
            spills: false,
        },
        Case { threads: 2, limits: never_merged, memory: usize::MAX, spills: false },
        Case { threads: 2, limits: never_merged, memory: 200_000, spills: true },
        Case { threads: 3, limits: small, memory: 80_000, spills: true },
        // Too little for any partition, which are split by more bits.
        Case {
            threads: 1,
            limits: GroupLimits { free: 2_000, ..small },
            memory: 20_000,
            spills: true,
        },
    ]
}

#[test]
fn groups_are_the_same_in_any_memory() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = store(dir.path(), &[1, 2, 3, 1, 4].map(|seed| rows(2_000, seed)));
    let mut all = aggregates();
    all.push(aggregate(AggregateFunction::Sum, Some(2)));
    all.push(aggregate(AggregateFunction::Average, Some(2)));
    all.push(aggregate(AggregateFunction::Max, Some(3)));
    all.push(picked(1, Some((2, false)), true));
    all.push(picked(2, Some((2, true)), false));
    for of in ["slots", "digits", "narrow", "double", "wide", "text", "rows"] {
        let output = Output::Aggregate { keys: keys(of), aggregates: all.clone(), first: None };
        let fragment = fragment(&snapshot, vec![], output);
        let mut first = None;
        for case in cases() {
            let (shown, bytes, files) = run_within(case, &fragment, &snapshot, dir.path()).unwrap();
            // So few slots are had in any memory.
            let spills = case.spills && of != "slots";
            assert_eq!((bytes > 0, files), (spills, u64::from(spills)), "{of} {case:?}");
            match &first {
                None => first = Some(shown),
                Some(first) => assert!(*first == shown, "{of} {case:?}"),
            }
        }
        assert!(first.unwrap().len() > 900, "{of}");
    }
}

/// The first rows of an answer by an order, as far as the order tells them apart.
fn first_rows(first: &FirstGroups, batch: &RecordBatch) -> Vec<Vec<u8>> {
    let field = |by: &ByColumn| {
        let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
        SortField::new_with_options(batch.column(by.column).data_type().clone(), options)
    };
    let converter = RowConverter::new(first.order.iter().map(field).collect()).unwrap();
    let columns: Vec<ArrayRef> =
        first.order.iter().map(|by| one_zero(batch.column(by.column))).collect();
    let rows = converter.convert_columns(&columns).unwrap();
    let mut rows: Vec<Vec<u8>> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    rows.sort();
    rows.truncate(first.limit);
    rows
}

#[test]
fn the_first_groups_of_an_order_are_among_those_that_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = store(dir.path(), &[1, 2, 3].map(|seed| rows(2_000, seed)));
    let mut all = aggregates();
    all.push(aggregate(AggregateFunction::Average, Some(2)));
    all.push(aggregate(AggregateFunction::Max, Some(3)));
    for of in ["slots", "digits", "wide", "text", "rows"] {
        let keys = keys(of);
        let last = keys.len() + all.len() - 1;
        let by = |column, descending| ByColumn { column, descending, nulls_first: descending };
        let orders = [
            vec![by(last - 1, true)],
            vec![by(keys.len(), true), by(0, false)],
            vec![by(last, false)],
        ];
        for order in orders {
            let output =
                |first| Output::Aggregate { keys: keys.clone(), aggregates: all.clone(), first };
            let first = FirstGroups { order, limit: 7 };
            let every = fragment(&snapshot, vec![], output(None));
            let some = fragment(&snapshot, vec![], output(Some(first.clone())));
            for case in cases() {
                let every = batch_within(case, &every, &snapshot, dir.path()).unwrap().0;
                let some = batch_within(case, &some, &snapshot, dir.path()).unwrap().0;
                assert_eq!(first_rows(&first, &some), first_rows(&first, &every), "{of} {case:?}");
                assert!(some.num_rows() < every.num_rows(), "{of} {case:?}");
                let every = shown(&every);
                assert!(shown(&some).iter().all(|row| every.binary_search(row).is_ok()));
            }
        }
    }
}

/// The groups of states, which come some at a time.
#[cfg(feature = "cluster")]
fn merged_within(
    case: Case,
    fragment: &Fragment,
    states: &[RecordBatch],
    dir: &Path,
) -> RecordBatch {
    let Output::Aggregate { keys, aggregates, first } = &fragment.output else { panic!() };
    let merged = within(case, dir, false, |context| {
        let mut groups = merged_groups::MergedGroups::new(keys, aggregates, context)?;
        for batch in states {
            for start in (0..batch.num_rows()).step_by(700) {
                groups.add(&batch.slice(start, 700.min(batch.num_rows() - start)))?;
            }
        }
        let (mut groups, mut parts) = (groups.finish(first.as_ref())?, Vec::new());
        while let Some(batches) = groups.next()? {
            parts.extend(batches.into_iter().map(|columns| {
                RecordBatch::try_new(Arc::clone(&fragment.schema), columns).unwrap()
            }));
        }
        Ok(arrow_select::concat::concat_batches(&fragment.schema, &parts).unwrap())
    });
    merged.unwrap().0
}

#[cfg(feature = "cluster")]
#[test]
fn states_of_several_machines_merge_to_the_groups_of_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [1, 2, 3].map(|seed| rows(2_000, seed));
    let all = store(dir.path(), &parts);
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let machines: Vec<Snapshot> =
        dirs.iter().zip(&parts).map(|(d, p)| store(d.path(), std::slice::from_ref(p))).collect();
    let mut of_groups = aggregates();
    of_groups.push(aggregate(AggregateFunction::Average, Some(2)));
    of_groups.push(aggregate(AggregateFunction::Max, Some(3)));
    of_groups.push(picked(1, Some((3, true)), false));
    of_groups.push(picked(2, Some((3, false)), false));
    for of in ["slots", "digits", "narrow", "double", "wide", "text", "rows", "none"] {
        let keys = if of == "none" { Vec::new() } else { keys(of) };
        let by = |column, descending| ByColumn { column, descending, nulls_first: descending };
        let firsts = [
            None,
            Some(FirstGroups { order: vec![], limit: 5 }),
            Some(FirstGroups { order: vec![by(0, true)], limit: 7 }),
            Some(FirstGroups { order: vec![by(keys.len(), true)], limit: 7 }),
        ];
        for first in firsts.into_iter().take(if of == "none" { 1 } else { 4 }) {
            let output = |first| Output::Aggregate {
                keys: keys.clone(),
                aggregates: of_groups.clone(),
                first,
            };
            let some = fragment(&all, vec![], output(first.clone()));
            let with_states = some.with_states().unwrap();
            // In an order by aggregates, states of all groups are sent, and more may come out.
            let sent = with_states.first_groups();
            let merging = fragment(&all, vec![], output(sent.cloned()));
            let every =
                batch_within(cases()[0], &fragment(&all, vec![], output(None)), &all, dir.path());
            let every = every.unwrap().0;
            let is_by_keys =
                |first: &FirstGroups| first.order.iter().all(|by| by.column < keys.len());
            assert_eq!(sent.is_some(), first.as_ref().is_some_and(is_by_keys));
            let rows = |batch: &RecordBatch| match sent {
                None => shown(batch),
                Some(first) => first_shown(first, batch),
            };
            let expected = rows(&every);
            for case in cases() {
                let states: Vec<RecordBatch> = machines
                    .iter()
                    .map(|machine| batch_within(case, &with_states, machine, dir.path()).unwrap().0)
                    .collect();
                let merged = merged_within(case, &merging, &states, dir.path());
                assert_eq!(rows(&merged), expected, "{of} {first:?} {case:?}");
            }
        }
    }
}

/// The first groups of a total order.
#[cfg(feature = "cluster")]
fn first_shown(first: &FirstGroups, batch: &RecordBatch) -> Vec<String> {
    let every = FirstGroups { limit: batch.num_rows(), ..first.clone() };
    let order = first_rows(&every, batch);
    let mut rows: Vec<(usize, String)> = (0..batch.num_rows())
        .map(|at| {
            let row = batch.slice(at, 1);
            let key = first_rows(&every, &row).remove(0);
            (order.binary_search(&key).unwrap(), shown(&row).remove(0))
        })
        .collect();
    rows.sort();
    rows.into_iter().take(first.limit).map(|(_, row)| row).collect()
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = store(dir.path(), &[rows(20_000, 3)]);
    let output = Output::Aggregate { keys: keys("digits"), aggregates: aggregates(), first: None };
    let fragment = fragment(&snapshot, vec![], output);
    let limits = GroupLimits { in_table: 200, free: 0, ..GroupLimits::default() };
    let case = Case { threads: 2, limits, memory: 10_000, spills: true };
    let missing = dir.path().join("no such directory");
    let error = run_within(case, &fragment, &snapshot, &missing).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if *path == missing), "{error}");
    assert!(run_within(case, &fragment, &snapshot, dir.path()).is_ok());
}

#[test]
fn cancelled_while_groups_come_out() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = store(dir.path(), &[rows(20_000, 4)]);
    let output = Output::Aggregate { keys: keys("text"), aggregates: aggregates(), first: None };
    let fragment = fragment(&snapshot, vec![], output);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let cancelled = AtomicBool::new(false);
    let limits = GroupLimits { in_table: 100, ..GroupLimits::default() };
    let context = Context {
        pool: &pool,
        cancelled: &|| cancelled.swap(true, Ordering::Relaxed),
        reserve: &|_| Ok(()),
        release: &|_| {},
        temp_dir: dir.path(),
        limits,
        known_rows: true,
        states: false,
        recorder: &Recorder::default(),
        timed: false,
    };
    let answer = run(&fragment, &snapshot, &context).and_then(|answer| all_of(&fragment, answer));
    assert!(matches!(answer, Err(Error::Cancelled)), "{answer:?}");
}

fn padded(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    let text = |v: i64| format!("{v:0200}");
    Arc::new(values.iter().map(|v| v.map(text)).collect::<StringViewArray>())
}

#[test]
fn long_texts_are_accounted_for_within_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = store(dir.path(), &[rows(60_000, 5)]);
    let greatest = Aggregate {
        input: Some(computed(vec![3], ArrowType::Utf8View, Traits::default(), padded)),
        data_type: ArrowType::Utf8View,
        ..aggregate(AggregateFunction::Max, Some(3))
    };
    let output =
        Output::Aggregate { keys: keys("digits"), aggregates: vec![greatest], first: None };
    let fragment = fragment(&snapshot, vec![], output);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let most = AtomicUsize::new(0);
    let context = Context {
        pool: &pool,
        cancelled: &|| false,
        reserve: &|bytes| {
            most.fetch_max(bytes, Ordering::Relaxed);
            Ok(())
        },
        release: &|_| {},
        temp_dir: dir.path(),
        limits: GroupLimits { unmerged: usize::MAX, free: 0, ..GroupLimits::default() },
        known_rows: true,
        states: false,
        recorder: &Recorder::default(),
        timed: false,
    };
    let answer = run(&fragment, &snapshot, &context).unwrap();
    // All texts of the block have 12 MB, and those of a slice a seventh of that.
    let most = most.load(Ordering::Relaxed);
    assert!((1 << 20..6 << 20).contains(&most), "{most}");
    drop(answer);
}
