//! Ends a query on Ctrl-C and at its timeout.
//!
//! A query that is asked to stop does so between two blocks, and then its command reports why. Not
//! all of it asks often enough: planning, an operator in the middle of a batch, a machine that
//! thrashes. So the watch waits a moment, and then ends the process itself, but not while a commit
//! runs. Nothing is lost by that: tables are as they were before the statement, and unnamed
//! temporary files go with the process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stylobate::internal::store::is_committing;
use stylobate::{Error, Session};

use crate::context::Context;
use crate::errors::Failure;
use crate::output::remove_unfinished;
use crate::signals;
use crate::units::show_duration;

/// How often the watch looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long a query has to stop by itself.
const GRACE: Duration = Duration::from_millis(140);

/// Whether some thread has begun to report how the command ended.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Why a query has to stop.
#[derive(Clone, Debug)]
struct Reasons {
    interrupted: Arc<AtomicBool>,
    timed_out: Arc<AtomicBool>,
    timeout: Option<Duration>,
}

/// Watches over the queries of a session, also between two batches.
pub(crate) struct QueryWatch(Reasons);

impl QueryWatch {
    /// Starts watching, and counts the timeout from now.
    pub(crate) fn start(
        session: &Session,
        timeout: Option<Duration>,
        context: &Context,
    ) -> QueryWatch {
        let interrupted = signals::cancellation();
        let reasons = Reasons { interrupted, timed_out: Arc::default(), timeout };
        let (watch, context) = (QueryWatch(reasons.clone()), *context);
        let (canceller, spill_directories) = (session.canceller(), session.spill_directories());
        let started = Instant::now();
        std::thread::spawn(move || {
            while reasons.check().is_ok() {
                std::thread::sleep(INTERVAL);
                if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
                    reasons.timed_out.store(true, Ordering::Relaxed);
                }
            }
            canceller.cancel();
            std::thread::sleep(GRACE);
            // A statement whose commit has begun ends by itself, so that its exit code tells
            // whether its rows are in force.
            while is_committing() {
                std::thread::sleep(GRACE);
            }
            if let Err(failure) = reasons.check()
                && begin_end()
            {
                remove_unfinished();
                spill_directories().into_iter().for_each(remove_directory);
                failure.report(context.error_format, context.color_stderr());
                std::process::exit(failure.exit as i32);
            }
        });
        watch
    }

    /// Fails once the query was cancelled.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.0.check()
    }

    /// The failure for an error of a query: why it was cancelled, or the error itself.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        self.check().err().unwrap_or_else(|| error.into())
    }
}

impl Reasons {
    fn check(&self) -> Result<(), Failure> {
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
}

/// Removes a directory of temporary files. If that fails, it is one among them.
#[expect(clippy::disallowed_methods, reason = "a temporary directory, not one of a store")]
fn remove_directory(path: PathBuf) {
    let _ = std::fs::remove_dir_all(path);
}

/// Whether this thread is the one that reports how the command ended, and ends the process.
fn begin_end() -> bool {
    !ENDED.swap(true, Ordering::AcqRel)
}

/// Waits for the end of the process if the watch is about to end it; else the watch leaves it to
/// the caller.
pub(crate) fn end_command() {
    while !begin_end() {
        std::thread::sleep(INTERVAL);
    }
}
