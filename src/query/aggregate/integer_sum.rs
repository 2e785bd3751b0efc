//! Sums of 64-bit integers, signed or not. They wrap.

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, each, gather, read_words, write_words};
use super::input::Values;
use super::kernels::{Groups, fold, grow};
use super::kind::{Batch, StateKind, wrong_kind_error};
use crate::bytes::{Cursor, Writer};
use crate::error::Result;
use crate::query::words::from_words;

#[derive(Debug)]
pub(super) struct IntegerSum {
    sums: Vec<i64>,
    /// Of the values and of the sum.
    data_type: ArrowType,
}

impl IntegerSum {
    pub(super) fn new(data_type: ArrowType) -> Self {
        IntegerSum { sums: Vec::new(), data_type }
    }
}

impl StateKind for IntegerSum {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn bytes_a_group(&self) -> usize {
        size_of::<i64>()
    }

    fn memory(&self) -> usize {
        self.sums.capacity() * size_of::<i64>()
    }

    fn grow(&mut self, groups: usize) {
        grow(&mut self.sums, groups, 0);
    }

    fn clear(&mut self) {
        self.sums.clear();
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let Values::Words(values) = values else { return Err(wrong_kind_error()) };
        fold(groups, values, valid, &mut self.sums, |sum, v| *sum = sum.wrapping_add(v));
        Ok(())
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        each(&mut self.sums, &others.sums, map, |sum, more| *sum = sum.wrapping_add(more));
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        gather(&mut self.sums, &others.sums, at);
    }

    fn write(&self, out: &mut Writer) {
        write_words(&self.sums, out);
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.sums = read_words(groups, from)?;
        Ok(())
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        from_words(batch.pick(&self.sums), batch.nulls(), &self.data_type)
    }
}
