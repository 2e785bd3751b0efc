//! Frames of aggregates that can only be computed from all rows each time: lists, and distinct
//! values.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::AggregateUDF;
use datafusion::logical_expr::function::AccumulatorArgs;

use super::factory::AccumulatorFactory;
use super::frame::{Frame, no_rows, row_count};

#[derive(Debug)]
pub(super) struct RecomputedFrame {
    factory: AccumulatorFactory,
    /// The arguments, in the order in which they came. They come row by row, so a new batch is
    /// merged with earlier ones that have no more rows than it, except the first.
    batches: VecDeque<Vec<ArrayRef>>,
    /// How many rows of the first batch have left the frame.
    popped: usize,
}

impl RecomputedFrame {
    pub(super) fn new(
        function: &Arc<AggregateUDF>,
        arguments: AccumulatorArgs<'_>,
    ) -> RecomputedFrame {
        let factory = AccumulatorFactory::new(function, arguments);
        RecomputedFrame { factory, batches: VecDeque::new(), popped: 0 }
    }

    /// The arguments of all rows in the frame.
    fn arguments(&self) -> DataFusionResult<Vec<ArrayRef>> {
        let Some(first) = self.batches.front() else { return Ok(Vec::new()) };
        let others = || self.batches.iter().skip(1);
        let concatenated = |(column, values): (usize, &ArrayRef)| {
            let remaining = values.slice(self.popped, values.len() - self.popped);
            let parts: Vec<&dyn Array> = [&remaining]
                .into_iter()
                .chain(others().map(|batch| &batch[column]))
                .map(AsRef::as_ref)
                .collect();
            let all = concat(&parts)?;
            if self.factory.is_reversed() { reversed(&all) } else { Ok(all) }
        };
        first.iter().enumerate().map(concatenated).collect()
    }
}

impl Frame for RecomputedFrame {
    fn push(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        if row_count(values) == 0 {
            return Ok(());
        }
        let mut new: Vec<ArrayRef> = values.iter().map(compact).collect();
        while self.batches.len() > 1
            && let Some(last) = self.batches.pop_back_if(|last| row_count(last) <= row_count(&new))
        {
            let pairs = last.iter().zip(&new);
            new = pairs
                .map(|(last, new)| Ok(concat(&[last, new])?))
                .collect::<DataFusionResult<_>>()?;
        }
        self.batches.push_back(new);
        Ok(())
    }

    fn pop(&mut self, rows: usize) -> DataFusionResult<()> {
        self.popped += rows;
        while let Some(first) = self.batches.pop_front_if(|first| row_count(first) <= self.popped) {
            self.popped -= row_count(&first);
        }
        if self.batches.is_empty() && self.popped > 0 { Err(no_rows()) } else { Ok(()) }
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let mut all = self.factory.create()?;
        if !self.batches.is_empty() {
            all.update_batch(&self.arguments()?)?;
        }
        all.evaluate()
    }

    fn memory(&self) -> usize {
        self.batches.iter().flatten().map(|values| values.get_array_memory_size()).sum()
    }
}

/// Copies string and binary views, so that they do not keep the buffers of their whole batch alive.
fn compact(values: &ArrayRef) -> ArrayRef {
    if let Some(texts) = values.as_string_view_opt() {
        return Arc::new(texts.gc());
    }
    values.as_binary_view_opt().map_or_else(|| Arc::clone(values), |blobs| Arc::new(blobs.gc()))
}

fn reversed(values: &ArrayRef) -> DataFusionResult<ArrayRef> {
    let rows = UInt64Array::from_iter_values((0..values.len() as u64).rev());
    Ok(take(values, &rows, None)?)
}
