//! Running a fragment: blocks handed to threads one at a time, their results merged.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use super::aggregate::Accumulators;
use super::filter::{Filter, Marks};
use super::group::{self, Rest};
use super::scan::ahead::{Ahead, Walk};
use super::scan::{OpenBlock, Opener, SLICE_ROWS, Survivors, Work};
use super::slice::Slice;
use super::stats::{Clock, Counters, Recorder, Statistic, Tally};
use super::{Fragment, Output};
use super::{metadata, order};
use crate::error::{Error, Result};
use crate::store::Snapshot;

/// What a fragment runs with.
pub struct Context<'a> {
    /// The threads.
    pub pool: &'a rayon::ThreadPool,
    /// Asked once per block; the run ends with [`Error::Cancelled`] when it says so.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told of so many bytes more that groups take. Where it refuses, groups go to temporary files.
    pub reserve: &'a (dyn Fn(usize) -> Result<()> + Sync),
    /// Where the run counts what it does.
    pub recorder: &'a Recorder,
    /// Whether it takes times, too.
    pub timed: bool,
    /// Told of so many bytes that groups take no more.
    pub release: &'a (dyn Fn(usize) + Sync),
    /// Where temporary files are made.
    pub temp_dir: &'a Path,
    /// How large the parts of groupings become.
    pub limits: GroupLimits,
}

/// How large the parts of groupings become: for speed, not for what comes out.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Groups of a direct index.
    pub direct: u64,
    /// Groups of a thread's hash table, which should stay within its caches.
    pub in_table: usize,
    /// Groups of a thread's partitions before those of the same key are looked for.
    pub unmerged: usize,
    /// Groups of all threads that are merged by one.
    pub serial: usize,
    /// Bytes that each thread takes without a reservation.
    pub free: usize,
}

impl GroupLimits {
    /// Smaller where there are so few bytes for all groups together that the usual ones would not
    /// fit several times.
    pub fn within(bytes: usize) -> Self {
        let usual = GroupLimits::default();
        GroupLimits {
            direct: usual.direct,
            in_table: usual.in_table.min(bytes / 256).max(16),
            unmerged: usual.unmerged.min(bytes / 64).max(64),
            serial: usual.serial.min(bytes / 1024),
            free: usual.free.min(bytes / 16),
        }
    }
}

impl Default for GroupLimits {
    fn default() -> Self {
        GroupLimits {
            direct: 1 << 23,
            in_table: 1 << 16,
            unmerged: 1 << 22,
            serial: 1 << 14,
            free: 1 << 20,
        }
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("threads", &self.pool.current_num_threads())
            .finish_non_exhaustive()
    }
}

/// The answer of a fragment, part by part.
#[derive(Default)]
pub struct Answer<'a> {
    /// In the fragment's schema. [`Answer::more`] puts the next ones here.
    pub batches: Vec<RecordBatch>,
    rest: Option<(SchemaRef, Rest<'a>, &'a Context<'a>)>,
    /// Bytes and files that were spilled, as far as they are counted.
    spilled: (u64, u64),
}

impl std::fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("batches", &self.batches.len()).finish_non_exhaustive()
    }
}

impl<'a> Answer<'a> {
    fn of(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<Self> {
        Ok(Answer { batches: vec![batch(schema, columns)?], ..Answer::default() })
    }

    fn from(schema: &SchemaRef, rest: Rest<'a>, context: &'a Context<'a>) -> Result<Self> {
        let mut answer =
            Answer { rest: Some((schema.clone(), rest, context)), ..Answer::default() };
        answer.more()?;
        Ok(answer)
    }

    /// Puts the next batches in the place of those that were there; false if there are none.
    pub fn more(&mut self) -> Result<bool> {
        self.batches.clear();
        let Some((schema, rest, context)) = &mut self.rest else { return Ok(false) };
        let mut clock = Clock::start(context.timed);
        let next = rest.next()?;
        let (bytes, files) = rest.spilled();
        let before = std::mem::replace(&mut self.spilled, (bytes, files));
        let more = next.is_some();
        if let Some(parts) = next {
            self.batches =
                parts.into_iter().map(|columns| batch(schema, columns)).collect::<Result<_>>()?;
        }
        context.recorder.update(|sum| {
            sum.spilled_bytes += bytes - before.0;
            sum.spill_files += files - before.1;
            sum.output.rows_out += rows_of(&self.batches);
            sum.finish += clock.lap();
        });
        if !more {
            self.rest = None;
        }
        Ok(more)
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::InvalidInput(format!("the answer does not fit its schema: {e}")))
}

/// Why a fragment cannot run here; `None` if it can.
pub fn refusal(fragment: &Fragment) -> Option<String> {
    let aggregates = match &fragment.output {
        Output::Aggregate { aggregates, .. } => aggregates,
        Output::Top { limit, .. } if *limit > order::MAX_LIMIT => {
            return Some(format!("a limit of more than {} rows", order::MAX_LIMIT));
        }
        Output::Top { .. } => return None,
    };
    Accumulators::new(aggregates).err().map(|error| error.to_string())
}

/// Runs a fragment over one generation of its table. Groups come out of the answer part by part.
pub fn run<'a>(
    fragment: &'a Fragment,
    snapshot: &Snapshot,
    context: &'a Context<'a>,
) -> Result<Answer<'a>> {
    let mut clock = Clock::start(context.timed);
    if let Output::Aggregate { keys, aggregates } = &fragment.output
        && keys.is_empty()
        && fragment.conditions.is_empty()
        && let Some(columns) = metadata::answer(fragment, aggregates, snapshot)?
    {
        let counted = metadata::counters(snapshot, context.timed, clock.lap())?;
        context.recorder.update(|sum| sum.add(&counted));
        return Answer::of(&fragment.schema, columns);
    }
    let opener = Opener::new(fragment, snapshot, context.timed)?;
    match &fragment.output {
        Output::Aggregate { keys, aggregates } => {
            let mut counters = Counters::new(fragment.conditions.len());
            let survivors = opener.survivors(&mut counters)?;
            counters.prune = clock.lap();
            context.recorder.update(|sum| sum.add(&counters));
            let before = context.recorder.counters().work;
            let rest = group::groups(fragment, keys, aggregates, &survivors, context)?;
            count_finish(context, clock.lap(), before);
            Answer::from(&fragment.schema, rest, context)
        }
        Output::Top { order, limit, expressions } => {
            let before = context.recorder.counters();
            let columns = order::top(fragment, order, *limit, expressions, &opener, context)?;
            let answer = Answer::of(&fragment.schema, columns)?;
            let pruning = context.recorder.counters().prune.saturating_sub(before.prune);
            count_finish(context, clock.lap().saturating_sub(pruning), before.work);
            context.recorder.update(|sum| sum.output.rows_out += rows_of(&answer.batches));
            Ok(answer)
        }
    }
}

/// What a run took since its pruning, less the work on blocks; `before` is the work of earlier
/// runs.
fn count_finish(context: &Context<'_>, time: Duration, before: Duration) {
    context
        .recorder
        .update(|sum| sum.finish += time.saturating_sub(sum.work.saturating_sub(before)));
}

fn rows_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// What each thread does with the slices that pass the filter.
pub(crate) trait Worker: Send {
    /// Takes a slice of which some rows are selected, and may select fewer.
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

/// Runs the blocks of `work` on all threads, each with a worker of its own, in order. Returns the
/// workers.
pub(crate) fn each_slice<W: Worker>(
    fragment: &Fragment,
    survivors: &Survivors,
    blocks: &[Work],
    context: &Context<'_>,
    make: impl Fn() -> Result<W> + Sync,
) -> Result<Vec<W>> {
    let filter =
        Filter { conditions: &fragment.conditions, columns: &fragment.columns, on_codes: &[] };
    let walk = Walk::over(
        blocks,
        survivors,
        Ahead::of(&fragment.conditions, fragment.output.read_by_row()),
    );
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let mut watch = Clock::start(context.timed);
    let work = |worker: &mut W, tally: &mut Tally| -> Result<()> {
        let mut marks = Marks::default();
        loop {
            worker.account()?;
            let Some(work) = walk.take(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            if (context.cancelled)() {
                return Err(Error::Cancelled);
            }
            let block = OpenBlock::of(survivors, &fragment.columns, work)?;
            if let Some(statistic) = worker.skips(&block) {
                block.count_pruned(statistic, None, &mut tally.counters);
                continue;
            }
            let Some(tests) = filter.tests(&block, tally)? else { continue };
            tally.counters.scan.time += tally.clock.lap();
            let mut passed = false;
            for start in (0..block.rows).step_by(SLICE_ROWS) {
                let mut slice = Slice::new(&block, start..block.rows.min(start + SLICE_ROWS));
                if !tests.is_empty() {
                    tests.apply(&mut slice, &mut marks, tally)?;
                }
                if slice.len() > 0 {
                    if !std::mem::replace(&mut passed, true) {
                        walk.ahead.ask_others(block.segment, work.block);
                    }
                    tally.counters.output.rows_in += slice.len() as u64;
                    worker.take(&mut slice)?;
                    tally.counters.output.time += tally.clock.lap();
                }
            }
            walk.ahead.note(passed);
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
                    next.store(usize::MAX / 2, Ordering::Relaxed);
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
