//! A parsing task and its result.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::origin::Origin;
use super::rejects::Rejects;
use crate::error::Result;
use crate::model::Schema;

/// Parsing work on a piece of an input, for any thread.
pub(crate) struct Task {
    /// Approximate bytes of memory for input and result.
    pub weight: usize,
    /// Uncompressed bytes of the input.
    pub bytes: u64,
    /// Number of the piece's input, from 0.
    pub input: usize,
    /// What is known of the input, for messages.
    pub origin: Option<Arc<Origin>>,
    /// Whether the input has no more for now, so that what is in flight is best taken at once.
    pub waits: bool,
    /// Whether this task starts a piece of the input. A resumed load skips whole pieces.
    pub starts_piece: bool,
    /// The work.
    pub work: Box<dyn FnOnce() -> Result<Parsed> + Send>,
}

impl Task {
    /// Work on a piece of input 0; the caller sets the number otherwise.
    pub(crate) fn new(
        weight: usize,
        work: impl FnOnce() -> Result<Parsed> + Send + 'static,
    ) -> Self {
        Task {
            weight,
            bytes: 0,
            input: 0,
            origin: None,
            waits: false,
            starts_piece: true,
            work: Box::new(work),
        }
    }
}

/// The result of a task.
#[derive(Default)]
pub(crate) struct Parsed {
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
    /// The rows that were left out.
    pub rejects: Rejects,
    /// Empty lines of the piece that are no rows.
    pub blank_lines: u64,
    /// Rows that were not selected.
    pub left_out: u64,
    /// Parses the piece again with the table's current types, for when the batches do not fit the
    /// table: then single rows are rejected rather than all of them. `None` where a mismatch of
    /// types is an error.
    pub reparse: Option<Reparse>,
    /// Whether the rows are those of stored segments, all of whose codes may stay codes.
    pub stored: bool,
}

/// Parses a piece again for a table of this schema.
pub(crate) type Reparse = Box<dyn FnOnce(&Schema) -> Result<Parsed> + Send>;

impl Parsed {
    /// Rows of a stored segment.
    pub(crate) fn from_stored(batch: RecordBatch) -> Self {
        Parsed { stored: true, ..Parsed::from(batch) }
    }
}

impl From<Vec<RecordBatch>> for Parsed {
    fn from(batches: Vec<RecordBatch>) -> Self {
        Parsed { batches, ..Parsed::default() }
    }
}

impl From<RecordBatch> for Parsed {
    fn from(batch: RecordBatch) -> Self {
        Parsed::from(vec![batch])
    }
}

impl std::fmt::Debug for Parsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        f.debug_struct("Parsed")
            .field("rows", &rows)
            .field("rejects", &self.rejects)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("weight", &self.weight).finish_non_exhaustive()
    }
}
