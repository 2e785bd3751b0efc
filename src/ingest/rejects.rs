//! Rows that cannot be stored: what they are, how many there may be, and the file that keeps them.
//!
//! A parser that leaves rows out hands them on beside its batches ([`Rejects`]); the coordinator of
//! the pipeline takes both in the order of the input, so that counts, messages and file do not
//! depend on threads. The [`RowAccounting`] is its book: for every input, rows read = rows stored + rows
//! rejected.
//!
//! The rejects file is CSV: `file,line,column,reason,raw`. It is written under a temporary name,
//! made durable before each commit and gets its name right after the first, so that an ingest that
//! fails or rejects nothing leaves none. The temporary name is that of the load, so that what was
//! killed between commit and name is found again. What follows the rows of the last commit is left
//! by an ingest that was killed: the one that goes on with it takes over the rows that the ledger
//! counts, and no more.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::manifest::Id;

/// A row that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The input that it is from.
    pub file: Arc<Path>,
    /// Physical line where it starts, from 1; the number of the row in formats without lines.
    pub line: u64,
    /// The column whose value is at fault; empty if the row as a whole is.
    pub column: Arc<str>,
    /// Why, in words.
    pub reason: String,
    /// The row as it stands in the input, without its line end; bytes that are not UTF-8 are
    /// replaced.
    pub raw: String,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {}", self.file.display(), self.line)?;
        if !self.column.is_empty() {
            write!(f, ", column '{}'", self.column)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The rows that a parser left out of its batches, in the order of the input. Only who writes them
/// down needs them in full, so they are made one by one.
pub struct Rejects {
    total: u64,
    rows: Box<dyn Iterator<Item = Reject> + Send>,
}

impl Rejects {
    /// So many rows, which `rows` yields.
    pub fn new(total: usize, rows: impl Iterator<Item = Reject> + Send + 'static) -> Self {
        Rejects { total: total as u64, rows: Box::new(rows) }
    }

    /// How many.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Default for Rejects {
    /// None.
    fn default() -> Self {
        Rejects::new(0, std::iter::empty())
    }
}

impl From<Vec<Reject>> for Rejects {
    fn from(rows: Vec<Reject>) -> Self {
        Rejects::new(rows.len(), rows.into_iter())
    }
}

impl Iterator for Rejects {
    type Item = Reject;

    fn next(&mut self) -> Option<Reject> {
        self.rows.next()
    }
}

impl fmt::Debug for Rejects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejects").field("total", &self.total).finish_non_exhaustive()
    }
}

/// What the ledger says of the rows that a load has rejected already.
#[derive(Debug, Default)]
pub(super) struct PriorRejects {
    /// Names the load, also one that only begins.
    pub(super) load: Id,
    /// Rejected rows, by the path of their input.
    pub(super) rejected: Vec<(Arc<str>, u64)>,
}

impl PriorRejects {
    /// Of all inputs.
    pub(super) fn total(&self) -> u64 {
        self.rejected.iter().map(|(_, rows)| rows).sum()
    }
}

/// What becomes of a row that cannot be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It ends the ingest, and nothing is committed.
    #[default]
    Fail,
    /// It is left out and counted.
    Skip,
    /// It is left out, counted and written to a file.
    Reject {
        /// The file.
        file: PathBuf,
        /// Whether it may replace one that is there.
        replace: bool,
    },
}
