//! States as columns: one slot a group, merged, gathered, and written to spilled files.

use bytemuck::Pod;

use super::kernels::grow;
use crate::bytes::{Cursor, Writer};
use crate::error::Result;

/// What a state keeps of all groups: how it grows, is forgotten, and goes through files.
pub(super) trait GroupStorage {
    /// Bytes that a group takes at least.
    fn bytes_a_group(&self) -> usize;

    /// Bytes that all groups take.
    fn memory(&self) -> usize;

    /// Makes room for `groups` groups in all.
    fn grow(&mut self, groups: usize);

    /// Forgets all groups.
    fn clear(&mut self);

    /// Writes all groups, settled, for [`GroupStorage::read`].
    fn write(&self, out: &mut Writer);

    /// Reads `groups` groups in place of the old ones.
    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()>;

    /// Writes one group, settled, for [`GroupStorage::read_one`].
    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer);

    /// Reads a group, which comes behind those that there are.
    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()>;
}

/// One word for each group.
#[derive(Debug)]
pub(super) struct SlotColumn<T> {
    pub(super) slots: Vec<T>,
    /// What a group has before its first value.
    pub(super) empty: T,
}

impl<T: Pod + Default> SlotColumn<T> {
    pub(super) fn new(empty: T) -> Self {
        SlotColumn { slots: Vec::new(), empty }
    }

    /// Merges others' groups into those that `map` names.
    pub(super) fn merge(&mut self, others: &Self, map: GroupMap<'_>, merge: impl Fn(&mut T, T)) {
        each(&mut self.slots, &others.slots, map, merge);
    }

    /// Appends some groups of others as groups of their own.
    pub(super) fn append(&mut self, others: &Self, at: &[u32]) {
        gather(&mut self.slots, &others.slots, at);
    }
}

impl<T: Pod> GroupStorage for SlotColumn<T> {
    fn bytes_a_group(&self) -> usize {
        size_of::<T>()
    }

    fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<T>()
    }

    fn grow(&mut self, groups: usize) {
        grow(&mut self.slots, groups, self.empty);
    }

    fn clear(&mut self) {
        self.slots.clear();
    }

    fn write(&self, out: &mut Writer) {
        write_words(&self.slots, out);
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.slots = read_words(groups, from)?;
        Ok(())
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer) {
        out.put(bytemuck::bytes_of(self.slots.get(group).unwrap_or(&self.empty)));
    }

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        let bytes = from.take(size_of::<T>())?;
        self.slots.push(bytemuck::pod_read_unaligned(bytes));
        Ok(())
    }
}

/// Maps the groups of one set of states to those of another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupMap<'a> {
    /// Each group to itself.
    Same,
    /// Group `i` to the `i`-th entry.
    To(&'a [u32]),
}

impl GroupMap<'_> {
    pub(crate) fn at(self, group: usize) -> usize {
        match self {
            GroupMap::Same => group,
            GroupMap::To(groups) => groups.get(group).map_or(usize::MAX, |group| *group as usize),
        }
    }
}

/// How many rows each group has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowCounts<'a> {
    /// This many groups of one row each.
    Single(usize),
    /// The rows of each group.
    Each(&'a [u64]),
}

impl RowCounts<'_> {
    /// Adds them to counts.
    pub(crate) fn add_to(self, counts: &mut [u64], map: GroupMap<'_>) {
        match (self, map) {
            (RowCounts::Single(_), GroupMap::To(groups)) => {
                for group in groups {
                    if let Some(count) = counts.get_mut(*group as usize) {
                        *count += 1;
                    }
                }
            }
            (RowCounts::Single(groups), GroupMap::Same) => {
                counts.iter_mut().take(groups).for_each(|count| *count += 1)
            }
            // Memory without groups stays untouched.
            (RowCounts::Each(rows), map) => each(counts, rows, map, |count, more| {
                if more > 0 {
                    *count += more;
                }
            }),
        }
    }
}

/// Calls `merge` with the slot and the value of each group of others.
#[inline(always)]
pub(crate) fn each<T, V: Copy>(
    slots: &mut [T],
    others: &[V],
    map: GroupMap<'_>,
    merge: impl Fn(&mut T, V),
) {
    match map {
        GroupMap::Same => {
            slots.iter_mut().zip(others).for_each(|(slot, other)| merge(slot, *other))
        }
        GroupMap::To(groups) => {
            for (group, other) in groups.iter().zip(others) {
                if let Some(slot) = slots.get_mut(*group as usize) {
                    merge(slot, *other);
                }
            }
        }
    }
}

/// Appends the slots of some groups.
#[inline]
pub(crate) fn gather<T: Copy + Default>(slots: &mut Vec<T>, from: &[T], at: &[u32]) {
    slots.extend(at.iter().map(|at| from.get(*at as usize).copied().unwrap_or_default()));
}

/// Writes words byte by byte of their significance: those that all of them share, most often zeros,
/// compress to nothing.
pub(crate) fn write_words<T: Pod>(words: &[T], out: &mut Writer) {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let mut plane = Vec::with_capacity(words.len());
    for at in 0..size_of::<T>() {
        plane.clear();
        plane.extend(bytes.iter().skip(at).step_by(size_of::<T>()));
        out.put(&plane);
    }
}

/// Reads `count` words of [`write_words`].
pub(crate) fn read_words<T: Pod>(count: usize, from: &mut Cursor<'_>) -> Result<Vec<T>> {
    let planes = from.take(count.saturating_mul(size_of::<T>()))?;
    let mut words = vec![T::zeroed(); count];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    for (at, plane) in planes.chunks_exact(count.max(1)).enumerate() {
        for (to, byte) in bytes.iter_mut().skip(at).step_by(size_of::<T>()).zip(plane) {
            *to = *byte;
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        let words = [0u64, 1, u64::MAX, 0x0102_0304_0506_0708];
        let wide = [i128::MIN, -1, 0, 7 << 100];
        let mut out = Writer::new();
        write_words(&words, &mut out);
        write_words::<u64>(&[], &mut out);
        write_words(&wide, &mut out);
        let mut cursor = Cursor::new(out.as_slice());
        assert_eq!(read_words::<u64>(4, &mut cursor).unwrap(), words);
        assert!(read_words::<u64>(0, &mut cursor).unwrap().is_empty());
        assert_eq!(read_words::<i128>(4, &mut cursor).unwrap(), wide);
        cursor.finish().unwrap();
        assert!(read_words::<u64>(usize::MAX, &mut Cursor::new(out.as_slice())).is_err());
    }
}
