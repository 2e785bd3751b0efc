//! How a repair is asked for, and what it tells.

use std::path::PathBuf;
use std::sync::Arc;

use crate::maintain::verify::VerifyOptions;

/// How to repair.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Only finds out what to do, without the writer's lock.
    pub dry_run: bool,
    /// How segments are checked.
    pub verify: VerifyOptions,
}

/// Rows that a table loses in a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The number of the segment in the table's order. `None` if a chunk is lost, with all that it
    /// lists, or a root, with all that is in a data file which it may have named.
    pub segment: Option<u64>,
    /// The number of rows, as far as it is known.
    pub rows: Option<u64>,
    /// The partition; empty without partitions.
    pub partition: Arc<str>,
    /// The file, and the byte at which the segment starts.
    pub file: PathBuf,
    /// Offset of the segment in the file.
    pub offset: u64,
    /// Bounds of some columns, as far as the manifest knows them, such as `id 0 to 99`.
    pub bounds: String,
    /// What is damaged.
    pub why: String,
}

/// A segment that is written anew from its values, because something false is said of them. It
/// loses no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The number of the segment in the table's order.
    pub segment: u64,
    /// The number of its rows.
    pub rows: u64,
    /// The partition; empty without partitions.
    pub partition: Arc<str>,
    /// The file with the false statements, which older generations may need.
    pub file: PathBuf,
    /// Offset of the segment in the file.
    pub offset: u64,
    /// What is false, with the columns.
    pub why: Vec<String>,
}

/// What a repair did, or would do.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// The generation that `CURRENT` names; `None` if it is lost or damaged.
    pub current: Option<u64>,
    /// The generation on which the table goes on.
    pub base: u64,
    /// Whether there is something to commit. What is false and follows from no values is only
    /// noted.
    pub needed: bool,
    /// The new generation, if one was committed.
    pub generation: Option<u64>,
    /// Rows of the table from now on.
    pub rows: u64,
    /// Rows that are lost, by segment.
    pub lost: Vec<Lost>,
    /// Segments that were written anew, or would be, without the loss of a row.
    pub rewritten: Vec<Rewritten>,
    /// Files that were moved, or would be, with their new places.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// What else was done or found.
    pub notes: Vec<String>,
}

impl RepairReport {
    /// Whether there is nothing to repair.
    pub fn is_sound(&self) -> bool {
        !self.needed && self.notes.is_empty()
    }
}
