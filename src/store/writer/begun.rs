//! What writers have made and not committed, for a process that ends itself in the middle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::DataFiles;
use crate::error::{Error, Result};

#[derive(Debug, Default)]
struct Writers {
    open: Vec<(u64, DataFiles, bool)>,
    /// The process ends: no writer begins any more.
    ended: bool,
}

static WRITERS: Mutex<Writers> = Mutex::new(Writers { open: Vec::new(), ended: false });

fn writers() -> MutexGuard<'static, Writers> {
    WRITERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the data files that belong to no commit, and tables whose first commit is not done, best
/// effort: for a process that has forbidden commits, and with them new data files, and ends. It
/// keeps their locks meanwhile.
pub fn remove_uncommitted() {
    let mut writers = writers();
    writers.ended = true;
    for (_, files, is_new) in writers.open.drain(..) {
        files.discard();
        if is_new {
            files.abandon();
        }
    }
}

/// A writer whose new files are in no commit.
#[derive(Debug)]
pub(super) struct Begun(u64);

impl Begun {
    /// Knows the files of a writer from now on; whether the table is new, and goes with them.
    pub(super) fn new(files: &DataFiles, is_new: bool) -> Result<Begun> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut writers = writers();
        if writers.ended {
            return Err(Error::Cancelled);
        }
        writers.open.push((id, files.clone(), is_new));
        Ok(Begun(id))
    }

    /// Has the writer remove its files itself, unless the process ends and does so. Nobody removes
    /// them after that: what is under their names by then may be another writer's.
    pub(super) fn end_with(self, remove: impl FnOnce()) {
        let mut writers = writers();
        if !writers.ended {
            remove();
        }
        writers.open.retain(|(id, ..)| *id != self.0);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        writers().open.retain(|(id, ..)| *id != self.0);
    }
}
