//! The only memory mapping of the project, and a bounded cache of mappings.
//!
//! Mapped bytes are untrusted for two reasons: they may be damaged, and another process may change
//! them while they are read. We write data files once and never change them, so only other programs
//! can do that. Decoders are memory-safe on any bytes; their safety does not depend on checksums or
//! on reading the same byte twice. If a mapped file is truncated, the operating system raises
//! SIGBUS and ends the process.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use memmap2::Mmap;

use super::{Disk, Lru};
use crate::error::{IoResult, Result};

/// Files of up to this many bytes are copied instead of mapped: that takes no longer than mapping
/// them and touching their pages, and on Linux a process may have only 65,530 mappings.
const MAX_COPIED: u64 = 16 << 10;

/// The bytes of a whole file.
pub enum Mapped {
    /// A mapping of the file.
    Real(Mmap),
    /// A copy in memory, aligned like a mapping, for small files and for the simulated disk.
    Memory(Buffer),
}

impl Mapped {
    /// Maps an open file, or copies a small one.
    #[expect(clippy::disallowed_methods, reason = "the one mapping")]
    pub(super) fn from_file(path: &Path, file: &File) -> Result<Mapped> {
        let length = file.metadata().with_path(path)?.len();
        if length <= MAX_COPIED {
            let mut bytes = MutableBuffer::from_len_zeroed(length as usize);
            file.read_exact_at(&mut bytes, 0).with_path(path)?;
            return Ok(Mapped::Memory(bytes.into()));
        }
        // SAFETY: memmap2 requires that the file is not changed while it is mapped, since the bytes
        // are seen as `&[u8]`. Mapped files are immutable by the format: they are written once
        // under a new uuid, and only ever removed (which keeps mappings intact). In case another
        // process writes into one, no reader relies on bytes staying the same: lengths and offsets
        // are read from the mapping once, by value, and checked; decoders are memory-safe on any
        // bytes. Truncation raises SIGBUS and ends the process.
        let map = unsafe { Mmap::map(file) }.with_path(path)?;
        Ok(Mapped::Real(map))
    }

    /// A copy of `bytes`, aligned to at least 64 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Mapped {
        let mut buffer = MutableBuffer::with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        Mapped::Memory(buffer.into())
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Mapped::Real(map) => map,
            Mapped::Memory(bytes) => bytes,
        }
    }

    /// Tells the operating system not to read ahead, because readers call [`Mapped::prefetch`].
    /// Otherwise a page fault reads as much around it as the device's read-ahead is set to: 128 KiB
    /// on most machines, 8 MiB on some. This is only a hint.
    pub fn disable_read_ahead(&self) {
        if let Mapped::Real(map) = self {
            let _ = map.advise(memmap2::Advice::Random);
        }
    }

    /// Asks the operating system to read a range, without waiting for it. This is only a hint, and
    /// errors are ignored. It costs about 40 ns per page that is already in the page cache.
    pub fn prefetch(&self, offset: usize, length: usize) {
        if let Mapped::Real(map) = self
            && offset.checked_add(length).is_some_and(|end| end <= map.len())
        {
            let _ = map.advise_range(memmap2::Advice::WillNeed, offset, length);
        }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapped({} bytes)", self.as_slice().len())
    }
}

/// A cache that keeps mappings open and evicts the least recently used. A mapping in use stays
/// valid after its eviction, which only drops the cache's own reference.
///
/// Names of data files are never reused, so a path identifies its bytes.
#[derive(Debug)]
pub(crate) struct MappingCache {
    maps: Lru<PathBuf, Mapped>,
}

impl MappingCache {
    /// The default number of mappings, far below the 65,530 that Linux allows a process.
    pub(crate) const DEFAULT_LIMIT: usize = 4096;

    /// A cache of at most `limit` mappings (at least one).
    pub(crate) fn new(limit: usize) -> Self {
        MappingCache { maps: Lru::new(limit) }
    }

    /// The mapping of a file, opened if it is not in the cache. Readers must prefetch what they
    /// need.
    pub(crate) fn get(&self, disk: &dyn Disk, path: &Path) -> Result<Arc<Mapped>> {
        self.maps.get_or_open(path, || disk.map(path).inspect(Mapped::disable_read_ahead))
    }

    /// The number of cached mappings.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.maps.len()
    }
}

impl Default for MappingCache {
    fn default() -> Self {
        MappingCache::new(Self::DEFAULT_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn the_cache_is_bounded_and_keeps_the_recent() {
        let dir = tempfile::tempdir().unwrap();
        let path = |i: usize| dir.path().join(i.to_string());
        for i in 0..40 {
            let mut file = RealDisk.create(&path(i)).unwrap();
            file.write_all(&[i as u8; 3]).unwrap();
        }
        let cache = MappingCache::new(8);
        let first = cache.get(&RealDisk, &path(0)).unwrap();
        for i in 0..40 {
            assert_eq!(cache.get(&RealDisk, &path(i)).unwrap().as_slice(), [i as u8; 3]);
            assert!(cache.len() <= 8);
        }
        assert_eq!(first.as_slice(), [0; 3], "mappings in use outlive the cache");
        let recent = cache.get(&RealDisk, &path(39)).unwrap();
        assert!(Arc::ptr_eq(&recent, &cache.get(&RealDisk, &path(39)).unwrap()));
    }

    #[test]
    fn empty_files_map() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        RealDisk.create(&path).unwrap();
        assert!(RealDisk.map(&path).unwrap().as_slice().is_empty());
        assert_eq!(Mapped::from_bytes(&[1; 100]).as_slice().as_ptr() as usize % 64, 0);
    }
}
