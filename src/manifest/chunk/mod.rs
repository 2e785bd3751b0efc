//! A chunk: up to 4,096 segments and their statistics, column by column.
//!
//! ```text
//! header     envelope · chunk uuid 16 · segments u32 · sections u32
//!            directory { kind u32 · column u32 · offset u64 · length u64 · crc u32 · zero u32 }… ·
//!            crc32 of all before
//! section 1  segments: { file 16 · uuid 16 · offset u64 · length u64 · rows u64 · footer crc u32 ·
//!            partition u32 · flags u32 · zero u32 }…
//! section 2  partitions: count u32 · { length u32 · path }…
//! section 3  one for each column, see `columns.rs`
//! ```
//!
//! Sections start at multiples of 8. Their checksums also cover chunk uuid, kind and column, so
//! that a misplaced section is detected. A reader of one column verifies and parses only the
//! header, the segments and that column's section, so tables of 2,000 columns open fast.
//!
//! `builder.rs` writes chunks, `reader.rs` reads them.

mod builder;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use builder::ChunkBuilder;
pub use reader::Chunk;

use super::Id;
use crate::model::ColumnId;

const MAGIC: &[u8; 8] = b"STYCHNK\0";
const SEGMENTS: u32 = 1;
const PARTITIONS: u32 = 2;
const COLUMN: u32 = 3;
const SECTION_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 72;
/// Offset of the number of rows in a segment's entry.
const ROWS_AT: usize = 48;
/// Flag of a segment with a deletion vector: defined, but refused by this version.
const DELETIONS: u32 = 1;

/// One segment of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Identifier of the file.
    pub file: Id,
    /// The partition whose directory holds the file; empty without partitions.
    pub partition: Arc<str>,
    /// Offset of the segment in the file.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Identity of the contents.
    pub uuid: Id,
    /// CRC32 of the footer.
    pub footer_crc: u32,
    /// Rows of the segment.
    pub rows: u64,
}

/// What tells a segment from all others: its file, its offset there, and the identity of its
/// contents.
pub(crate) type SegmentKey = (Id, u64, Id);

impl SegmentEntry {
    /// What tells it from all others.
    pub(crate) fn key(&self) -> SegmentKey {
        (self.file, self.offset, self.uuid)
    }
}

fn section_crc(payload: &[u8], id: &Id, kind: u32, column: ColumnId) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(payload);
    hasher.update(id);
    hasher.update(&kind.to_le_bytes());
    hasher.update(&column.0.to_le_bytes());
    hasher.finalize()
}
