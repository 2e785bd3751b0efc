//! Opening the segments and blocks that survive pruning.

use std::sync::Arc;

use super::{BlockRef, OpenSegment, Survivors, no_column_error};
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::Column;
use crate::query::Condition;
use crate::query::prune::blocks::matching_blocks;
use crate::query::prune::segments::matching_segments;
use crate::query::stats::{Counters, Pruned, Statistic};
use crate::store::{ColumnStats, SegmentEntry, Snapshot};

/// The segments of a table, to be opened for some columns of the rows that meet conditions.
pub(crate) struct Opener<'a> {
    columns: &'a [Column],
    conditions: &'a [Condition],
    snapshot: &'a Snapshot,
    pub(crate) entries: Arc<Vec<SegmentEntry>>,
    /// As for [`matching_blocks`].
    sized: bool,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(
        columns: &'a [Column],
        conditions: &'a [Condition],
        snapshot: &'a Snapshot,
        sized: bool,
    ) -> Result<Self> {
        Ok(Opener { columns, conditions, snapshot, entries: snapshot.segments()?, sized })
    }

    /// Numbers of the segments that may hold rows that meet the conditions, in order.
    pub(crate) fn matching(&self, counters: &mut Counters) -> Result<Vec<usize>> {
        matching_segments(
            &predicate(self.conditions),
            &partitions(self.conditions),
            self.snapshot,
            &self.entries,
            counters,
        )
    }

    /// Adds those segments whose blocks may hold such rows.
    pub(crate) fn open(
        &self,
        numbers: &[usize],
        survivors: &mut Survivors,
        counters: &mut Counters,
    ) -> Result<()> {
        let predicate = predicate(self.conditions);
        let entries: Vec<&SegmentEntry> =
            numbers.iter().filter_map(|number| self.entries.get(*number)).collect();
        for (number, segment) in numbers.iter().zip(self.snapshot.open_segments(&entries)) {
            let segment = segment?;
            let (columns, sized) = (self.columns, self.sized);
            let blocks = matching_blocks(&predicate, &segment, *number, columns, sized, counters)?;
            if !blocks.is_empty() {
                let at = survivors.segments.len();
                let refs = blocks.into_iter().map(|block| BlockRef { segment: at, block });
                survivors.blocks.extend(refs);
                survivors.segments.push(OpenSegment::open(segment, *number, self.columns)?);
            }
        }
        Ok(())
    }

    /// What the manifest knows of one of the columns, for each segment; `None` inside where
    /// that lacks it.
    pub(crate) fn column_stats(&self, at: usize) -> Result<Vec<Option<ColumnStats>>> {
        let column = self.columns.get(at).ok_or_else(|| no_column_error(at))?;
        self.snapshot.column_stats(column.id)
    }

    /// Notes a segment that a threshold rules out, after it was counted as matching.
    pub(crate) fn count_left(&self, number: usize, counters: &mut Counters) {
        let Some(entry) = self.entries.get(number) else { return };
        let blocks = entry.rows.div_ceil(u64::from(self.snapshot.options().block_rows.max(1)));
        let pruned = Pruned { segments: 1, blocks, rows: entry.rows, bytes: entry.length };
        counters.prune(Statistic::Threshold, None, pruned);
    }

    /// All that may hold such rows.
    pub(crate) fn survivors(&self, counters: &mut Counters) -> Result<Survivors> {
        let mut survivors = Survivors::default();
        self.open(&self.matching(counters)?, &mut survivors, counters)?;
        Ok(survivors)
    }
}

/// The predicate of all conditions together.
pub(crate) fn predicate(conditions: &[Condition]) -> Predicate {
    Predicate::And(conditions.iter().map(|condition| condition.predicate.clone()).collect())
}

/// What all conditions together say of partitions.
pub(crate) fn partitions(conditions: &[Condition]) -> Predicate {
    Predicate::And(conditions.iter().map(|condition| condition.partitions.clone()).collect())
}
