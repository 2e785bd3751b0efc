//! `count(DISTINCT …)`: `group::sets` deduplicates the pairs of group and value and, when all rows
//! have been seen, adds their number to each group here.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::NullBuffer;

use super::columns::{GroupMap, GroupStorage, SlotColumn};
use super::input::Values;
use super::kernels::Groups;
use super::kind::{Batch, StateKind, wrong_kind_error};
use crate::error::Result;

#[derive(Debug)]
pub(super) struct DistinctCount {
    counts: SlotColumn<u64>,
}

impl DistinctCount {
    pub(super) fn new() -> Self {
        DistinctCount { counts: SlotColumn::new(0) }
    }

    /// Adds distinct values to groups for which there is room.
    pub(super) fn add(&mut self, groups: &[u64], counts: &[u64]) {
        for (group, count) in groups.iter().zip(counts) {
            if let Some(slot) = self.counts.slots.get_mut(*group as usize) {
                *slot += count;
            }
        }
    }
}

impl StateKind for DistinctCount {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.counts
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.counts
    }

    /// Rows have no values for it.
    fn update(&mut self, _: Groups<'_>, _: &Values, _: Option<&NullBuffer>) -> Result<()> {
        Err(wrong_kind_error())
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        self.counts.merge(&others.counts, map, |count, more| *count += more);
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.counts.append(&others.counts, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let counts = batch.pick(&self.counts.slots).into_iter();
        Ok(Arc::new(counts.map(|count| count as i64).collect::<Int64Array>()))
    }
}
