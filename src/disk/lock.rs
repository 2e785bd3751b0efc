//! One writer at a time.
//!
//! The lock is an advisory lock of the operating system (`flock`) on an open descriptor: it ends
//! with the process, so there are no stale locks to clean up. The process id in the file is only
//! informative.

use std::path::Path;

use super::{Disk, Lock, LockMode};
use crate::error::{Error, Result};

const RETRIES: usize = 100;

/// The exclusive right to write, until dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    held: Lock,
}

impl WriterLock {
    /// Locks the file at `path`; the error says who holds the lock. `what` names the thing being
    /// written, for the message.
    pub(crate) fn acquire(disk: &dyn Disk, path: &Path, what: &str) -> Result<WriterLock> {
        if let Some(lock) = WriterLock::try_acquire(disk, path)? {
            return Ok(lock);
        }
        let holder = disk
            .read(path, 64)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default();
        let holder = match holder.trim() {
            "" => String::new(),
            pid => format!(" (pid {pid})"),
        };
        Err(Error::InvalidInput(format!(
            "{what} is being written by another process{holder}; there is one writer at a time, \
             try again when it has finished"
        )))
    }

    /// Locks the file at `path`; `None` if another writer holds the lock.
    pub(crate) fn try_acquire(disk: &dyn Disk, path: &Path) -> Result<Option<WriterLock>> {
        let mut taken = disk.try_lock(path, LockMode::Create)?;
        // A writer that gave up creating a table removes the lock file, so a new one is needed.
        for _ in 0..RETRIES {
            match &taken {
                Some(held) if !held.is_linked()? => {
                    taken = disk.try_lock(path, LockMode::Create)?
                }
                _ => break,
            }
        }
        let Some(held) = taken else { return Ok(None) };
        // If the disk is full, the lock is valid all the same, without a description.
        let _ = held.describe(format!("{}\n", std::process::id()).as_bytes());
        Ok(Some(WriterLock { held }))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        let _ = self.held.describe(b"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn the_second_writer_is_told_who_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let first = WriterLock::acquire(&RealDisk, &path, "table 't'").unwrap();
        let refusal = WriterLock::acquire(&RealDisk, &path, "table 't'").unwrap_err().to_string();
        assert!(
            refusal.contains("table 't'") && refusal.contains(&std::process::id().to_string()),
            "{refusal}"
        );
        drop(first);
        assert!(WriterLock::acquire(&RealDisk, &path, "table 't'").is_ok());
    }
}
