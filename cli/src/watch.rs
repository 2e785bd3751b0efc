//! Cancels a query on Ctrl-C and at its timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stylobate::{Error, Session};

use crate::errors::Failure;
use crate::signals;
use crate::units::show_duration;

/// Watches over the queries of a session, also between two batches.
pub(crate) struct QueryWatch {
    interrupted: Arc<AtomicBool>,
    timed_out: Arc<AtomicBool>,
    timeout: Option<Duration>,
}

impl QueryWatch {
    /// Starts watching, and counts the timeout from now.
    pub(crate) fn start(session: &Session, timeout: Option<Duration>) -> QueryWatch {
        let interrupted = signals::cancellation();
        let watch = QueryWatch { interrupted, timed_out: Arc::default(), timeout };
        let (interrupted, timed_out) =
            (Arc::clone(&watch.interrupted), Arc::clone(&watch.timed_out));
        let (canceller, started) = (session.canceller(), Instant::now());
        std::thread::spawn(move || {
            while !interrupted.load(Ordering::Relaxed) {
                if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
                    timed_out.store(true, Ordering::Relaxed);
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            canceller.cancel();
        });
        watch
    }

    /// Fails once the query was cancelled.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        match self.timeout {
            Some(timeout) if self.timed_out.load(Ordering::Relaxed) => {
                Err(Error::LimitExceeded(format!("timeout of {} reached", show_duration(timeout)))
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// The failure for an error of a query: why it was cancelled, or the error itself.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        self.check().err().unwrap_or_else(|| error.into())
    }
}
