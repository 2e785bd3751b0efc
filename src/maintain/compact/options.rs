//! What a compaction is asked to do, and what it has done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::encoding::Profile;
use crate::ingest::arrange::SortBy;
use crate::maintain::partitions::{Partition, is_within};
use crate::manifest::WriteVolume;

/// Options of a compaction.
#[derive(Clone, Debug, Default)]
pub struct CompactOptions {
    /// Only this partition and those nested in it.
    pub partition: Option<String>,
    /// New sort order of the table; empty keeps the present one.
    pub sort_by: Vec<SortBy>,
    /// Rewrite all segments under this profile.
    pub profile: Option<Profile>,
    /// Rewrite all segments.
    pub all: bool,
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to stop; finished commits stay.
    pub cancelled: Arc<AtomicBool>,
    /// Progress: bytes of the chosen partitions' segments that are done.
    pub done: Arc<AtomicU64>,
}

impl CompactOptions {
    /// Whether a partition is to be compacted.
    #[doc(hidden)]
    pub fn covers(&self, partition: &str) -> bool {
        self.partition.as_deref().is_none_or(|wanted| is_within(partition, wanted))
    }
}

/// What a compaction would rewrite of a partition: segments, rows and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactForecast {
    /// What would be rewritten.
    pub partition: Partition,
    /// Whether the figures are exact. Otherwise they are the most that it can be: segments of an
    /// unsorted table may be as large as their bytes allow, which only rewriting them tells.
    pub is_exact: bool,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Changed partitions; a table without partitions counts as one.
    pub partitions: u64,
    /// Segments before, in all chosen partitions.
    pub segments_before: u64,
    /// Segments after.
    pub segments_after: u64,
    /// Rows rewritten.
    pub rows: u64,
    /// Bytes of segments read.
    pub bytes_read: u64,
    /// Bytes written: new segments, temporary ones, manifest files.
    pub bytes_written: u64,
    /// Bytes loaded and written over the life of the table.
    pub write_volume: WriteVolume,
}
