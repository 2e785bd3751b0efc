//! Batches of few rows are held until they are worth one: what a slice has left after a filter,
//! what a partition of groups has. Operators above pay for each batch, and for each buffer of its
//! texts.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;

use super::width::may_be_wide;
use crate::error::{Error, Result};
use crate::query::slice::SLICE_ROWS;

/// Batches of more rows than this are passed on without being copied.
const MAX_COPIED: usize = SLICE_ROWS / 2 - 1;

/// Texts of a batch that was put together have at most this many buffers.
pub(in crate::sql) const MAX_BUFFERS: usize = 8;

/// Batches with more bytes of texts than this are passed on without being copied, and such with
/// many more come out in parts: what operators compute of long texts is as long again.
const LONG_TEXTS: usize = 2 << 20;

/// The share of the memory limit that a batch may hold beyond what it uses.
const HELD_SHARE: usize = 256;

/// Collects small batches into batches of the size of a slice. The buffers of these are not much
/// larger than their rows: operators above count them by their capacity.
pub(in crate::sql) struct Coalescer {
    held: BatchCoalescer,
    /// Bytes of texts and lists that are held.
    held_bytes: usize,
    /// Large batches are copied if their texts hold more than this many bytes, and use less than
    /// half of them.
    most_held: usize,
    /// What can go.
    ready: Vec<RecordBatch>,
}

impl Coalescer {
    pub(in crate::sql) fn new(schema: &SchemaRef, most_held: usize) -> Self {
        let held = BatchCoalescer::new(schema.clone(), SLICE_ROWS);
        Coalescer { held, held_bytes: 0, most_held, ready: Vec::new() }
    }

    /// Adds a batch, and gives out what can go. What was held comes out before a large batch.
    pub(in crate::sql) fn push(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        let bytes = text_bytes(&batch);
        if self.held_bytes + bytes > LONG_TEXTS {
            self.flush()?;
        }
        if batch.num_rows() > MAX_COPIED || bytes > LONG_TEXTS {
            self.flush()?;
            self.ready.push(compact(batch, self.most_held, usize::MAX)?);
        } else {
            self.held_bytes += bytes;
            // The coalescer copies sparse texts into buffers of up to a megabyte, and begins a new
            // one after each batch with dense texts.
            self.held.push_batch(compact(batch, 0, usize::MAX)?).map_err(too_large)?;
            self.take_completed()?;
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// Gives out what is still held.
    pub(in crate::sql) fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        self.flush()?;
        Ok(std::mem::take(&mut self.ready))
    }

    fn flush(&mut self) -> Result<()> {
        self.held.finish_buffered_batch().map_err(too_large)?;
        self.held_bytes = 0;
        self.take_completed()
    }

    fn take_completed(&mut self) -> Result<()> {
        while let Some(batch) = self.held.next_completed_batch() {
            let mut batch = compact(batch, 0, MAX_BUFFERS)?;
            if batch.num_rows() < SLICE_ROWS {
                let (schema, mut columns, rows) = batch.into_parts();
                columns.iter_mut().for_each(Array::shrink_to_fit);
                batch = of_columns(schema, columns, rows)?;
            }
            self.ready.push(batch);
        }
        Ok(())
    }
}

/// How many bytes of texts a batch may hold beside those that it uses, such as the rest of a
/// dictionary. Every operator counts them for every batch, though they are shared.
pub(in crate::sql) fn most_held(context: &TaskContext) -> usize {
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => bytes / HELD_SHARE,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// The same rows in batches whose texts are not very long in all, copied as they are asked for.
pub(in crate::sql) fn in_parts(batch: RecordBatch) -> impl Iterator<Item = Result<RecordBatch>> {
    let (rows, parts) = (batch.num_rows(), text_bytes(&batch) / (4 * LONG_TEXTS) + 1);
    let step = rows.div_ceil(parts).max(1);
    (0..rows.max(1)).step_by(step).map(move |start| match step < rows {
        true => compact(batch.slice(start, step.min(rows - start)), 0, usize::MAX),
        false => Ok(batch.clone()),
    })
}

/// The bytes of all texts that are not within their views, and of all lists.
fn text_bytes(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        other if may_be_wide(other) => column.to_data().get_slice_memory_size().unwrap_or(0),
        _ => 0,
    };
    batch.columns().iter().map(of).sum()
}

/// The same rows in buffers of which texts use at least half, or which are small, at most `most`
/// for a column.
pub(in crate::sql) fn compact(
    batch: RecordBatch,
    small: usize,
    most: usize,
) -> Result<RecordBatch> {
    let (schema, mut columns, rows) = batch.into_parts();
    for column in &mut columns {
        let copied = match column.data_type() {
            DataType::Utf8View => copied(column.as_string_view(), small, most),
            DataType::BinaryView => copied(column.as_binary_view(), small, most),
            _ => None,
        };
        if let Some(copied) = copied {
            *column = copied;
        }
    }
    of_columns(schema, columns, rows)
}

fn of_columns(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(too_large)
}

/// The texts in buffers of their own, if those that they have are too large or too many.
fn copied<T: ByteViewType>(
    texts: &GenericByteViewArray<T>,
    small: usize,
    most: usize,
) -> Option<ArrayRef> {
    let held: usize = texts.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    let wasteful = held > small && held > 2 * texts.total_buffer_bytes_used();
    (wasteful || texts.data_buffers().len() > most).then(|| Arc::new(texts.gc()) as ArrayRef)
}

/// The error of a batch whose texts do not fit together.
fn too_large(error: ArrowError) -> Error {
    Error::LimitExceeded(format!("rows do not fit one batch: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn few_rows_come_out_together_in_order_and_in_little_memory() {
        let sizes = [1, 0, 5, MAX_COPIED + 1, 7, SLICE_ROWS - 8, 1, 3];
        let batch = |values: std::ops::Range<i64>| {
            let values: ArrayRef = Arc::new(values.collect::<Int64Array>());
            RecordBatch::try_from_iter([("x", values)]).unwrap()
        };
        let (mut coalescer, mut next) = (Coalescer::new(&batch(0..0).schema(), usize::MAX), 0);
        let (mut all, mut out) = (Vec::new(), Vec::new());
        for rows in sizes {
            out.extend(coalescer.push(batch(next..next + rows as i64)).unwrap());
            next += rows as i64;
        }
        let last = coalescer.finish().unwrap();
        assert!(last[0].get_array_memory_size() < 1024);
        out.extend(last);
        for batch in &out {
            all.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
        let sizes: Vec<usize> = out.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(sizes, [6, MAX_COPIED + 1, 7, SLICE_ROWS - 8, 4]);
        assert_eq!(all, (0..next).collect::<Vec<_>>());
        assert!(coalescer.finish().unwrap().is_empty());
    }

    #[test]
    fn long_texts_are_not_held_and_come_out_in_parts() {
        let texts: ArrayRef = Arc::new(
            (0..3000).map(|row| Some("x".repeat(8000 + row % 2))).collect::<StringViewArray>(),
        );
        let batch = RecordBatch::try_from_iter([("x", texts)]).unwrap();
        let mut coalescer = Coalescer::new(&batch.schema(), usize::MAX);
        let passed = coalescer.push(batch.clone()).unwrap();
        assert_eq!(passed.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [3000]);
        let parts: Vec<_> = in_parts(batch.clone()).map(Result::unwrap).collect();
        assert_eq!(arrow_select::concat::concat_batches(&batch.schema(), &parts).unwrap(), batch);
        assert_eq!(parts.len(), 3);
        for part in parts {
            assert!(part.get_array_memory_size() < 20 << 20);
        }
    }

    /// Of all batches, some have texts that use their buffers and some have few of many.
    #[test]
    fn texts_take_the_memory_that_they_need() {
        let texts = |rows: usize| -> StringViewArray {
            (0..rows).map(|at| Some(format!("a text of row {at} that is not short"))).collect()
        };
        let (dense, all) = (texts(50), texts(100_000));
        let mut coalescer = {
            let one: ArrayRef = Arc::new(dense.clone());
            Coalescer::new(&RecordBatch::try_from_iter([("x", one)]).unwrap().schema(), usize::MAX)
        };
        let (mut out, mut rows) = (Vec::new(), 0);
        for at in 0..1000 {
            let sparse: ArrayRef = Arc::new(all.slice(at * 60, 10));
            for column in [Arc::new(dense.clone()) as ArrayRef, sparse] {
                rows += column.len();
                let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
                out.extend(coalescer.push(batch).unwrap());
            }
        }
        out.extend(coalescer.finish().unwrap());
        assert_eq!(out.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        let memory: usize = out.iter().map(RecordBatch::get_array_memory_size).sum();
        assert!(memory < rows * 100, "{memory} bytes for {rows} rows");
        let first = out[0].column(0).as_string_view();
        assert_eq!(first.value(0), "a text of row 0 that is not short");
        assert_eq!(first.value(110), "a text of row 60 that is not short");
    }
}
