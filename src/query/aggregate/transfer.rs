//! States of groups as values of a column: how they go from one machine to another.
//!
//! ```text
//! rows · for each aggregate { rows that did not count · its state }
//! rows: u8; 255, and then u64, if there are as many or more
//! ```
//!
//! Merged, in any order, they are the states of all rows.

use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::Accumulators;
use super::state::State;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};

/// Bytes of the states of a group, about.
const GROUP_BYTES: usize = 32;

impl Accumulators<'_> {
    /// The states of some groups, settled.
    pub(crate) fn states_of(&self, groups: &[u64]) -> ArrayRef {
        let mut all = LargeBinaryBuilder::with_capacity(groups.len(), groups.len() * GROUP_BYTES);
        let mut out = Writer::new();
        for group in groups {
            let at = *group as usize;
            out.truncate(0);
            let rows = if self.is_single() { 1 } else { self.rows.get(at).copied().unwrap_or(0) };
            write_rows(rows, &mut out);
            self.states.iter().for_each(|(state, _)| state.write_one(at, &mut out));
            all.append_value(out.as_slice());
        }
        Arc::new(all.finish())
    }

    /// Puts groups with these states in the place of all that there were.
    pub(crate) fn read_states(&mut self, states: &ArrayRef) -> Result<()> {
        let wrong = || Error::InvalidInput("states of groups are not as declared".into());
        let states = states.as_binary_opt::<i64>().filter(|states| states.null_count() == 0);
        let states = states.ok_or_else(wrong)?;
        self.clear();
        self.rows.reserve(states.len());
        for state in states.iter().flatten() {
            let mut from = Cursor::new(state);
            let rows = read_rows(&mut from)?;
            let known = self.rows.len();
            let mut read = |(state, _): &mut (State, _)| state.read_one(known, &mut from);
            self.states.iter_mut().try_for_each(&mut read)?;
            from.finish()?;
            self.rows.push(rows);
        }
        Ok(())
    }
}

impl State {
    pub(super) fn write_one(&self, group: usize, out: &mut Writer) {
        write_rows(self.missing_of(group), out);
        self.storage().write_one(group, out);
    }

    /// Reads a group behind `known` groups.
    pub(super) fn read_one(&mut self, known: usize, from: &mut Cursor<'_>) -> Result<()> {
        let missing = read_rows(from)?;
        self.push_missing(missing, known);
        self.storage_mut().read_one(from)
    }
}

/// Most groups of a state that is sent have few rows.
fn write_rows(rows: u64, out: &mut Writer) {
    match u8::try_from(rows).ok().filter(|few| *few < u8::MAX) {
        Some(few) => out.u8(few),
        None => {
            out.u8(u8::MAX);
            out.u64(rows);
        }
    }
}

fn read_rows(from: &mut Cursor<'_>) -> Result<u64> {
    match from.u8()? {
        u8::MAX => from.u64(),
        few => Ok(u64::from(few)),
    }
}
