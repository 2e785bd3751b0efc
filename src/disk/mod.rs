//! The only folder that touches the operating system: files, directories, locks and mappings.
//!
//! Where this stands on the road: the end of `ingest` (segment files, manifest, commit) and the
//! beginning of every query (open, lock, map). Everything above speaks to the trait [`Disk`], so
//! that one and the same code runs on the machine's file system ([`RealDisk`]) and on one in memory
//! that fails or loses power at a chosen call ([`simulated::SimulatedDisk`]).
//!
//! | file | what |
//! | --- | --- |
//! | `real.rs` | the machine's file system |
//! | `mapped.rs` | the one mapping, and a cache of mappings |
//! | `lru.rs` | a bounded cache |
//! | `durable.rs` | write, fsync, rename, fsync the directory |
//! | `lock.rs` | one writer at a time |
//! | `memory.rs` | how much memory there is |
//! | `temporary.rs` | nameless files for what queries spill |
//! | `simulated.rs` | a live and a durable image in memory, for fault injection |

pub mod durable;
pub mod lock;
pub mod lru;
pub mod mapped;
pub mod memory;
pub mod real;
pub mod simulated;
pub mod temporary;

use std::fmt::Debug;
use std::path::Path;

pub use lock::WriterLock;
pub use lru::Lru;
pub use mapped::{Mapped, MappingCache};
pub use real::RealDisk;
pub use temporary::TemporaryFile;

use crate::error::{Error, Result};

/// A file system. Paths are taken as given; every error names the path.
///
/// What survives power loss: bytes after [`DiskFile::sync`], names (created, renamed, removed)
/// after [`Disk::sync_dir`] of the directory that holds them, both after [`Disk::sync_fs`]; nothing
/// else is promised, in no order.
pub trait Disk: Debug + Send + Sync {
    /// Creates a file that must not exist yet, for writing from its start.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>>;
    /// The whole file, refused when longer than `limit`: for small metadata.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>>;
    /// Maps the whole file for reading.
    fn map(&self, path: &Path) -> Result<Mapped>;
    /// What a directory holds, sorted by name; names that are not UTF-8 are not ours and left out.
    fn list(&self, dir: &Path) -> Result<Vec<Entry>>;
    /// Length of a file in bytes.
    fn len(&self, path: &Path) -> Result<u64>;
    /// Whether a file or directory is there.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Renames a file within its directory, replacing what has the new name, in one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;
    /// Creates a directory and those above it that are missing.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Makes the bytes of a closed file durable.
    fn sync_file(&self, path: &Path) -> Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Makes everything on the file system of `dir` durable. `false` where the operating system
    /// cannot: then the caller syncs file by file.
    fn sync_fs(&self, dir: &Path) -> Result<bool>;
    /// Tries to lock a file, without waiting; `None` if someone else holds it.
    fn try_lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>>;
}

/// A file being written.
pub trait DiskFile: Debug + Send + Sync {
    /// Appends bytes. Callers write in pieces of a megabyte or more where there is that much: it
    /// decides how fast the mapping faults in later.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;
    /// Makes what was written durable (the name becomes so by [`Disk::sync_dir`]).
    fn sync(&mut self) -> Result<()>;
}

/// How to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Together with other shared holders; the file must exist and may be read-only.
    Shared,
    /// Alone; the file must exist.
    Exclusive,
    /// Alone; the file is created if it is missing.
    Create,
}

/// A lock held until it is dropped, or until the process dies, however it dies.
pub type Lock = Box<dyn Held>;

/// What the holder of a lock may ask.
pub trait Held: Debug + Send + Sync {
    /// Whether the locked file still has a name: a reader that locked a root asks this, for the
    /// root may have been removed between its opening and its locking.
    fn is_linked(&self) -> Result<bool>;
    /// Replaces the contents of the locked file (who holds it: a courtesy, never relied on).
    fn describe(&self, contents: &[u8]) -> Result<()>;
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Whether an error says that a file is not there.
pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}
