//! A table: readers take snapshots of it, and a writer locks it.

use std::path::Path;
use std::sync::Arc;

use super::outside::refuse_foreign;
use super::writer::{abandon, unix_millis};
use super::{Caches, DataFiles, Snapshot, TableOptions, TableWriter, views};
#[cfg(feature = "sql")]
use crate::disk::is_missing;
use crate::disk::{Disk, KeptDisk, LockWait, WriterLock};
use crate::error::{Error, Result};
#[cfg(feature = "cluster")]
use crate::manifest::moving::{self, Moving};
use crate::manifest::recover::{Retention, Scope};
use crate::manifest::{Root, TableDir, presence, recover};
use crate::model::Schema;

/// What freeing old generations removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Generations.
    pub generations: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A table of a store; it may not exist yet.
#[derive(Clone, Debug)]
pub struct Table {
    dir: TableDir,
    disk: Arc<dyn Disk>,
    caches: Arc<Caches>,
    wait: LockWait,
}

impl Table {
    pub(super) fn new(
        dir: TableDir,
        disk: Arc<dyn Disk>,
        caches: Arc<Caches>,
        wait: LockWait,
    ) -> Self {
        Table { dir, disk, caches, wait }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.dir.name()
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The generation in force, `None` if there is no table. A table that lost its `CURRENT` is
    /// damaged: that is an error. This is cheap enough to check before every query whether a
    /// snapshot is still the newest.
    pub fn generation(&self) -> Result<Option<u64>> {
        presence::current(&*self.disk, &self.dir)
    }

    /// The generation in force, held until the snapshot is dropped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::open(&self.dir, &self.disk, &self.caches)
    }

    /// A snapshot of a root that was read by other means than `CURRENT`.
    pub(crate) fn snapshot_of(&self, root: Root) -> Result<Snapshot> {
        Snapshot::of_root(&self.dir, &self.disk, &self.caches, root)
    }

    /// Its directory, with the names of its files.
    pub(crate) fn dir(&self) -> &TableDir {
        &self.dir
    }

    /// The disk that it is on.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Makes data files that no writer commits: the caller holds the writer's lock, and commits
    /// them itself.
    pub(crate) fn data_files(&self) -> DataFiles {
        DataFiles::new(self.dir.clone(), Arc::clone(&self.disk))
    }

    /// A snapshot of a given generation, if it is still kept.
    pub fn snapshot_at(&self, generation: u64) -> Result<Snapshot> {
        Snapshot::open_at(&self.dir, &self.disk, &self.caches, generation)
    }

    /// The generations that are still kept, oldest first.
    pub fn generations(&self) -> Result<Vec<u64>> {
        recover::generations(&*self.disk, &self.dir)
    }

    /// What freeing old generations would remove: those that were replaced `keep` milliseconds ago,
    /// or as long as the table says, and that nobody reads.
    pub fn would_free(&self, keep: Option<u64>) -> Result<Freed> {
        let snapshot = self.snapshot()?;
        self.check_writable()?;
        let keep = keep.unwrap_or(snapshot.root().history.keep);
        let disk = KeptDisk::new(&*self.disk);
        let retention = Retention { now: unix_millis(), keep };
        let swept =
            recover::sweep(&disk, &self.dir, Some(snapshot.root()), Scope::Everything, retention)?;
        let (files, bytes) = disk.removed();
        Ok(Freed { generations: swept.generations, files, bytes })
    }

    /// Whether a first load has begun here and not ended: it runs, or was killed.
    pub fn is_begun(&self) -> Result<bool> {
        let marked = |path: &Path| self.disk.exists(path);
        Ok((marked(&self.dir.creating())? || marked(&self.dir.unswept())?)
            && presence::current(&*self.disk, &self.dir)?.is_none())
    }

    /// What removing the rest of a first load that was killed would free, and with `remove` removes
    /// it; `None` if there is none, or the load runs.
    pub fn free_begun(&self, remove: bool) -> Result<Option<Freed>> {
        if !self.is_begun()? {
            return Ok(None);
        }
        let Some(_lock) = WriterLock::try_acquire(&*self.disk, &self.dir.lock())? else {
            return Ok(None);
        };
        // The load may have ended meanwhile.
        if !self.is_begun()? {
            return Ok(None);
        }
        let disk = KeptDisk::new(&*self.disk);
        let retention = Retention { now: unix_millis(), keep: 0 };
        recover::sweep(&disk, &self.dir, None, Scope::Everything, retention)?;
        if remove {
            abandon(&*self.disk, &self.dir)?;
        }
        let (files, bytes) = disk.removed();
        Ok(Some(Freed { generations: 0, files, bytes }))
    }

    /// Opens the table for writing. If it does not exist, it is created with `create`; without
    /// `create` that is an error. A second writer is refused, or waits if the store says so.
    pub fn writer(&self, create: Option<(Schema, TableOptions)>) -> Result<TableWriter> {
        TableWriter::open(&self.dir, &self.disk, &self.caches.budget, &self.wait, create, false)
    }

    /// Opens the table for writing by whoever moves a partition of it, or goes on with that.
    #[cfg(feature = "cluster")]
    pub(crate) fn mover(&self) -> Result<TableWriter> {
        TableWriter::open(&self.dir, &self.disk, &self.caches.budget, &self.wait, None, true)
    }

    /// Forgets what is known of files: those of a table that was dropped may come back.
    #[cfg(feature = "cluster")]
    pub(crate) fn forget_files(&self) {
        self.caches.mappings.clear();
        self.caches.segments.clear();
    }

    /// The partition that is on its way to another machine, if there is one.
    #[cfg(feature = "cluster")]
    pub(crate) fn moving(&self) -> Result<Option<Moving>> {
        moving::read(&*self.disk, &self.dir)
    }

    /// Marks the table, durably: a partition of it is on its way. For who has [`Table::mover`].
    #[cfg(feature = "cluster")]
    pub(crate) fn mark_moving(&self, moving: &Moving) -> Result<()> {
        moving::write(&*self.disk, &self.dir, moving)
    }

    /// Removes that mark, durably.
    #[cfg(feature = "cluster")]
    pub(crate) fn unmark_moving(&self) -> Result<()> {
        moving::remove(&*self.disk, &self.dir)
    }

    /// The error by which [`Table::writer`] or its first file would be refused: no permission, a
    /// file system that is read-only, or a directory of other things. For those who only say what
    /// would be written.
    pub fn check_writable(&self) -> Result<()> {
        let (dir, lock) = (self.dir.path(), self.dir.lock());
        // A writer names the first file that it would make in a directory.
        let check = |place: &Path, first: &Path| match self.disk.check_writable(place) {
            Err(Error::Io { source, .. }) => Err(Error::io(first, source)),
            checked => checked,
        };
        if !self.disk.exists(dir)? {
            let parents =
                dir.ancestors().skip(1).map(|parent| match parent.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => parent,
                });
            for parent in parents {
                if self.disk.exists(parent)? {
                    return check(parent, dir);
                }
            }
            return Ok(());
        }
        refuse_foreign(&*self.disk, &self.dir)?;
        if self.disk.exists(&lock)? {
            check(&lock, &lock)?;
            check(dir, &self.dir.unswept())?;
        } else {
            check(dir, &lock)?;
        }
        for below in [self.dir.manifest(), self.dir.data()] {
            if self.disk.exists(&below)? {
                check(&below, &below)?;
            }
        }
        Ok(())
    }

    /// How its writers wait for others.
    #[cfg(feature = "sql")]
    pub(crate) fn wait(&self) -> &LockWait {
        &self.wait
    }

    /// Waits until nobody writes the table. Another writer may come before the caller.
    #[cfg(feature = "sql")]
    pub(crate) fn wait_for_writer(&self) -> Result<()> {
        match self.lock() {
            Err(error) if !is_missing(&error) && !matches!(error, Error::NotFound(_)) => Err(error),
            // A table that is gone has no writer.
            _ => Ok(()),
        }
    }

    /// The writer's lock alone, of a table that may be damaged.
    pub(crate) fn lock(&self) -> Result<WriterLock> {
        let what = format!("table '{}'", self.name());
        WriterLock::acquire(&*self.disk, &self.dir.lock(), &what, &self.wait, || {
            match self.disk.exists(self.path())? {
                true => Ok(()),
                false => Err(views::no_table(&*self.disk, &self.dir)),
            }
        })
    }
}
