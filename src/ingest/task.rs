//! A piece of parsing work, and what it makes.

use arrow_array::RecordBatch;

use super::rejects::Rejects;
use crate::error::Result;
use crate::model::Schema;

/// A piece of parsing work that any thread can do.
pub struct Task {
    /// Bytes that the input and the result take in memory, about.
    pub weight: usize,
    /// Bytes of the input without its compression, or of what was decoded of it.
    pub bytes: u64,
    /// Number of the input that the piece is of, from 0.
    pub input: usize,
    /// Whether a piece of the input begins here that may be left out when a stopped load goes on.
    pub starts_piece: bool,
    /// The work.
    pub work: Box<dyn FnOnce() -> Result<Parsed> + Send>,
}

impl Task {
    /// Work on a piece of the first input, or of one whose number is set later.
    pub fn new(weight: usize, work: impl FnOnce() -> Result<Parsed> + Send + 'static) -> Self {
        Task { weight, bytes: 0, input: 0, starts_piece: true, work: Box::new(work) }
    }
}

/// What a task makes of its piece.
#[derive(Default)]
pub struct Parsed {
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
    /// The rows that are not among them.
    pub rejects: Rejects,
    /// Does the work once more, should the batches not fit the table: with the types that it has by
    /// then, so that single rows are rejected in place of all. `None` where a type that does not
    /// fit is an error.
    pub reparse: Option<Reparse>,
}

/// Work to be done again for a table of this schema.
pub type Reparse = Box<dyn FnOnce(&Schema) -> Result<Parsed> + Send>;

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
