//! What is stored of the rows of an input, where that is not all of them as they are.

use std::fmt::Debug;

use arrow_array::RecordBatch;

use crate::error::Result;

/// Chooses rows, and computes the columns that are stored of them.
pub trait Select: Debug + Send + Sync {
    /// What is stored of these rows, each taken by itself: in their order, and no more than there
    /// are. There is at least one batch, which may be empty.
    fn select(&self, rows: RecordBatch) -> Result<Vec<RecordBatch>>;
}
