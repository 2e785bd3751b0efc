//! Reads a whole generation block by block, as queries see it; used by exports.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};

use crate::block::null_array;
use crate::error::{ArrowResult, Result};
use crate::store::{SegmentEntry, Snapshot};

/// The location of a block in a table.
#[derive(Clone, Debug)]
pub struct BlockPlace {
    /// Number of the segment, in table order.
    pub segment: usize,
    entry: SegmentEntry,
    block: usize,
}

/// All blocks of a generation, in row order.
pub fn blocks(snapshot: &Snapshot) -> Result<Vec<BlockPlace>> {
    let mut all = Vec::new();
    let entries = snapshot.segments()?;
    let entries: Vec<&SegmentEntry> = entries.iter().collect();
    for (number, segment) in snapshot.open_segments(&entries).enumerate() {
        let Some(entry) = entries.get(number) else { break };
        let place = |block| BlockPlace { segment: number, entry: (*entry).clone(), block };
        all.extend((0..segment?.blocks()).map(place));
    }
    Ok(all)
}

/// Reads a block with all columns, in the types of the table.
pub fn read_block(snapshot: &Snapshot, place: &BlockPlace) -> Result<RecordBatch> {
    let segment = snapshot.open_segment(&place.entry)?;
    let range = segment.block_range(place.block);
    let rows = (range.end - range.start) as usize;
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(snapshot.schema().columns().len());
    for column in snapshot.schema().columns() {
        columns.push(match segment.column(column.id)? {
            Some(stored) => stored.block(place.block)?.decode_as(0..rows, &column.data_type)?,
            None => null_array(rows, &column.data_type),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(&snapshot.schema().to_arrow()), columns, &options)
        .or_invalid()
}
