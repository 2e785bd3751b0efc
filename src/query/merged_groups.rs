//! Groups whose states come from elsewhere: rows of the same keys from several machines become one.
//!
//! Where this stands on the road of a query in a cluster: each machine has grouped its own rows
//! (`group`) and sent the states of its groups (`aggregate::transfer`); here they are merged.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;
use arrow_select::take::take;

use super::Aggregate;
use super::aggregate::Accumulators;
use super::group::GroupNumbers;
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;

/// Groups that become rows at a time.
const BATCH_GROUPS: usize = 1 << 15;

/// The groups so far.
#[derive(Debug)]
pub(crate) struct MergedGroups<'a> {
    numbers: GroupNumbers,
    states: Accumulators<'a>,
    /// The keys of new groups, by key, as they came.
    keys: Vec<Vec<ArrayRef>>,
    /// Bytes of these.
    bytes: usize,
}

impl<'a> MergedGroups<'a> {
    /// None yet.
    pub(crate) fn new(keys: &[Expression], aggregates: &'a [Aggregate]) -> Result<Self> {
        let types: Vec<_> = keys.iter().map(|key| key.data_type.clone()).collect();
        Ok(MergedGroups {
            numbers: GroupNumbers::new(&types)?,
            states: Accumulators::new(aggregates)?,
            keys: vec![Vec::new(); keys.len()],
            bytes: 0,
        })
    }

    /// Adds groups: their keys, and a column of their states.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let wrong = || Error::InvalidInput("states of groups are not as declared".into());
        let (states, keys) = batch.columns().split_last().ok_or_else(wrong)?;
        let known = self.numbers.len().min(self.states.rows.len());
        let mut numbers = Vec::with_capacity(batch.num_rows());
        self.numbers.number(keys, batch.num_rows(), &mut numbers)?;
        self.states.grow(self.numbers.len());
        self.states.merge_states(states, &numbers)?;
        // Numbers ascend as keys come, so that a group is new where its number is the next one.
        let (mut next, mut new) = (known as u32, Vec::new());
        for (row, number) in (0u32..).zip(&numbers) {
            if *number == next {
                new.push(row);
                next += 1;
            }
        }
        if keys.is_empty() || new.is_empty() {
            return Ok(());
        }
        let new = UInt32Array::from(new);
        for (column, key) in self.keys.iter_mut().zip(keys) {
            let taken = take(key, &new, None).or_invalid_with("keys of groups")?;
            self.bytes += taken.get_array_memory_size();
            column.push(taken);
        }
        Ok(())
    }

    /// Bytes of all groups.
    pub(crate) fn memory(&self) -> usize {
        self.numbers.memory() + self.states.memory() + self.bytes
    }

    /// The groups as rows, some at a time.
    pub(crate) fn finish(
        mut self,
        schema: &SchemaRef,
    ) -> impl Iterator<Item = Result<RecordBatch>> {
        self.states.settle();
        let (all, schema) = (self.numbers.len().min(self.states.rows.len()), Arc::clone(schema));
        // Keys came in batches, with new groups in each: where they are is known from their sizes.
        let mut from = (0, 0);
        (0..all).step_by(BATCH_GROUPS).map(move |start| {
            let groups: Vec<u64> = (start as u64..all.min(start + BATCH_GROUPS) as u64).collect();
            let places = self.places(&mut from, groups.len());
            let mut columns = Vec::with_capacity(schema.fields().len());
            for parts in &self.keys {
                let slice = |(part, range): &(usize, Range<usize>)| {
                    parts.get(*part).map(|part| part.slice(range.start, range.len()))
                };
                let some: Vec<ArrayRef> = places.iter().filter_map(slice).collect();
                let some: Vec<&dyn Array> = some.iter().map(|part| &**part).collect();
                columns.push(concat(&some).or_invalid_with("keys of groups")?);
            }
            columns.extend(self.states.columns(&groups, false)?);
            let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
            RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
                .or_invalid_with("groups do not fit their schema")
        })
    }

    /// Where the keys of the next groups are: in which batch, and which rows of it. `from` is where
    /// they begin.
    fn places(&self, from: &mut (usize, usize), mut groups: usize) -> Vec<(usize, Range<usize>)> {
        let mut places = Vec::new();
        while groups > 0 {
            let Some(part) = self.keys.first().and_then(|parts| parts.get(from.0)) else { break };
            let end = part.len().min(from.1 + groups);
            places.push((from.0, from.1..end));
            groups -= end - from.1;
            *from = if end == part.len() { (from.0 + 1, 0) } else { (from.0, end) };
        }
        places
    }
}
