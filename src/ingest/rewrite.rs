//! Stored segments as input: rows that merging, compaction and deletion write again.
//!
//! Takes the place of a source on the road of a byte: workers decode blocks, in the types in which
//! they are stored, and the batches go through the same pipeline as parsed text.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema};

use super::columns::value_bytes;
use super::sort;
use super::task::{Parsed, Task};
use crate::error::{ArrowResult, Result};
use crate::limits::VECTOR;
use crate::model::{Column, Schema};
use crate::segment::{self, Segment, SegmentInput};

/// Approximate bytes of a batch where memory allows: a block of most tables.
const BATCH_BYTES: usize = 48 << 20;

/// Decodes rows of a block of a segment.
type DecodeRows = fn(&Segment, usize, Range<usize>, &[Column]) -> Result<RecordBatch>;

/// Tasks that decode the blocks of a segment, in order, each into a batch of at most a quarter of
/// `max_bytes` bytes. Columns that the schema no longer has are left out.
pub(crate) fn decode_tasks(
    segment: Arc<Segment>,
    schema: &Schema,
    max_bytes: usize,
) -> Result<impl Iterator<Item = Result<Task>> + use<>> {
    tasks_of(segment, schema, max_bytes, decode_coded)
}

/// [`decode_tasks`], but nothing is taken over that a segment says of its values: codes do not stay
/// codes, as their dictionary may be out of order.
pub(crate) fn decode_value_tasks(
    segment: Arc<Segment>,
    schema: &Schema,
    max_bytes: usize,
) -> Result<impl Iterator<Item = Result<Task>> + use<>> {
    tasks_of(segment, schema, max_bytes, decode)
}

fn tasks_of(
    segment: Arc<Segment>,
    schema: &Schema,
    max_bytes: usize,
    decode: DecodeRows,
) -> Result<impl Iterator<Item = Result<Task>> + use<>> {
    let columns: Arc<[Column]> = stored_columns(&segment, schema).into();
    let row_bytes = row_bytes(&segment, &columns)?;
    let step = (BATCH_BYTES.min(max_bytes / 4) / row_bytes / VECTOR).max(1) * VECTOR;
    Ok((0..segment.blocks()).flat_map(move |block| {
        let rows = block_rows(&segment, block);
        let (segment, columns) = (Arc::clone(&segment), Arc::clone(&columns));
        (0..rows).step_by(step).map(move |start| {
            let (segment, columns, part) =
                (Arc::clone(&segment), Arc::clone(&columns), start..rows.min(start + step));
            let weight = part.len().saturating_mul(row_bytes);
            Ok(Task::new(weight, move || {
                decode(&segment, block, part, &columns).map(Parsed::from_stored)
            }))
        })
    }))
}

/// The tasks of several segments, one after the other.
pub(crate) fn all_tasks(
    segments: Vec<Arc<Segment>>,
    schema: &Schema,
    max_bytes: usize,
) -> Result<impl Iterator<Item = Result<Task>> + use<>> {
    let each = segments.into_iter().map(|segment| decode_tasks(segment, schema, max_bytes));
    Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten())
}

/// The columns of the table that a segment has.
pub(crate) fn stored_columns(segment: &Segment, schema: &Schema) -> Vec<Column> {
    let ids = &segment.footer().columns;
    let known =
        |column: &&Column| ids.binary_search_by_key(&column.id, |entry| entry.column).is_ok();
    schema.columns().iter().filter(known).cloned().collect()
}

/// Approximate average bytes of a decoded row. The length of texts is not known before decoding: it
/// is measured on the first vector of three blocks.
pub(crate) fn row_bytes(segment: &Segment, columns: &[Column]) -> Result<usize> {
    let last = segment.blocks().saturating_sub(1);
    let mut sum = 0;
    for column in columns {
        let Some(stored) = segment.column(column.id)? else { continue };
        if let Some(width) = stored.data_type().to_arrow().primitive_width() {
            sum += width;
            continue;
        }
        let (mut bytes, mut rows) = (0, 0);
        let mut blocks = vec![0, last / 2, last];
        blocks.dedup();
        for block in blocks {
            let some = 0..block_rows(segment, block).min(VECTOR);
            rows += some.len();
            bytes += value_bytes(&stored.block(block)?.decode(some)?);
        }
        sum += bytes / rows.max(1);
    }
    Ok(sum.max(1))
}

/// Decodes rows of a block into a batch with the table's column names.
pub(crate) fn decode(
    segment: &Segment,
    block: usize,
    rows: Range<usize>,
    columns: &[Column],
) -> Result<RecordBatch> {
    to_batch(segment, columns, rows.len(), |stored| stored.block(block)?.decode(rows.clone()))
}

/// [`decode`], but dictionary codes stay codes, so that they need not be found again.
pub(crate) fn decode_coded(
    segment: &Segment,
    block: usize,
    rows: Range<usize>,
    columns: &[Column],
) -> Result<RecordBatch> {
    to_batch(segment, columns, rows.len(), |stored| stored.block(block)?.decode_coded(rows.clone()))
}

fn to_batch(
    segment: &Segment,
    columns: &[Column],
    rows: usize,
    decode: impl Fn(&segment::Column) -> Result<ArrayRef>,
) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(stored) = segment.column(column.id)? else { continue };
        let array = decode(&stored)?;
        fields.push(Field::new(&*column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .or_invalid()
}

/// The rows of a segment input as one batch with the table's column names.
pub(crate) fn input_batch(input: SegmentInput, schema: &Schema) -> Result<RecordBatch> {
    let rows = input.rows;
    let mut fields = Vec::with_capacity(input.columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(input.columns.len());
    for column in input.columns {
        let Some(known) = schema.columns().iter().find(|known| known.id == column.id) else {
            continue;
        };
        let array = sort::concatenated(&column)?;
        fields.push(Field::new(&*known.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .or_invalid()
}

pub(crate) fn block_rows(segment: &Segment, block: usize) -> usize {
    let range = segment.block_range(block);
    (range.end - range.start) as usize
}
