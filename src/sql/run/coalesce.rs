//! Batches of few rows are held until they are worth one: what a slice has left after a filter,
//! what a partition of groups has. Operators above pay for each batch, and for each buffer of its
//! texts.

use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;

use crate::error::{Error, Result};
use crate::query::slice::SLICE_ROWS;

/// Batches of more rows than this are passed on without being copied.
const MAX_COPIED: usize = SLICE_ROWS / 2 - 1;

/// Collects small batches into batches of the size of a slice.
pub(in crate::sql) fn coalescer(schema: &SchemaRef) -> BatchCoalescer {
    BatchCoalescer::new(schema.clone(), SLICE_ROWS)
        .with_biggest_coalesce_batch_size(Some(MAX_COPIED))
}

/// Adds a batch. What was held comes out before a large batch, which is not copied then.
pub(in crate::sql) fn push(coalescer: &mut BatchCoalescer, batch: RecordBatch) -> Result<()> {
    if batch.num_rows() > MAX_COPIED {
        coalescer.finish_buffered_batch().map_err(too_large)?;
    }
    coalescer.push_batch(batch).map_err(too_large)
}

/// What is still held. Its buffers are no larger than its rows: operators above count them by their
/// capacity, and a selective filter leaves a few rows of each block.
pub(in crate::sql) fn finish(coalescer: &mut BatchCoalescer) -> Result<Option<RecordBatch>> {
    coalescer.finish_buffered_batch().map_err(too_large)?;
    let Some(batch) = coalescer.next_completed_batch() else { return Ok(None) };
    let (schema, mut columns, rows) = batch.into_parts();
    columns.iter_mut().for_each(Array::shrink_to_fit);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map(Some).map_err(too_large)
}

/// The error of a batch whose texts do not fit together.
fn too_large(error: ArrowError) -> Error {
    Error::LimitExceeded(format!("rows do not fit one batch: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn few_rows_come_out_together_in_order_and_in_little_memory() {
        let sizes = [1, 0, 5, MAX_COPIED + 1, 7, SLICE_ROWS - 8, 1, 3];
        let batch = |values: std::ops::Range<i64>| {
            let values: ArrayRef = Arc::new(values.collect::<Int64Array>());
            RecordBatch::try_from_iter([("x", values)]).unwrap()
        };
        let (mut coalescer, mut next) = (coalescer(&batch(0..0).schema()), 0);
        let (mut all, mut out) = (Vec::new(), Vec::new());
        for rows in sizes {
            push(&mut coalescer, batch(next..next + rows as i64)).unwrap();
            next += rows as i64;
            while let Some(full) = coalescer.next_completed_batch() {
                out.push(full);
            }
        }
        let last = finish(&mut coalescer).unwrap().unwrap();
        assert!(last.get_array_memory_size() < 1024);
        out.push(last);
        for batch in &out {
            all.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
        let sizes: Vec<usize> = out.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(sizes, [6, MAX_COPIED + 1, 7, SLICE_ROWS - 8, 4]);
        assert_eq!(all, (0..next).collect::<Vec<_>>());
        assert!(finish(&mut coalescer).unwrap().is_none());
    }
}
