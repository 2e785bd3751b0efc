//! The threads on which a session works, and how to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::time::Duration;

use futures::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::disk::memory;
use crate::error::{Error, Result};
use crate::ingest::sources::foreign::{WORKER, guarded};
use crate::sql::convert::engine_failed;
use crate::sql::stack::{WORKER_BYTES, with_levels};

/// The worker threads. Dropping them waits for nothing: a task in the middle of a block ends by
/// itself.
#[derive(Debug)]
pub(crate) struct Workers {
    runtime: Mutex<Option<Arc<Runtime>>>,
    threads: usize,
    /// Levels of the deepest expression so far.
    levels: AtomicUsize,
}

impl Workers {
    pub(crate) fn new(threads: usize) -> Result<Self> {
        let runtime = Mutex::new(Some(Arc::new(start(threads)?)));
        Ok(Workers { runtime, threads, levels: AtomicUsize::new(0) })
    }

    /// Tells how many levels deep an expression of what will run may be.
    pub(crate) fn expect_levels(&self, levels: usize) {
        self.levels.fetch_max(levels, Ordering::Relaxed);
    }

    /// Runs `work` on this thread, with the stack that statements need.
    pub(crate) fn on_stack<T>(&self, work: impl FnOnce() -> T) -> T {
        with_levels(self.levels.load(Ordering::Relaxed), work)
    }

    /// Runs `work` on this thread, and what it spawns on the workers, unless the session is
    /// cancelled first.
    pub(crate) fn run<T>(&self, canceller: &Canceller, work: impl Future<Output = T>) -> Result<T> {
        let Some(runtime) = self.runtime().clone() else { return Err(Error::Cancelled) };
        let work = async {
            let (work, stop) = (std::pin::pin!(work), std::pin::pin!(canceller.cancelled()));
            match select(stop, work).await {
                Either::Left(_) => Err(Error::Cancelled),
                Either::Right((done, _)) => Ok(done),
            }
        };
        // An operator that panics ends its statement, not the program.
        let done = guarded(|| self.on_stack(|| runtime.block_on(work)));
        let done = done.unwrap_or_else(|panicked| Err(engine_failed(&panicked.0)));
        leave(runtime);
        if matches!(done, Err(Error::Cancelled)) {
            self.renew();
        }
        done
    }

    /// Starts other threads: those of cancelled work may be in the middle of a batch for minutes,
    /// such as that of a join without a key, and the next statement must not wait for them.
    fn renew(&self) {
        let Ok(new) = start(self.threads) else { return };
        let old = self.runtime().replace(Arc::new(new));
        old.into_iter().for_each(leave);
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Arc<Runtime>>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(threads: usize) -> Result<Runtime> {
    let threads = threads.max(1);
    if !may_lack_threads() {
        return build(threads);
    }
    try_threads(threads).map_err(Error::too_few_threads)?;
    // The trial takes less memory than workers do, so one of these may still be refused.
    let (send, receive) = mpsc::channel();
    let starter = std::thread::Builder::new().spawn(move || send.send(build(threads)));
    starter.map_err(Error::too_few_threads)?;
    let late = |_| Error::too_few_threads("some have not started within 10 s");
    receive.recv_timeout(START_TIME).map_err(late)?
}

/// How long workers may take to start before they are given up.
const START_TIME: Duration = Duration::from_secs(10);

fn build(threads: usize) -> Result<Runtime> {
    let build = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(WORKER)
            .thread_stack_size(WORKER_BYTES)
            .build()
    };
    // It panics where the system starts no thread.
    guarded(build)
        .map_err(|panicked| Error::too_few_threads(panicked.0))?
        .map_err(Error::too_few_threads)
}

/// Below this limit, the threads of a user's processes are expected to reach it.
const FEW_PROCESSES: u64 = 4096;

/// Whether a limit of the process may keep it from starting threads.
fn may_lack_threads() -> bool {
    let limit = |name| memory::limit_of_process(name);
    limit(memory::ADDRESS_SPACE).or(limit(memory::DATA)).is_some()
        || limit(memory::PROCESSES).is_some_and(|most| most < FEW_PROCESSES)
}

/// Starts as many threads at a time as workers, and ends them: where one worker does not start,
/// tokio waits for ever for the end of those before it, which nobody has told to end.
fn try_threads(threads: usize) -> std::io::Result<()> {
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        let _closed = gate.write();
        (0..threads).try_for_each(|_| {
            let thread = std::thread::Builder::new().stack_size(WORKER_BYTES);
            thread.spawn_scoped(scope, || drop(gate.read())).map(drop)
        })
    })
}

/// Gives up threads, if this is the last that uses them, without waiting for what they do.
fn leave(runtime: Arc<Runtime>) {
    if let Some(runtime) = Arc::into_inner(runtime) {
        runtime.shutdown_background();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let runtime = self.runtime().take();
        runtime.into_iter().for_each(leave);
    }
}

/// Stops what a session is doing, from any thread (a signal handler's, a timer's): the statement in
/// progress, and every later one, ends with [`Error::Cancelled`] until [`Canceller::reset`].
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

    async fn cancelled(&self) {
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
