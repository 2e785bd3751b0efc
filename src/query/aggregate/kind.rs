//! What every kind of state does: one slot a group, to which rows are added, which is merged with
//! others, moves to partitions and files, and becomes a value of the answer. Each kind is a file of
//! its own; `state` lists them.

use std::fmt;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;

use super::columns::{GroupMap, GroupStorage};
use super::input::Values;
use super::kernels::Groups;
use super::totals::{Numbers, Totals};
use crate::error::{Error, Result};
use crate::query::open::OpenBlock;

/// What a kind of aggregate keeps of all groups.
pub(super) trait StateKind: fmt::Debug {
    /// Whether values are only added up and counted, so that null may come as 0.
    fn only_adds(&self) -> bool;

    /// Whether values may come as codes of a dictionary.
    fn takes_codes(&self) -> bool {
        false
    }

    /// Whether values add to the bytes of their group, beyond [`GroupStorage::bytes_a_group`]. Up
    /// to 65,536 slots of a direct index never spill: `group::strategy` decides whether it may have
    /// such states.
    fn is_unbounded(&self) -> bool;

    /// What it keeps of the groups.
    fn storage(&self) -> &dyn GroupStorage;

    fn storage_mut(&mut self) -> &mut dyn GroupStorage;

    /// Adds the rows of a slice to their groups. `valid` are the rows that count.
    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()>;

    /// Whether values of a column in a block may change what a group has.
    fn improves(&self, _group: usize, _column: usize, _block: &OpenBlock<'_>) -> bool {
        true
    }

    /// Whether totals of rows can stand for their values.
    fn takes(&self, _totals: &Totals) -> bool {
        false
    }

    /// Adds rows to a group by totals that it takes.
    fn add_totals(&mut self, _group: usize, _numbers: &Numbers) {}

    /// Completes what is pending. No rows come after it, but settled groups may be merged in, and
    /// then it is called again.
    fn settle(&mut self) {}

    /// Adds others' groups, settled, to those that `map` names.
    fn merge(&mut self, others: &Self, map: GroupMap<'_>)
    where
        Self: Sized;

    /// Appends some groups of others, settled, as groups of their own.
    fn append(&mut self, others: &Self, at: &[u32])
    where
        Self: Sized;

    /// The answers of some groups, once settled.
    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef>;
}

/// Groups whose answers come out together.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) groups: &'a [u64],
    /// How many values of each of them count.
    pub(super) counts: &'a [u64],
}

impl Batch<'_> {
    /// The slots of the groups.
    pub(super) fn pick<T: Copy + Default>(&self, slots: &[T]) -> Vec<T> {
        let slot = |group: &u64| slots.get(*group as usize).copied().unwrap_or_default();
        self.groups.iter().map(slot).collect()
    }

    /// Which groups have values; `None` if all have.
    pub(super) fn nulls(&self) -> Option<NullBuffer> {
        let empty = self.counts.contains(&0);
        empty.then(|| self.counts.iter().map(|count| *count > 0).collect())
    }
}

/// What has been planned does not fit what is there.
pub(super) fn wrong_kind_error() -> Error {
    Error::InvalidInput("values or states of another kind than declared".into())
}
