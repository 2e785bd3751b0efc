//! `count(DISTINCT …)`: `group::sets` deduplicates the pairs of group and value and, when all rows
//! have been seen, adds their number to each group here.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::NullBuffer;

use super::columns::{GroupMap, each, gather, read_words, write_words};
use super::input::Values;
use super::kernels::{Groups, grow};
use super::kind::{Batch, StateKind, wrong_kind_error};
use crate::bytes::{Cursor, Writer};
use crate::error::Result;

#[derive(Debug, Default)]
pub(super) struct DistinctCount {
    counts: Vec<u64>,
}

impl DistinctCount {
    /// Adds distinct values to groups for which there is room.
    pub(super) fn add(&mut self, groups: &[u64], counts: &[u64]) {
        for (group, count) in groups.iter().zip(counts) {
            if let Some(slot) = self.counts.get_mut(*group as usize) {
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

    fn bytes_a_group(&self) -> usize {
        size_of::<u64>()
    }

    fn memory(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }

    fn grow(&mut self, groups: usize) {
        grow(&mut self.counts, groups, 0);
    }

    fn clear(&mut self) {
        self.counts.clear();
    }

    /// Rows have no values for it.
    fn update(&mut self, _: Groups<'_>, _: &Values, _: Option<&NullBuffer>) -> Result<()> {
        Err(wrong_kind_error())
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        each(&mut self.counts, &others.counts, map, |count, more| *count += more);
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        gather(&mut self.counts, &others.counts, at);
    }

    fn write(&self, out: &mut Writer) {
        write_words(&self.counts, out);
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.counts = read_words(groups, from)?;
        Ok(())
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let counts = batch.pick(&self.counts).into_iter();
        Ok(Arc::new(counts.map(|count| count as i64).collect::<Int64Array>()))
    }
}
