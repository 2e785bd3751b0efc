//! Reads a whole generation block by block, as queries see it; used by exports.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};

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
    let arrays = (0..columns.len()).map(|at| block.decode(at, 0..block.rows));
    let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(block.rows));
    RecordBatch::try_new_with_options(Arc::clone(&snapshot.schema().to_arrow()), arrays, &options)
        .or_invalid()
}
