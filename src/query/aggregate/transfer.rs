//! States of groups as values of a column: how they go from one machine to another.
//!
//! A value has the states of all aggregates of a group, as spilled files have them. Merged, in any
//! order, they are the states of all rows.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;

use super::Accumulators;
use super::columns::GroupMap;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};

/// Bytes of the states of a group, about.
const GROUP_BYTES: usize = 32;

impl Accumulators<'_> {
    /// The states of some groups, settled.
    pub(crate) fn states_of(&self, groups: &[u64]) -> Result<ArrayRef> {
        let mut one = self.empty_like()?;
        let mut all = BinaryBuilder::with_capacity(groups.len(), groups.len() * GROUP_BYTES);
        for group in groups {
            one.clear();
            one.append(self, &[*group as u32])?;
            let mut out = Writer::new();
            one.write(&mut out);
            all.append_value(out.as_slice());
        }
        Ok(Arc::new(all.finish()))
    }

    /// Adds states to the groups that are named, for which there is room.
    pub(crate) fn merge_states(&mut self, states: &ArrayRef, groups: &[u32]) -> Result<()> {
        let wrong = || Error::InvalidInput("states of groups are not as declared".into());
        let states = states.as_binary_opt::<i32>().ok_or_else(wrong)?;
        let mut one = self.empty_like()?;
        for (state, group) in states.iter().zip(groups) {
            let mut from = Cursor::new(state.ok_or_else(wrong)?);
            one.read(1, &mut from)?;
            from.finish()?;
            self.merge(&one, GroupMap::To(&[*group]))?;
        }
        Ok(())
    }
}
