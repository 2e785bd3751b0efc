//! What the moving frames of this folder share, and how they serve as accumulators.

use std::fmt::Debug;

use arrow_array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::Accumulator;

/// The rows of a moving frame, or what is kept of them.
pub(super) trait Frame: Debug + Send + Sync + 'static {
    /// Adds rows at the end.
    fn push(&mut self, values: &[ArrayRef]) -> DataFusionResult<()>;

    /// Drops the first rows.
    fn pop(&mut self, rows: usize) -> DataFusionResult<()>;

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue>;

    /// Bytes on the heap.
    fn memory(&self) -> usize;
}

/// A frame as an accumulator. It has no state to merge: each window computes its frames alone.
#[derive(Debug)]
pub(super) struct Sliding<F>(pub(super) F);

impl<F: Frame> Accumulator for Sliding<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.push(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.0.pop(row_count(values))
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.memory()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Err(only_in_windows())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> DataFusionResult<()> {
        Err(only_in_windows())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

pub(super) fn row_count(values: &[ArrayRef]) -> usize {
    values.first().map_or(0, |values| values.len())
}

pub(super) fn no_rows() -> DataFusionError {
    DataFusionError::Internal("a frame is left by rows that never came into it".to_owned())
}

fn only_in_windows() -> DataFusionError {
    DataFusionError::Internal("the aggregate of a frame has no state".to_owned())
}
