//! What a scan reads: columns, conditions, and the order of the blocks.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;

use crate::error::Result;
use crate::expr::Predicate;
use crate::limits::{BLOCK_ROWS, VECTOR};
use crate::model::Column;
use crate::query::open::opener::partitions;
use crate::query::order::chains::Chains;
use crate::query::prune::blocks::matching_blocks;
use crate::query::prune::segments::matching_segments;
use crate::query::stats::Counters;
use crate::query::{Condition, OrderBy};
use crate::sql::convert::from_arrow;
use crate::sql::run::dynamic::DynamicFilters;
use crate::sql::run::table::StoreTable;

/// Segments of a table that are looked at before it is scanned, and those of them that are opened.
const MOST_SEGMENTS: usize = 1024;
const FEW_SEGMENTS: usize = 16;

/// What to read.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) table: Arc<StoreTable>,
    /// The columns that are read: those of the answer first, in its order.
    pub(crate) columns: Vec<Column>,
    /// The columns of the answer.
    pub(crate) schema: SchemaRef,
    /// Conditions that the scan applies.
    pub(crate) conditions: Vec<Condition>,
    /// Of the filters above, what zone maps can judge: blocks in which no row can match need not be
    /// read.
    pub(crate) filters: Vec<Predicate>,
    /// Filters that operators above fill in while the query runs.
    pub(crate) dynamic: DynamicFilters,
    /// In which order blocks are read.
    pub(crate) order: ScanOrder,
    /// The most rows that are needed.
    pub(crate) limit: Option<u64>,
    /// Whether rows that earlier scans have found to meet the conditions are known.
    pub(crate) known_rows: bool,
    /// Why the operators above do not run natively.
    pub(crate) refusal: Option<Arc<str>>,
}

impl Scan {
    /// What statistics of segments and blocks are held against: conditions first, so that what is
    /// pruned counts for them.
    pub(crate) fn predicate(&self, conditions: &[Condition]) -> Predicate {
        let conditions = conditions.iter().map(|condition| &condition.predicate);
        Predicate::And(conditions.chain(&self.filters).cloned().collect())
    }

    /// In how many partitions it is read: one for each block that may have rows, up to some number.
    /// To hand one block over to another thread takes longer than to read it.
    pub(super) fn partitions(&self, most: usize) -> usize {
        let blocks = self.table.snapshot().rows().div_ceil(BLOCK_ROWS as u64);
        let all = usize::try_from(blocks).unwrap_or(usize::MAX).clamp(1, most.max(1));
        if all == 1 || (self.conditions.is_empty() && self.filters.is_empty()) {
            return all;
        }
        // What cannot be read is an error of those that read it.
        let left = self.blocks_left(all).ok().flatten();
        left.map_or(all, |left| left.clamp(1, all))
    }

    /// How many blocks pruning leaves, if it leaves few segments; `most` if there are more.
    fn blocks_left(&self, most: usize) -> Result<Option<usize>> {
        let (snapshot, predicate) = (self.table.snapshot(), self.predicate(&self.conditions));
        let (entries, mut counters) = (snapshot.segments()?, Counters::new(self.conditions.len()));
        if entries.len() > MOST_SEGMENTS {
            return Ok(None);
        }
        let partitions = partitions(&self.conditions);
        let kept = matching_segments(&predicate, &partitions, snapshot, &entries, &mut counters)?;
        if kept.len() > FEW_SEGMENTS {
            return Ok(None);
        }
        let mut left = 0;
        for (number, entry) in kept.into_iter().filter_map(|at| Some((at, entries.get(at)?))) {
            let segment = snapshot.open_segment(entry)?;
            left += matching_blocks(&predicate, &segment, number, &[], false, &mut counters)?.len();
            if left >= most {
                break;
            }
        }
        Ok(Some(left.min(most)))
    }

    /// Whether it gives all rows of the table, so that its statistics are the table's.
    pub(super) fn is_whole(&self) -> bool {
        self.limit.is_none()
            && self.conditions.is_empty()
            && self.filters.is_empty()
            && self.dynamic.is_empty()
    }
}

/// In which order a scan reads blocks, and so gives their rows.
#[derive(Clone, Debug)]
pub(crate) enum ScanOrder {
    /// As they are stored.
    Stored,
    /// From the last row to the first.
    Backwards,
    /// Those first that may have the first rows by this column.
    BestFirst(OrderBy),
    /// Each partition those of one chain of sorted segments, or a part of them.
    Merged(Arc<Chains>),
}

impl ScanOrder {
    /// How many sequences of blocks there are.
    pub(crate) fn lanes(&self) -> usize {
        match self {
            ScanOrder::Stored | ScanOrder::Backwards | ScanOrder::BestFirst(_) => 1,
            ScanOrder::Merged(sorted) => sorted.chains.len().max(1),
        }
    }

    /// Whether rows of a segment come out from the last to the first.
    pub(crate) fn is_backwards(&self) -> bool {
        match self {
            ScanOrder::Backwards => true,
            ScanOrder::Merged(sorted) => sorted.backwards,
            ScanOrder::Stored | ScanOrder::BestFirst(_) => false,
        }
    }

    /// About `step` of the rows of a block that are left, from a vector's first on, and those that
    /// are left then.
    pub(super) fn cut(&self, left: &Range<usize>, step: usize) -> (Range<usize>, Range<usize>) {
        if self.is_backwards() {
            let at = left.end.saturating_sub(step).next_multiple_of(VECTOR).max(left.start);
            return (at..left.end, left.start..at);
        }
        let at = left.end.min(left.start + step);
        (left.start..at, at..left.end)
    }

    /// The rows of a slice in the order in which they come out.
    pub(super) fn turned(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if !self.is_backwards() {
            return Ok(batch);
        }
        let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
        take_record_batch(&batch, &rows).map_err(from_arrow)
    }
}
