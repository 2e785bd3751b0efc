//! `count`: rows and nulls are counted for every aggregate, so this state is empty.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::NullBuffer;

use super::columns::{GroupMap, GroupStorage};
use super::input::Values;
use super::kernels::Groups;
use super::kind::{Batch, StateKind};
use super::totals::Totals;
use crate::bytes::{Cursor, Writer};
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Count;

impl StateKind for Count {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        self
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        self
    }

    fn update(&mut self, _: Groups<'_>, _: &Values, _: Option<&NullBuffer>) -> Result<()> {
        Ok(())
    }

    fn takes(&self, _: &Totals) -> bool {
        true
    }

    fn merge(&mut self, _: &Self, _: GroupMap<'_>) {}

    fn append(&mut self, _: &Self, _: &[u32]) {}

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        Ok(Arc::new(batch.counts.iter().map(|count| *count as i64).collect::<Int64Array>()))
    }
}

impl GroupStorage for Count {
    fn bytes_a_group(&self) -> usize {
        0
    }

    fn memory(&self) -> usize {
        0
    }

    fn grow(&mut self, _: usize) {}

    fn clear(&mut self) {}

    fn write(&self, _: &mut Writer) {}

    fn read(&mut self, _: usize, _: &mut Cursor<'_>) -> Result<()> {
        Ok(())
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, _: usize, _: &mut Writer) {}

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, _: &mut Cursor<'_>) -> Result<()> {
        Ok(())
    }
}
