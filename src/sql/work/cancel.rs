//! How to stop what a session is doing, from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Stops what a session is doing, from any thread (a signal handler's, a timer's): the statement in
/// progress, and every later one, ends with [`crate::Error::Cancelled`] until [`Canceller::reset`].
#[derive(Clone, Debug, Default)]
pub struct Canceller {
    inner: Arc<Stop>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Arc<AtomicBool>,
    /// How often stopping was asked for.
    requests: AtomicU64,
    wake: Notify,
}

/// Whether a statement was cancelled.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Cancelled {
    inner: Arc<Stop>,
    /// The requests before the statement.
    requests: u64,
}

impl Cancelled {
    pub(in crate::sql) fn is_set(&self) -> bool {
        self.inner.requests.load(Ordering::Relaxed) != self.requests
    }
}

impl Canceller {
    /// Asks to stop; work ends at the next block boundary.
    pub fn cancel(&self) {
        self.inner.requests.fetch_add(1, Ordering::Release);
        self.inner.stopped.store(true, Ordering::Release);
        self.inner.wake.notify_waiters();
    }

    /// Takes the request back, so that a shell can go on.
    pub fn reset(&self) {
        self.inner.stopped.store(false, Ordering::Release);
    }

    /// Whether stopping has been asked for.
    pub fn is_cancelled(&self) -> bool {
        self.inner.stopped.load(Ordering::Acquire)
    }

    /// Whether stopping will have been asked for after now, also where the request has been taken
    /// back for later statements.
    pub(in crate::sql) fn after_now(&self) -> Cancelled {
        let requests = self.inner.requests.load(Ordering::Acquire);
        Cancelled { inner: Arc::clone(&self.inner), requests }
    }

    /// What is set when stopping is asked for.
    pub(in crate::sql) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.stopped)
    }

    pub(super) async fn cancelled(&self) {
        loop {
            // Registered before the flag is read, so that no wake-up is lost.
            let mut woken = std::pin::pin!(self.inner.wake.notified());
            woken.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            woken.await;
        }
    }
}
