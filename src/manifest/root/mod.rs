//! The root of a generation: schema, options, and the list of chunks.
//!
//! ```text
//! envelope · generation u64 · sections u32 · { kind u32 · length u32 · payload }… ·
//! crc32 of all before
//!   1 table    table uuid 16 · block rows u32 · segment rows u32 · profile u8 · rows u64
//!   2 schema   next column id u32 · columns u32 · { id u32 · name · type }…
//!   3 chunks   chunks u32 · { uuid 16 · length u64 · crc u32 · segments u32 · rows u64 ·
//!              first partition · last partition }…
//!   4 required columns u32 · { id u32 }…, in the order of the schema: they have no nulls;
//!              omitted if none
//!   5 arrangement  see `arrangement.rs`; omitted if there is none
//!   6 history  committed u64: milliseconds since 1970 ·
//!              keep u64: milliseconds for which older generations are kept
//!   7 ledger   see `ledger.rs`; omitted if nothing was loaded
//!   8 write volume  loaded u64: bytes of segments as loads wrote them ·
//!              written u64: bytes of all files ever written
//! ```
//!
//! Sections of unknown kinds are skipped; a section that must not be skipped sets a must-understand
//! feature.
//!
//! This file has the types; `encode.rs` writes the stored form, `parse.rs` reads it.

mod encode;
mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::Id;
use super::ledger::Ledger;
use crate::encoding::Profile;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Arrangement, Schema};

const MAGIC: &[u8; 8] = b"STYROOT\0";
/// May-read feature: there is an arrangement.
const ARRANGED: u64 = 1;
/// The longest root that is read: enough for 2²⁰ chunks.
pub(super) const MAX_BYTES: u64 = 256 << 20;
const TABLE: u32 = 1;
const SCHEMA: u32 = 2;
const CHUNKS: u32 = 3;
const REQUIRED: u32 = 4;
const ARRANGEMENT: u32 = 5;
const HISTORY: u32 = 6;
const LEDGER: u32 = 7;
const WRITE_VOLUME: u32 = 8;
const SECTIONS: usize = 8;
/// Bytes of a chunk reference without partitions.
const CHUNK_REF_BYTES: usize = 48;

/// The options with which a table was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Rows of a block.
    pub block_rows: u32,
    /// The most rows of a segment.
    pub segment_rows: u32,
    /// The balance of size and speed.
    pub profile: Profile,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            block_rows: limits::BLOCK_ROWS as u32,
            segment_rows: limits::SEGMENT_ROWS as u32,
            profile: Profile::default(),
        }
    }
}

impl TableOptions {
    /// Refuses sizes outside the format's limits.
    pub(crate) fn check(&self) -> Result<()> {
        let (block, segment) = (self.block_rows as usize, self.segment_rows as usize);
        if block == 0 || !block.is_multiple_of(limits::VECTOR) || block > limits::MAX_BLOCK_ROWS {
            return Err(Error::InvalidInput(format!(
                "{block} rows per block: must be a multiple of {} up to {}",
                limits::VECTOR,
                limits::MAX_BLOCK_ROWS
            )));
        }
        if segment == 0 || segment > limits::SEGMENT_ROWS {
            return Err(Error::InvalidInput(format!(
                "{segment} rows per segment: must be 1 to {}",
                limits::SEGMENT_ROWS
            )));
        }
        Ok(())
    }
}

/// One generation of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    /// Number of the generation: starts at 1, and each commit adds 1.
    pub generation: u64,
    /// Identity of the table.
    pub table: Id,
    /// Columns of the table.
    pub schema: Schema,
    /// Options of the table.
    pub options: TableOptions,
    /// How new rows are partitioned and sorted.
    pub arrangement: Arrangement,
    /// When the generation was committed, and how long old generations are kept.
    pub history: History,
    /// The sources that were loaded.
    pub ledger: Ledger,
    /// Bytes written since the table was created.
    pub write_volume: WriteVolume,
    /// Rows of all segments.
    pub rows: u64,
    /// The chunks, in the order of their rows.
    pub chunks: Vec<ChunkRef>,
    /// May-read features that this version does not know. If there are any, it must not write the
    /// table.
    pub unknown: u64,
}

/// The times in a root, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When this generation was committed, since 1970; 0 if unknown.
    pub committed: u64,
    /// How long a generation stays readable after the next one is in force.
    pub keep: u64,
}

/// Bytes written to a table's files since it was created, including this generation's; 0 if
/// unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteVolume {
    /// Bytes of segments as loads wrote them, before any was merged with others.
    pub loaded: u64,
    /// Bytes of all files: segments, merged, sorted and rewritten ones, temporary files and
    /// manifests. Loads and compactions that ended without a commit do not count.
    pub written: u64,
}

impl WriteVolume {
    /// The write amplification over the table's life: bytes written per byte loaded. `None` if
    /// nothing was loaded.
    pub fn amplification(&self) -> Option<f64> {
        (self.loaded > 0).then(|| self.written as f64 / self.loaded as f64)
    }
}

/// A root's reference to a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    /// Identifier, which names the file.
    pub id: Id,
    /// Length in bytes.
    pub length: u64,
    /// CRC32 of the whole file.
    pub crc: u32,
    /// Number of segments.
    pub segments: u32,
    /// Rows of all segments.
    pub rows: u64,
    /// The first partition path of the segments, in sorted order; empty without partitions.
    pub first_partition: Arc<str>,
    /// The last partition path.
    pub last_partition: Arc<str>,
}
