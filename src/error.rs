//! The errors of the library: a few kinds, so that a caller (and an exit code) can tell them apart.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use rustix::io::Errno;

/// A result of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Every message says what happened, where, and where it can, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file or directory concerned.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Stored bytes are not what was written.
    #[error("{file}: corrupt at byte {offset}: {what}", file = .file.display())]
    Corrupt {
        /// The damaged file (empty until the layer that knows the file fills it in).
        file: PathBuf,
        /// Offset in the file, in bytes.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// Well-formed, but written by a newer version or using a feature that this reader lacks.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The caller's data or request is wrong.
    #[error("{0}")]
    InvalidInput(String),
    /// Another process writes to the table.
    #[error("{0}")]
    Busy(String),
    /// There is no such table, column or file.
    #[error("{0}")]
    NotFound(String),
    /// Another machine of a cluster does not answer, or no longer does.
    #[error("{0}")]
    Unreachable(String),
    /// A limit (memory, time, size of a structure) was reached.
    #[error("limit exceeded: {0}")]
    LimitExceeded(String),
    /// The input has more rows that cannot be stored than the caller allows.
    #[error("{rejected} rows rejected, but at most {allowed} are allowed; {details}")]
    Rejected {
        /// Rows rejected before the ingest gave up.
        rejected: u64,
        /// The most rows that may be rejected.
        allowed: u64,
        /// What became of the other rows, and where and why the first rows were rejected.
        details: String,
    },
    /// A commit is in force, but the disk did not confirm that it survives a loss of power. What it
    /// stored is stored: doing it once more would store it twice.
    #[error(
        "{current}: generation {generation} is in force and holds the change, but the disk did not \
         confirm that it would survive a loss of power: {source}; do not repeat the change, look \
         after the disk; the next command that writes to the table confirms it first",
        current = .current.display()
    )]
    Unconfirmed {
        /// The generation that is in force.
        generation: u64,
        /// The file that names it.
        current: PathBuf,
        /// What failed after it was in force.
        source: Box<Error>,
    },
    /// A commit is in force, but what was to be written beside it could not be. What it stored is
    /// stored: doing it once more would store it twice.
    #[error("generation {generation} is in force and holds the rows up to here, but {source}")]
    Unreported {
        /// The generation that is in force.
        generation: u64,
        /// What failed after it was in force.
        source: Box<Error>,
    },
    /// Some machines of a cluster have committed their part of a change, and others have not, or
    /// nobody knows whether they have. Doing it once more could do it twice where it is done.
    #[error("{0}")]
    PartlyStored(String),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// An I/O error of `path`.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Error::Io { path: path.as_ref().to_path_buf(), source }
    }

    /// The error for threads that the system does not start.
    pub fn too_few_threads(why: impl Display) -> Error {
        Error::LimitExceeded(format!(
            "the system starts no more threads: {why}; lower --threads, or raise the limits of \
             processes and memory (ulimit -u, -v, -d)"
        ))
    }

    /// Whether it says that stored bytes are damaged or gone. Other errors tell nothing of the
    /// bytes: they may not be read, do not fit into memory, or need a newer version.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Corrupt { .. } => true,
            Error::Io { source, .. } => {
                let unreadable = source.raw_os_error() == Some(Errno::IO.raw_os_error());
                unreadable || says_missing(source)
            }
            _ => false,
        }
    }

    /// Corruption at `offset` of a structure whose file the caller does not know; see
    /// [`Error::in_file`].
    #[doc(hidden)]
    pub fn corrupt(offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { file: PathBuf::new(), offset, what: what.into() }
    }

    /// Completes a corruption error: adds the file, and the offset in it at which the structure
    /// starts.
    #[must_use]
    #[doc(hidden)]
    pub fn in_file(self, path: impl AsRef<Path>, base: u64) -> Self {
        match self {
            Error::Corrupt { file, offset, what } if file.as_os_str().is_empty() => {
                Error::Corrupt {
                    file: path.as_ref().to_path_buf(),
                    offset: base.saturating_add(offset),
                    what,
                }
            }
            other => other,
        }
    }
}

/// Whether the operating system says that there is no such file: neither the name, nor, where a
/// part of its path is a file, a directory that could hold it.
pub(crate) fn says_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What Arrow refused, as one of our kinds. Only the caller knows which: stored bytes may be at
/// fault, the rows that came in, or a type that is not handled.
pub(crate) trait ArrowResult<T> {
    /// Stored bytes are not what was written. The offset is that of the structure; see
    /// [`Error::in_file`].
    fn or_corrupt(self) -> Result<T>;
    /// The caller's data or request is wrong.
    fn or_invalid(self) -> Result<T>;
    /// The caller's data or request is wrong: `what` (which file, what could not be done), and
    /// then Arrow's message.
    fn or_invalid_with(self, what: impl Display) -> Result<T>;
    /// There is no code for the types concerned.
    fn or_unsupported(self) -> Result<T>;
}

impl<T> ArrowResult<T> for std::result::Result<T, ArrowError> {
    fn or_corrupt(self) -> Result<T> {
        self.map_err(|error| Error::corrupt(0, error.to_string()))
    }

    fn or_invalid(self) -> Result<T> {
        self.map_err(|error| Error::InvalidInput(error.to_string()))
    }

    fn or_invalid_with(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Error::InvalidInput(format!("{what}: {error}")))
    }

    fn or_unsupported(self) -> Result<T> {
        self.map_err(|error| Error::Unsupported(error.to_string()))
    }
}

/// Adds the path to an error of the operating system.
pub(crate) trait IoResult<T> {
    /// The error is about `path`.
    fn with_path(self, path: impl AsRef<Path>) -> Result<T>;
}

impl<T> IoResult<T> for std::io::Result<T> {
    fn with_path(self, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| Error::io(path, error))
    }
}
