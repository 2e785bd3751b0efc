//! Variances and standard deviations, whose sums are those of `moments`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_buffer::NullBuffer;

use super::columns::{GroupMap, GroupStorage};
use super::input::Values;
use super::kernels::Groups;
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::moments::Moments;
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Variance {
    moments: Moments,
    /// Whether this is a sample variance (divided by n − 1).
    sample: bool,
    /// Whether the answer is its root, the standard deviation.
    root: bool,
}

impl Variance {
    pub(super) fn new(sample: bool, root: bool) -> Self {
        Variance { moments: Moments::default(), sample, root }
    }
}

impl StateKind for Variance {
    fn only_adds(&self) -> bool {
        false
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.moments
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.moments
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let Values::Floats(values) = values else { return Err(wrong_kind_error()) };
        self.moments.add(groups, values, valid);
        Ok(())
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        self.moments.merge(&others.moments, map);
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.moments.append(&others.moments, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let variance = |group: &u64| self.moments.variance(*group as usize, self.sample);
        let answer = |group| variance(group).map(|v| if self.root { v.sqrt() } else { v });
        Ok(Arc::new(batch.groups.iter().map(answer).collect::<Float64Array>()))
    }
}
