//! The walk over blocks: all threads take blocks one after the other, filter them slice by slice,
//! and hand the slices to workers.

use std::sync::{Mutex, PoisonError};

use super::Fragment;
use super::context::Context;
use super::filter::{Filter, MaskBuilder, OnDictionaries};
use super::open::prefetch::{BlockQueue, Prefetch};
use super::open::{BlockRef, OpenBlock, PerSegment, Survivors};
use super::slice::{SLICE_ROWS, Slice};
use super::stats::{Clock, Statistic, Tally};
use crate::error::{Error, Result};

/// What each thread does with the slices that pass the filter.
pub(crate) trait Worker: Send {
    /// Takes the selected rows of a slice, and may select fewer.
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()>;

    /// Reserves the memory that the worker holds, or frees some: asked before each block.
    fn account(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether a block can be left out, by what the worker knows, and what says so.
    fn skips(&mut self, _block: &OpenBlock<'_>) -> Option<Statistic> {
        None
    }
}

/// Runs blocks on all threads, each with a worker of its own, in order. Returns the
/// workers.
pub(crate) fn each_slice<W: Worker>(
    fragment: &Fragment,
    survivors: &Survivors,
    blocks: &[BlockRef],
    context: &Context<'_>,
    make: impl Fn() -> Result<W> + Sync,
) -> Result<Vec<W>> {
    let Fragment { conditions, columns, .. } = fragment;
    let prefetch = Prefetch::new(conditions, fragment.output.read_by_row());
    let queue = BlockQueue::new(blocks, survivors, prefetch);
    let on_dictionaries = PerSegment::new(survivors);
    let done = Mutex::new(Vec::new());
    let mut watch = Clock::start(context.timed);
    let work = |worker: &mut W, tally: &mut Tally| -> Result<()> {
        let mut mask = MaskBuilder::default();
        loop {
            worker.account()?;
            let Some(at) = queue.take() else { return Ok(()) };
            if (context.cancelled)() {
                return Err(Error::Cancelled);
            }
            let block = OpenBlock::open(survivors, columns, at)?;
            if let Some(statistic) = worker.skips(&block) {
                block.count_pruned(statistic, None, &mut tally.counters);
                continue;
            }
            let known = on_dictionaries
                .get_or_init(at.segment, || OnDictionaries::new(conditions.len(), 0));
            let Some(known) = known else { continue };
            let filter = Filter { conditions, columns, on_dictionaries: known };
            let Some(tests) = filter.tests(&block, tally)? else { continue };
            tally.counters.scan.time += tally.clock.lap();
            let mut passed = false;
            for start in (0..block.rows).step_by(SLICE_ROWS) {
                let mut slice = Slice::new(&block, start..block.rows.min(start + SLICE_ROWS));
                if !tests.is_empty() {
                    tests.apply(&mut slice, &mut mask, tally)?;
                }
                if slice.len() > 0 {
                    if !std::mem::replace(&mut passed, true) {
                        queue.prefetch.output(block.segment, at.block);
                    }
                    tally.counters.output.rows_in += slice.len() as u64;
                    worker.take(&mut slice)?;
                    tally.counters.output.time += tally.clock.lap();
                }
            }
            queue.prefetch.note(passed);
            block.count_read(&mut tally.counters);
        }
    };
    let threads = context.pool.current_num_threads().min(blocks.len().max(1));
    context.pool.scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|_| {
                let mut tally = Tally::new(fragment.conditions.len(), context.timed);
                let result =
                    make().and_then(|mut worker| work(&mut worker, &mut tally).map(|()| worker));
                context.recorder.update(|sum| sum.add(&tally.counters));
                if result.is_err() {
                    // The others stop at their next block.
                    queue.stop();
                }
                done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
            });
        }
    });
    context.recorder.update(|sum| {
        sum.threads = sum.threads.max(threads as u64);
        sum.work += watch.lap();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}
