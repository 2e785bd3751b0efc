//! Rows that may be among the first, as far as the query may hold them in memory.

use super::super::context::Context;
use super::super::memory::Reservation;
use super::ranks::Ranks;
use crate::bytes::{KeyHead, key_head};
use crate::error::{Error, Result};

/// A row that may be in the answer. Candidates compare as the order asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// The same for all rows if the first key has no ranks.
    pub(super) ranks: Ranks,
    /// Of the key.
    head: KeyHead,
    /// Sorts as the order asks. Empty where the ranks say all.
    pub(super) key: Box<[u8]>,
    /// The segment's place in the table: rows of one key come in the order of the table.
    pub(super) number: u32,
    pub(super) block: u32,
    pub(super) row: u32,
    /// Position in [`Survivors::segments`](super::super::open::Survivors::segments).
    pub(super) segment: u32,
}

impl Candidate {
    /// The row of these ranks and this key, at this place.
    pub(super) fn new(key: Box<[u8]>, ranks: Ranks, at: At) -> Candidate {
        let At { number, block, row, segment } = at;
        Candidate { head: key_head(&key), key, number, block, row, segment, ranks }
    }
}

/// Where a candidate is; see there.
pub(super) struct At {
    pub(super) number: u32,
    pub(super) block: u32,
    pub(super) row: u32,
    pub(super) segment: u32,
}

/// What a key with bytes takes beside them.
const ALLOCATION: usize = 16;

/// Candidates of one thread, or of the run as a whole, and the memory reserved for them.
pub(super) struct Held<'a> {
    pub(super) rows: Vec<Candidate>,
    /// Bytes of the keys.
    keys: usize,
    reservation: Reservation<'a>,
    /// Bytes that are not worth a reservation.
    free: usize,
}

impl<'a> Held<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        let free = context.limits.free;
        Held { rows: Vec::new(), keys: 0, reservation: Reservation::new(context), free }
    }

    /// Reserves memory for more rows with so many bytes of keys.
    pub(super) fn reserve(&mut self, rows: usize, keys: usize) -> Result<()> {
        let held = self.rows.len();
        let capacity = match held + rows {
            all if all <= self.rows.capacity() => self.rows.capacity(),
            all => all + held / 4,
        };
        self.resize(capacity, held + rows, self.keys + keys)?;
        self.rows.reserve_exact(capacity - held);
        Ok(())
    }

    fn resize(&mut self, capacity: usize, rows: usize, keys: usize) -> Result<()> {
        let bytes = capacity * size_of::<Candidate>() + rows * ALLOCATION + keys;
        self.reservation.resize(bytes.saturating_sub(self.free))
    }

    pub(super) fn push(&mut self, row: Candidate) {
        self.keys += row.key.len();
        self.rows.push(row);
    }

    /// Keeps the first `limit` rows, the last of them at the end, and the others in any order.
    pub(super) fn keep_first(&mut self, limit: usize) -> Result<()> {
        if (1..=self.rows.len()).contains(&limit) {
            self.rows.select_nth_unstable(limit - 1);
        }
        self.rows.truncate(limit);
        self.keys = self.rows.iter().map(|row| row.key.len()).sum();
        match self.resize(self.rows.capacity(), self.rows.len(), self.keys) {
            // What is there already stays reserved as it is.
            Err(Error::LimitExceeded(_)) => Ok(()),
            other => other,
        }
    }

    /// Takes over what another thread holds.
    pub(super) fn join(&mut self, other: Held<'_>) {
        self.reservation.join(other.reservation);
        self.keys += other.keys;
        self.rows.reserve_exact(other.rows.len());
        self.rows.extend(other.rows);
    }

    /// The rows from the one at `first` in their order, sorted. Nothing is held then.
    pub(super) fn take_sorted(&mut self, first: usize) -> Vec<Candidate> {
        let mut rows = std::mem::take(&mut self.rows);
        if (1..rows.len()).contains(&first) {
            rows.select_nth_unstable(first);
        }
        rows.drain(..first.min(rows.len()));
        rows.sort_unstable();
        self.keys = 0;
        rows
    }

    /// Gives the memory back of rows that were taken, and are gone.
    pub(super) fn release(&mut self) {
        self.reservation.shrink(usize::MAX);
    }
}
