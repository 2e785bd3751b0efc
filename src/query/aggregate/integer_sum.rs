//! Sums of 64-bit integers, signed or not. They wrap.

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, GroupStorage, SlotColumn};
use super::input::Values;
use super::kernels::{Groups, fold};
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::totals::{Numbers, Totals};
use crate::error::Result;
use crate::query::words::from_words;

#[derive(Debug)]
pub(super) struct IntegerSum {
    sums: SlotColumn<i64>,
    /// Of the values and of the sum.
    data_type: ArrowType,
}

impl IntegerSum {
    pub(super) fn new(data_type: ArrowType) -> Self {
        IntegerSum { sums: SlotColumn::new(0), data_type }
    }
}

impl StateKind for IntegerSum {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.sums
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.sums
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let Values::Words(values) = values else { return Err(wrong_kind_error()) };
        fold(groups, values, valid, &mut self.sums.slots, |sum, v| *sum = sum.wrapping_add(v));
        Ok(())
    }

    fn takes(&self, totals: &Totals) -> bool {
        totals.numbers.is_some()
    }

    fn add_totals(&mut self, group: usize, numbers: &Numbers) {
        if let Some(sum) = self.sums.slots.get_mut(group) {
            *sum = sum.wrapping_add(numbers.sum as i64);
        }
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        self.sums.merge(&others.sums, map, |sum, more| *sum = sum.wrapping_add(more));
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.sums.append(&others.sums, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        from_words(batch.pick(&self.sums.slots), batch.nulls(), &self.data_type)
    }
}
