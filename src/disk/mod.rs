//! The only folder that touches the operating system: files, directories, locks and mappings.
//!
//! It is the end of `ingest` (segment files, manifest, commit) and the beginning of every query
//! (open, lock, map). All other code uses the trait [`Disk`], so that the same code runs on the
//! local file system ([`RealDisk`]) and on one in memory that fails or loses power at a chosen call
//! (`simulated::SimulatedDisk`).
//!
//! | file | holds |
//! | --- | --- |
//! | `real.rs` | the local file system |
//! | `mapped.rs` | the one mapping, and a cache of mappings |
//! | `lru.rs` | a bounded cache |
//! | `durable.rs` | write, fsync, rename, fsync the directory |
//! | `lock.rs` | one writer at a time |
//! | `memory.rs` | how much memory is available |
//! | `temporary.rs` | unlinked files to which queries spill |
//! | `temporary_dir.rs` | directories of temporary files that have names |
//! | `simulated/` | a live and a durable image in memory, for fault injection |

pub(crate) mod durable;
mod kept;
pub(crate) mod lock;
pub(crate) mod lru;
pub(crate) mod mapped;
mod mapping_cache;
pub(crate) mod memory;
pub(crate) mod real;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod temporary;
#[cfg(feature = "cluster")]
pub(crate) mod temporary_dir;

use std::fmt::Debug;
use std::path::Path;

pub(crate) use kept::KeptDisk;
pub(crate) use lock::WriterLock;
pub use lock::{LockWait, WaitNotice};
pub(crate) use lru::Lru;
pub use mapped::{Io, Mapped};
pub(crate) use mapping_cache::MappingCache;
pub(crate) use real::RealDisk;
pub(crate) use temporary::TemporaryFile;

use crate::error::{Error, Result, says_missing};

/// A file system. Paths are not resolved or checked; every error names the path.
///
/// These survive a power loss: bytes after [`DiskFile::sync`], names (created, renamed, removed)
/// after [`Disk::sync_dir`] of their directory, and both after [`Disk::sync_fs`]. Anything else may
/// or may not survive, in any order.
pub(crate) trait Disk: Debug + Send + Sync {
    /// Creates a file, which must not exist yet, for writing.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>>;
    /// Reads a whole file of small metadata; refuses more than `limit` bytes.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>>;
    /// Maps the whole file for reading, or has it read range by range.
    fn map(&self, path: &Path, io: Io) -> Result<Mapped>;
    /// The entries of a directory, sorted by name. Names that are not UTF-8 are not ours and are
    /// omitted. A symbolic link whose target cannot be reached counts as a directory, so that the
    /// attempt to list it returns the error.
    fn list(&self, dir: &Path) -> Result<Vec<Entry>>;
    /// Length of a file in bytes; an error if it is something else.
    fn len(&self, path: &Path) -> Result<u64>;
    /// Whether a file or directory exists; an error if the system does not tell.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Refuses a file or directory that the user may not write, as writing it would.
    fn check_writable(&self, path: &Path) -> Result<()>;
    /// Atomically renames a file within its file system, replacing any file of the new name; or a
    /// directory, whose new name is free.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Atomically exchanges the names of two directories; `false` where the file system cannot.
    fn exchange(&self, one: &Path, other: &Path) -> Result<bool>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;
    /// Creates a directory and its missing ancestors.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Makes the bytes of a closed file durable.
    fn sync_file(&self, path: &Path) -> Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Makes everything on the file system of `dir` durable. Returns `false` if the operating
    /// system cannot; the caller then syncs file by file.
    fn sync_fs(&self, dir: &Path) -> Result<bool>;
    /// Tries to lock a file, without waiting; `None` if it is locked.
    fn try_lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>>;
}

/// A file being written.
pub(crate) trait DiskFile: Debug + Send + Sync {
    /// Appends bytes. Callers should write a megabyte or more at a time, because that makes the
    /// mapping fault in faster later.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes the written bytes durable, but not the name; see [`Disk::sync_dir`].
    fn sync(&mut self) -> Result<()>;
}

/// How to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// A shared lock; the file must exist and may be read-only.
    Shared,
    /// An exclusive lock; the file must exist.
    Exclusive,
    /// An exclusive lock; the file is created if it is missing.
    Create,
}

/// A lock, held until it is dropped or the process dies.
pub(crate) type Lock = Box<dyn LockedFile>;

pub(crate) trait LockedFile: Debug + Send + Sync {
    /// Whether the file still has a name. It may have been removed between its opening and its
    /// locking.
    fn is_linked(&self) -> Result<bool>;
    /// Replaces the contents of the file with a description of the holder, which is informative
    /// only.
    fn describe(&self, contents: &[u8]) -> Result<()>;
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// The name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Whether an error says that a file does not exist. Without permission to look, or with an error
/// of the device, nobody knows.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if says_missing(source))
}

/// The error for a file of a table: if it does not exist, the table is damaged, because its
/// manifest names the file.
pub(crate) fn missing_is_damage(error: Error, path: &Path) -> Error {
    match is_missing(&error) {
        true => Error::corrupt(0, "it is missing, but the manifest names it").in_file(path, 0),
        false => error,
    }
}
