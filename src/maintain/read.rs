//! Reads a whole generation block by block, as queries see it; used by exports.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};

use crate::block::CHARGED_BUFFER;
use crate::error::{ArrowResult, Result};
use crate::query::open::{BlockRef, OpenBlock, OpenSegment};
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
    let columns = snapshot.schema().columns();
    let segment = snapshot.open_segment(&place.entry)?;
    let segment = OpenSegment::open(segment, place.segment, columns)?;
    let block = OpenBlock::new(&segment, columns, BlockRef { segment: 0, block: place.block });
    // The batch is counted while it is made; large texts are for as long as it lives.
    let mut charge = snapshot.budget().charge(0)?;
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for at in 0..columns.len() {
        let array = block.decode(at, 0..block.rows)?;
        let bytes = array.get_buffer_memory_size();
        charge.grow(if block.is_view(at, &array) { 0 } else { bytes.min(CHARGED_BUFFER) })?;
        arrays.push(array);
    }
    segment.segment.check_length()?;
    let options = RecordBatchOptions::new().with_row_count(Some(block.rows));
    RecordBatch::try_new_with_options(Arc::clone(&snapshot.schema().to_arrow()), arrays, &options)
        .or_invalid()
}
