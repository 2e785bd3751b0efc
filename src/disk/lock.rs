//! One writer at a time.
//!
//! The lock is an advisory lock of the operating system (`flock`) on an open descriptor: it ends
//! with the process, so there are no stale locks to clean up. The process id in the file is only
//! informative.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Disk, Lock, LockMode, is_missing};
use crate::error::{Error, Result};

/// The first pause between two attempts, and the longest: each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How often a lock file that was removed meanwhile is replaced.
const RETRIES: usize = 100;

/// Is told for what a wait begins, and who writes it.
pub type WaitNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// How long to wait for a table that another process writes. By default, not at all.
#[derive(Clone, Default)]
pub struct LockWait {
    /// How long at most; `Duration::MAX` is as long as it takes.
    pub most: Duration,
    /// Set from outside to end the wait.
    pub cancelled: Arc<AtomicBool>,
    /// Is told when a wait begins.
    pub begun: Option<WaitNotice>,
}

impl fmt::Debug for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWait").field("most", &self.most).finish_non_exhaustive()
    }
}

/// The exclusive right to write, until dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    held: Lock,
}

impl WriterLock {
    /// Locks the file at `path`, and waits for it if it is asked to; the error says who holds the
    /// lock. `what` names the thing being written, for the message. `prepare` runs before each
    /// attempt: who held the lock may have removed its directory.
    pub(crate) fn acquire(
        disk: &dyn Disk,
        path: &Path,
        what: &str,
        wait: &LockWait,
        prepare: impl Fn() -> Result<()>,
    ) -> Result<WriterLock> {
        let (since, mut pause, mut is_told) = (Instant::now(), FIRST_PAUSE, false);
        let mut removed = 0;
        loop {
            prepare()?;
            match WriterLock::try_acquire(disk, path) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => {}
                // A writer that gave up creating the table has removed its directory meanwhile.
                Err(error) if is_missing(&error) && removed < RETRIES => {
                    removed += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let busy = format!("{what} is being written by another process{}", holder(disk, path));
            let left = wait.most.saturating_sub(since.elapsed());
            if wait.most.is_zero() {
                return Err(Error::Busy(format!(
                    "{busy}; there is one writer at a time, try again when it has finished"
                )));
            }
            if left.is_zero() {
                return Err(Error::LimitExceeded(format!(
                    "{busy}, still after {:.1} s of waiting for it",
                    since.elapsed().as_secs_f64()
                )));
            }
            if let Some(begun) = wait.begun.as_ref().filter(|_| !is_told) {
                begun(&busy);
                is_told = true;
            }
            std::thread::sleep(pause.min(left));
            if wait.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
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

/// Who holds a lock, as far as its file says.
fn holder(disk: &dyn Disk, path: &Path) -> String {
    let described = disk.read(path, 64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match described.unwrap_or_default().trim() {
        "" => String::new(),
        pid => format!(" (pid {pid})"),
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        let _ = self.held.describe(b"");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::disk::RealDisk;

    fn acquire(path: &Path, wait: &LockWait) -> Result<WriterLock> {
        WriterLock::acquire(&RealDisk, path, "table 't'", wait, || Ok(()))
    }

    #[test]
    fn the_second_writer_is_told_who_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let first = acquire(&path, &LockWait::default()).unwrap();
        let refusal = acquire(&path, &LockWait::default()).unwrap_err();
        assert!(matches!(refusal, Error::Busy(_)), "{refusal}");
        let refusal = refusal.to_string();
        assert!(
            refusal.contains("table 't'") && refusal.contains(&std::process::id().to_string()),
            "{refusal}"
        );
        drop(first);
        assert!(acquire(&path, &LockWait::default()).is_ok());
    }

    #[test]
    fn a_directory_that_went_meanwhile_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("t");
        let calls = std::cell::Cell::new(0);
        let prepare = || {
            calls.set(calls.get() + 1);
            if calls.get() > 2 {
                std::fs::create_dir(&table).unwrap();
            }
            Ok(())
        };
        let wait = LockWait::default();
        WriterLock::acquire(&RealDisk, &table.join("LOCK"), "table 't'", &wait, prepare).unwrap();
        assert_eq!(calls.get(), 3);
    }

    #[test]
    fn a_wait_ends_with_the_lock_its_time_or_a_signal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = Arc::clone(&told);
        let wait = |most| LockWait { most, ..LockWait::default() };
        let first = acquire(&path, &wait(Duration::MAX)).unwrap();

        let late = acquire(&path, &wait(Duration::from_millis(20))).unwrap_err();
        assert!(matches!(&late, Error::LimitExceeded(what) if what.contains("still")), "{late}");

        let stopped = wait(Duration::MAX);
        stopped.cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(acquire(&path, &stopped), Err(Error::Cancelled)));

        let begun = Some(Arc::new(move |text: &str| {
            telling.lock().unwrap().push(text.to_owned());
        }) as WaitNotice);
        let patient = LockWait { begun, ..wait(Duration::from_secs(60)) };
        let second = std::thread::spawn(move || acquire(&path, &patient).map(drop));
        while told.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        drop(first);
        second.join().unwrap().unwrap();
        assert_eq!(told.lock().unwrap().len(), 1);
    }
}
