//! What a scan reads: columns, conditions, and the order of the blocks.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use datafusion::logical_expr::TableScan;

use crate::error::Result;
use crate::expr::Predicate;
use crate::limits::VECTOR;
use crate::model::Column;
use crate::query::group_bounds::FirstOfGroups;
use crate::query::order::chains::Chains;
use crate::query::{Condition, OrderBy};
use crate::sql::convert::from_arrow;
use crate::sql::run::dynamic::DynamicFilters;
use crate::sql::run::table::StoreTable;

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
    /// The rows of groups that are needed, at least.
    pub(crate) first: Option<FirstOfGroups>,
    /// Whether rows that earlier scans have found to meet the conditions are known.
    pub(crate) known_rows: bool,
    /// Why the operators above do not run natively.
    pub(crate) refusal: Option<Arc<str>>,
    /// The scan as a logical plan, if other machines run it.
    #[cfg_attr(
        not(feature = "cluster"),
        expect(dead_code, reason = "only machines of a cluster run it")
    )]
    pub(crate) logical: Option<Arc<TableScan>>,
}

impl Scan {
    /// What statistics of segments and blocks are held against: conditions first, so that what is
    /// pruned counts for them.
    pub(crate) fn predicate(&self, conditions: &[Condition]) -> Predicate {
        let conditions = conditions.iter().map(|condition| &condition.predicate);
        Predicate::And(conditions.chain(&self.filters).cloned().collect())
    }

    /// The columns that are read of every row that meets the conditions.
    pub(super) fn read_by_row(&self) -> impl Iterator<Item = usize> {
        let all = if self.first.is_none() { self.columns.len() } else { 0 };
        (0..all).chain(self.first.iter().flat_map(FirstOfGroups::inputs))
    }

    /// Whether it gives all rows of the table, so that its statistics are the table's.
    pub(super) fn is_whole(&self) -> bool {
        self.limit.is_none()
            && self.first.is_none()
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
