//! Files of rejected rows that have no name of their own yet, for a process that ends itself in the
//! middle of a load.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::store::commits_ended;

#[derive(Debug, Default)]
struct Files {
    /// Each with how many commits had ended when it was last synced: once one more has, its rows
    /// are those of a commit.
    paths: Vec<(PathBuf, Option<usize>)>,
    /// No file is made any more.
    ended: bool,
}

static FILES: Mutex<Files> = Mutex::new(Files { paths: Vec::new(), ended: false });

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that belong to no commit, and lets no more be made: for a process that has
/// forbidden commits and ends.
pub fn remove_unpublished() {
    let mut files = files();
    files.ended = true;
    for (path, synced) in files.paths.drain(..) {
        if synced.is_none_or(|commits| commits == commits_ended()) {
            // Whether it is still there or not, nothing more can be done.
            let _ = RealDisk.remove(&path);
        }
    }
}

/// A file that is made and not yet published.
#[derive(Debug)]
pub(super) struct Unpublished(PathBuf);

impl Unpublished {
    /// Makes a file, which `make` does, and knows it.
    pub(super) fn make<T>(
        make: impl FnOnce() -> Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> Result<(T, Unpublished)> {
        let mut files = files();
        if files.ended {
            return Err(Error::Cancelled);
        }
        let made = make()?;
        let path = path(&made).to_path_buf();
        files.paths.push((path.clone(), None));
        Ok((made, Unpublished(path)))
    }

    /// Its rows are on disk, before a commit.
    pub(super) fn synced(&self) {
        let mut files = files();
        let known = files.paths.iter_mut().filter(|(path, _)| *path == self.0);
        known.for_each(|(_, synced)| *synced = Some(commits_ended()));
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        files().paths.retain(|(path, _)| *path != self.0);
    }
}
