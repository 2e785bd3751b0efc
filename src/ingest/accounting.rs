//! What became of every row of a load.

use super::rejects::{OnError, PriorRejects, Reject, Rejects};
use super::rejects_file::RejectsFile;
use crate::error::{Error, Result};

/// Rejected rows that are told of one by one.
pub const SHOWN_REJECTS: usize = 3;

/// Rows of one input so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// In the table, once it is committed.
    pub stored: u64,
    /// Left out.
    pub rejected: u64,
}

/// The book of an ingest: what became of every row. An empty one allows any number of rejected
/// rows, and keeps none.
#[derive(Debug, Default)]
pub struct RowAccounting {
    allowed: Option<u64>,
    /// Rows that were rejected by the part of the load that is in the table.
    before: u64,
    file: Option<RejectsFile>,
    inputs: Vec<RowCounts>,
    first: Vec<Reject>,
    /// Whether there was a commit.
    committed: bool,
}

impl RowAccounting {
    /// An empty book, or one that goes on after rows that were rejected `before`. A rejects file
    /// that could not be written is an error now, and not after the work.
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

    /// Notes rows of an input (by its number) that go into the table.
    pub fn store(&mut self, input: usize, rows: u64) {
        self.counts_mut(input).stored += rows;
    }

    /// Notes rows of an input that do not, and writes them down.
    pub fn reject(&mut self, input: usize, rejects: Rejects) -> Result<()> {
        if rejects.total() == 0 {
            return Ok(());
        }
        self.counts_mut(input).rejected += rejects.total();
        let rejected = self.before + self.total().rejected;
        let excess = self.allowed.filter(|allowed| rejected > *allowed);
        // Where nobody keeps them, the rest need not be made.
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
    pub fn counts(&self, input: usize) -> RowCounts {
        self.inputs.get(input).copied().unwrap_or_default()
    }

    /// Rows of all inputs.
    pub fn total(&self) -> RowCounts {
        self.inputs.iter().fold(RowCounts::default(), |sum, counts| RowCounts {
            stored: sum.stored + counts.stored,
            rejected: sum.rejected + counts.rejected,
        })
    }

    /// The first rows that were rejected.
    pub fn first(&self) -> &[Reject] {
        &self.first
    }

    /// Makes what was written down durable: to be called before a commit. A file that continues one
    /// which is there has its name by then: what it holds beyond the ledger's count means nothing.
    pub fn seal(&mut self) -> Result<()> {
        let continues = self.before > 0;
        self.file.as_mut().map_or(Ok(()), |file| {
            file.seal()?;
            if continues && !file.stream { file.publish() } else { Ok(()) }
        })
    }

    /// Gives the file its name, if there are rejected rows: to be called after a commit.
    pub fn publish(&mut self) -> Result<()> {
        self.committed = true;
        let any = self.total().rejected > 0;
        self.file.as_mut().filter(|_| any).map_or(Ok(()), RejectsFile::publish)
    }

    /// After the last commit: what has no name by now is gone.
    pub fn finish(&mut self) {
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
