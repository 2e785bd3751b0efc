//! One thread's groups by a hash table that stays within the caches: when it is full, its groups
//! move to radix partitions; if it merged few rows, later rows bypass it; and when memory is short,
//! the partitions go to a file.
//!
//! A thread's table is emptied into 256 radix partitions, by high bits of the hash, when it has
//! outgrown the caches. Where it held hardly fewer groups than it saw rows, later rows go to the
//! partitions one by one, as groups of their own, and a table is not tried again until merging
//! shows that groups repeat. Rows of one key that follow each other count as one, as often in a
//! table that was sorted by something that goes with the key. States move in columns, so that one
//! `merge` serves threads, partitions and files alike. When the memory pool refuses, a thread
//! merges its partitions and writes them to a nameless temporary file (`spill`). The buffers of
//! merged and spilled parts are reused, because the allocator returns memory late and parts of 256
//! partitions share pages. At the end the partitions of all threads are merged one by one, in
//! parallel, as the answer is asked for; one that is too large for the memory that is left is split
//! by eight more bits. Only a direct index of at most 65,536 slots sums doubles as scaled integers:
//! a sum must not depend on how many groups a thread met, or on memory.

use std::sync::Arc;

use super::pair::{TableKeys, TableScratch};
use super::partitions::RadixPartitions;
use super::spill::Spill;
use super::table::{Part, Table};
use crate::error::Result;
use crate::query::context::{Context, GroupLimits};
use crate::query::memory::Reservation;
use crate::query::slice::Slice;
use crate::query::walk::Worker;

/// With fewer rows a group than this, a table is not worth the while.
const WORTH_GROUPING: usize = 2;
/// States of no known size are accounted for within a block once they have grown by this many
/// times what each thread takes without a reservation.
const WIDE_STEP: usize = 4;

/// One thread's groups.
pub(crate) struct Hashed<'a> {
    keys: Arc<TableKeys>,
    spill: Arc<Spill>,
    limits: GroupLimits,
    pub(crate) table: Table<'a>,
    pub(crate) partitions: Option<RadixPartitions<'a>>,
    /// Rows, or runs of them, go to the partitions one by one.
    separate: bool,
    /// Rows, or runs of rows with the same key, since the table was empty.
    rows: usize,
    /// Groups in the partitions before they are merged.
    most: usize,
    reservation: Reservation<'a>,
    slice: Part<'a>,
    hashes: Vec<u64>,
    /// Where runs of rows with the same key end.
    ends: Vec<u32>,
    /// Whether there were such runs.
    runs: bool,
    /// The numbers from 0.
    each: Vec<u16>,
    scratch: TableScratch,
}

impl<'a> Hashed<'a> {
    pub(crate) fn new(
        keys: Arc<TableKeys>,
        spill: Arc<Spill>,
        like: &Part<'a>,
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let limits = context.limits;
        Ok(Hashed {
            keys,
            spill,
            limits,
            table: Table::like(like)?,
            partitions: None,
            separate: false,
            rows: 0,
            most: limits.unmerged,
            reservation: Reservation::new(context),
            slice: like.empty_like()?,
            hashes: Vec::new(),
            ends: Vec::new(),
            runs: false,
            each: Vec::new(),
            scratch: TableScratch::default(),
        })
    }

    /// Moves the table's groups to the partitions.
    pub(crate) fn empty_table(&mut self) -> Result<()> {
        self.table.part.states.settle();
        self.table.part.keys.hashes(&mut self.hashes);
        let partitions = match &mut self.partitions {
            Some(partitions) => partitions,
            none => none.insert(RadixPartitions::new(&self.slice, 0)?),
        };
        partitions.add(&self.table.part, &self.hashes)?;
        self.separate = self.rows < self.table.len() * WORTH_GROUPING;
        self.rows = 0;
        if self.separate {
            return self.table.release();
        }
        self.table.clear();
        Ok(())
    }

    /// Merges what has gathered in the partitions, and groups again if that left few groups.
    fn merge_partitions(&mut self) -> Result<()> {
        let Some(partitions) = &mut self.partitions else { return Ok(()) };
        partitions.merge()?;
        self.most = self.limits.unmerged.max(partitions.groups * 2);
        self.separate = self.separate && partitions.groups > self.limits.in_table / 2;
        Ok(())
    }

    /// Adds groups of another kind than rows, settled.
    pub(crate) fn add(&mut self, part: &Part<'_>) -> Result<()> {
        if let Some(partitions) = self.partitions.as_mut().filter(|_| self.separate) {
            part.keys.hashes(&mut self.hashes);
            partitions.add(part, &self.hashes)?;
            if partitions.groups >= self.most {
                self.merge_partitions()?;
            }
            return self.account();
        }
        self.table.merge(part)?;
        self.rows += part.len();
        if self.table.len() >= self.limits.in_table {
            self.empty_table()?;
        }
        self.account()
    }

    /// The partitions with what is reserved, once the table is empty.
    pub(crate) fn into_partitions(self) -> (Option<RadixPartitions<'a>>, Reservation<'a>) {
        (self.partitions, self.reservation)
    }

    /// The table's groups with what is reserved.
    pub(crate) fn into_table(mut self) -> (Part<'a>, Reservation<'a>) {
        self.table.part.states.settle();
        (self.table.part, self.reservation)
    }

    fn memory(&self) -> usize {
        let held =
            self.table.memory() + self.partitions.as_ref().map_or(0, RadixPartitions::memory);
        held.saturating_sub(self.limits.free)
    }
}

impl Hashed<'_> {
    /// Makes each row of a slice, or each of `runs` runs of rows, a group of its own.
    fn separate_states(&mut self, slice: &Slice<'_, '_>, runs: usize) -> Result<()> {
        let states = &mut self.slice.states;
        if states.are_none() {
            self.ends.clear();
        }
        self.runs |= !self.ends.is_empty();
        if self.runs {
            // Single rows are runs, too, lest parts of both kinds take turns and stay small.
            if self.ends.is_empty() {
                self.ends.extend(1..=runs as u32);
            }
            return states.separate_runs(slice, &self.ends);
        }
        while self.each.len() < runs {
            self.each.push(self.each.len() as u16);
        }
        states.separate(slice, self.each.get(..runs).unwrap_or_default())
    }
}

impl Worker for Hashed<'_> {
    fn account(&mut self) -> Result<()> {
        if self.reservation.resize(self.memory()).is_ok() {
            return Ok(());
        }
        if self.table.memory() > self.limits.free / 2 {
            self.empty_table()?;
            self.table.release()?;
        }
        if let Some(partitions) = &mut self.partitions {
            partitions.spill(&self.spill, self.reservation.bytes())?;
        }
        self.reservation.resize(self.memory())
    }

    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        self.add_rows(slice)?;
        // A block of long texts may be larger than all memory.
        let has_grown = || {
            let grown = self.memory().saturating_sub(self.reservation.bytes());
            grown > self.limits.free * WIDE_STEP
        };
        if self.slice.states.are_unbounded() && has_grown() { self.account() } else { Ok(()) }
    }
}

impl Hashed<'_> {
    /// Adds the selected rows of a slice to their groups.
    fn add_rows(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        self.keys.write(slice, &mut self.slice.keys, &mut self.scratch)?;
        self.slice.keys.merge_runs(&mut self.ends);
        self.slice.keys.hashes(&mut self.hashes);
        let rows = self.hashes.len();
        if !self.separate {
            self.table.update(slice, (&self.slice.keys, &self.hashes), &self.ends)?;
            self.rows += rows;
            return if self.table.len() >= self.limits.in_table {
                self.empty_table()
            } else {
                Ok(())
            };
        }
        self.separate_states(slice, rows)?;
        if let Some(partitions) = &mut self.partitions {
            partitions.add(&self.slice, &self.hashes)?;
            if partitions.groups >= self.most {
                self.merge_partitions()?;
            }
        }
        Ok(())
    }
}
