//! The cache of mappings of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Disk, Io, Lru, Mapped};
use crate::error::Result;

/// A cache that keeps mappings open and evicts the least recently used. A mapping in use stays
/// valid after its eviction, which only drops the cache's own reference.
///
/// Names of data files are never reused, so a path identifies its bytes; but a copy of a table that
/// was dropped may come back from another machine, which clears the cache.
#[derive(Debug)]
pub(crate) struct MappingCache {
    maps: Lru<PathBuf, Mapped>,
    reads: AtomicBool,
    /// Whether files have been read into memory, part by part, since the cache was last cleared.
    holds_parts: AtomicBool,
}

impl MappingCache {
    /// The default number of mappings, far below the 65,530 that Linux allows a process.
    pub(crate) const DEFAULT_LIMIT: usize = 4096;

    /// A cache of at most `limit` mappings (at least one).
    pub(crate) fn new(limit: usize) -> Self {
        MappingCache {
            maps: Lru::new(limit),
            reads: AtomicBool::new(false),
            holds_parts: AtomicBool::new(false),
        }
    }

    /// From now on, files are read in another way.
    pub(crate) fn set_io(&self, io: Io) {
        self.reads.store(io == Io::Read, Ordering::Relaxed);
        self.maps.clear();
    }

    /// The mapping of a file, opened if it is not in the cache. Readers must prefetch what they
    /// need.
    pub(crate) fn get(&self, disk: &dyn Disk, path: &Path) -> Result<Arc<Mapped>> {
        let io = if self.reads.load(Ordering::Relaxed) { Io::Read } else { Io::Mmap };
        self.maps.get_or_open(path, || {
            let mapped = disk.map(path, io)?;
            mapped.disable_read_ahead();
            self.holds_parts.fetch_or(matches!(mapped, Mapped::Read(_)), Ordering::Relaxed);
            Ok(mapped)
        })
    }

    /// Drops everything, except what is in use.
    #[cfg(feature = "cluster")]
    pub(crate) fn clear(&self) {
        self.maps.clear();
    }

    /// Drops what was read of files into memory, except what is in use. Mappings stay if no file
    /// was read so.
    pub(crate) fn release_memory(&self) {
        if self.holds_parts.swap(false, Ordering::Relaxed) {
            self.maps.clear();
        }
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
    use crate::budget::Budget;
    use crate::disk::RealDisk;

    fn all(mapped: &Mapped) -> &[u8] {
        mapped.bytes(0..mapped.len(), Budget::UNLIMITED).unwrap()
    }

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
            assert_eq!(all(&cache.get(&RealDisk, &path(i)).unwrap()), [i as u8; 3]);
            assert!(cache.len() <= 8);
        }
        assert_eq!(all(&first), [0; 3], "mappings in use outlive the cache");
        let recent = cache.get(&RealDisk, &path(39)).unwrap();
        assert!(Arc::ptr_eq(&recent, &cache.get(&RealDisk, &path(39)).unwrap()));
    }

    #[test]
    fn what_was_read_into_memory_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        RealDisk.create(&path).unwrap().write_all(&[7; 100_000]).unwrap();
        for (io, kept) in [(Io::Mmap, true), (Io::Read, false)] {
            let cache = MappingCache::default();
            cache.set_io(io);
            let budget = Budget::new(1 << 30);
            let first = cache.get(&RealDisk, &path).unwrap();
            assert_eq!(first.bytes(5..50_005, &budget).unwrap(), [7; 50_000]);
            assert_eq!(budget.held(), if kept { 0 } else { 50_000 });
            cache.release_memory();
            assert_eq!(first.bytes(5..50_005, &budget).unwrap(), [7; 50_000], "in use");
            assert_eq!(Arc::ptr_eq(&first, &cache.get(&RealDisk, &path).unwrap()), kept);
            drop(first);
            assert_eq!(budget.held(), 0);
        }
    }
}
