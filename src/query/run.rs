//! Running a fragment: blocks handed to threads one at a time, their results merged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use rayon::prelude::*;

use super::aggregate::Accumulators;
use super::aggregate::kernels::Groups;
use super::filter::{Filter, Marks};
use super::group::direct::{Digits, Room};
use super::group::hashed::NumberTable;
use super::group::rows::RowTable;
use super::scan::{OpenBlock, SLICE_ROWS, Slice, Survivors, Work, survivors};
use super::stats::{Clock, Counters, Recorder, Statistic, Tally};
use super::{Aggregate, Fragment, Output};
use super::{metadata, order};
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::store::Snapshot;

/// What a fragment runs with.
pub struct Context<'a> {
    /// The threads.
    pub pool: &'a rayon::ThreadPool,
    /// Asked once per block; the run ends with [`Error::Cancelled`] when it says so.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told of so many bytes more that groups take; an error ends the run.
    pub reserve: &'a (dyn Fn(usize) -> Result<()> + Sync),
    /// Where the run counts what it does.
    pub recorder: &'a Recorder,
    /// Whether it takes times, too.
    pub timed: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("threads", &self.pool.current_num_threads()).finish_non_exhaustive()
    }
}

/// The answer of a fragment.
#[derive(Debug, Default)]
pub struct Answer {
    /// In the fragment's schema.
    pub batches: Vec<RecordBatch>,
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
    if aggregates.iter().any(|aggregate| aggregate.distinct) {
        return Some("distinct values in an aggregate".into());
    }
    Accumulators::new(aggregates).err().map(|error| error.to_string())
}

/// Runs a fragment over one generation of its table.
pub fn run(fragment: &Fragment, snapshot: &Snapshot, context: &Context<'_>) -> Result<Answer> {
    let mut clock = Clock::start(context.timed);
    let known = match &fragment.output {
        Output::Aggregate { keys, aggregates } if keys.is_empty() && fragment.conditions.is_empty() => {
            metadata::answer(fragment, aggregates, snapshot)?
        }
        _ => None,
    };
    let parts = match known {
        Some(columns) => {
            let counted = metadata::counters(snapshot, clock.lap())?;
            context.recorder.update(|sum| sum.add(&counted));
            vec![columns]
        }
        None => look(fragment, snapshot, context)?,
    };
    let batch = |columns: Vec<ArrayRef>| {
        let rows = columns.first().map_or(0, |column| column.len());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(fragment.schema.clone(), columns, &options)
            .map_err(|e| Error::InvalidInput(format!("the answer does not fit its schema: {e}")))
    };
    Ok(Answer { batches: parts.into_iter().map(batch).collect::<Result<_>>()? })
}

/// The columns of the answer, part by part, from the rows.
fn look(fragment: &Fragment, snapshot: &Snapshot, context: &Context<'_>) -> Result<Vec<Vec<ArrayRef>>> {
    let (mut clock, mut counters) = (Clock::start(context.timed), Counters::new(fragment.conditions.len()));
    let survivors = survivors(&fragment.columns, &fragment.conditions, snapshot, context.timed, &mut counters)?;
    counters.prune = clock.lap();
    context.recorder.update(|sum| sum.add(&counters));
    let parts = match &fragment.output {
        Output::Aggregate { keys, aggregates } => aggregate(fragment, keys, aggregates, &survivors, context)?,
        Output::Top { order, limit, expressions } => {
            vec![order::top(fragment, order, *limit, expressions, &survivors, context)?]
        }
    };
    let rows: usize = parts.iter().filter_map(|columns| columns.first()).map(|column| column.len()).sum();
    context.recorder.update(|sum| {
        sum.output.rows_out += rows as u64;
        sum.finish += clock.lap().saturating_sub(sum.work);
    });
    Ok(parts)
}

/// What each thread does with the slices that pass the filter.
pub(crate) trait Worker: Send {
    /// Takes a slice of which some rows are selected, and may select fewer.
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()>;

    /// Bytes that the worker holds.
    fn memory(&self) -> usize {
        0
    }

    /// Whether a block can be left out, by what the worker knows.
    fn skips(&self, _block: &OpenBlock<'_>) -> bool {
        false
    }
}

/// Runs the blocks of `work` on all threads, each with a worker of its own, in order. Returns the workers.
pub(crate) fn each_slice<W: Worker>(
    fragment: &Fragment,
    survivors: &Survivors,
    blocks: &[Work],
    context: &Context<'_>,
    make: impl Fn() -> Result<W> + Sync,
) -> Result<Vec<W>> {
    let filter = Filter { conditions: &fragment.conditions, columns: &fragment.columns };
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let mut watch = Clock::start(context.timed);
    let work = |worker: &mut W, tally: &mut Tally| -> Result<()> {
        let (mut marks, mut reserved) = (Marks::default(), 0);
        loop {
            let held = worker.memory();
            if held > reserved {
                (context.reserve)(held - reserved)?;
                reserved = held;
            }
            let Some(work) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            if (context.cancelled)() {
                return Err(Error::Cancelled);
            }
            let block = OpenBlock::of(survivors, &fragment.columns, *work)?;
            if worker.skips(&block) {
                block.count_pruned(Statistic::Threshold, None, &mut tally.counters);
                continue;
            }
            let Some(tests) = filter.tests(&block, tally)? else { continue };
            tally.counters.scan.time += tally.clock.lap();
            for start in (0..block.rows).step_by(SLICE_ROWS) {
                let mut slice = Slice::new(&block, start..block.rows.min(start + SLICE_ROWS));
                if !tests.is_empty() {
                    tests.apply(&mut slice, &mut marks, tally)?;
                }
                if slice.len() > 0 {
                    tally.counters.output.rows_in += slice.len() as u64;
                    worker.take(&mut slice)?;
                    tally.counters.output.time += tally.clock.lap();
                }
            }
            block.count_read(&mut tally.counters);
        }
    };
    let threads = context.pool.current_num_threads().min(blocks.len().max(1));
    context.pool.scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|_| {
                let mut tally = Tally::new(fragment.conditions.len(), context.timed);
                let result = make().and_then(|mut worker| work(&mut worker, &mut tally).map(|()| worker));
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

/// A direct index has at most this many groups, and no more than twice the rows.
const MAX_DIRECT: u64 = 1 << 23;
/// A direct index of so few groups is made whatever the rows.
const FEW: u64 = 1 << 12;

/// Groups that become rows of the answer at a time.
const PART_GROUPS: usize = 1 << 17;

/// How rows become groups.
enum Way<'a> {
    Direct(Digits),
    Hashed(Digits),
    Rows(&'a [Expression]),
}

impl Way<'_> {
    /// Its name in reports.
    fn name(&self) -> &'static str {
        match self {
            Way::Direct(digits) if digits.product == 1 => "one group",
            Way::Direct(_) => "direct index",
            Way::Hashed(_) => "hash table of packed codes",
            Way::Rows(_) => "hash table of rows",
        }
    }
}

fn aggregate(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<Vec<Vec<ArrayRef>>> {
    let rows: u64 = survivors.segments.iter().map(|s| s.segment.rows()).sum();
    let way = match Digits::of(keys, &fragment.columns, survivors)? {
        Some(digits) if digits.product <= MAX_DIRECT.min((rows * 2).max(FEW)) => Way::Direct(digits),
        Some(digits) => Way::Hashed(digits),
        None => Way::Rows(keys),
    };
    context.recorder.update(|sum| sum.grouping = Some(way.name()));
    let make = || Grouper::new(&way, aggregates);
    let workers = each_slice(fragment, survivors, &survivors.work, context, make)?;
    let mut workers = workers.into_iter();
    let mut all = match workers.next() {
        Some(first) => first,
        None => make()?,
    };
    for worker in workers {
        all.merge(worker)?;
    }
    all.finish(keys.is_empty(), context.pool)
}

/// One thread's groups.
struct Grouper<'a> {
    way: &'a Way<'a>,
    accumulators: Accumulators<'a>,
    table: Table,
    scratch: Scratch,
}

enum Table {
    Direct,
    Hashed(NumberTable),
    Rows(RowTable),
}

#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    longs: Vec<u64>,
    places: Vec<u32>,
    digits: Room,
}

impl<'a> Grouper<'a> {
    fn new(way: &'a Way<'a>, aggregates: &'a [Aggregate]) -> Result<Self> {
        let mut accumulators = Accumulators::new(aggregates)?;
        let table = match way {
            Way::Direct(digits) => {
                accumulators.grow(usize::try_from(digits.product).unwrap_or(usize::MAX));
                Table::Direct
            }
            Way::Hashed(_) => Table::Hashed(NumberTable::default()),
            Way::Rows(keys) => {
                let types: Vec<_> = keys.iter().map(|key| key.data_type.clone()).collect();
                Table::Rows(RowTable::new(&types)?)
            }
        };
        Ok(Grouper { way, accumulators, table, scratch: Scratch::default() })
    }

    fn merge(&mut self, other: Grouper<'a>) -> Result<()> {
        match (&mut self.table, &other.table) {
            (Table::Direct, _) => self.accumulators.merge(other.accumulators, &|at| at),
            (Table::Hashed(table), Table::Hashed(more)) => {
                let map: Vec<u32> = more.numbers.iter().map(|number| table.group(*number)).collect();
                self.accumulators.grow(table.len());
                self.accumulators
                    .merge(other.accumulators, &|at| map.get(at).map_or(usize::MAX, |at| *at as usize));
            }
            (Table::Rows(table), Table::Rows(more)) => {
                let map = table.merge(more)?;
                self.accumulators.grow(table.len());
                self.accumulators
                    .merge(other.accumulators, &|at| map.get(at).map_or(usize::MAX, |at| *at as usize));
            }
            _ => {}
        }
        Ok(())
    }

    /// Keys and aggregates of all groups, part by part. Without keys there is one group, even of no rows.
    fn finish(mut self, alone: bool, pool: &rayon::ThreadPool) -> Result<Vec<Vec<ArrayRef>>> {
        if alone {
            self.accumulators.grow(1);
        }
        self.accumulators.settle();
        let groups = self.accumulators.rows.len();
        let parts: Vec<usize> = (0..groups.max(1)).step_by(PART_GROUPS).collect();
        let Grouper { way, accumulators, table, .. } = &self;
        let part = |start: &usize| {
            let live = |(_, rows): &(u64, &u64)| alone || **rows > 0;
            let rows = accumulators.rows.get(*start..groups.min(start + PART_GROUPS)).unwrap_or_default();
            let groups: Vec<u64> = (*start as u64..).zip(rows).filter(live).map(|(at, _)| at).collect();
            keys_and_aggregates(way, accumulators, table, &groups)
        };
        pool.install(|| parts.par_iter().map(part).collect())
    }
}

fn keys_and_aggregates(
    way: &Way<'_>,
    accumulators: &Accumulators<'_>,
    table: &Table,
    groups: &[u64],
) -> Result<Vec<ArrayRef>> {
    let mut columns = match (way, table) {
        (Way::Direct(digits), _) => digits.keys(groups)?,
        (Way::Hashed(digits), Table::Hashed(table)) => {
            let number = |at: &u64| table.numbers.get(*at as usize).copied().unwrap_or(0);
            digits.keys(&groups.iter().map(number).collect::<Vec<u64>>())?
        }
        (_, Table::Rows(table)) => table.keys(groups)?,
        _ => return Err(Error::InvalidInput("groups of another kind than planned".into())),
    };
    columns.extend(accumulators.finish(groups)?);
    Ok(columns)
}

impl Worker for Grouper<'_> {
    fn memory(&self) -> usize {
        let table = match &self.table {
            Table::Direct => 0,
            Table::Hashed(table) => table.memory(),
            Table::Rows(table) => table.memory(),
        };
        table + self.accumulators.memory()
    }

    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let Grouper { way, accumulators, table, scratch } = self;
        let groups = match (way, table) {
            (Way::Direct(digits), _) => direct(digits, slice, scratch)?,
            (Way::Hashed(digits), Table::Hashed(table)) => {
                let numbers = &mut scratch.longs;
                numbers.clear();
                digits.of_block(slice.block)?.numbers(slice, numbers, &mut scratch.digits)?;
                let groups = &mut scratch.words;
                groups.clear();
                groups.extend(numbers.iter().map(|number| table.group(*number)));
                accumulators.grow(table.len());
                Groups::Words(groups)
            }
            (Way::Rows(keys), Table::Rows(table)) => {
                let keys = keys.iter().map(|key| slice.evaluate(key)).collect::<Result<Vec<_>>>()?;
                let groups = &mut scratch.words;
                groups.clear();
                table.groups(&keys, groups)?;
                accumulators.grow(table.len());
                Groups::Words(groups)
            }
            _ => return Err(Error::InvalidInput("groups of another kind than planned".into())),
        };
        accumulators.update(slice, groups)
    }
}

/// The groups of a slice's rows, where the numbers of keys are the groups.
fn direct<'s>(digits: &Digits, slice: &Slice<'_, '_>, scratch: &'s mut Scratch) -> Result<Groups<'s>> {
    let local = digits.of_block(slice.block)?;
    if let Some(group) = local.constant() {
        return Ok(Groups::Same { group: group as usize, rows: slice.len() });
    }
    let Scratch { bytes, shorts, words, places, digits: room, .. } = scratch;
    if let Some((codes, places)) = local.bytes(slice, bytes, places, room)? {
        return Ok(Groups::Bytes { codes, places });
    }
    Ok(if digits.product <= 1 << 16 {
        shorts.clear();
        local.numbers(slice, shorts, room)?;
        Groups::Shorts(shorts)
    } else {
        words.clear();
        local.numbers(slice, words, room)?;
        Groups::Words(words)
    })
}
