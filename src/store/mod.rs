//! A store: a directory of tables, each with immutable generations and one writer at a time.
//!
//! Where this stands on the road: an ingest opens a [`TableWriter`], writes data files through it
//! and commits; a query opens a [`Snapshot`], which is one generation for as long as it lives,
//! whatever writers do meanwhile. Opening reads `CURRENT` and one root; chunks and data files are
//! touched only when they are asked for.

pub mod snapshot;
#[expect(clippy::module_inception, reason = "the folder's own noun")]
pub mod store;
pub mod table;
#[cfg(test)]
mod tests;
pub mod verify;
pub mod writer;

pub use crate::manifest::commit::Edit;
pub use crate::manifest::{ColumnStats, SegmentEntry, Source, TableOptions};
pub use snapshot::Snapshot;
pub use store::{Store, check_name};
pub use table::Table;
pub use verify::VerifyReport;
pub use writer::{Changes, Commit, DataFile, DataFiles, NewSegment, TableWriter};

use crate::disk::{Lru, MappingCache};
use crate::manifest::Id;
use crate::segment::Segment;

/// What the tables of an open store share. Both caches count against the mappings of the process,
/// for an open segment keeps its file mapped.
#[derive(Debug)]
struct Caches {
    mappings: MappingCache,
    /// By file, offset and identity.
    segments: Lru<(Id, u64, Id), Segment>,
}

impl Default for Caches {
    fn default() -> Self {
        Caches {
            mappings: MappingCache::default(),
            segments: Lru::new(MappingCache::DEFAULT_LIMIT),
        }
    }
}
