//! Arbitrary bytes as a segment: opens it and reads every column's record, dictionary and blocks.

use std::sync::Arc;

use stylobate::internal::disk::Mapped;
use stylobate::internal::segment::{Column, Segment};

/// The most rows decoded at each end of a block: a few bytes may encode a million rows.
const ROWS: usize = 2048;

/// The target.
pub fn run(bytes: &[u8]) {
    let Ok(segment) =
        Segment::open(Arc::new(Mapped::from_bytes(bytes)), "fuzz.sty", 0, bytes.len() as u64)
    else {
        return;
    };
    for entry in segment.footer().columns.iter().take(32) {
        let Ok(Some(column)) = segment.column(entry.column) else { continue };
        let _ = column.dictionary();
        for b in 0..column.blocks().min(4) {
            let range = segment.block_range(b);
            read(&column, b, (range.end - range.start) as usize);
        }
    }
    if segment.rows() <= ROWS as u64 {
        let _ = segment.verify();
    }
}

fn read(column: &Column, b: usize, rows: usize) {
    let Ok(block) = column.block(b) else { return };
    let _ = block.reader().describe();
    let last = rows.saturating_sub(1) / 1024 * 1024;
    for range in [0..rows.min(ROWS), last..rows] {
        if let Ok(array) = block.decode(range.clone()) {
            assert_eq!(array.len(), range.len());
        }
    }
    for row in [0, rows / 2, rows.saturating_sub(1)] {
        if let Ok(array) = block.gather(&[row as u32], column.data_type()) {
            assert_eq!(array.len(), 1);
        }
    }
}
