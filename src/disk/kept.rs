//! A disk from which nothing is removed: it counts what would be.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Disk, DiskFile, Entry, Io, Lock, LockMode, Mapped};
use crate::error::Result;

/// Another disk, without removals.
#[derive(Debug)]
pub(crate) struct KeptDisk<'a> {
    disk: &'a dyn Disk,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> KeptDisk<'a> {
    pub(crate) fn new(disk: &'a dyn Disk) -> Self {
        KeptDisk { disk, files: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// How many files would have been removed, and their bytes.
    pub(crate) fn removed(&self) -> (u64, u64) {
        (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Disk for KeptDisk<'_> {
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        self.disk.create(path)
    }
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        self.disk.read(path, limit)
    }
    fn map(&self, path: &Path, io: Io) -> Result<Mapped> {
        self.disk.map(path, io)
    }
    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        self.disk.list(dir)
    }
    fn len(&self, path: &Path) -> Result<u64> {
        self.disk.len(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }
    fn check_writable(&self, path: &Path) -> Result<()> {
        self.disk.check_writable(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn exchange(&self, one: &Path, other: &Path) -> Result<bool> {
        self.disk.exchange(one, other)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.bytes.fetch_add(self.disk.len(path)?, Ordering::Relaxed);
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn remove_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.disk.create_dir_all(path)
    }
    fn sync_file(&self, path: &Path) -> Result<()> {
        self.disk.sync_file(path)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn sync_fs(&self, dir: &Path) -> Result<bool> {
        self.disk.sync_fs(dir)
    }
    fn try_lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>> {
        self.disk.try_lock(path, mode)
    }
}
