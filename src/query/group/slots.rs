//! Groups by direct index: the number of a group is its slot, in the states of every thread. Where
//! numbers are those of texts, there are more slots as new texts come.
//!
//! **Within a block, groups have small numbers of their own.** Digits that are the same in all rows
//! of a block (the year of a week's rows, a dictionary's only code) are not looked at. The others,
//! dictionary codes as they are stored, make a code of a byte where that suffices, and a table of
//! at most 256 entries turns it into the group. Up to 16 codes are counted by comparing whole
//! registers (`encoding::kernels::occurrences`), and sums of few groups take turns between several
//! sets of slots, so that rows of one group do not wait for each other.

use super::key_encoder::KeyScratch;
use super::keys::Keys;
use super::strategy::SlotKeys;
use crate::error::Result;
use crate::query::Aggregate;
use crate::query::aggregate::columns::GroupMap;
use crate::query::aggregate::kernels::Groups;
use crate::query::aggregate::{Accumulators, MAX_PENDING};
use crate::query::memory::Reservation;
use crate::query::open::OpenBlock;
use crate::query::slice::Slice;
use crate::query::walk::Worker;

/// One thread's groups.
pub(crate) struct Slots<'a> {
    slot_keys: SlotKeys,
    keys: Keys,
    states: Accumulators<'a>,
    reservation: Reservation<'a>,
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    group_of_code: Vec<u32>,
    scratch: KeyScratch,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(
        slot_keys: SlotKeys,
        aggregates: &'a [Aggregate],
        reservation: Reservation<'a>,
    ) -> Result<Self> {
        let states = match &slot_keys {
            SlotKeys::Radix(radix) => {
                let groups = usize::try_from(radix.product).unwrap_or(usize::MAX);
                Accumulators::fixed(aggregates, groups)?
            }
            SlotKeys::Texts(..) => Accumulators::new(aggregates)?,
        };
        Ok(Slots {
            slot_keys,
            keys: Keys::Narrow(Vec::new()),
            states,
            reservation,
            bytes: Vec::new(),
            shorts: Vec::new(),
            words: Vec::new(),
            group_of_code: Vec::new(),
            scratch: KeyScratch::default(),
        })
    }

    /// The groups of this thread and of others, and what is reserved for them.
    pub(crate) fn merged(
        mut self,
        others: impl Iterator<Item = Slots<'a>>,
    ) -> Result<(Accumulators<'a>, Reservation<'a>)> {
        for mut other in others {
            other.states.settle();
            self.states.grow(other.states.rows.len());
            self.states.merge(&other.states, GroupMap::Same)?;
        }
        self.states.settle();
        Ok((self.states, self.reservation))
    }
}

/// The most bytes that states of no known size take without a reservation.
const FREE_UNBOUNDED_BYTES: usize = 64 << 20;

impl Slots<'_> {
    fn is_small(&self) -> bool {
        !self.states.are_unbounded() || self.states.memory() <= FREE_UNBOUNDED_BYTES
    }
}

impl Worker for Slots<'_> {
    fn account(&mut self) -> Result<()> {
        match self.reservation.resize(self.states.memory()) {
            // Few groups are made even where their memory is refused: see `strategy::is_direct`.
            Err(_) if self.slot_keys.most() <= MAX_PENDING as u64 && self.is_small() => Ok(()),
            reserved => reserved,
        }
    }

    fn take_block(&mut self, block: &OpenBlock<'_>) -> Result<bool> {
        if !self.states.take_totals() {
            return Ok(false);
        }
        let SlotKeys::Radix(radix) = &self.slot_keys else { return Ok(false) };
        let group = radix.of_block(block)?.constant();
        Ok(group.is_some_and(|group| self.states.add_block(group as usize, block)))
    }

    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let radix = match &self.slot_keys {
            SlotKeys::Radix(radix) => radix,
            SlotKeys::Texts(encoder, _) => {
                encoder.write(slice, &mut self.keys, &mut self.scratch)?;
                let numbers: &Vec<u64> = (&self.keys).try_into()?;
                self.words.clear();
                self.words.extend(numbers.iter().map(|number| *number as u32));
                let last = self.words.iter().copied().max().unwrap_or(0);
                self.states.grow(last as usize + 1);
                return self.states.update(slice, Groups::Words(&self.words));
            }
        };
        let local = radix.of_block(slice.block)?;
        if let Some(group) = local.constant() {
            if self.states.update_masked(slice, group as usize)? {
                return Ok(());
            }
            return self
                .states
                .update(slice, Groups::Same { group: group as usize, rows: slice.len() });
        }
        let scratch = &mut self.scratch.digits;
        let groups = if let Some((codes, group_of_code)) =
            local.bytes(slice, &mut self.bytes, &mut self.group_of_code, scratch)?
        {
            Groups::Bytes { codes, group_of_code }
        } else if radix.product <= 1 << 16 {
            self.shorts.clear();
            local.numbers(slice, &mut self.shorts, scratch)?;
            Groups::Shorts(&self.shorts)
        } else {
            self.words.clear();
            local.numbers(slice, &mut self.words, scratch)?;
            Groups::Words(&self.words)
        };
        self.states.update(slice, groups)
    }
}
