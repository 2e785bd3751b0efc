//! A table of groups: their keys, where to find them, and their states.

use arrow_array::ArrayRef;

use super::first::choose;
use super::index::Index;
use super::key_encoder::KeyEncoder;
use super::keys::Keys;
use crate::bytes::{Cursor, Writer};
use crate::error::Result;
use crate::query::aggregate::Accumulators;
use crate::query::aggregate::columns::GroupMap;
use crate::query::aggregate::kernels::Groups;
use crate::query::fragment::FirstGroups;
use crate::query::slice::Slice;

/// Groups, or rows as groups of their own: keys and states, not yet or no longer found by key.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) keys: Keys,
    pub(crate) states: Accumulators<'a>,
}

impl<'a> Part<'a> {
    /// No groups of the same kind.
    pub(crate) fn empty_like(&self) -> Result<Part<'a>> {
        Ok(Part { keys: self.keys.empty_like(), states: self.states.empty_like()? })
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.keys.memory() + self.states.memory()
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.states.clear();
    }

    /// Appends some groups of another part, settled, as groups of their own.
    pub(crate) fn append(&mut self, from: &Part<'_>, at: &[u32]) -> Result<()> {
        self.keys.append(&from.keys, at)?;
        self.states.append(&from.states, at)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.len() as u64);
        self.keys.write(out);
        self.states.write(out);
    }

    /// What [`Part::write`] has written, as a part like this one.
    pub(crate) fn read(&self, from: &mut Cursor<'_>) -> Result<Part<'a>> {
        let groups = usize::try_from(from.u64()?).unwrap_or(usize::MAX);
        let mut part = self.empty_like()?;
        part.keys = self.keys.read(groups, from)?;
        part.states.read(groups, from)?;
        from.finish()?;
        Ok(part)
    }
}

/// Groups that are found by key.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    index: Index,
    pub(crate) part: Part<'a>,
    hashes: Vec<u64>,
    map: Vec<u32>,
}

impl<'a> Table<'a> {
    /// Without groups, of the kind of a part.
    pub(crate) fn like(part: &Part<'a>) -> Result<Self> {
        Ok(Table {
            index: Index::default(),
            part: part.empty_like()?,
            hashes: Vec::new(),
            map: Vec::new(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.part.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.index.memory() + self.part.memory()
    }

    /// Forgets all groups, and keeps the room for them.
    pub(crate) fn clear(&mut self) {
        self.index.clear();
        self.part.clear();
    }

    /// Forgets all groups, and the room for them.
    pub(crate) fn release(&mut self) -> Result<()> {
        *self = Table::like(&self.part)?;
        Ok(())
    }

    /// The groups of keys, new ones where there were none, in `map`.
    fn find(&mut self, keys: &Keys, hashes: &[u64]) -> Result<()> {
        self.map.clear();
        self.part.keys.find(&mut self.index, keys, hashes, &mut self.map)?;
        self.part.states.grow(self.part.keys.len());
        Ok(())
    }

    /// Adds the selected rows of a slice to the groups of their keys, which are those of runs of
    /// rows if these have ends.
    pub(crate) fn update(
        &mut self,
        slice: &Slice<'_, '_>,
        (keys, hashes): (&Keys, &[u64]),
        ends: &[u32],
    ) -> Result<()> {
        self.find(keys, hashes)?;
        match ends.is_empty() {
            true => self.part.states.update(slice, Groups::Words(&self.map)),
            false => self.part.states.update_runs(slice, self.map.iter().copied(), ends),
        }
    }

    /// Adds the groups of a part, settled, to those of the same keys.
    pub(crate) fn merge(&mut self, other: &Part<'_>) -> Result<()> {
        let mut hashes = std::mem::take(&mut self.hashes);
        other.keys.hashes(&mut hashes);
        self.find(&other.keys, &hashes)?;
        self.hashes = hashes;
        self.part.states.merge(&other.states, GroupMap::To(&self.map))
    }

    /// Makes room for `groups` groups in all.
    pub(crate) fn reserve(&mut self, groups: usize) {
        self.index.reserve(groups);
    }
}

/// Groups that become rows of the answer at a time.
const BATCH_GROUPS: usize = 1 << 15;

/// Those groups of a part, settled, that may be among the first.
pub(crate) fn chosen<'a>(
    encoder: &KeyEncoder,
    part: &Part<'a>,
    first: &FirstGroups,
) -> Result<Part<'a>> {
    let mut places: Vec<u32> = (0..part.len() as u32).collect();
    if first.limit < part.len() {
        let all: Vec<u64> = (0..part.len() as u64).collect();
        let of_keys = || encoder.columns(&part.keys, 0..part.len());
        let chosen = choose(first, &all, encoder.len(), of_keys, &part.states)?;
        places = chosen.iter().map(|group| *group as u32).collect();
    }
    let mut some = part.empty_like()?;
    some.append(part, &places)?;
    Ok(some)
}

/// Keys and aggregates, or their states, of all groups of a part, settled, in batches.
pub(crate) fn columns(
    encoder: &KeyEncoder,
    part: &Part<'_>,
    states: bool,
) -> Result<Vec<Vec<ArrayRef>>> {
    let batch = |start: usize| {
        let range = start..part.len().min(start + BATCH_GROUPS);
        let groups: Vec<u64> = range.clone().map(|at| at as u64).collect();
        let mut columns = encoder.columns(&part.keys, range)?;
        columns.extend(part.states.columns(&groups, states)?);
        Ok(columns)
    };
    (0..part.len()).step_by(BATCH_GROUPS).map(batch).collect()
}
