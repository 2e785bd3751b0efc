//! Removes files that the table does not need any more, or that were not committed.

use std::collections::HashSet;

use super::{CommitState, TableWriter, unix_millis};
use crate::disk::{Disk, is_missing};
use crate::error::Result;
use crate::manifest::recover::{self, Retention, Scope, Swept};
use crate::manifest::{Id, SegmentEntry, TableDir};

impl TableWriter {
    /// Frees generations that nobody reads and that have been out of force for `keep` milliseconds,
    /// and removes their files.
    #[doc(hidden)]
    pub fn free(&mut self, keep: u64) -> Result<Swept> {
        self.sweep(Scope::Everything, keep)
    }

    /// Says that the table is no longer under its name: what is there by now is not this writer's.
    pub(crate) fn has_moved(&mut self) {
        self.state = CommitState::Unknown;
        self.begun = None;
    }

    pub(super) fn sweep(&mut self, scope: Scope, keep: u64) -> Result<Swept> {
        let retention = Retention { now: unix_millis(), keep };
        let before = std::mem::replace(&mut self.strays, true);
        let mut swept =
            recover::sweep(&*self.disk, &self.dir, self.base.as_ref(), scope, retention)?;
        self.strays = match scope {
            Scope::Manifest => before,
            // Kept generations may need files that the one in force does not.
            Scope::Everything => {
                self.base.as_ref().is_some_and(|root| root.generation != swept.oldest)
            }
        };
        for (last, path) in std::mem::take(&mut self.retired) {
            if last >= swept.oldest {
                self.retired.push((last, path));
            } else if self.disk.remove(&path).is_ok() {
                swept.files += 1;
                // Remove the directories of its partition too if they are empty.
                let data = self.dir.data();
                let mut dirs = path.ancestors().skip(1).take_while(|dir| *dir != data);
                while dirs.next().is_some_and(|dir| self.disk.remove_dir(dir).is_ok()) {}
            } else {
                self.strays |= scope == Scope::Manifest;
            }
        }
        Ok(swept)
    }

    /// Remembers files that only generations up to `last` need. A file that also has other segments
    /// is left to a sweep of all files.
    pub(super) fn retire(&mut self, last: u64, removed: &[SegmentEntry]) {
        for segment in removed {
            let path = self.dir.data_file(&segment.partition, &segment.file);
            let whole =
                segment.offset == 0 && self.disk.len(&path).is_ok_and(|len| len == segment.length);
            if whole {
                self.retired.push((last, path));
            } else {
                self.strays = true;
            }
        }
    }

    /// Removes uncommitted files that are not in `named`, best effort.
    pub(super) fn remove_new_files_except(&mut self, named: &HashSet<Id>) {
        let mut failed = false;
        let mut lock = self.files.lock();
        let written = &mut *lock;
        written.made.retain(|file, partition| {
            let keep = named.contains(file);
            if !keep {
                let path = self.dir.data_file(partition, file);
                // The directory of its partition may now be empty.
                failed |= self.disk.remove(&path).is_err() || !partition.is_empty();
                written.unsynced.remove(&path);
            }
            keep
        });
        drop(lock);
        self.strays |= failed;
    }
}

/// Removes a table that was never committed, for the holder of its lock. The marker that says so
/// goes last, and only once everything else has durably gone: a segment file without it would look
/// like a table that lost `CURRENT`.
pub(in crate::store) fn abandon(disk: &dyn Disk, dir: &TableDir) -> Result<()> {
    let gone = |removed: Result<()>| match removed {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed,
    };
    let now = Retention { now: unix_millis(), keep: 0 };
    recover::sweep(disk, dir, None, Scope::Everything, now)?;
    gone(disk.remove_dir(&dir.data()))?;
    gone(disk.remove_dir(&dir.manifest()))?;
    disk.sync_dir(dir.path())?;
    gone(disk.remove(&dir.creating()))?;
    gone(disk.remove(&dir.unswept()))?;
    gone(disk.remove(&dir.lock()))?;
    disk.remove_dir(dir.path())
}

impl Drop for TableWriter {
    /// Removes what was not committed, best effort; otherwise the next writer does.
    fn drop(&mut self) {
        let Some(begun) = self.begun.take().filter(|_| self.state == CommitState::Known) else {
            return;
        };
        begun.end_with(|| {
            self.remove_new_files_except(&HashSet::new());
            if self.base.is_some() && !self.strays && self.retired.is_empty() {
                let _ = self.disk.remove(&self.dir.unswept());
            }
            if self.base.is_none() {
                let _ = self.files.abandon_now();
            }
        });
    }
}
