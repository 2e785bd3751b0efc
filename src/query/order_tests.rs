//! First rows of an order in little memory, against the same computed row by row.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::tests::{Row, all_of, column, fragment, rows, store};
use super::*;
use crate::error::{Error, Result};
use crate::store::Snapshot;

/// The numbers of the rows from `skip` to `limit` by text and then by number falling, with the
/// bytes that were spilled and the most that were reserved of `memory`.
fn first(
    snapshot: &Snapshot,
    (skip, limit): (usize, usize),
    memory: usize,
) -> Result<(Vec<i64>, u64, usize)> {
    let by = |at, descending| OrderBy { expression: column(at), descending, nulls_first: false };
    let order = vec![by(1, false), by(3, true)];
    let output = Output::Top { order, limit, skip, expressions: vec![column(3), column(1)] };
    let fragment = fragment(snapshot, vec![], output);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (held, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reserve = |bytes: usize| {
        let more = |held: usize| held.checked_add(bytes).filter(|all| *all <= memory);
        let before = held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        let before = before.map_err(|_| Error::LimitExceeded("no more memory".into()))?;
        most.fetch_max(before + bytes, Ordering::SeqCst);
        Ok(())
    };
    let (directory, recorder) = (std::env::temp_dir(), Recorder::default());
    let context = Context {
        pool: &pool,
        cancelled: &|| false,
        reserve: &reserve,
        release: &|bytes| _ = held.fetch_sub(bytes, Ordering::SeqCst),
        temp_dir: &directory,
        limits: GroupLimits { free: 0, answer: 1 << 16, ..GroupLimits::default() },
        recorder: &recorder,
        timed: false,
    };
    let batch = all_of(&fragment, run(&fragment, snapshot, &context)?)?;
    assert_eq!(held.load(Ordering::SeqCst), 0, "memory is given back");
    let numbers = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    let counters = recorder.counters();
    assert_eq!(counters.spilled_bytes > 0, counters.spill_files > 0);
    Ok((numbers, counters.spilled_bytes, most.load(Ordering::SeqCst)))
}

#[test]
fn the_first_rows_spill_where_they_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [rows(70_000, 4), rows(20_000, 5), rows(30_000, 6)];
    let snapshot = store(dir.path(), &parts);
    let mut sorted: Vec<Row> = parts.concat();
    sorted.sort_by(|a, b| {
        let nulls = a.text.is_none().cmp(&b.text.is_none());
        nulls.then(a.text.cmp(&b.text)).then(b.rising.cmp(&a.rising))
    });
    let sorted: Vec<i64> = sorted.iter().map(|row| row.rising).collect();
    for (skip, limit) in [(0, 10), (0, 30_000), (29_990, 30_000), (100_000, 130_000), (200_000, 9)]
    {
        let wanted = sorted.get(skip..limit.min(sorted.len())).unwrap_or_default();
        let (all, spilled, _) = first(&snapshot, (skip, limit), usize::MAX).unwrap();
        assert!(all == wanted && spilled == 0, "{skip} {limit}");
        let memory = 3 << 20;
        let (few, spilled, most) = first(&snapshot, (skip, limit), memory).unwrap();
        assert!(few == wanted, "{skip} {limit}");
        assert_eq!(spilled > 0, limit >= 30_000, "{skip} {limit}");
        assert!(most <= memory);
    }
    assert!(matches!(first(&snapshot, (0, 30_000), 1000), Err(Error::LimitExceeded(_))));
}
