//! Directories of temporary files that have names, as segments on their way to other machines. What
//! a process that was killed has left of one, the next process removes that makes one there.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use tempfile::TempDir;

use crate::error::{Error, Result};

/// The file that whoever uses the directory has locked.
const LOCK: &str = "LOCK";

/// A directory, which is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryDir {
    dir: TempDir,
    _lock: File,
}

impl TemporaryDir {
    /// A new directory in another one. Its name begins with `prefix`, and directories there with
    /// such a name that nobody uses are removed.
    #[expect(clippy::disallowed_methods, reason = "need not be durable")]
    pub(crate) fn new(below: &Path, prefix: &str) -> Result<TemporaryDir> {
        remove_left(below, prefix);
        let failed = |error| Error::io(below, error);
        let dir = TempDir::with_prefix_in(prefix, below).map_err(failed)?;
        // It has its name once it is locked.
        let nameless = dir.path().join("NEW");
        let lock = File::create_new(&nameless).map_err(failed)?;
        lock.lock().map_err(failed)?;
        fs::rename(&nameless, dir.path().join(LOCK)).map_err(failed)?;
        Ok(TemporaryDir { dir, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes directories that nobody uses, best effort.
#[expect(clippy::disallowed_methods, reason = "need not be durable")]
fn remove_left(below: &Path, prefix: &str) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_dir || !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let lock = OpenOptions::new().read(true).write(true).open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_have_left_is_removed() {
        let below = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(below.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let used = TemporaryDir::new(below.path(), "load-").unwrap();
        let left = below.path().join("load-left");
        let others = ["load-new", "other"].map(|name| below.path().join(name));
        for dir in [&left, &others[0], &others[1]] {
            fs::create_dir(dir).unwrap();
        }
        File::create_new(left.join(LOCK)).unwrap();
        File::create_new(left.join("segment")).unwrap();
        File::create_new(others[1].join(LOCK)).unwrap();
        let before = names();
        let next = TemporaryDir::new(below.path(), "load-").unwrap();
        assert!(!left.exists() && used.path().exists() && next.path().exists());
        drop(next);
        let mut without: Vec<_> = before;
        without.retain(|name| *name != "load-left");
        assert_eq!(names(), without);
        drop(used);
        assert_eq!(names().len(), 2);
    }
}
