//! Which statements may begin: some run at a time, some wait for their turn, and the rest is
//! refused at once, so that a crowded server answers with words and not with silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many statements run and wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    /// The most that run at a time.
    pub(crate) running: usize,
    /// The most that wait for one of these to end.
    pub(crate) waiting: usize,
    /// How long one waits at most.
    pub(crate) patience: Duration,
}

/// Lets statements begin, in the order in which they have come.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: AdmissionLimits,
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Why a statement may not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too many are waiting.
    Full,
    /// Its time in the queue is over.
    TooLate,
    /// The server ends.
    Ending,
}

/// The place of a statement that runs. Dropping it lets another one begin.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Admission {
    pub(crate) fn new(limits: AdmissionLimits) -> Admission {
        let free = Arc::new(Semaphore::new(limits.running.clamp(1, Semaphore::MAX_PERMITS)));
        Admission { limits, free, waiting: AtomicUsize::new(0) }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self) -> Result<Place, Refused> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(Place(permit));
        }
        if self.free.is_closed() {
            return Err(Refused::Ending);
        }
        let _waiting = Waiting::one_of(&self.waiting, self.limits.waiting)?;
        let permit = Arc::clone(&self.free).acquire_owned();
        match tokio::time::timeout(self.limits.patience, permit).await {
            Ok(Ok(permit)) => Ok(Place(permit)),
            Ok(Err(_)) => Err(Refused::Ending),
            Err(_) => Err(Refused::TooLate),
        }
    }

    /// From now on, nothing begins.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    /// How many statements wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The most that run at a time, and the most that wait.
    pub(crate) fn limits(&self) -> AdmissionLimits {
        self.limits
    }
}

/// One of those that wait, also if its connection is closed meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn one_of(count: &AtomicUsize, most: usize) -> Result<Waiting<'_>, Refused> {
        let waiting = Waiting(count);
        match count.fetch_add(1, Ordering::Relaxed) < most {
            true => Ok(waiting),
            false => Err(Refused::Full),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn the_next_one_begins_when_one_ends() {
        let patience = Duration::from_secs(60);
        let admission = Admission::new(AdmissionLimits { running: 1, waiting: 1, patience });
        run(async {
            let first = admission.enter().await.unwrap();
            let mut second = std::pin::pin!(admission.enter());
            let short = Duration::from_millis(5);
            assert!(tokio::time::timeout(short, &mut second).await.is_err());
            assert_eq!(admission.waiting(), 1);
            assert_eq!(admission.enter().await.unwrap_err(), Refused::Full);
            drop(first);
            second.await.unwrap();
            assert_eq!(admission.waiting(), 0);
        });
    }

    #[test]
    fn patience_ends_and_so_does_the_server() {
        let patience = Duration::from_millis(5);
        let admission = Admission::new(AdmissionLimits { running: 1, waiting: 9, patience });
        run(async {
            let _first = admission.enter().await.unwrap();
            assert_eq!(admission.enter().await.unwrap_err(), Refused::TooLate);
            assert_eq!(admission.waiting(), 0);
            admission.close();
            assert_eq!(admission.enter().await.unwrap_err(), Refused::Ending);
        });
    }
}
