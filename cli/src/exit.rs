//! The exit codes of `sty`: stable, documented in `--help`, and decided in this one place.

use std::process::ExitCode;

/// How a run of `sty` ended, as the shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything was done, or the reader of stdout closed the pipe early.
    Done = 0,
    /// The query is wrong, or something failed while it ran.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Stored data is corrupt.
    Corrupt = 3,
    /// More input rows were rejected than allowed.
    Rejected = 4,
    /// A memory, time or size limit was reached.
    Limit = 5,
    /// There is no such store, table, partition or file, or no such column outside of SQL.
    NotFound = 6,
    /// A commit is in force, but the disk did not confirm that it survives a loss of power, or what
    /// was to be printed about it, or its rejected rows, could not be written.
    Unconfirmed = 7,
    /// Ctrl-C, or a request to terminate.
    Interrupted = 130,
}

impl Exit {
    /// Whether the run did what it was asked to do.
    pub(crate) fn is_success(self) -> bool {
        self == Exit::Done
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// The table of codes at the foot of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done (also when the reader of stdout closed the pipe early)
    1  the query is wrong, or something failed while running
    2  the command line is wrong
    3  stored data is corrupt
    4  more input rows were rejected than allowed
    5  a memory, time or size limit was reached
    6  no such store, table, partition or file; outside of SQL, no such column
    7  stored, but the disk failed to confirm that it survives a loss of power,
       or stdout or the rejected rows could not be written; do not repeat it
  130  interrupted (Ctrl-C)";
