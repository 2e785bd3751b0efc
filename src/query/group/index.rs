//! The hash index behind all tables of groups: where the group of a key is, found by the hash of
//! the key.
//!
//! A slot holds the low half of a hash and the number of a group, so that growing reads no key, and
//! a key is compared only where 32 bits agree. The high half of hashes is left to the radix
//! partitions: within one of them it is the same for all keys.

/// Open addressing with linear probing.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The low half of the hash, then the group plus one; 0 where there is none. A power of two of
    /// them, or none.
    slots: Vec<u64>,
    /// How many groups fit before it grows.
    capacity: usize,
}

/// Slots of the smallest index.
const LEAST: usize = 256;

impl Index {
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    /// The most bytes that an index of `groups` groups takes.
    pub(crate) fn memory_of(groups: usize) -> usize {
        slots_for(groups) * size_of::<u64>()
    }

    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
    }

    /// Makes room for `groups` groups in all.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, groups: usize) {
        if groups > self.capacity {
            self.grow(slots_for(groups));
        }
    }

    #[inline(never)]
    fn grow(&mut self, wanted: usize) {
        self.capacity = wanted / 8 * 5 - 1;
        let old = std::mem::replace(&mut self.slots, vec![0; wanted]);
        let mask = wanted - 1;
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut at = (slot >> 32) as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// The group that a key with this hash most likely has; `u32::MAX` if it has none.
    #[inline(always)]
    pub(crate) fn guess(&self, hash: u64) -> u32 {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while let Some(slot) = self.slots.get(at).filter(|slot| **slot != 0) {
            if *slot >> 32 == hash & 0xffff_ffff {
                return (*slot as u32).wrapping_sub(1);
            }
            at = (at + 1) & mask;
        }
        u32::MAX
    }

    /// The group of a key with this hash, for which `is_it` tells by its number; else `next`, which
    /// is then the key's. There must be room for it.
    #[inline(always)]
    pub(crate) fn find_or_insert(
        &mut self,
        hash: u64,
        next: u32,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                self.slots[at] = (hash << 32) | (u64::from(next) + 1);
                return next;
            }
            let group = (slot as u32).wrapping_sub(1);
            if slot >> 32 == hash & 0xffff_ffff && is_it(group) {
                return group;
            }
            at = (at + 1) & mask;
        }
    }
}

/// At most five eighths of the slots are taken.
fn slots_for(groups: usize) -> usize {
    (groups.saturating_mul(8) / 5 + 1).next_power_of_two().max(LEAST)
}
