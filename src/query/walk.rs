//! The walk over blocks: all threads take blocks one after the other, filter them slice by slice,
//! and hand the slices to workers.
//!
//! Fragments, DELETE and UPDATE walk by [`each_slice`]. A scan for DataFusion takes its blocks as
//! its streams are polled, and filters each as a [`FilteredBlock`], too.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::context::Context;
use super::filter::{Filter, MaskBuilder, OnDictionaries, Tests};
use super::fragment::RowSource;
use super::open::prefetch::{BlockQueue, Prefetch};
use super::open::{BlockRef, OpenBlock, PerSegment, Survivors};
use super::slice::{SLICE_BYTES, SLICE_ROWS, SLICE_VALUES, Slice};
use super::stats::{Clock, Form, Statistic, Tally};
use crate::error::{Error, Result};
use crate::limits::VECTOR;
use crate::model::Physical;
use crate::segment;
use crate::store::known_rows::FoundRows;

/// What each thread does with the slices that pass the filter.
pub(crate) trait Worker: Send {
    /// Takes the selected rows of a slice, and may select fewer.
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()>;

    /// Reserves the memory that the worker holds, or frees some: asked before each block.
    fn account(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether a block can be left out, by what the worker knows, and what says so.
    fn skips(&mut self, _block: &OpenBlock<'_>) -> Result<Option<Statistic>> {
        Ok(None)
    }

    /// Takes all rows of a block by its zone maps, without a look at them; false, with nothing
    /// done, where these say too little.
    fn take_block(&mut self, _block: &OpenBlock<'_>) -> Result<bool> {
        Ok(false)
    }
}

/// A block whose rows are filtered slice by slice.
pub(crate) struct FilteredBlock<'a> {
    pub(crate) block: OpenBlock<'a>,
    tests: Tests<'a>,
    prefetch: &'a Prefetch,
    /// Whether a row has passed so far.
    passed: Cell<bool>,
    /// What an earlier run has found out of the lasting conditions; the tests are those of the
    /// others.
    known: Option<Known<'a>>,
    /// The rows that have passed so far, where later runs may know them.
    found: RefCell<Option<FoundRows>>,
}

/// The rows of a block that meet some conditions, and how many conditions these are.
struct Known<'a> {
    rows: &'a [u16],
    conditions: usize,
}

impl<'a> FilteredBlock<'a> {
    /// Prepares the filter for a block; `None`, and counted as pruned, if no row can pass.
    pub(crate) fn new(
        block: OpenBlock<'a>,
        filter: &Filter<'a>,
        prefetch: &'a Prefetch,
        tally: &mut Tally,
    ) -> Result<Option<Self>> {
        let (at, lasting) = (block.at.block, filter.on_dictionaries.lasting());
        let kept = block.segment.known.as_deref();
        let known = kept.and_then(|kept| kept.rows(at));
        let known = known.map(|rows| Known { rows, conditions: lasting });
        let from = known.as_ref().map_or(0, |known| known.conditions);
        (0..from).for_each(|number| tally.counters.form(number, Form::Known));
        let tests = filter.tests(from, &block, tally)?;
        let found = kept
            .filter(|_| known.is_none() && filter.conditions.len() == lasting)
            .and_then(|kept| kept.begin(at, block.rows));
        let Some(tests) = tests else {
            if let (Some(kept), Some(mut found)) = (kept, found) {
                // A dictionary is worth nothing if the file was cut.
                block.segment.segment.check()?;
                found.none_pass();
                kept.end(at, found);
            }
            return Ok(None);
        };
        let (passed, found) = (Cell::new(false), RefCell::new(found));
        Ok(Some(FilteredBlock { block, tests, prefetch, passed, known, found }))
    }

    /// Whether every row passes.
    fn passes_all(&self) -> bool {
        self.tests.is_empty() && self.known.is_none()
    }

    /// Those of some rows that pass; `None` if none do. With the first that pass, the columns of
    /// the output are prefetched.
    pub(crate) fn slice<'b>(
        &'b self,
        rows: Range<usize>,
        mask: &mut MaskBuilder,
        tally: &mut Tally,
    ) -> Result<Option<Slice<'b, 'a>>> {
        let mut slice = Slice::new(&self.block, rows);
        if let Some(known) = &self.known {
            select_known(&mut slice, known.rows);
            let (mut rows_in, left) = (slice.range.len(), slice.len());
            for number in 0..known.conditions {
                tally.counters.tested(number, rows_in, left, tally.clock.lap());
                rows_in = left;
            }
        }
        if !self.tests.is_empty() && slice.len() > 0 {
            let tested = self.tests.apply(&mut slice, mask, tally);
            tested.map_err(|error| self.block.in_file(error))?;
        }
        if let Some(found) = self.found.borrow_mut().as_mut() {
            found.note(slice.range.clone(), slice.len(), || slice.selected());
        }
        if slice.len() == 0 {
            return Ok(None);
        }
        if !self.passed.replace(true) {
            self.prefetch.output(self.block.segment, self.block.at.block);
        }
        Ok(Some(slice))
    }

    /// Notes for the next blocks whether rows of this one have passed, and for later runs which.
    pub(crate) fn note_passed(&self) {
        self.prefetch.note(self.passed.get());
        if let (Some(kept), Some(found)) =
            (&self.block.segment.known, self.found.borrow_mut().take())
        {
            kept.end(self.block.at.block, found);
        }
    }
}

/// Leaves those rows of a slice selected that are among some of its block.
fn select_known(slice: &mut Slice<'_, '_>, known: &[u16]) {
    let start = slice.range.start;
    let first = known.partition_point(|row| usize::from(*row) < start);
    let last = known.partition_point(|row| usize::from(*row) < slice.range.end);
    let rows = known.get(first..last).unwrap_or_default();
    slice.select(rows.iter().map(|row| u32::from(*row) - start as u32).collect());
}

/// Rows of a slice of this block: fewer where texts are long, because what is computed from a
/// slice of them is as long again.
pub(crate) fn slice_rows(block: &OpenBlock<'_>) -> usize {
    let is_text = |column: &&segment::Column| column.data_type().physical() == Physical::Bytes;
    let texts = (0..block.columns()).filter_map(|at| block.stored(at)).filter(is_text);
    let bytes: u64 = texts.map(|column| column.block_bytes(block.at.block)).sum();
    let row = usize::try_from(bytes).unwrap_or(usize::MAX) / block.rows.max(1);
    (SLICE_BYTES / row.max(1) / VECTOR * VECTOR).clamp(VECTOR, SLICE_ROWS)
}

/// Rows of a slice of which so many values are read, some of a column more than once: what is
/// computed of each is held for all rows.
fn rows_of_many(values: usize) -> usize {
    (SLICE_VALUES / values.max(1) / VECTOR * VECTOR).clamp(VECTOR, SLICE_ROWS)
}

/// Runs blocks on all threads, each with a worker of its own, in order. Returns the
/// workers.
pub(crate) fn each_slice<W: Worker>(
    source: &RowSource<'_>,
    survivors: &Survivors,
    blocks: &[BlockRef],
    context: &Context<'_>,
    make: impl Fn() -> Result<W> + Sync,
) -> Result<Vec<W>> {
    let RowSource { conditions, columns, .. } = *source;
    let prefetch = Prefetch::new(conditions, source.read_by_row.iter().copied());
    let queue = BlockQueue::new(blocks, survivors, prefetch);
    let on_dictionaries = PerSegment::new(survivors);
    let done = Mutex::new(Vec::new());
    let mut watch = Clock::start(context.timed);
    let work = |worker: &mut W, tally: &mut Tally| -> Result<()> {
        let (mut mask, mut rows) = (MaskBuilder::default(), 0);
        loop {
            context.recorder.pass(rows as u64);
            worker.account()?;
            let Some(at) = queue.take() else { return Ok(()) };
            if (context.cancelled)() {
                return Err(Error::Cancelled);
            }
            let block = OpenBlock::open(survivors, columns, at)?;
            rows = block.rows;
            let skips = worker.skips(&block).map_err(|error| block.in_file(error))?;
            if let Some(statistic) = skips {
                block.count_pruned(statistic, None, &mut tally.counters);
                continue;
            }
            let known = on_dictionaries
                .get_or_init(at.segment, || OnDictionaries::new(conditions.len(), 0));
            let Some(known) = known else { continue };
            let filter = Filter { conditions, columns, on_dictionaries: known };
            let filtered = FilteredBlock::new(block, &filter, &queue.prefetch, tally)?;
            let Some(filtered) = filtered else { continue };
            tally.counters.scan.time += tally.clock.lap();
            let taken = || worker.take_block(&filtered.block);
            let taken = filtered.passes_all().then(taken).transpose();
            if taken.map_err(|error| filtered.block.in_file(error))? == Some(true) {
                filtered.block.count_pruned(Statistic::ZoneTotals, None, &mut tally.counters);
                tally.counters.output.rows_in += rows as u64;
                tally.counters.output.time += tally.clock.lap();
                continue;
            }
            let step = slice_rows(&filtered.block).min(rows_of_many(source.read_by_row.len()));
            for start in (0..rows).step_by(step) {
                let range = start..rows.min(start + step);
                let Some(mut slice) = filtered.slice(range, &mut mask, tally)? else { continue };
                tally.counters.output.rows_in += slice.len() as u64;
                worker.take(&mut slice).map_err(|error| filtered.block.in_file(error))?;
                tally.counters.output.time += tally.clock.lap();
            }
            // What it took is worth nothing if the file was cut.
            filtered.block.segment.segment.check()?;
            filtered.note_passed();
            filtered.block.count_read(&mut tally.counters);
        }
    };
    let threads = context.pool.current_num_threads().min(blocks.len().max(1));
    let run = || {
        let mut tally = Tally::new(conditions.len(), context.timed);
        let result = make().and_then(|mut worker| work(&mut worker, &mut tally).map(|()| worker));
        context.recorder.update(|sum| sum.add(&tally.counters));
        if result.is_err() {
            // The others stop at their next block.
            queue.stop();
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
    };
    match threads {
        // Handing one block over takes longer than it does.
        1 => run(),
        _ => context.pool.scope(|scope| (0..threads).for_each(|_| scope.spawn(|_| run()))),
    }
    for open in &survivors.segments {
        open.segment.check_length()?;
    }
    context.recorder.update(|sum| {
        sum.threads = sum.threads.max(threads as u64);
        sum.work += watch.lap();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}
