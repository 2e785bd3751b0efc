//! The last answer of a session, kept within a bound so that it can be shown again.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// The most rows that are kept.
const MOST_ROWS: usize = 1_000_000;
/// The most bytes that are kept.
const MOST_BYTES: usize = 64 << 20;

/// An answer, or its first rows.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    schema: Option<SchemaRef>,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    is_cut: bool,
    /// Whether all rows of the answer have come.
    has_ended: bool,
}

impl Kept {
    /// Forgets the answer before this one.
    pub(crate) fn begin(&mut self, schema: SchemaRef) {
        *self = Kept { schema: Some(schema), ..Kept::default() };
    }

    /// Keeps rows as long as there is room.
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        let bytes = batch.get_array_memory_size();
        let rows = batch.num_rows().min(MOST_ROWS.saturating_sub(self.rows));
        self.is_cut |= rows < batch.num_rows() || self.bytes.saturating_add(bytes) > MOST_BYTES;
        if rows > 0 && self.bytes.saturating_add(bytes) <= MOST_BYTES {
            self.batches.push(batch.slice(0, rows));
            self.rows += rows;
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Notes that all rows have come.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// The columns of the answer, if there is one.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// The rows that are kept.
    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// How many rows are kept.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the answer had, or would have had, more rows.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut || !self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    #[test]
    fn rows_are_kept_up_to_the_bound() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..600_000));
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let mut kept = Kept::default();
        assert!(kept.schema().is_none());
        kept.begin(batch.schema());
        kept.add(&batch);
        assert!(kept.is_cut());
        kept.end();
        assert!(!kept.is_cut());
        kept.add(&batch);
        assert_eq!((kept.rows(), kept.is_cut()), (MOST_ROWS, true));
        assert_eq!(kept.batches()[1].num_rows(), 400_000);
        kept.begin(batch.schema());
        kept.end();
        assert_eq!((kept.rows(), kept.is_cut()), (0, false));
    }
}
