//! How a client of PostgreSQL ends what one of its other connections runs: each connection has a
//! number and a secret, which a request to cancel names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom as _, SystemRandom};

use super::finished::Done;
use super::running::{Ended, RunningStatement};

/// The connections whose statements may be cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    all: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    last: i32,
    known: HashMap<i32, (i32, Arc<CurrentStatement>)>,
}

/// The statement that a connection runs.
#[derive(Debug, Default)]
pub(crate) struct CurrentStatement {
    statement: Mutex<Option<Arc<RunningStatement>>>,
    is_gone: AtomicBool,
}

/// A connection as a request to cancel names it. It is forgotten when this is dropped.
pub(crate) struct CancelKey<'a> {
    all: &'a Cancels,
    pub(crate) number: i32,
    pub(crate) secret: i32,
}

impl Cancels {
    /// A key for a connection; `None` if the system gives no random numbers.
    pub(crate) fn register(&self, current: &Arc<CurrentStatement>) -> Option<CancelKey<'_>> {
        let mut secret = [0; 4];
        SystemRandom::new().fill(&mut secret).ok()?;
        let secret = i32::from_be_bytes(secret);
        let mut all = lock(&self.all);
        // Numbers begin anew some time, and some connections are old.
        loop {
            all.last = all.last.checked_add(1).unwrap_or(1);
            if !all.known.contains_key(&all.last) {
                break;
            }
        }
        let number = all.last;
        all.known.insert(number, (secret, Arc::clone(current)));
        Some(CancelKey { all: self, number, secret })
    }

    /// Ends the statement of a connection, if the secret is right.
    pub(crate) fn cancel(&self, number: i32, secret: i32) {
        let found = lock(&self.all).known.get(&number).cloned();
        if let Some((_, current)) = found.filter(|(known, _)| *known == secret) {
            current.end(Ended::Killed);
        }
    }
}

impl Drop for CancelKey<'_> {
    fn drop(&mut self) {
        lock(&self.all.all).known.remove(&self.number);
    }
}

impl CurrentStatement {
    /// A statement begins. It ends at once if its client is gone.
    pub(crate) fn begin(&self, statement: &Arc<RunningStatement>) {
        *lock(&self.statement) = Some(Arc::clone(statement));
        if self.is_gone.load(Ordering::Acquire) {
            statement.end(Ended::Gone);
        }
    }

    /// The statement has ended.
    pub(crate) fn has_ended(&self) {
        *lock(&self.statement) = None;
    }

    /// Asks the statement to end that runs, if there is one.
    fn end(&self, why: Ended) {
        lock(&self.statement).iter().for_each(|statement| statement.end(why));
    }

    /// The client is gone: what runs ends, and what begins.
    pub(crate) fn client_is_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.end(Ended::Gone);
    }

    /// Tells what the statement has done that runs, for the query log.
    pub(crate) fn tell(&self, tell: impl FnOnce(&mut Done)) {
        if let Some(statement) = lock(&self.statement).as_ref() {
            statement.tell(tell);
        }
    }

    /// Whether what runs was asked to end, or nobody waits for it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
            || lock(&self.statement).as_ref().is_some_and(|statement| statement.ended().is_some())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
