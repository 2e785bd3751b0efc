//! Aggregation: the values of rows added to the states of their groups.
//!
//! Where this stands on the road of a query: `group` has given each row of a slice the number of
//! its group; here each aggregate fetches its values once (`input`), adds them slot by slot
//! (`kernels`, `state`), and at the end the states of all threads are merged and become columns.
//! Sums of floats do not depend on the order (`float_sum`).
//!
//! What a group keeps is of one of these kinds, each a file with all that is done with it (`kind`):
//!
//! | file | keeps | for |
//! | --- | --- | --- |
//! | `count` | nothing beside the rows that did not count | `count` |
//! | `distinct_count` | a count, made by `group::sets` | `count(DISTINCT …)` |
//! | `integer_sum` | 64 bits, which wrap | `sum` of integers |
//! | `wide_sum` | 128 bits | `sum` and `avg` of decimals, `avg` of integers |
//! | `float_sum` | two doubles | `sum` and `avg` of doubles |
//! | `variance` | count, distances and squares of `moments` | variances and deviations |
//! | `extreme` | a word that sorts like the value | `min` and `max` of numbers and times |
//! | `extreme_row` | bytes that sort like the value | `min` and `max` of anything else |
//! | `picked` | the key and number of a row, and its value | `first_value`, `last_value`, `arg_max` |

pub(crate) mod columns;
mod count;
mod distinct_count;
mod extreme;
mod extreme_row;
mod float_sum;
mod input;
mod integer_sum;
pub(crate) mod kernels;
mod kind;
mod moments;
mod overflow;
mod picked;
mod state;
mod totals;
#[cfg(feature = "cluster")]
mod transfer;
mod variance;
mod wide_sum;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;

use self::columns::{GroupMap, RowCounts, gather, read_words, write_words};
pub(crate) use self::float_sum::MAX_PENDING;
use self::input::{Fetched, ValueUse, fetch, fetch_codes, fetch_kept, mask_bits};
#[cfg(feature = "sql")]
pub(crate) use self::kernels::add_checked;
use self::kernels::{Groups, count, grow};
use self::state::State;
pub(crate) use self::totals::Totals;
#[cfg(feature = "sql")]
pub(crate) use self::wide_sum::{mean, sum_overflow};
use super::Aggregate;
use super::open::{ColumnTotals, OpenBlock};
use super::slice::Slice;
use super::words::truth;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::expr::Expression;

/// The states of all aggregates of one thread.
#[derive(Debug)]
pub(crate) struct Accumulators<'a> {
    aggregates: &'a [Aggregate],
    /// What they take, each once.
    inputs: Vec<&'a Expression>,
    states: Vec<(State, Option<usize>)>,
    /// Rows of each group; empty where all groups are single rows.
    pub(crate) rows: Vec<u64>,
    /// Groups that are single rows, where all are.
    single: Option<usize>,
    /// Whether doubles are added as the whole numbers that they are stored as.
    decimals: bool,
    /// Scratch: the group of each row of a slice.
    of_rows: Vec<u32>,
}

impl<'a> Accumulators<'a> {
    pub(crate) fn new(aggregates: &'a [Aggregate]) -> Result<Self> {
        let mut inputs: Vec<&Expression> = Vec::new();
        let mut states = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            // What distinct values are of is fetched where they are told apart, and the values of
            // picked rows once these are known.
            let is_apart = aggregate.distinct || aggregate.is_picked();
            let input = aggregate.input.as_ref().filter(|_| !is_apart).map(|input| {
                inputs.iter().position(|known| known.is_same(input)).unwrap_or_else(|| {
                    inputs.push(input);
                    inputs.len() - 1
                })
            });
            states.push((State::new(aggregate)?, input));
        }
        Ok(Accumulators {
            aggregates,
            inputs,
            states,
            rows: Vec::new(),
            single: None,
            decimals: false,
            of_rows: Vec::new(),
        })
    }

    /// No groups of the same aggregates.
    pub(crate) fn empty_like(&self) -> Result<Self> {
        Self::new(self.aggregates)
    }

    /// `groups` groups of a single row each, without aggregates.
    pub(crate) fn single(groups: usize) -> Result<Self> {
        Ok(Accumulators { single: Some(groups), ..Self::new(&[])? })
    }

    /// For a number of groups that is known beforehand. Only these take doubles as the integers
    /// that they are stored as: sums of decimals and sums of their binary values may differ, and
    /// must not do so by how many groups a thread met.
    pub(crate) fn fixed(aggregates: &'a [Aggregate], groups: usize) -> Result<Self> {
        let mut all = Self::new(aggregates)?;
        all.decimals = groups <= MAX_PENDING;
        all.grow(groups);
        Ok(all)
    }

    /// Makes room for `groups` groups.
    pub(crate) fn grow(&mut self, groups: usize) {
        if groups > self.rows.len() {
            grow(&mut self.rows, groups, 0);
            self.states.iter_mut().for_each(|(state, _)| state.grow(groups));
        }
    }

    /// Whether there are no aggregates.
    pub(crate) fn are_none(&self) -> bool {
        self.aggregates.is_empty()
    }

    /// Bytes of all states.
    pub(crate) fn memory(&self) -> usize {
        let states: usize = self.states.iter().map(|(state, _)| state.memory()).sum();
        self.rows.capacity() * size_of::<u64>() + states
    }

    /// Bytes that a group takes at least.
    pub(crate) fn bytes_a_group(&self) -> usize {
        size_of::<u64>() + self.states.iter().map(|(state, _)| state.bytes_a_group()).sum::<usize>()
    }

    /// Whether groups take bytes beyond that, which nobody knows beforehand.
    pub(crate) fn are_unbounded(&self) -> bool {
        self.states.iter().any(|(state, _)| state.is_unbounded())
    }

    fn counts(&self) -> RowCounts<'_> {
        self.single.map_or(RowCounts::Each(&self.rows), RowCounts::Single)
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.single = None;
        self.states.iter_mut().for_each(|(state, _)| state.clear());
    }

    /// Makes each selected row of a slice a group of its own, forgetting what there was. `each`
    /// counts up from 0.
    pub(crate) fn separate(&mut self, slice: &Slice<'_, '_>, each: &[u16]) -> Result<()> {
        self.clear();
        self.grow(each.len());
        self.update_states(slice, Groups::Shorts(each))?;
        self.rows.clear();
        self.single = Some(each.len());
        self.settle();
        Ok(())
    }

    /// Makes each run of a slice's selected rows a group of its own, forgetting what there was.
    /// `ends` says behind which row each run ends.
    pub(crate) fn separate_runs(&mut self, slice: &Slice<'_, '_>, ends: &[u32]) -> Result<()> {
        self.clear();
        self.grow(ends.len());
        let runs = 0..ends.len() as u32;
        self.update_runs(slice, runs, ends)?;
        self.settle();
        Ok(())
    }

    /// Adds runs of a slice's selected rows to their groups, for which there is room. `ends` says
    /// behind which row each run ends.
    pub(crate) fn update_runs(
        &mut self,
        slice: &Slice<'_, '_>,
        groups: impl Iterator<Item = u32>,
        ends: &[u32],
    ) -> Result<()> {
        if self.aggregates.iter().all(|it| it.input.is_none() && it.filter.is_none()) {
            let mut start = 0;
            for (group, end) in groups.zip(ends) {
                let rows = self.rows.get_mut(group as usize);
                rows.into_iter().for_each(|rows| *rows += u64::from(end - start));
                start = *end;
            }
            return Ok(());
        }
        let mut of_rows = std::mem::take(&mut self.of_rows);
        of_rows.clear();
        for (group, end) in groups.zip(ends) {
            of_rows.resize(*end as usize, group);
        }
        let updated = self.update(slice, Groups::Words(&of_rows));
        self.of_rows = of_rows;
        updated
    }

    /// Appends some groups of others, settled, as groups of their own. Single rows are appended to
    /// nothing but such.
    pub(crate) fn append(&mut self, from: &Accumulators<'_>, at: &[u32]) -> Result<()> {
        if self.single.is_none() && self.rows.is_empty() {
            self.single = from.single.map(|_| 0);
        }
        for ((state, _), (more, _)) in self.states.iter_mut().zip(&from.states) {
            state.append(more, self.single.unwrap_or(self.rows.len()), at)?;
        }
        match &mut self.single {
            Some(single) => *single += at.len(),
            None => gather(&mut self.rows, &from.rows, at),
        }
        Ok(())
    }

    /// Whether all groups are single rows.
    pub(crate) fn is_single(&self) -> bool {
        self.single.is_some()
    }

    /// Writes all groups, settled, for [`Accumulators::read`].
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u8(u8::from(self.is_single()));
        write_words(&self.rows, out);
        self.states.iter().for_each(|(state, _)| state.write(out));
    }

    /// Reads `groups` groups in place of the old ones.
    pub(crate) fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        self.clear();
        if from.u8()? > 0 {
            self.single = Some(groups);
        } else {
            self.rows = read_words(groups, from)?;
        }
        self.states.iter_mut().try_for_each(|(state, _)| state.read(groups, from))
    }

    /// Adds the selected rows of a slice to their groups, for which there is room.
    pub(crate) fn update(&mut self, slice: &Slice<'_, '_>, groups: Groups<'_>) -> Result<()> {
        self.update_states(slice, groups)?;
        count(groups, &mut self.rows);
        Ok(())
    }

    /// Adds `rows` rows to one group by the zone maps of the columns, without a look at them;
    /// false, with nothing done, where these say too little.
    pub(crate) fn add_totals<'s>(
        &mut self,
        group: usize,
        rows: u64,
        column: impl Fn(usize) -> Option<ColumnTotals<'s>>,
    ) -> bool {
        if !self.take_totals() {
            return false;
        }
        let of = |input: &&Expression| Totals::new(input, &column).filter(|it| it.rows == rows);
        let Some(all) = self.inputs.iter().map(of).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let totals = |input: &Option<usize>| input.and_then(|at| all.get(at));
        let takes = |(state, input): &(State, _)| totals(input).is_none_or(|it| state.takes(it));
        if !self.states.iter().all(takes) {
            return false;
        }
        for (state, input) in &mut self.states {
            if let Some(totals) = totals(input) {
                state.add_totals(group, totals, self.rows.len());
            }
        }
        self.rows.get_mut(group).into_iter().for_each(|all| *all += rows);
        true
    }

    /// Whether zone maps may tell enough of the aggregates at all.
    pub(crate) fn take_totals(&self) -> bool {
        let plain = |a: &Aggregate| a.filter.is_none() && !a.distinct && !a.is_picked();
        self.aggregates.iter().all(plain)
            && self.states.iter().all(|(state, _)| state.takes(&Totals::all_null(0)))
    }

    /// The same for all rows of a block.
    pub(crate) fn add_block(&mut self, group: usize, block: &OpenBlock<'_>) -> bool {
        self.add_totals(group, block.rows as u64, |at| block.totals(at))
    }

    /// Adds the rows of a slice by its mask, all to one group, without a list of them: all rows
    /// are taken, and those not selected count as null. False if expressions must not see them,
    /// nobody can count them as null, or nobody looks at values anyway.
    pub(crate) fn update_masked(&mut self, slice: &Slice<'_, '_>, group: usize) -> Result<bool> {
        // Arithmetic is not worth it for a minority of the rows.
        let many = slice.len() * 2 > slice.range.len();
        let sound = |input: &&Expression| {
            input.as_column().is_some() || (many && slice.arithmetic(input).is_some())
        };
        let sound = !self.inputs.is_empty() && self.inputs.iter().all(sound);
        let takes = |a: &Aggregate| a.filter.is_none() && !a.is_picked();
        let sound = sound && self.aggregates.iter().all(takes);
        let Some(mask) = slice.mask().filter(|_| sound) else {
            return Ok(false);
        };
        let whole = Slice::new(slice.block, slice.range.clone());
        let groups = Groups::Same { group, rows: mask.len() };
        let selected = mask_bits(mask);
        let mut all = self.fetch(&whole, groups)?;
        for (at, fetched) in all.iter_mut().enumerate() {
            let sums =
                self.states.iter().all(|(state, input)| *input != Some(at) || state.only_adds());
            if let Some(fetched) = fetched {
                fetched.keep(mask, &selected, sums);
            }
        }
        for ((state, input), aggregate) in self.states.iter_mut().zip(self.aggregates) {
            if aggregate.distinct {
                continue;
            }
            let valid = match input.map(|at| all.get(at).and_then(Option::as_ref)) {
                // What none of these rows can change.
                Some(None) => continue,
                Some(Some(fetched)) => (Some(fetched), fetched.valid.as_ref()),
                None => (None, Some(&selected)),
            };
            state.update(groups, valid.0, valid.1, self.rows.len())?;
        }
        count(groups, &mut self.rows);
        Ok(true)
    }

    fn update_states(&mut self, slice: &Slice<'_, '_>, groups: Groups<'_>) -> Result<()> {
        let all = self.fetch(slice, groups)?;
        for ((state, input), aggregate) in self.states.iter_mut().zip(self.aggregates) {
            let passes = |filter| slice.evaluate(filter).map(|filter| truth(&filter));
            let filter = aggregate.filter.as_ref().map(passes).transpose()?;
            if aggregate.is_picked() {
                state.pick(aggregate, slice, groups, filter.as_ref())?;
                continue;
            }
            let mut kept = None;
            let mut fetched = input.and_then(|at| all.get(at)?.as_ref());
            if let (None, Some(filter), Some(input)) = (fetched, &filter, &aggregate.input) {
                let wanted = ValueUse { sums: state.only_adds(), decimals: false };
                fetched = Some(&*kept.insert(fetch_kept(input, slice, filter, wanted)?));
            }
            let mut valid = fetched.and_then(|fetched| fetched.valid.clone());
            if filter.is_some() {
                valid = NullBuffer::union(valid.as_ref(), filter.as_ref());
            }
            state.update(groups, fetched, valid.as_ref(), self.rows.len())?;
        }
        Ok(())
    }

    /// The values of each input; `None` where they would change nothing, or cannot be computed for
    /// all rows and need not be, since each of those that take them has a filter.
    fn fetch(&self, slice: &Slice<'_, '_>, groups: Groups<'_>) -> Result<Vec<Option<Fetched>>> {
        let one = |(at, input): (usize, &&Expression)| {
            let takers = self
                .states
                .iter()
                .zip(self.aggregates)
                .filter(|((_, input), _)| *input == Some(at));
            if let (Groups::Same { group, .. }, Some(column)) = (groups, input.as_column())
                && takers.clone().all(|((state, _), a)| {
                    a.filter.is_none() && !state.improves(group, column, slice.block)
                })
            {
                return Ok(None);
            }
            if let Some(column) = input.as_column()
                && takers.clone().all(|((state, _), _)| state.takes_codes())
                && let Some(codes) = fetch_codes(column, slice)?
            {
                return Ok(Some(codes));
            }
            let sums = takers.clone().all(|((state, _), _)| state.only_adds());
            match fetch(input, slice, ValueUse { sums, decimals: self.decimals }) {
                Err(_) if takers.clone().all(|(_, aggregate)| aggregate.filter.is_some()) => {
                    Ok(None)
                }
                fetched => fetched.map(Some),
            }
        };
        self.inputs.iter().enumerate().map(one).collect()
    }

    /// Adds distinct values of some aggregates to groups for which there is room.
    pub(crate) fn add_distinct(
        &mut self,
        aggregates: &[usize],
        groups: &[u64],
        counts: &[u64],
    ) -> Result<()> {
        for at in aggregates {
            if let Some((state, _)) = self.states.get_mut(*at) {
                state.add_distinct(groups, counts)?;
            }
        }
        Ok(())
    }

    /// Adds others' groups, settled, to the ones that `map` names, for which there is room.
    pub(crate) fn merge(&mut self, other: &Accumulators<'_>, map: GroupMap<'_>) -> Result<()> {
        for ((state, _), (more, _)) in self.states.iter_mut().zip(&other.states) {
            state.merge(more, self.rows.len(), map)?;
        }
        other.counts().add_to(&mut self.rows, map);
        Ok(())
    }

    /// Completes what is pending; no rows come after it.
    pub(crate) fn settle(&mut self) {
        self.states.iter_mut().for_each(|(state, _)| state.settle());
    }

    /// The answers of one aggregate for some groups, once settled.
    pub(crate) fn finish_one(&self, aggregate: usize, groups: &[u64]) -> Result<ArrayRef> {
        let (state, _) = self
            .states
            .get(aggregate)
            .ok_or_else(|| Error::InvalidInput(format!("there is no aggregate {aggregate}")))?;
        state.finish(groups, &self.rows)
    }

    /// The answers of some groups, once settled: a column for each aggregate; with `states`, their
    /// states in one column.
    pub(crate) fn columns(&self, groups: &[u64], states: bool) -> Result<Vec<ArrayRef>> {
        #[cfg(feature = "cluster")]
        if states {
            return Ok(vec![self.states_of(groups)]);
        }
        let _ = states;
        self.states.iter().map(|(state, _)| state.finish(groups, &self.rows)).collect()
    }
}
