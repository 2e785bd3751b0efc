//! Ends a command on Ctrl-C, on SIGTERM and at its timeout; removes temporary files.
//!
//! Work that is asked to stop does so between two blocks, and then its command reports why. Not all
//! of it asks often enough: planning, an operator in the middle of a batch, input that does not
//! come, a machine that thrashes. So the watch waits a moment, and then ends the process itself,
//! but not while a commit runs. Nothing is lost by that: tables are as they were before the
//! statement or the load, and temporary and uncommitted files are removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stylobate::internal::ingest::remove_unpublished;
use stylobate::internal::store::{commits_ended, forbid_commits, remove_uncommitted};
use stylobate::{Canceller, Error, Session};

use crate::context::Context;
use crate::errors::{Failure, note_timeout};
use crate::exit::Exit;
use crate::output::remove_unfinished;
use crate::pager;
use crate::signals;
use crate::terminal;

/// How often something is looked at that nobody announces.
const INTERVAL: Duration = Duration::from_millis(20);

/// How long a command has to stop by itself.
const GRACE: Duration = Duration::from_millis(140);

/// Whether some thread has begun to report how the command ended.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Whether the command ends by itself after the first signal, however long that takes.
static ENDS_BY_ITSELF: AtomicBool = AtomicBool::new(false);

/// Tells which directories of temporary files there are.
type Directories = Box<dyn Fn() -> Vec<PathBuf> + Send>;

/// What goes when the command ends.
static TEMPORARY: Mutex<Vec<Directories>> = Mutex::new(Vec::new());

/// Watches for signals from now on, and for the end of the time that the command may take. Fails if
/// nobody would end the command at that time.
pub(crate) fn start(context: &Context, timeout: Option<Duration>) -> Result<(), Failure> {
    let (stopped, context, started) = (signals::cancellation(), *context, Instant::now());
    let look = move || {
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        if let Some(timeout) = timeout.filter(|_| left == Some(Duration::ZERO)) {
            // The reason comes before the request.
            note_timeout(timeout);
            stopped.store(true, Ordering::Relaxed);
            signals::announce();
        }
        (stopped.load(Ordering::Relaxed), left)
    };
    // The time may be over before the command begins.
    let _ = look();
    let watch = std::thread::Builder::new().spawn(move || {
        loop {
            let seen = signals::events();
            let (false, left) = look() else { break };
            signals::wait_for_event(seen, left);
        }
        if !ENDS_BY_ITSELF.load(Ordering::Relaxed) {
            end_process(&context, &Failure::stopped());
        }
    });
    keeps_time(watch.err(), timeout)
}

/// Where the system starts no thread, a first signal is seen between two blocks, and a second one
/// ends the process all the same; but input that does not come would outlast any timeout.
fn keeps_time(no_watch: Option<io::Error>, timeout: Option<Duration>) -> Result<(), Failure> {
    match no_watch.filter(|_| timeout.is_some()) {
        None => Ok(()),
        Some(error) => {
            let what = format!("--timeout needs a thread, which the system did not start: {error}");
            let failure = Failure::new(Exit::Limit, "limit-exceeded", what);
            Err(failure.hint("raise the limit of processes, or leave out --timeout"))
        }
    }
}

/// Leaves the end after a first signal or the timeout to the command, which still has rows to
/// store. A second signal ends the process all the same.
pub(crate) fn leave_end_to_command() {
    ENDS_BY_ITSELF.store(true, Ordering::Relaxed);
}

/// Removes directories of temporary files when the command ends, however it ends.
pub(crate) fn remove_at_end(directories: impl Fn() -> Vec<PathBuf> + Send + 'static) {
    temporary().push(Box::new(directories));
}

/// Removes a directory of temporary files when the command ends, however it ends.
pub(crate) fn remove_directory_at_end(path: &Path) {
    let path = path.to_path_buf();
    remove_at_end(move || vec![path.clone()]);
}

fn temporary() -> MutexGuard<'static, Vec<Directories>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the command ends by itself, or ends the process.
fn end_process(context: &Context, failure: &Failure) {
    // A statement whose commit has begun ends by itself, so that its exit code tells whether its
    // rows are in force; and it has a moment to say so.
    loop {
        let ended = commits_ended();
        std::thread::sleep(GRACE);
        if commits_ended() == ended && forbid_commits() {
            break;
        }
    }
    if begin_end() {
        remove_unpublished();
        remove_uncommitted();
        remove_temporary();
        terminal::restore_settings();
        failure.report(context.error_format, context.color_stderr());
        // Threads still run: an operator may have begun to spill after the first removal.
        remove_temporary();
        std::process::exit(failure.exit as i32);
    }
}

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
    /// Starts watching. The timeout is that of the command.
    pub(crate) fn start(session: &Session, context: &Context) -> QueryWatch {
        let interrupted = signals::cancellation();
        let reasons = Reasons { interrupted, timed_out: Arc::default(), timeout: None };
        let (watch, context) = (QueryWatch(reasons.clone()), *context);
        remove_at_end(session.spill_directories());
        let canceller = session.canceller();
        let _ = std::thread::Builder::new().spawn(move || {
            loop {
                let seen = signals::events();
                if reasons.check().is_err() {
                    break;
                }
                signals::wait_for_event(seen, None);
            }
            canceller.cancel();
            if let Err(failure) = reasons.check() {
                end_process(&context, &failure);
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

/// How long a statement of a shell may take to stop before another Ctrl-C ends the shell.
const PATIENCE: Duration = Duration::from_secs(2);

/// Ends statements of a session that outlives them, on Ctrl-C and at the timeout.
pub(crate) struct StatementWatch {
    reasons: Reasons,
    running: Arc<Mutex<Running>>,
    canceller: Canceller,
}

/// Since when a statement runs, and when it was asked to stop.
#[derive(Debug, Default)]
struct Running {
    since: Option<Instant>,
    asked: Option<Instant>,
}

impl StatementWatch {
    /// Starts watching over a session. The timeout is that of each statement.
    pub(crate) fn start(session: &Session, context: &Context) -> Result<StatementWatch, Failure> {
        let (interrupted, timed_out) = (Arc::default(), Arc::default());
        let reasons = Reasons { interrupted, timed_out, timeout: context.timeout };
        let canceller = session.canceller();
        let watch = StatementWatch { reasons, running: Arc::default(), canceller };
        remove_at_end(session.spill_directories());
        let (reasons, running) = (watch.reasons.clone(), Arc::clone(&watch.running));
        let (canceller, context) = (watch.canceller.clone(), *context);
        let started = std::thread::Builder::new().spawn(move || {
            loop {
                let seen = signals::events();
                let left = look(&running, &reasons, &canceller, &context);
                signals::wait_for_event(seen, left);
            }
        });
        keeps_time(started.err(), context.timeout)?;
        Ok(watch)
    }

    /// What a runner of the statements asks.
    pub(crate) fn of_runner(&self) -> QueryWatch {
        QueryWatch(self.reasons.clone())
    }

    /// Runs statements, which Ctrl-C and the timeout may end.
    pub(crate) fn over<T>(&self, run: impl FnOnce() -> T) -> T {
        self.set(Some(Instant::now()));
        let done = run();
        self.set(None);
        done
    }

    fn set(&self, since: Option<Instant>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Running { since, asked: None };
        signals::take_interrupt();
        self.reasons.interrupted.store(false, Ordering::Relaxed);
        self.reasons.timed_out.store(false, Ordering::Relaxed);
        if since.is_some() {
            // Until then, work that was asked to stop may find out that it was.
            self.canceller.reset();
            drop(running);
            signals::announce();
        }
    }
}

/// Ends the statement that runs if its time is over or Ctrl-C was pressed. Returns how long there
/// is nothing to look at but events.
fn look(
    running: &Mutex<Running>,
    reasons: &Reasons,
    canceller: &Canceller,
    context: &Context,
) -> Option<Duration> {
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    let since = running.since?;
    let is_read = pager::is_read();
    let left = reasons.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
    let is_over = left == Some(Duration::ZERO);
    let is_late = is_over && !is_read && !reasons.timed_out.swap(true, Ordering::Relaxed);
    let is_interrupted = signals::take_interrupt() && !is_read;
    reasons.interrupted.fetch_or(is_interrupted, Ordering::Relaxed);
    if is_late || is_interrupted {
        canceller.cancel();
        let asked = *running.asked.get_or_insert_with(Instant::now);
        drop(running);
        if is_interrupted && asked.elapsed() > PATIENCE {
            end_process(context, &Failure::stopped());
        }
    }
    match left {
        Some(_) if is_over && is_read => Some(INTERVAL),
        left => left.filter(|_| !is_over),
    }
}

impl Reasons {
    fn check(&self) -> Result<(), Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::stopped());
        }
        match self.timeout {
            Some(timeout) if self.timed_out.load(Ordering::Relaxed) => {
                Err(Failure::timeout(timeout))
            }
            _ => Ok(()),
        }
    }
}

/// Removes what is left of files and directories that only this command uses.
fn remove_temporary() {
    remove_unfinished();
    let directories = temporary().iter().flat_map(|paths| paths()).collect::<Vec<_>>();
    directories.iter().for_each(|path| remove_directory(path));
}

/// Removes a directory of temporary files, to which threads may still add some. If that fails, it
/// is one among others.
#[expect(clippy::disallowed_methods, reason = "a temporary directory, not one of a store")]
fn remove_directory(path: &Path) {
    for _ in 0..5 {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => return,
        }
    }
}

/// Whether this thread is the one that reports how the command ended, and ends the process.
fn begin_end() -> bool {
    !ENDED.swap(true, Ordering::AcqRel)
}

/// Waits for the end of the process if the watch is about to end it; else removes temporary files
/// and leaves the end to the caller.
pub(crate) fn end_command() {
    while !begin_end() {
        std::thread::sleep(INTERVAL);
    }
    remove_temporary();
}
