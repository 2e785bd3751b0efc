//! Frames of sums, averages, deviations and the like, over floats.

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;

use super::frame::{Frame, no_rows};
use super::partial::Partial;

#[derive(Debug)]
pub(super) struct FloatFrame<P: Partial> {
    function: P::Function,
    /// For each row of the front, the aggregate of it and those that follow it there. The row that
    /// leaves first is on top.
    front: Vec<P>,
    /// The rows of the back, those with nulls as `None`.
    back: Vec<Option<P::Row>>,
    back_total: P,
}

impl<P: Partial> FloatFrame<P> {
    pub(super) fn new(function: P::Function) -> FloatFrame<P> {
        FloatFrame { function, front: Vec::new(), back: Vec::new(), back_total: P::default() }
    }

    /// Turns the back over into the empty front.
    fn turn_over(&mut self) {
        let mut suffix = P::default();
        for row in self.back.drain(..).rev() {
            suffix = suffix.with_row(row);
            self.front.push(suffix);
        }
        self.back_total = P::default();
    }
}

impl<P: Partial> Frame for FloatFrame<P> {
    /// Functions of two arguments take y first, then x.
    fn push(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        for (x, y) in floats(values.last())?.iter().zip(floats(values.first())?) {
            let row = P::row(x, y);
            self.back.push(row);
            self.back_total = self.back_total.with_row(row);
        }
        Ok(())
    }

    fn pop(&mut self, rows: usize) -> DataFusionResult<()> {
        for _ in 0..rows {
            if self.front.is_empty() {
                self.turn_over();
            }
            self.front.pop().ok_or_else(no_rows)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let front = self.front.last().copied().unwrap_or_default();
        Ok(ScalarValue::Float64(front.merged(self.back_total).finish(self.function)))
    }

    fn memory(&self) -> usize {
        self.front.capacity() * size_of::<P>() + self.back.capacity() * size_of::<Option<P::Row>>()
    }
}

fn floats(values: Option<&ArrayRef>) -> DataFusionResult<&Float64Array> {
    values.and_then(|values| values.as_primitive_opt::<Float64Type>()).ok_or_else(no_rows)
}
