//! Stored segments as rows on their way in again: what merging, compaction and deletion write anew.
//!
//! Where this stands on the road of a byte: in the place of a source. Blocks are decoded by workers, in the types in which
//! they are stored, and go through the same pipeline as parsed text.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema};

use super::pipeline::Task;
use super::sort;
use crate::error::{Error, Result};
use crate::model::{Column, Schema};
use crate::segment::{Segment, SegmentInput};

/// Bytes that a decoded value takes, about: what a block weighs is not known before it is decoded.
const VALUE_BYTES: usize = 12;

/// Tasks that decode the blocks of a segment, in order, each to one batch. Columns that the schema no longer has are left out.
pub fn tasks(segment: Arc<Segment>, schema: &Schema) -> impl Iterator<Item = Result<Task>> + use<> {
    let known = |column: &&Column| segment.footer().columns.iter().any(|entry| entry.column == column.id);
    let columns: Arc<[Column]> = schema.columns().iter().filter(known).cloned().collect();
    (0..segment.blocks()).map(move |block| {
        let rows = block_rows(&segment, block);
        let (segment, columns) = (Arc::clone(&segment), Arc::clone(&columns));
        let weight = rows.saturating_mul(columns.len()).saturating_mul(VALUE_BYTES);
        Ok(Task::new(weight, move || Ok(decode(&segment, block, 0..rows, &columns)?.into())))
    })
}

/// Rows of a block of a segment as a batch with the table's names.
pub fn decode(segment: &Segment, block: usize, rows: Range<usize>, columns: &[Column]) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(stored) = segment.column(column.id)? else { continue };
        let array = stored.block(block)?.decode(rows.clone())?;
        fields.push(Field::new(&*column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .map_err(|error| Error::InvalidInput(error.to_string()))
}

/// The rows of a segment to be written as one batch with the table's names.
pub fn to_batch(input: SegmentInput, schema: &Schema) -> Result<RecordBatch> {
    let rows = input.rows;
    let mut fields = Vec::with_capacity(input.columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(input.columns.len());
    for column in input.columns {
        let Some(known) = schema.columns().iter().find(|known| known.id == column.id) else { continue };
        let array = sort::joined(&column)?;
        fields.push(Field::new(&*known.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .map_err(|error| Error::InvalidInput(error.to_string()))
}

fn block_rows(segment: &Segment, block: usize) -> usize {
    let range = segment.block_range(block);
    (range.end - range.start) as usize
}
