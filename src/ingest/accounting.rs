//! Accounts for every row of a load: for each input, rows read = rows stored + rows rejected + rows
//! left out by a selection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rejects::{OnError, PriorRejects, Reject, Rejects};
use super::rejects_file::RejectsFile;
use crate::error::{Error, Result};

/// How many rejected rows a report or an error quotes.
pub(crate) const SHOWN_REJECTS: usize = 3;

/// Rows of one input so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCounts {
    /// In the table once the load commits.
    pub stored: u64,
    /// Rejected.
    pub rejected: u64,
    /// Not selected.
    pub left_out: u64,
    /// Empty lines, which are no rows.
    pub blank: u64,
}

impl RowCounts {
    /// All rows.
    pub(crate) fn read(&self) -> u64 {
        self.stored + self.rejected + self.left_out
    }
}

/// What became of every row. The default allows any number of rejected rows and writes them
/// nowhere.
#[derive(Debug, Default)]
pub(crate) struct RowAccounting {
    allowed: Option<u64>,
    /// Rows that the committed part of this load rejected.
    before: u64,
    file: Option<RejectsFile>,
    inputs: Vec<RowCounts>,
    first: Vec<Reject>,
    /// All rows that were read, for whoever looks on.
    read: Arc<AtomicU64>,
    /// Whether this run has committed anything.
    committed: bool,
}

impl RowAccounting {
    /// Starts from zero, or after the rows in `before`. Opens the rejects file, so that a file that
    /// cannot be written is an error before the work rather than after it.
    pub(super) fn open(
        on_error: &OnError,
        max_errors: Option<u64>,
        before: &PriorRejects,
    ) -> Result<Self> {
        let (allowed, file) = match on_error {
            OnError::Fail => (Some(0), None),
            OnError::Skip => (max_errors, None),
            OnError::Reject { file, replace } => {
                (max_errors, Some(RejectsFile::create(file, *replace, before)?))
            }
        };
        Ok(RowAccounting { allowed, before: before.total(), file, ..RowAccounting::default() })
    }

    /// Counts all rows here, too.
    pub(super) fn count_in(&mut self, read: Arc<AtomicU64>) {
        self.read = read;
    }

    /// Counts rows of an input (by its number) that are stored.
    pub(crate) fn store(&mut self, input: usize, rows: u64) {
        self.read.fetch_add(rows, Ordering::Relaxed);
        self.counts_mut(input).stored += rows;
    }

    /// Counts rows of an input that were not selected.
    pub(crate) fn leave_out(&mut self, input: usize, rows: u64) {
        self.read.fetch_add(rows, Ordering::Relaxed);
        self.counts_mut(input).left_out += rows;
    }

    /// Counts empty lines of an input, which are left out.
    pub(crate) fn leave_out_blank(&mut self, input: usize, lines: u64) {
        self.counts_mut(input).blank += lines;
    }

    /// Counts rejected rows of an input and writes them to the rejects file.
    pub(crate) fn reject(&mut self, input: usize, rejects: Rejects) -> Result<()> {
        if rejects.total() == 0 {
            return Ok(());
        }
        self.read.fetch_add(rejects.total(), Ordering::Relaxed);
        self.counts_mut(input).rejected += rejects.total();
        let rejected = self.before + self.total().rejected;
        let excess = self.allowed.filter(|allowed| rejected > *allowed);
        // Rejects are made lazily: without a file, only those that are quoted.
        let wanted = if self.file.is_some() && excess.is_none() {
            usize::MAX
        } else {
            SHOWN_REJECTS - self.first.len()
        };
        for reject in rejects.take(wanted) {
            if let Some(file) = &mut self.file {
                file.write(&reject)?;
            }
            if self.first.len() < SHOWN_REJECTS {
                self.first.push(reject);
            }
        }
        match excess {
            Some(allowed) => {
                Err(Error::Rejected { rejected, allowed, details: self.rejection_details() })
            }
            None => Ok(()),
        }
    }

    /// Rows of one input.
    pub(crate) fn counts(&self, input: usize) -> RowCounts {
        self.inputs.get(input).copied().unwrap_or_default()
    }

    /// Rows of all inputs.
    pub(crate) fn total(&self) -> RowCounts {
        self.inputs.iter().fold(RowCounts::default(), |sum, counts| RowCounts {
            stored: sum.stored + counts.stored,
            rejected: sum.rejected + counts.rejected,
            left_out: sum.left_out + counts.left_out,
            blank: sum.blank + counts.blank,
        })
    }

    pub(crate) fn first(&self) -> &[Reject] {
        &self.first
    }

    /// Makes the rejects file durable: call this before a commit. A file that continues an existing
    /// one is published here: rows beyond the ledger's count mean nothing.
    pub(crate) fn seal(&mut self) -> Result<()> {
        let continues = self.before > 0;
        self.file.as_mut().map_or(Ok(()), |file| {
            file.seal()?;
            if continues && !file.stream { file.publish() } else { Ok(()) }
        })
    }

    /// Publishes the file if there are rejected rows: call this after a commit.
    pub(crate) fn publish(&mut self) -> Result<()> {
        self.committed = true;
        let any = self.total().rejected > 0;
        self.file.as_mut().filter(|_| any).map_or(Ok(()), RejectsFile::publish)
    }

    /// Call this after the last commit: an unpublished file is removed.
    pub(crate) fn finish(&mut self) {
        self.file = None;
    }

    fn counts_mut(&mut self, input: usize) -> &mut RowCounts {
        if self.inputs.len() <= input {
            self.inputs.resize(input + 1, RowCounts::default());
        }
        &mut self.inputs[input]
    }

    fn rejection_details(&self) -> String {
        let stored = match self.committed || self.before > 0 {
            true => "what was committed before stays, and nothing more was stored",
            false => "nothing was stored",
        };
        let shown: Vec<String> = self.first.iter().map(Reject::to_string).collect();
        let label = if shown.len() > 1 { "the first of them are" } else { "the first of them is" };
        format!("{stored}; {label} {}", shown.join("; "))
    }
}

#[cfg(test)]
#[path = "accounting_tests.rs"]
mod tests;
