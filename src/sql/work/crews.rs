//! Crews: the threads that an engine lends to a session while it works.
//!
//! Where this stands on the road of a query: each statement that runs has a crew of its own, of as
//! many threads as a statement may use. The operating system shares the cores out among the threads
//! of all crews, so that a short statement is not stuck behind a long one. A session that does
//! nothing has no thread. Crews wait for the next statement; those that wait for long are ended
//! ([`Crews::end_unused`]), for memory that others have freed stays with the thread that took it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::{Handle, Runtime};

use crate::disk::memory;
use crate::error::{Error, Result};
use crate::ingest::sources::foreign::{WORKER, guarded};
use crate::sql::stack::WORKER_BYTES;

/// Threads of crews that wait for work, at most, and crews in any case.
const MOST_WAITING: usize = 256;
const CREWS_WAITING: usize = 32;

/// The crews of an engine.
#[derive(Debug)]
pub(in crate::sql) struct Crews {
    threads: usize,
    /// Those that nobody has borrowed, and since when.
    waiting: Mutex<Vec<(Crew, Instant)>>,
}

/// How long the allocator keeps what a thread gave back as it ended: a second, and some more. It
/// returns that to the system when another thread ends afterwards.
const KEPT_TIME: Duration = Duration::from_millis(1500);

impl Crews {
    /// Crews of some threads each. None is started yet.
    pub(in crate::sql) fn new(threads: usize) -> Crews {
        Crews { threads: threads.max(1), waiting: Mutex::default() }
    }

    /// A crew that is waiting and has nothing to do any more, or a new one. Tasks of a statement
    /// that was given up may be in the middle of a batch for minutes, such as that of a join
    /// without a key, and no other statement must wait for them.
    pub(super) fn borrow(&self) -> Result<Crew> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = waiting.iter().rposition(|(crew, _)| crew.is_idle());
        let idle = idle.map(|at| waiting.swap_remove(at));
        drop(waiting);
        match idle {
            Some((crew, _)) => Ok(crew),
            None => Ok(Crew {
                threads: self.threads,
                runtime: Some(start(self.threads)?),
                pool: OnceLock::new(),
            }),
        }
    }

    /// Takes a crew back.
    pub(super) fn give_back(&self, crew: Crew) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < CREWS_WAITING.max(MOST_WAITING / self.threads) {
            waiting.push((crew, Instant::now()));
        }
    }

    /// Ends crews that have waited for this long, so that the allocator returns the memory that it
    /// keeps for their threads. What a statement took may be freed by a thread of another one, and
    /// only the thread that took it gives it back, when it takes more or ends.
    pub(in crate::sql) fn end_unused(&self, time: Duration) {
        let is_over = |(_, since): &mut (Crew, Instant)| since.elapsed() >= time;
        let over: Vec<_> = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.extract_if(.., is_over).collect()
        };
        if over.is_empty() {
            return;
        }
        // It waits for their threads, which tasks must not do. If it does not start, they are
        // given up instead.
        let end = move || {
            drop(over);
            std::thread::sleep(KEPT_TIME);
        };
        let _started = std::thread::Builder::new().name("sty-tidy".to_owned()).spawn(end);
    }
}

/// The threads of a statement: those of DataFusion's operators, which are asynchronous, and those
/// of fragments, which are started when the first one runs.
#[derive(Debug)]
pub(super) struct Crew {
    threads: usize,
    /// There until it is dropped.
    runtime: Option<Runtime>,
    pool: OnceLock<Arc<ThreadPool>>,
}

impl Crew {
    fn is_idle(&self) -> bool {
        self.runtime().is_some_and(|runtime| runtime.metrics().num_alive_tasks() == 0)
    }

    pub(super) fn runtime(&self) -> Option<&Runtime> {
        self.runtime.as_ref()
    }

    pub(super) fn pool(&self) -> Result<Arc<ThreadPool>> {
        if let Some(pool) = self.pool.get() {
            return Ok(Arc::clone(pool));
        }
        let made = ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|number| format!("sty-query-{number}"))
            .stack_size(WORKER_BYTES)
            .build()
            .map_err(Error::too_few_threads)?;
        // Of two that are made at a time, one ends.
        Ok(Arc::clone(self.pool.get_or_init(|| Arc::new(made))))
    }
}

impl Drop for Crew {
    /// Waits for idle threads, and gives the others up. Detaching a thread that ends at the same
    /// moment may crash: glibc's `pthread_detach` (2.36) may read its memory when that is unmapped.
    fn drop(&mut self) {
        let idle = self.is_idle() && Handle::try_current().is_err();
        match self.runtime.take() {
            Some(runtime) if idle => runtime.shutdown_timeout(END_TIME),
            Some(runtime) => runtime.shutdown_background(),
            None => {}
        }
    }
}

/// Starts the asynchronous threads of a crew.
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

/// How long idle workers may take to end before they are given up.
const END_TIME: Duration = Duration::from_millis(100);
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
