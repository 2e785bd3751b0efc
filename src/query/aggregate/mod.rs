//! Aggregation: the values of rows added to the states of their groups.
//!
//! Where this stands on the road of a query: `group` has given each row of a slice the number of its group; here each
//! aggregate fetches its values once (`input`), adds them slot by slot (`kernels`, `state`), and at the end the states of
//! all threads are merged and become columns. Sums of floats do not depend on the order (`float_sum`).

mod dictionary_decimals;
mod float_sum;
mod input;
pub(crate) mod kernels;
mod state;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;

pub(crate) use self::dictionary_decimals::DictionaryDecimals;
use self::float_sum::MAX_PENDING;
use self::input::{Fetched, Use, fetch, fetch_kept};
use self::kernels::{Groups, count, grow};
use self::state::State;
use super::Aggregate;
use super::scan::Slice;
use crate::error::Result;
use crate::expr::Expression;

/// The states of all aggregates of one thread.
#[derive(Debug)]
pub(crate) struct Accumulators<'a> {
    aggregates: &'a [Aggregate],
    /// What they take, each once.
    inputs: Vec<&'a Expression>,
    states: Vec<(State, Option<usize>)>,
    /// Rows of each group.
    pub(crate) rows: Vec<u64>,
}

impl<'a> Accumulators<'a> {
    pub(crate) fn new(aggregates: &'a [Aggregate]) -> Result<Self> {
        let mut inputs: Vec<&Expression> = Vec::new();
        let mut states = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            let input = aggregate.input.as_ref().map(|input| {
                inputs.iter().position(|known| known.is_same(input)).unwrap_or_else(|| {
                    inputs.push(input);
                    inputs.len() - 1
                })
            });
            states.push((State::new(aggregate)?, input));
        }
        Ok(Accumulators { aggregates, inputs, states, rows: Vec::new() })
    }

    /// Makes room for so many groups.
    pub(crate) fn grow(&mut self, groups: usize) {
        if groups > self.rows.len() {
            grow(&mut self.rows, groups, 0);
            self.states.iter_mut().for_each(|(state, _)| state.grow(groups));
        }
    }

    /// Bytes of all states.
    pub(crate) fn memory(&self) -> usize {
        let states: usize = self.states.iter().map(|(state, _)| state.bytes_a_group()).sum();
        self.rows.capacity() * (states + size_of::<u64>())
    }

    /// Adds the selected rows of a slice to their groups, for which there is room.
    pub(crate) fn update(&mut self, slice: &Slice<'_, '_>, groups: Groups<'_>) -> Result<()> {
        let all = self.fetch(slice)?;
        for ((state, input), aggregate) in self.states.iter_mut().zip(self.aggregates) {
            let filter = aggregate.filter.as_ref().map(|filter| Ok(truth(&slice.evaluate(filter)?)));
            let filter = filter.transpose()?;
            let mut kept = None;
            let mut fetched = input.and_then(|at| all.get(at)?.as_ref());
            if let (None, Some(filter), Some(input)) = (fetched, &filter, &aggregate.input) {
                let wanted = Use { sums: state.only_adds(), decimals: false };
                fetched = Some(&*kept.insert(fetch_kept(input, slice, filter, wanted)?));
            }
            let mut valid = fetched.and_then(|fetched| fetched.valid.clone());
            if filter.is_some() {
                valid = NullBuffer::union(valid.as_ref(), filter.as_ref());
            }
            state.update(groups, fetched, valid.as_ref(), self.rows.len())?;
        }
        count(groups, &mut self.rows);
        Ok(())
    }

    /// The values of each input; `None` where they cannot be computed for all rows and need not be, since each of those
    /// that take them has a filter.
    fn fetch(&self, slice: &Slice<'_, '_>) -> Result<Vec<Option<Fetched>>> {
        let one = |(at, input): (usize, &&Expression)| {
            let takers = self.states.iter().zip(self.aggregates).filter(|((_, input), _)| *input == Some(at));
            let sums = takers.clone().all(|((state, _), _)| state.only_adds());
            match fetch(input, slice, Use { sums, decimals: self.rows.len() <= MAX_PENDING }) {
                Err(_) if takers.clone().all(|(_, aggregate)| aggregate.filter.is_some()) => Ok(None),
                fetched => fetched.map(Some),
            }
        };
        self.inputs.iter().enumerate().map(one).collect()
    }

    /// Adds another thread's groups to the ones that `map` names, for which there is room.
    pub(crate) fn merge(&mut self, other: Accumulators<'a>, map: &dyn Fn(usize) -> usize) {
        for ((state, _), (more, _)) in self.states.iter_mut().zip(other.states) {
            state.merge(more, self.rows.len(), map);
        }
        // Memory without groups stays untouched.
        for (at, more) in other.rows.into_iter().enumerate().filter(|(_, more)| *more > 0) {
            if let Some(rows) = self.rows.get_mut(map(at)) {
                *rows += more;
            }
        }
    }

    /// Completes what is pending; no rows come after it.
    pub(crate) fn settle(&mut self) {
        self.states.iter_mut().for_each(|(state, _)| state.settle());
    }

    /// The answers of some groups, once settled: a column for each aggregate.
    pub(crate) fn finish(&self, groups: &[u64]) -> Result<Vec<ArrayRef>> {
        self.states.iter().map(|(state, _)| state.finish(groups, &self.rows)).collect()
    }
}

/// The rows of which a boolean is true.
pub(crate) fn truth(condition: &ArrayRef) -> NullBuffer {
    let booleans = condition.as_boolean();
    NullBuffer::new(match booleans.nulls() {
        Some(nulls) => booleans.values() & nulls.inner(),
        None => booleans.values().clone(),
    })
}
