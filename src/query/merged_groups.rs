//! Groups whose states come from elsewhere: rows of the same keys from several machines become one.
//!
//! Where this stands on the road of a query in a cluster: each machine has grouped its own rows
//! (`group`) and sent the states of its groups (`aggregate::transfer`); here they are merged as
//! those of several threads are, in radix partitions that are spilled where memory is short.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};

use super::Aggregate;
use super::aggregate::Accumulators;
use super::context::Context;
use super::fragment::FirstGroups;
use super::group::{
    GroupOutput, Hashed, KeyEncoder, KeyScratch, Part, PartitionOutput, Spill, TableKeys, gather,
};
use crate::error::{Error, Result};
use crate::expr::Expression;

/// The groups so far.
pub(crate) struct MergedGroups<'a> {
    encoder: Arc<KeyEncoder>,
    groups: Hashed<'a>,
    spill: Arc<Spill>,
    context: &'a Context<'a>,
    /// Scratch: the groups of a batch.
    part: Part<'a>,
    scratch: KeyScratch,
}

impl<'a> MergedGroups<'a> {
    /// None yet.
    pub(crate) fn new(
        keys: &[Expression],
        aggregates: &'a [Aggregate],
        context: &'a Context<'a>,
    ) -> Result<Self> {
        let encoder = Arc::new(KeyEncoder::of_values(keys)?);
        let spill = Arc::new(Spill::new(context.temp_dir));
        let part = Part { keys: encoder.empty_keys(), states: Accumulators::new(aggregates)? };
        let of_table = Arc::new(TableKeys::Group(Arc::clone(&encoder)));
        let groups = Hashed::new(of_table, Arc::clone(&spill), &part, context)?;
        Ok(MergedGroups { encoder, groups, spill, context, part, scratch: KeyScratch::default() })
    }

    /// Adds groups: their keys, and a column of their states.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let wrong = || Error::InvalidInput("states of groups are not as declared".into());
        let (states, keys): (&ArrayRef, _) = batch.columns().split_last().ok_or_else(wrong)?;
        let (part, rows) = (&mut self.part, batch.num_rows());
        self.encoder.write_columns(keys, rows, &mut part.keys, &mut self.scratch)?;
        part.states.read_states(states)?;
        self.groups.add(part)
    }

    /// The groups as columns, some at a time; with `first`, at least these.
    pub(crate) fn finish(self, first: Option<&'a FirstGroups>) -> Result<GroupOutput<'a>> {
        let (held, parts) = gather(vec![self.groups], self.context)?;
        let like = self.part.empty_like()?;
        let left = PartitionOutput::new(self.spill, self.context, like, parts, held);
        Ok(GroupOutput::Partitions(self.encoder, first, Box::new(left)))
    }
}
