//! Groups and rows sorted into radix partitions by bits of the hash of their keys: what falls into different partitions
//! never meets, so that partitions are merged one by one, by any thread, each in a table that stays within the caches.

use super::spill::{Place, Spill};
use super::table::{Part, Table};
use crate::error::Result;

/// Partitions of one level.
pub(crate) const FAN: usize = 256;
/// Each level looks at eight more bits, from the highest down; the low half of a hash is the index's.
pub(crate) const LEVELS: u32 = 4;
/// Groups of a part before it is closed.
const PART_GROUPS: usize = 1024;
/// Bytes of a part that is spilled in one piece.
const MAX_RECORD: usize = 1 << 30;
/// Room of a part that is kept once it was spilled.
const MAX_SPARE: usize = 1 << 20;
/// A partition is worth merging early if at most so many in four of its groups are left.
const WORTH_MERGING: usize = 3;

/// One partition: of one thread while rows come, of all of them afterwards.
#[derive(Debug)]
pub(crate) struct Partition<'a> {
    pub(crate) level: u32,
    pub(crate) parts: Vec<Part<'a>>,
    pub(crate) places: Vec<Place>,
}

impl<'a> Partition<'a> {
    /// Groups before those of the same key are merged.
    pub(crate) fn groups(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::len).sum();
        parts + self.places.iter().map(|place| place.groups).sum::<usize>()
    }

    /// Bytes that are in memory.
    pub(crate) fn memory(&self) -> usize {
        self.parts.iter().map(Part::memory).sum()
    }

    /// Bytes that are in memory or were there.
    pub(crate) fn size(&self) -> usize {
        self.memory() + self.places.iter().map(|place| place.memory).sum::<usize>()
    }

    /// Writes what is in memory to the file.
    pub(crate) fn spill(&mut self, spill: &Spill) -> Result<()> {
        self.spill_each(spill, drop)
    }

    /// The same; `done` gets the parts.
    fn spill_each(&mut self, spill: &Spill, mut done: impl FnMut(Part<'a>)) -> Result<()> {
        for part in self.parts.drain(..) {
            if part.memory() < MAX_RECORD {
                self.places.push(spill.write(&part)?);
                done(part);
                continue;
            }
            let all: Vec<u32> = (0..part.len() as u32).collect();
            for some in all.chunks(all.len().div_ceil(part.memory() / (MAX_RECORD / 2))) {
                let mut piece = part.none()?;
                piece.append(&part, some);
                self.places.push(spill.write(&piece)?);
            }
        }
        Ok(())
    }
}

/// All partitions of a thread.
#[derive(Debug)]
pub(crate) struct Partitions<'a> {
    shift: u32,
    /// The last part of each is open.
    all: Vec<Partition<'a>>,
    like: Part<'a>,
    /// Bytes of the parts that are closed.
    closed: usize,
    /// Groups in memory.
    pub(crate) groups: usize,
    order: Vec<u32>,
    /// Empty parts with the room that spilled ones took: an allocator gives memory back to the system only in time, and
    /// until then fresh memory is taken beside it.
    spare: Vec<Part<'a>>,
    spare_bytes: usize,
}

impl<'a> Partitions<'a> {
    /// Empty ones for parts of the kind of `like`.
    pub(crate) fn new(like: &Part<'a>, level: u32) -> Result<Self> {
        let none = || Partition { level, parts: Vec::new(), places: Vec::new() };
        Ok(Partitions {
            shift: u64::BITS - (level + 1) * FAN.ilog2(),
            all: (0..FAN).map(|_| none()).collect(),
            like: like.none()?,
            closed: 0,
            groups: 0,
            order: Vec::new(),
            spare: Vec::new(),
            spare_bytes: 0,
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
                Some(open) => open.append(from, places),
                None => {
                    self.closed += partition.parts.last().map_or(0, Part::memory);
                    let mut open = match self.spare.pop() {
                        Some(spare) => {
                            self.spare_bytes -= spare.memory();
                            spare
                        }
                        None => self.like.none()?,
                    };
                    open.append(from, places);
                    partition.parts.push(open);
                }
            }
        }
        self.groups += hashes.len();
        Ok(())
    }

    pub(crate) fn memory(&self) -> usize {
        let open = |partition: &Partition<'_>| partition.parts.last().map_or(0, Part::memory);
        self.closed + self.spare_bytes + self.all.iter().map(open).sum::<usize>()
    }

    /// Merges the groups of the same key within each partition, if a first partition shows that it pays.
    pub(crate) fn merge(&mut self) -> Result<()> {
        let Some(first) = self.all.iter_mut().max_by_key(|partition| partition.groups()) else { return Ok(()) };
        let before: usize = first.parts.iter().map(Part::len).sum();
        merge(first, &self.like)?;
        if first.parts.iter().map(Part::len).sum::<usize>() * 4 <= before * WORTH_MERGING {
            self.all.iter_mut().try_for_each(|partition| merge(partition, &self.like))?;
        }
        self.recount();
        Ok(())
    }

    /// Writes everything to the file, merged where that pays, and keeps at most so many bytes of room for what comes.
    pub(crate) fn spill(&mut self, spill: &Spill, room: usize) -> Result<()> {
        self.merge()?;
        let (spare, bytes) = (&mut self.spare, &mut self.spare_bytes);
        let mut keep = |mut part: Part<'a>| {
            part.clear();
            // What was merged is larger than what comes.
            if *bytes + part.memory() <= room && part.memory() < MAX_SPARE {
                *bytes += part.memory();
                spare.push(part);
            }
        };
        self.all.iter_mut().try_for_each(|partition| partition.spill_each(spill, &mut keep))?;
        self.recount();
        Ok(())
    }

    fn recount(&mut self) {
        let parts = || self.all.iter().map(|partition| partition.parts.as_slice());
        self.groups = parts().flatten().map(Part::len).sum();
        self.closed = parts().filter_map(<[_]>::split_last).flat_map(|(_, closed)| closed).map(Part::memory).sum();
    }

    /// The partitions, one by one.
    pub(crate) fn into_all(self) -> Vec<Partition<'a>> {
        self.all
    }
}

/// Merges the groups of a partition that are in memory into one part.
fn merge<'a>(partition: &mut Partition<'a>, like: &Part<'a>) -> Result<()> {
    if partition.parts.is_empty() {
        return Ok(());
    }
    let mut table = Table::like(like)?;
    for part in partition.parts.drain(..) {
        table.merge(&part)?;
    }
    table.part.states.settle();
    partition.parts.push(table.part);
    Ok(())
}
