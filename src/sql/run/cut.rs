//! Where keys change among sorted rows that come in batches, for windows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::arrow::compute::partition;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::PhysicalExpr;

/// Cuts batches of rows, which come in the order of the keys, where a key changes.
pub(super) struct Cut {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The keys of the last row before.
    last: Option<Vec<ArrayRef>>,
}

/// The rows of a batch that have the same keys. Their ranges follow each other, and there is at
/// least one.
pub(super) struct Runs {
    pub(super) ranges: Vec<Range<usize>>,
    /// Whether the first ones have the keys of the last row before the batch.
    pub(super) goes_on: bool,
}

impl Cut {
    pub(super) fn new(keys: &[Arc<dyn PhysicalExpr>]) -> Cut {
        Cut { keys: keys.to_vec(), last: None }
    }

    /// Cuts a batch that is not empty.
    pub(super) fn cut(&mut self, batch: &RecordBatch) -> DataFusionResult<Runs> {
        let rows = batch.num_rows();
        if self.keys.is_empty() {
            let goes_on = self.last.replace(Vec::new()).is_some();
            return Ok(Runs { ranges: std::iter::once(0..rows).collect(), goes_on });
        }
        let keys = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
        let keys = keys.collect::<DataFusionResult<Vec<_>>>()?;
        let last_row = UInt32Array::from(vec![rows.saturating_sub(1) as u32]);
        let last = keys.iter().map(|key| Ok(take(key, &last_row, None)?));
        let before = self.last.replace(last.collect::<DataFusionResult<_>>()?);
        let goes_on = match before {
            Some(before) => {
                let both = before.iter().zip(&keys);
                let both = both.map(|(last, key)| Ok(concat(&[last, &key.slice(0, 1)])?));
                partition(&both.collect::<DataFusionResult<Vec<_>>>()?)?.len() == 1
            }
            None => false,
        };
        Ok(Runs { ranges: partition(&keys)?.ranges(), goes_on })
    }
}
