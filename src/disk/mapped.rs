//! The one mapping of the project, and a bounded cache of mappings.
//!
//! Bytes of a mapping are outside data twice over: they may be damaged, and another process may
//! change them while they are looked at. Data files are written once and never changed by us, so
//! that only a foreign hand does this. Decoders are memory-safe on any bytes and never rest safety
//! on a checksum or on reading the same byte twice; a file that is cut short under a mapping raises
//! SIGBUS, which is the operating system's answer and ends the process.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use memmap2::Mmap;

use super::{Disk, Lru};
use crate::error::{Error, Result};

/// Files of up to so many bytes are copied: that takes no longer than mapping them and touching
/// their pages, and a process may have only 65,530 mappings on Linux.
const MAX_COPIED: u64 = 16 << 10;

/// The bytes of a whole file.
pub enum Mapped {
    /// Mapped from the file system.
    Real(Mmap),
    /// A copy in memory, aligned like a mapping: of small files and of the simulated disk.
    Memory(Buffer),
}

impl Mapped {
    /// Maps an open file, or copies a small one.
    #[expect(clippy::disallowed_methods, reason = "the one mapping")]
    pub(super) fn of_file(path: &Path, file: &File) -> Result<Mapped> {
        let length = file.metadata().map_err(|source| Error::io(path, source))?.len();
        if length <= MAX_COPIED {
            let mut bytes = MutableBuffer::from_len_zeroed(length as usize);
            file.read_exact_at(&mut bytes, 0).map_err(|source| Error::io(path, source))?;
            return Ok(Mapped::Memory(bytes.into()));
        }
        // SAFETY: memmap2 asks that the file is not changed while mapped, since the bytes are seen as `&[u8]`. Files
        // that are mapped are immutable by the format: written once under a fresh uuid, only ever
        // removed (which leaves mappings whole). Against a foreign process that writes into one, no
        // reader relies on bytes staying as they were: lengths and offsets are taken out of the
        // mapping once, by value, and checked; decoders are memory-safe on any bytes. Truncation
        // raises SIGBUS and ends the process.
        let map = unsafe { Mmap::map(file) }.map_err(|source| Error::io(path, source))?;
        Ok(Mapped::Real(map))
    }

    /// A copy of bytes, at an address aligned to 64 bytes or more.
    pub fn of_bytes(bytes: &[u8]) -> Mapped {
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

    /// Tells the operating system that whoever touches bytes has asked for them by
    /// [`Mapped::will_need`]. Else a touch reads as much around it as the device is set to read
    /// ahead: 128 KiB on most machines, 8 MiB on some. A hint, too.
    pub fn only_what_is_asked(&self) {
        if let Mapped::Real(map) = self {
            let _ = map.advise(memmap2::Advice::Random);
        }
    }

    /// Asks the operating system to read a range ahead, without waiting for it; a hint, whose
    /// failure means nothing. Of what is in the page cache already it costs about 40 ns a page.
    pub fn will_need(&self, offset: usize, length: usize) {
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

/// Mappings kept open, the least recently used one closed first. A mapping in use stays valid after
/// it has left the cache: the cache only drops its own reference.
///
/// Names of data files are never reused, so a path stands for its bytes.
#[derive(Debug)]
pub struct MappingCache {
    maps: Lru<PathBuf, Mapped>,
}

impl MappingCache {
    /// Mappings that a cache holds by default: far below the 65,530 that Linux allows a process.
    pub const DEFAULT_LIMIT: usize = 4096;

    /// A cache of at most `limit` mappings (at least one).
    pub fn new(limit: usize) -> Self {
        MappingCache { maps: Lru::new(limit) }
    }

    /// The mapping of a file, opened if it is not in the cache. Whoever reads it asks for what it
    /// needs.
    pub fn get(&self, disk: &dyn Disk, path: &Path) -> Result<Arc<Mapped>> {
        self.maps.get_or_open(path, || disk.map(path).inspect(Mapped::only_what_is_asked))
    }

    /// Mappings held now.
    pub fn len(&self) -> usize {
        self.maps.len()
    }

    /// Whether no mapping is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        assert_eq!(first.as_slice(), [0; 3], "what is in use outlives the cache");
        let recent = cache.get(&RealDisk, &path(39)).unwrap();
        assert!(Arc::ptr_eq(&recent, &cache.get(&RealDisk, &path(39)).unwrap()));
    }

    #[test]
    fn empty_files_map() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        RealDisk.create(&path).unwrap();
        assert!(RealDisk.map(&path).unwrap().as_slice().is_empty());
        assert_eq!(Mapped::of_bytes(&[1; 100]).as_slice().as_ptr() as usize % 64, 0);
    }
}
