//! Frames of aggregates over bits and truth values, which merge the states of DataFusion's
//! accumulators.

use std::sync::Arc;

use arrow_array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};

use super::factory::AccumulatorFactory;
use super::frame::{Frame, no_rows, row_count};

#[derive(Debug)]
pub(super) struct MergedFrame {
    factory: AccumulatorFactory,
    /// For each row of the front, the state of it and those that follow it there. The row that
    /// leaves first is on top.
    front: Vec<Vec<ScalarValue>>,
    /// The arguments of the rows of the back.
    back: Vec<Vec<ScalarValue>>,
    back_total: Box<dyn Accumulator>,
}

impl MergedFrame {
    pub(super) fn new(
        function: &Arc<AggregateUDF>,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<MergedFrame> {
        let factory = AccumulatorFactory::new(function, arguments);
        let back_total = factory.create()?;
        Ok(MergedFrame { factory, front: Vec::new(), back: Vec::new(), back_total })
    }

    /// Turns the back over into the empty front.
    fn turn_over(&mut self) -> DataFusionResult<()> {
        let mut suffix = self.factory.create()?;
        for row in self.back.drain(..).rev() {
            suffix.update_batch(&arrays(&row)?)?;
            self.front.push(suffix.state()?);
        }
        self.back_total = self.factory.create()?;
        Ok(())
    }
}

impl Frame for MergedFrame {
    fn push(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        for row in 0..row_count(values) {
            let row = values.iter().map(|values| ScalarValue::try_from_array(values, row));
            self.back.push(row.collect::<DataFusionResult<_>>()?);
        }
        self.back_total.update_batch(values)
    }

    fn pop(&mut self, rows: usize) -> DataFusionResult<()> {
        for _ in 0..rows {
            if self.front.is_empty() {
                self.turn_over()?;
            }
            self.front.pop().ok_or_else(no_rows)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let Some(front) = self.front.last() else { return self.back_total.evaluate() };
        let mut all = self.factory.create()?;
        all.merge_batch(&arrays(front)?)?;
        if !self.back.is_empty() {
            all.merge_batch(&arrays(&self.back_total.state()?)?)?;
        }
        all.evaluate()
    }

    fn memory(&self) -> usize {
        let scalars = self.front.iter().chain(&self.back).map(Vec::capacity).sum::<usize>();
        self.back_total.size() + scalars * size_of::<ScalarValue>()
    }
}

fn arrays(row: &[ScalarValue]) -> DataFusionResult<Vec<ArrayRef>> {
    row.iter().map(ScalarValue::to_array).collect()
}
