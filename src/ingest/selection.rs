//! What is stored of the rows of an input, where that is not all of them as they are.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::Result;

/// Chooses rows, and computes the columns that are stored of them.
pub trait Select: Debug + Send + Sync {
    /// What was asked for, as it was written.
    fn text(&self) -> &str;

    /// The selection over rows of these columns.
    fn over(&self, columns: &SchemaRef) -> Result<Arc<dyn SelectRows>>;
}

/// A selection over rows of known columns.
pub trait SelectRows: Debug + Send + Sync {
    /// The columns that it reads, which are those of the rows that it takes.
    fn reads(&self) -> &SchemaRef;

    /// The columns that it computes.
    fn computes(&self) -> SchemaRef;

    /// What is stored of these rows, each taken by itself: in their order, and no more than there
    /// are. There is at least one batch, which may be empty.
    fn select(&self, rows: RecordBatch) -> Result<Vec<RecordBatch>>;
}
