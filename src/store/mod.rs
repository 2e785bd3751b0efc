//! A store: a directory of tables, each with immutable generations and one writer at a time.
//!
//! An ingest opens a [`TableWriter`], writes data files through it and commits; a query opens a
//! [`Snapshot`], which stays the same generation as long as it lives, whatever writers do. Opening
//! reads `CURRENT` and one root; chunks and data files are touched only on demand.

mod distinct;
pub(crate) mod known_rows;
pub(crate) mod outside;
mod ranges;
pub(crate) mod snapshot;
#[expect(clippy::module_inception, reason = "the folder's own noun")]
pub(crate) mod store;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod views;
pub(crate) mod writer;

pub(crate) use crate::manifest::LoadedSource;
pub use crate::manifest::commit::Edit;
pub use crate::manifest::{ColumnStats, SegmentEntry, TableOptions};
use known_rows::KnownRows;
pub use snapshot::Snapshot;
pub use store::{Store, check_name};
pub use table::{Freed, Table};
#[cfg(feature = "sql")]
pub(crate) use views::exists;
pub(crate) use views::no_table;
pub use writer::{
    Changes, Commit, DataFile, DataFiles, NewSegment, TableWriter, commits_ended, forbid_commits,
    remove_uncommitted,
};

use crate::budget::Budget;
use crate::disk::{Lru, MappingCache, memory};
use crate::manifest::SegmentKey;
use crate::segment::Segment;

/// The caches that the tables of an open store share. An open segment keeps its file mapped, so
/// both caches count against the mappings of the process.
#[derive(Debug)]
struct Caches {
    mappings: MappingCache,
    segments: Lru<SegmentKey, Segment>,
    known_rows: KnownRows,
    /// What is decoded of segments, and their entries in manifests, is charged to it.
    budget: Budget,
}

/// The memory limit if nobody sets one.
fn default_memory() -> usize {
    usize::try_from(memory::default_limit()).unwrap_or(usize::MAX)
}

impl Default for Caches {
    fn default() -> Self {
        Caches {
            mappings: MappingCache::default(),
            segments: Lru::new(MappingCache::DEFAULT_LIMIT),
            known_rows: KnownRows::default(),
            budget: Budget::new(default_memory()),
        }
    }
}
