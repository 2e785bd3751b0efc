//! Groups and rows sorted into radix partitions by bits of the hash of their keys: what falls into
//! different partitions never meets, so that partitions are merged one by one, by any thread, each
//! in a table that stays within the caches.

use super::spill::{Spill, SpillRange};
use super::table::{Part, Table};
use crate::error::Result;

/// Partitions of one level.
pub(crate) const FAN: usize = 256;
/// Each level looks at eight more bits, from the highest down; the low half of a hash is the
/// index's.
pub(crate) const LEVELS: u32 = 4;
/// Groups of a part before it is closed.
const PART_GROUPS: usize = 1024;
/// Bytes of a part that is spilled in one piece.
const MAX_RECORD: usize = 1 << 30;
/// Merging a partition early pays if it leaves at most this many in four of its groups.
const WORTH_MERGING: usize = 3;

/// One partition: of one thread while rows come, of all of them afterwards.
#[derive(Debug)]
pub(crate) struct RadixPartition<'a> {
    pub(crate) level: u32,
    pub(crate) parts: Vec<Part<'a>>,
    pub(crate) spilled: Vec<SpillRange>,
}

impl<'a> RadixPartition<'a> {
    /// Groups before those of the same key are merged.
    pub(crate) fn groups(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::len).sum();
        parts + self.spilled.iter().map(|range| range.groups).sum::<usize>()
    }

    /// Bytes that are in memory.
    pub(crate) fn memory(&self) -> usize {
        self.parts.iter().map(Part::memory).sum()
    }

    /// Bytes that are in memory or were there.
    pub(crate) fn size(&self) -> usize {
        self.memory() + self.spilled.iter().map(|range| range.memory).sum::<usize>()
    }

    /// Writes what is in memory to the file.
    pub(crate) fn spill(&mut self, spill: &Spill) -> Result<()> {
        self.spill_each(spill, drop)
    }

    /// The same; `done` gets the parts.
    fn spill_each(&mut self, spill: &Spill, mut done: impl FnMut(Part<'a>)) -> Result<()> {
        for part in self.parts.drain(..) {
            if part.memory() < MAX_RECORD {
                self.spilled.push(spill.write(&part)?);
                done(part);
                continue;
            }
            let all: Vec<u32> = (0..part.len() as u32).collect();
            for some in all.chunks(all.len().div_ceil(part.memory() / (MAX_RECORD / 2))) {
                let mut piece = part.empty_like()?;
                piece.append(&part, some)?;
                self.spilled.push(spill.write(&piece)?);
            }
        }
        Ok(())
    }
}

/// All partitions of a thread.
#[derive(Debug)]
pub(crate) struct RadixPartitions<'a> {
    shift: u32,
    /// The last part of each is open.
    all: Vec<RadixPartition<'a>>,
    like: Part<'a>,
    /// Bytes of the parts that are closed.
    closed: usize,
    /// Groups in memory.
    pub(crate) groups: usize,
    order: Vec<u32>,
    /// Empty parts with the room that spilled ones took: an allocator gives memory back to the
    /// system only in time, and until then fresh memory is taken beside it.
    spare: Spare<'a>,
}

/// Empty parts with room.
#[derive(Debug, Default)]
struct Spare<'a> {
    parts: Vec<Part<'a>>,
    bytes: usize,
}

impl<'a> Spare<'a> {
    /// Keeps the room of a part.
    fn keep(&mut self, mut part: Part<'a>) {
        part.clear();
        self.bytes += part.memory();
        self.parts.push(part);
    }

    /// A part without groups.
    fn take(&mut self, like: &Part<'a>) -> Result<Part<'a>> {
        let Some(part) = self.parts.pop() else { return like.empty_like() };
        self.bytes -= part.memory();
        Ok(part)
    }

    /// Gives back all but `keep` bytes.
    fn cut(&mut self, most: usize) {
        while self.bytes > most {
            let Some(part) = self.parts.pop() else { break };
            self.bytes -= part.memory();
        }
    }
}

impl<'a> RadixPartitions<'a> {
    /// Empty ones for parts of the kind of `like`.
    pub(crate) fn new(like: &Part<'a>, level: u32) -> Result<Self> {
        let empty = || RadixPartition { level, parts: Vec::new(), spilled: Vec::new() };
        Ok(RadixPartitions {
            shift: u64::BITS - (level + 1) * FAN.ilog2(),
            all: (0..FAN).map(|_| empty()).collect(),
            like: like.empty_like()?,
            closed: 0,
            groups: 0,
            order: Vec::new(),
            spare: Spare::default(),
        })
    }

    /// Appends the groups of a part, settled, to their partitions.
    pub(crate) fn add(&mut self, from: &Part<'_>, hashes: &[u64]) -> Result<()> {
        let shift = self.shift;
        let partition = |hash: &u64| (hash >> shift) as usize % FAN;
        let mut ends = [0usize; FAN];
        hashes.iter().for_each(|hash| ends[partition(hash)] += 1);
        let mut next = [0usize; FAN];
        let mut sum = 0;
        for (end, next) in ends.iter_mut().zip(&mut next) {
            *next = sum;
            sum += *end;
            *end = sum;
        }
        self.order.clear();
        self.order.resize(hashes.len(), 0);
        for (at, hash) in (0u32..).zip(hashes) {
            let next = &mut next[partition(hash)];
            self.order[*next] = at;
            *next += 1;
        }
        let mut start = 0;
        for (partition, end) in self.all.iter_mut().zip(ends) {
            let places = &self.order[start..end];
            start = end;
            if places.is_empty() {
                continue;
            }
            let fits = |open: &&mut Part<'_>| {
                open.len() < PART_GROUPS && open.states.is_single() == from.states.is_single()
            };
            match partition.parts.last_mut().filter(fits) {
                Some(open) => open.append(from, places)?,
                None => {
                    self.closed += partition.parts.last().map_or(0, Part::memory);
                    let mut open = self.spare.take(&self.like)?;
                    open.append(from, places)?;
                    partition.parts.push(open);
                }
            }
        }
        self.groups += hashes.len();
        Ok(())
    }

    pub(crate) fn memory(&self) -> usize {
        let open = |partition: &RadixPartition<'_>| partition.parts.last().map_or(0, Part::memory);
        self.closed + self.spare.bytes + self.all.iter().map(open).sum::<usize>()
    }

    /// Merges the groups of the same key within each partition, if a first partition shows that it
    /// pays.
    pub(crate) fn merge(&mut self) -> Result<()> {
        let groups =
            |partition: &RadixPartition<'_>| partition.parts.iter().map(Part::len).sum::<usize>();
        let Some(largest) =
            (0..self.all.len()).max_by_key(|at| self.all.get(*at).map_or(0, groups))
        else {
            return Ok(());
        };
        let mut table = Table::like(&self.like)?;
        let (before, after) = self.merge_one(largest, &mut table)?;
        if after * 4 <= before * WORTH_MERGING {
            for at in (0..self.all.len()).filter(|at| *at != largest) {
                self.merge_one(at, &mut table)?;
            }
        }
        self.recount();
        Ok(())
    }

    /// Merges the groups of one partition that are in memory; how many there were, and are. What
    /// takes them has the room of those that they came from.
    fn merge_one(&mut self, at: usize, table: &mut Table<'a>) -> Result<(usize, usize)> {
        let Some(partition) = self.all.get_mut(at) else { return Ok((0, 0)) };
        let mut before = 0;
        for part in partition.parts.drain(..) {
            before += part.len();
            table.merge(&part)?;
            self.spare.keep(part);
        }
        table.part.states.settle();
        let all: Vec<u32> = (0..table.len() as u32).collect();
        for some in all.chunks(PART_GROUPS) {
            let mut part = self.spare.take(&self.like)?;
            part.append(&table.part, some)?;
            partition.parts.push(part);
        }
        table.clear();
        Ok((before, all.len()))
    }

    /// Writes everything to the file, merged where that pays, and keeps at most `bytes` bytes of
    /// buffers for what comes.
    pub(crate) fn spill(&mut self, spill: &Spill, bytes: usize) -> Result<()> {
        self.merge()?;
        let spare = &mut self.spare;
        self.all
            .iter_mut()
            .try_for_each(|partition| partition.spill_each(spill, |part| spare.keep(part)))?;
        spare.cut(bytes);
        self.recount();
        Ok(())
    }

    fn recount(&mut self) {
        let parts = || self.all.iter().map(|partition| partition.parts.as_slice());
        self.groups = parts().flatten().map(Part::len).sum();
        self.closed = parts()
            .filter_map(<[_]>::split_last)
            .flat_map(|(_, closed)| closed)
            .map(Part::memory)
            .sum();
    }

    /// The partitions, one by one.
    pub(crate) fn into_all(self) -> Vec<RadixPartition<'a>> {
        self.all
    }
}
