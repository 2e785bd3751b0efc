//! Batches of few rows, held until they are worth one: what a slice has left after a filter, what a
//! partition of groups has. Operators above pay for each batch, and for each buffer of its texts.

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;

use crate::error::{Error, Result};
use crate::query::slice::SLICE_ROWS;

/// So many rows are worth a batch.
const WORTH: usize = SLICE_ROWS / 2;

/// Few rows, in order.
#[derive(Default)]
pub(in crate::sql) struct Held {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Held {
    /// Takes a batch; gives out what is to go before the next one: nothing, one batch once there
    /// are enough rows, or what was held and a batch that is large by itself, which is not copied.
    pub(in crate::sql) fn push(&mut self, batch: RecordBatch) -> Result<[Option<RecordBatch>; 2]> {
        if batch.num_rows() >= WORTH {
            return Ok([self.take()?, Some(batch)]);
        }
        self.rows += batch.num_rows();
        if batch.num_rows() > 0 {
            self.batches.push(batch);
        }
        if self.rows >= WORTH { Ok([self.take()?, None]) } else { Ok([None, None]) }
    }

    /// What is held.
    pub(in crate::sql) fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.rows = 0;
        let batches = std::mem::take(&mut self.batches);
        match batches.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            [first, ..] => {
                concat_batches(first.schema_ref(), &batches).map(Some).map_err(|error| {
                    Error::LimitExceeded(format!("rows do not fit one batch: {error}"))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn few_rows_come_out_together_and_in_order() {
        let (mut held, mut next, mut sizes, mut all) = (Held::default(), 0, Vec::new(), Vec::new());
        let sizes_in = [1, 0, 5, WORTH, 7, WORTH - 8, 1, 3];
        let mut out = |batch: RecordBatch| {
            sizes.push(batch.num_rows());
            all.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        };
        for rows in sizes_in {
            let values: ArrayRef = Arc::new((next..next + rows as i64).collect::<Int64Array>());
            next += rows as i64;
            let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
            held.push(batch).unwrap().into_iter().flatten().for_each(&mut out);
        }
        held.take().unwrap().into_iter().for_each(&mut out);
        assert_eq!(sizes, [6, WORTH, WORTH, 3]);
        assert_eq!(all, (0..next).collect::<Vec<_>>());
    }
}
