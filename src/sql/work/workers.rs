//! The threads of a session while it works: a crew of its engine, from the first statement that
//! runs to the end of the last one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{Either, select};
use rayon::ThreadPool;

use super::cancel::Canceller;
use super::crews::{Crew, Crews};
use crate::error::{Error, Result};
use crate::ingest::sources::foreign::guarded;
use crate::sql::convert::engine_failed;
use crate::sql::stack::with_levels;

/// The threads of a session. Dropping them waits for nothing: a task in the middle of a block ends
/// by itself.
#[derive(Debug)]
pub(in crate::sql) struct Workers {
    crews: Arc<Crews>,
    lent: Mutex<Lent>,
    /// Levels of the deepest expression so far.
    levels: AtomicUsize,
}

/// What the session has borrowed.
#[derive(Debug, Default)]
struct Lent {
    crew: Option<Arc<Crew>>,
    /// How many pieces of work need it.
    users: usize,
}

/// Keeps the session's threads, as long as it lives.
#[derive(Debug)]
pub(in crate::sql) struct Working(Arc<Workers>);

impl Workers {
    pub(in crate::sql) fn new(crews: Arc<Crews>) -> Workers {
        Workers { crews, lent: Mutex::default(), levels: AtomicUsize::new(0) }
    }

    /// Tells how many levels deep an expression of what will run may be.
    pub(in crate::sql) fn expect_levels(&self, levels: usize) {
        self.levels.fetch_max(levels, Ordering::Relaxed);
    }

    /// Runs `work` on this thread, with the stack that statements need.
    pub(in crate::sql) fn on_stack<T>(&self, work: impl FnOnce() -> T) -> T {
        with_levels(self.levels.load(Ordering::Relaxed), work)
    }

    /// Keeps the threads from now on, until all that keeps them is dropped.
    pub(in crate::sql) fn keep(self: &Arc<Self>) -> Working {
        self.lent().users += 1;
        Working(Arc::clone(self))
    }

    /// Runs `work` on this thread, and what it spawns on the workers, unless the session is
    /// cancelled first.
    pub(in crate::sql) fn run<T>(
        self: &Arc<Self>,
        canceller: &Canceller,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        let _kept = self.keep();
        let crew = self.crew()?;
        let Some(runtime) = crew.runtime() else { return Err(Error::Cancelled) };
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
        if matches!(done, Err(Error::Cancelled)) {
            // Threads of cancelled work may be in the middle of a batch for minutes, such as that
            // of a join without a key, and the next statement must not wait for them.
            self.lent().crew = None;
        }
        done
    }

    /// The threads on which fragments run.
    pub(in crate::sql) fn pool(&self) -> Result<Arc<ThreadPool>> {
        self.crew()?.pool()
    }

    fn crew(&self) -> Result<Arc<Crew>> {
        let mut lent = self.lent();
        if let Some(crew) = &lent.crew {
            return Ok(Arc::clone(crew));
        }
        Ok(Arc::clone(lent.crew.insert(Arc::new(self.crews.borrow()?))))
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let crew = {
            let mut lent = self.0.lent();
            lent.users -= 1;
            if lent.users == 0 { lent.crew.take() } else { None }
        };
        // What a task still holds is not lent to others.
        if let Some(crew) = crew.and_then(Arc::into_inner) {
            self.0.crews.give_back(crew);
        }
    }
}
