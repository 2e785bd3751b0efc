//! The groups that are still to come out: made into columns step by step, so that the answer is
//! never whole in memory beside the groups. Partitions are merged as they are asked for, or all of
//! them before the few first groups of an order come out, several at a time, in parallel; one that
//! is too large for the memory there is, is split by more bits of the hash.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef};
use rayon::prelude::*;

use super::first::choose;
use super::index::Index;
use super::key_encoder::KeyEncoder;
use super::partitions::{FAN, LEVELS, RadixPartition, RadixPartitions};
use super::spill::Spill;
use super::strategy::SlotKeys;
use super::table::{Part, Table, chosen, columns};
use super::worker::Hashed;
use crate::error::{Error, Result};
use crate::query::aggregate::Accumulators;
use crate::query::context::Context;
use crate::query::fragment::{FirstGroups, MOST_FIRST};
use crate::query::memory::Reservation;

/// Groups of a step, before those of the same key are merged.
const STEP_GROUPS: usize = 1 << 20;
/// Groups of several partitions among which the first are chosen.
const LEAST_CHOICE: usize = 1 << 12;
/// Slots of a direct index that become a batch.
const STEP_SLOTS: usize = 1 << 15;

/// Columns of the answer, in batches.
pub(crate) type Batches = Vec<Vec<ArrayRef>>;

/// Groups that are still to come out.
pub(crate) enum GroupOutput<'a> {
    Slots(SlotOutput<'a>),
    Partitions(Arc<KeyEncoder>, Option<&'a FirstGroups>, Box<PartitionOutput<'a>>),
}

impl GroupOutput<'_> {
    /// The next batches; `None` when all groups are out.
    pub(crate) fn next(&mut self) -> Result<Option<Batches>> {
        match self {
            GroupOutput::Slots(slots) => slots.next(),
            GroupOutput::Partitions(encoder, first, partitions) => {
                partitions.batches(encoder, *first)
            }
        }
    }

    /// Bytes spilled, and files made for them.
    pub(crate) fn spilled(&self) -> (u64, u64) {
        let spill = match self {
            GroupOutput::Slots(slots) => &slots.spill,
            GroupOutput::Partitions(_, _, partitions) => &partitions.spill,
        };
        (spill.bytes(), spill.files())
    }
}

/// The slots of a direct index.
pub(crate) struct SlotOutput<'a> {
    /// Where distinct values were spilled.
    pub(crate) spill: Arc<Spill>,
    pub(crate) keys: SlotKeys,
    pub(crate) states: Accumulators<'a>,
    /// Which groups are wanted.
    pub(crate) first: Option<&'a FirstGroups>,
    /// There is one group, even of no rows.
    pub(crate) alone: bool,
    pub(crate) done: usize,
    pub(crate) context: &'a Context<'a>,
    pub(crate) reservation: Reservation<'a>,
}

impl SlotOutput<'_> {
    fn next(&mut self) -> Result<Option<Batches>> {
        let (slots, start) = (self.states.rows.len(), self.done);
        if start >= slots {
            return Ok(None);
        }
        if (self.context.cancelled)() {
            return Err(Error::Cancelled);
        }
        let threads = self.context.pool.current_num_threads();
        self.done = slots.min(start + STEP_SLOTS * threads * 8);
        let starts: Vec<usize> = (start..self.done).step_by(STEP_SLOTS).collect();
        let chosen = |start: &usize| {
            let live = |(_, rows): &(u64, &u64)| self.alone || **rows > 0;
            let rows =
                self.states.rows.get(*start..slots.min(start + STEP_SLOTS)).unwrap_or_default();
            let groups: Vec<u64> =
                (*start as u64..).zip(rows).filter(live).map(|(at, _)| at).collect();
            self.chosen(groups)
        };
        let groups: Vec<Vec<u64>> = match starts.as_slice() {
            [only] => vec![chosen(only)?],
            _ => self
                .context
                .pool
                .install(|| starts.par_iter().map(chosen).collect::<Result<_>>())?,
        };
        let batches = match groups.as_slice() {
            [only] => vec![self.columns(only)?],
            all if self.first.is_some_and(are_chosen) => {
                vec![self.columns(&self.chosen(all.concat())?)?]
            }
            all => self.context.pool.install(|| {
                all.par_iter().map(|groups| self.columns(groups)).collect::<Result<_>>()
            })?,
        };
        if self.done == slots {
            self.states.clear();
            self.reservation.shrink(usize::MAX);
            self.done = usize::MAX;
        }
        Ok(Some(batches))
    }

    /// Those of some groups that may be among the first.
    fn chosen(&self, groups: Vec<u64>) -> Result<Vec<u64>> {
        let Some(first) = self.first.filter(|first| first.limit < groups.len()) else {
            return Ok(groups);
        };
        let of_keys = || self.keys.columns(&groups);
        choose(first, &groups, self.keys.len(), of_keys, &self.states)
    }

    fn columns(&self, groups: &[u64]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.keys.columns(groups)?;
        columns.extend(self.states.columns(groups, self.context.states)?);
        Ok(columns)
    }
}

/// Partitions that are still to be merged.
pub(crate) struct PartitionOutput<'a> {
    spill: Arc<Spill>,
    context: &'a Context<'a>,
    like: Part<'a>,
    /// The next one last.
    left: Vec<RadixPartition<'a>>,
    /// For what is in memory of those left.
    held: Reservation<'a>,
    /// For the tables and the answer of the step that is out.
    step: Reservation<'a>,
    /// For texts that keys are the numbers of.
    texts: Reservation<'a>,
    /// For the first groups of former steps.
    chosen: Reservation<'a>,
    /// Empty tables with the room that former partitions took: fresh memory costs more than filling
    /// it.
    tables: Mutex<Vec<Table<'a>>>,
}

impl<'a> PartitionOutput<'a> {
    pub(crate) fn new(
        spill: Arc<Spill>,
        context: &'a Context<'a>,
        like: Part<'a>,
        left: Vec<RadixPartition<'a>>,
        mut held: Reservation<'a>,
    ) -> Self {
        // Tables were in it that are gone; more than was reserved is within what threads have free.
        let memory: usize = left.iter().map(RadixPartition::memory).sum();
        held.shrink(held.bytes().saturating_sub(memory));
        PartitionOutput {
            spill,
            context,
            like,
            left,
            held,
            step: Reservation::new(context),
            texts: Reservation::new(context),
            chosen: Reservation::new(context),
            tables: Mutex::default(),
        }
    }

    /// Keeps what is reserved for the texts of keys.
    pub(crate) fn holding(mut self, texts: Reservation<'a>) -> Self {
        self.texts.join(texts);
        self
    }

    /// The next groups as columns.
    fn batches(
        &mut self,
        encoder: &KeyEncoder,
        first: Option<&FirstGroups>,
    ) -> Result<Option<Batches>> {
        if let Some(first) = first.filter(|first| are_chosen(first)) {
            return self.first(encoder, first);
        }
        let states = self.context.states;
        while let Some(made) = self.step(|part| columns(encoder, part, states))? {
            let batches: Batches = made.into_iter().flatten().collect();
            let bytes = batches.iter().flatten().map(|column| column.get_array_memory_size()).sum();
            let reserved = self.step.bytes();
            self.step.shrink(reserved.saturating_sub(bytes));
            if !batches.is_empty() {
                return Ok(Some(batches));
            }
        }
        Ok(None)
    }

    /// The first groups of all partitions, which come out together; of some, where there is no
    /// memory for more; `None` when they are out.
    fn first(&mut self, encoder: &KeyEncoder, first: &FirstGroups) -> Result<Option<Batches>> {
        self.chosen.shrink(usize::MAX);
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut all = self.like.empty_like()?;
        while self.chosen.resize(all.memory()).is_ok()
            && let Some(made) = self.step(|part| chosen(encoder, part, first))?
        {
            for part in &made {
                let places: Vec<u32> = (0..part.len() as u32).collect();
                all.append(part, &places)?;
                if all.len() >= first.limit.saturating_mul(2).max(LEAST_CHOICE) {
                    all = chosen(encoder, &all, first)?;
                }
            }
        }
        all.states.settle();
        let all = chosen(encoder, &all, first)?;
        Ok(Some(columns(encoder, &all, self.context.states)?))
    }

    /// What `make` makes of the next partitions, merged; `None` when there are no more.
    pub(crate) fn step<T: Send>(
        &mut self,
        make: impl Fn(&Part<'a>) -> Result<T> + Sync,
    ) -> Result<Option<Vec<T>>> {
        self.step.shrink(usize::MAX);
        let step = self.take_step()?;
        if step.is_empty() {
            return Ok(None);
        }
        if (self.context.cancelled)() {
            return Err(Error::Cancelled);
        }
        let freed: usize = step.iter().map(RadixPartition::memory).sum();
        let this = &*self;
        let made: Vec<T> = match step.len() {
            1 => step.into_iter().map(|one| this.merged(one, &make)).collect::<Result<_>>()?,
            _ => {
                let merged = || {
                    step.into_par_iter().map(|one| this.merged(one, &make)).collect::<Result<_>>()
                };
                self.context.pool.install(merged)?
            }
        };
        self.held.shrink(freed);
        Ok(Some(made))
    }

    /// Takes as many partitions as are worth a step and fit into memory together.
    fn take_step(&mut self) -> Result<Vec<RadixPartition<'a>>> {
        let (mut step, mut groups) = (Vec::new(), 0);
        while groups < STEP_GROUPS {
            let Some(partition) = self.left.pop() else { break };
            let needed = needed(&partition);
            if self.step.grow(needed).is_err() {
                if !step.is_empty() {
                    self.left.push(partition);
                    break;
                }
                let reserved = self.make_room(needed, partition.memory())?;
                // What is small, and what has hardly more keys than one, needs no leave.
                let small = needed <= self.context.limits.free || partition.level + 1 == LEVELS;
                if !reserved && !small {
                    self.split(partition)?;
                    continue;
                }
            }
            groups += partition.groups();
            step.push(partition);
        }
        Ok(step)
    }

    /// Spills partitions, those first that are merged last, until `needed` bytes can be reserved
    /// for a step; false if even then they cannot. `kept` bytes of what is held are not among the
    /// partitions left.
    fn make_room(&mut self, needed: usize, kept: usize) -> Result<bool> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut held: usize = kept + self.left.iter().map(RadixPartition::memory).sum::<usize>();
        for partition in self.left.iter_mut().filter(|partition| !partition.parts.is_empty()) {
            held -= partition.memory();
            partition.spill(&self.spill)?;
            self.held.shrink(self.held.bytes().saturating_sub(held));
            if self.step.grow(needed).is_ok() {
                return Ok(true);
            }
        }
        Ok(self.step.grow(needed).is_ok())
    }

    /// Puts the partitions of the next level in the place of one.
    fn split(&mut self, partition: RadixPartition<'a>) -> Result<()> {
        let mut into = RadixPartitions::new(&self.like, partition.level + 1)?;
        let mut hashes = Vec::new();
        let mut add = |part: Part<'a>, held: &mut Reservation<'a>| -> Result<()> {
            part.keys.hashes(&mut hashes);
            into.add(&part, &hashes)?;
            drop(part);
            if held.resize(into.memory()).is_err() {
                into.spill(&self.spill, 0)?;
                held.shrink(usize::MAX);
            }
            Ok(())
        };
        self.held.shrink(usize::MAX);
        partition.parts.into_iter().try_for_each(|part| add(part, &mut self.held))?;
        for range in partition.spilled {
            if (self.context.cancelled)() {
                return Err(Error::Cancelled);
            }
            add(self.spill.read(&range, &self.like)?, &mut self.held)?;
        }
        self.left.extend(into.into_all().into_iter().filter(|partition| partition.groups() > 0));
        Ok(())
    }

    /// Merges a partition, and makes something of it.
    fn merged<T>(
        &self,
        partition: RadixPartition<'a>,
        make: impl Fn(&Part<'a>) -> Result<T>,
    ) -> Result<T> {
        let all = partition.groups();
        let mut parts = partition.parts.into_iter();
        let used = self.tables.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut table = used.map_or_else(|| Table::like(&self.like), Ok)?;
        let mut seen = 0;
        let spilled = partition.spilled.iter().map(|range| self.spill.read(range, &self.like));
        for part in parts.by_ref().map(Ok).chain(spilled) {
            let part: Part<'a> = part?;
            table.merge(&part)?;
            seen += part.len();
            if seen * 8 >= all {
                // What is to come has about as many new keys as what there was.
                table.reserve((table.len() as f64 / seen as f64 * all as f64) as usize);
            }
        }
        table.part.states.settle();
        let made = make(&table.part)?;
        table.clear();
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).push(table);
        Ok(made)
    }
}

/// Whether the first groups are chosen among all groups before any comes out. Without an order, any
/// groups will do, and the reader stops when it has enough.
fn are_chosen(first: &FirstGroups) -> bool {
    !first.order.is_empty() && first.limit <= MOST_FIRST
}

/// Bytes that merging a partition takes at most, and its answer.
fn needed(partition: &RadixPartition<'_>) -> usize {
    let groups = partition.groups();
    // Counts of rows, which single rows do not have; vectors that double while they are copied;
    // columns of the answer.
    Index::memory_of(groups) + (partition.size() + groups * size_of::<u64>()) * 3
}

/// What all threads have gathered, by partitions, and what is reserved for it.
pub(crate) fn gather<'a>(
    mut workers: Vec<Hashed<'a>>,
    context: &'a Context<'a>,
) -> Result<(Reservation<'a>, Vec<RadixPartition<'a>>)> {
    let mut held = Reservation::new(context);
    let groups: usize = workers.iter().map(|worker| worker.table.len()).sum();
    if groups <= context.limits.serial && workers.iter().all(|worker| worker.partitions.is_none()) {
        let parts = one_by_one(workers, &mut held);
        return Ok((held, parts));
    }
    context.pool.install(|| workers.par_iter_mut().try_for_each(Hashed::empty_table))?;
    let mut all = Vec::with_capacity(workers.len());
    for worker in workers {
        let (partitions, reservation) = worker.into_partitions();
        held.join(reservation);
        all.extend(partitions);
    }
    Ok((held, by_partition(all)))
}

/// The groups of all threads as one partition: merging few takes less time than partitioning them.
fn one_by_one<'a>(workers: Vec<Hashed<'a>>, held: &mut Reservation<'a>) -> Vec<RadixPartition<'a>> {
    let mut parts = Vec::with_capacity(workers.len());
    for worker in workers {
        let (part, reservation) = worker.into_table();
        held.join(reservation);
        parts.push(part);
    }
    parts.retain(|part| part.len() > 0);
    if parts.is_empty() {
        Vec::new()
    } else {
        vec![RadixPartition { level: 0, parts, spilled: Vec::new() }]
    }
}

/// The partitions of all threads, each with the parts of the one with the same number.
fn by_partition<'a>(threads: Vec<RadixPartitions<'a>>) -> Vec<RadixPartition<'a>> {
    let mut all: Vec<RadixPartition<'a>> = Vec::with_capacity(FAN);
    for thread in threads {
        for (at, partition) in thread.into_all().into_iter().enumerate() {
            match all.get_mut(at) {
                Some(known) => {
                    known.parts.extend(partition.parts);
                    known.spilled.extend(partition.spilled);
                }
                None => all.push(partition),
            }
        }
    }
    all.retain(|partition| partition.groups() > 0);
    all
}
