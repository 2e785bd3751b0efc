//! Rows that cannot be stored, and what to do with them.
//!
//! A parser returns rejected rows beside its batches ([`Rejects`]). The coordinator of the pipeline
//! takes both in input order, so that counts, messages and the rejects file do not depend on
//! threads (see `accounting`).
//!
//! The file is durable before the commit and gets its name after it. Counts of rows read, stored
//! and rejected are kept by the coordinator, in the order of the input.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::manifest::Id;

/// A row that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The input that it comes from.
    pub file: Arc<Path>,
    /// Physical line of its start, from 1; the row number in formats without lines.
    pub line: u64,
    /// The column with the bad value; empty if the row as a whole is bad.
    pub column: Arc<str>,
    /// Reason, for people.
    pub reason: String,
    /// The bytes of the row, without its line end: UTF-8 if the input's encoding is known, and else
    /// as they are.
    pub raw: Vec<u8>,
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

/// The rows that a parser left out of its batches, in input order. They are built one by one,
/// because only the rejects file needs all of them.
pub struct Rejects {
    total: u64,
    rows: Box<dyn Iterator<Item = Reject> + Send>,
}

impl Rejects {
    /// `total` rows, which `rows` yields.
    pub fn new(total: usize, rows: impl Iterator<Item = Reject> + Send + 'static) -> Self {
        Rejects { total: total as u64, rows: Box::new(rows) }
    }

    /// Number of rows.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Default for Rejects {
    /// No rows.
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

/// What the ledger says about rows that a load has already rejected.
#[derive(Debug, Default)]
pub(super) struct PriorRejects {
    /// Id of the load, also of one that only begins.
    pub(super) load: Id,
    /// Rejected rows, by the path of their input.
    pub(super) rejected: Vec<(Arc<str>, u64)>,
}

impl PriorRejects {
    /// Rows of all inputs.
    pub(super) fn total(&self) -> u64 {
        self.rejected.iter().map(|(_, rows)| rows).sum()
    }
}

/// What to do with a row that cannot be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Fail the load; nothing is committed.
    #[default]
    Fail,
    /// Leave it out and count it.
    Skip,
    /// Leave it out, count it and write it to a file.
    Reject {
        /// The file.
        file: PathBuf,
        /// Whether to replace an existing file.
        replace: bool,
    },
}
