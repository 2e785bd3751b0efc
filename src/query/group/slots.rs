//! Groups by direct index: the number of a group is its slot, in the states of every thread.

use std::sync::Arc;

use super::direct::{Digits, Room};
use crate::encoding::Word;
use crate::error::Result;
use crate::query::Aggregate;
use crate::query::aggregate::columns::Map;
use crate::query::aggregate::kernels::Groups;
use crate::query::aggregate::{Accumulators, MAX_PENDING};
use crate::query::memory::Reservation;
use crate::query::run::Worker;
use crate::query::scan::Slice;

/// One thread's groups.
pub(crate) struct Slots<'a> {
    digits: Arc<Digits>,
    states: Accumulators<'a>,
    reservation: Reservation<'a>,
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    room: Room,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(
        digits: Arc<Digits>,
        aggregates: &'a [Aggregate],
        reservation: Reservation<'a>,
    ) -> Result<Self> {
        let groups = usize::try_from(digits.product).unwrap_or(usize::MAX);
        Ok(Slots {
            digits,
            states: Accumulators::fixed(aggregates, groups)?,
            reservation,
            bytes: Vec::new(),
            shorts: Vec::new(),
            words: Vec::new(),
            room: Room::default(),
        })
    }

    /// The groups of this thread and of others, and what is reserved for them.
    pub(crate) fn merged(mut self, others: impl Iterator<Item = Slots<'a>>) -> (Accumulators<'a>, Reservation<'a>) {
        for mut other in others {
            other.states.settle();
            self.states.merge(&other.states, Map::Same);
        }
        self.states.settle();
        (self.states, self.reservation)
    }
}

impl Worker for Slots<'_> {
    fn account(&mut self) -> Result<()> {
        match self.reservation.resize(self.states.memory()) {
            // Few are had in any memory: see `grouping`.
            Err(_) if self.digits.product <= MAX_PENDING as u64 => Ok(()),
            reserved => reserved,
        }
    }

    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let (digits, room) = (&*self.digits, &mut self.room);
        let groups = match digits.product {
            1 => Groups::One(slice.len()),
            2..=0x100 => Groups::Bytes(numbers(digits, slice, &mut self.bytes, room)?),
            0x101..=0x1_0000 => Groups::Shorts(numbers(digits, slice, &mut self.shorts, room)?),
            _ => Groups::Words(numbers(digits, slice, &mut self.words, room)?),
        };
        self.states.update(slice, groups)
    }
}

fn numbers<'s, T: Word>(
    digits: &Digits,
    slice: &Slice<'_, '_>,
    numbers: &'s mut Vec<T>,
    room: &mut Room,
) -> Result<&'s [T]> {
    numbers.clear();
    digits.write(slice, numbers, room)?;
    Ok(numbers)
}
