//! What a fragment runs with: threads, memory, limits, and where it counts what it does.

use std::path::Path;

use super::stats::Recorder;
use crate::error::Result;

/// What a fragment runs with.
pub struct Context<'a> {
    /// The threads.
    pub pool: &'a rayon::ThreadPool,
    /// Asked once per block; the run ends with `Error::Cancelled` when it says so.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Reserves more bytes for groups, and for rows that may be among the first. If it refuses,
    /// they go to temporary files.
    pub reserve: &'a (dyn Fn(usize) -> Result<()> + Sync),
    /// Where the run counts what it does.
    pub recorder: &'a Recorder,
    /// Whether it takes times, too.
    pub timed: bool,
    /// Returns bytes to the pool.
    pub release: &'a (dyn Fn(usize) + Sync),
    /// Where temporary files are made.
    pub temp_dir: &'a Path,
    /// How large the parts of groupings become.
    pub limits: GroupLimits,
    /// Whether it goes by the rows that earlier runs have found to meet the same conditions, and
    /// keeps those that it finds.
    pub known_rows: bool,
    /// Whether groups come out as their states, which others merge, in place of their aggregates.
    pub states: bool,
}

/// How large the parts of groupings and answers become: for speed, not for what comes out.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Groups of a direct index.
    pub direct: u64,
    /// Groups of a thread's hash table, which should stay within its caches.
    pub in_table: usize,
    /// Groups of a thread's partitions before those of the same key are looked for.
    pub unmerged: usize,
    /// Groups of all threads that are merged by one.
    pub serial: usize,
    /// Bytes that each thread takes without a reservation.
    pub free: usize,
    /// Bytes of texts that are numbered as keys, and stay in memory.
    pub texts: usize,
    /// About how many bytes of the first rows of an order come out at once.
    pub answer: usize,
    /// Groups of a block that make aggregates wait for the first groups of an order, in a table of
    /// that many times 512 rows.
    pub late_groups: usize,
}

impl GroupLimits {
    /// Smaller where there are so few bytes for all groups together that the usual ones would not
    /// fit several times.
    pub fn within(bytes: usize) -> Self {
        let usual = GroupLimits::default();
        GroupLimits {
            direct: usual.direct,
            in_table: usual.in_table.min(bytes / 256).max(16),
            unmerged: usual.unmerged.min(bytes / 64).max(64),
            serial: usual.serial.min(bytes / 1024),
            free: usual.free.min(bytes / 16),
            texts: bytes / 4,
            answer: usual.answer.min(bytes / 16),
            late_groups: usual.late_groups.min(bytes / 4096).max(2),
        }
    }
}

impl Default for GroupLimits {
    fn default() -> Self {
        GroupLimits {
            direct: 1 << 23,
            in_table: 1 << 14,
            unmerged: 1 << 22,
            serial: 1 << 14,
            free: 1 << 20,
            texts: 1 << 32,
            answer: 1 << 28,
            late_groups: 1 << 11,
        }
    }
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("threads", &self.pool.current_num_threads())
            .finish_non_exhaustive()
    }
}
