//! The sessions of a server's clients.
//!
//! A statement that comes alone has a session to itself, with nothing of any before it. Making one
//! takes longer than many a statement, so those that nothing has changed are kept for the next one
//! of the same user. Sessions with a name, and those of connections, stay as their statements leave
//! them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stylobate::{Engine, Session};

use super::users::User;
use crate::errors::Failure;

/// Sessions of one user that wait for a statement, at most.
const MOST_WAITING: usize = 64;
/// Sessions with a name that one user has, at most, and the bytes of such a name.
const MOST_OF_USER: usize = 1000;
const MOST_NAME_BYTES: usize = 256;
/// How long a table stays open that no statement reads.
const UNUSED: Duration = Duration::from_secs(5);
/// Users for whom sessions wait, at most.
const MOST_USERS: usize = 1024;

/// The sessions of a server.
pub(crate) struct Sessions {
    engine: Engine,
    /// Those that nothing has changed, by their user and whether they may write.
    fresh: Mutex<HashMap<(String, bool), Vec<Session>>>,
    /// Those with a name, by their user and name.
    named: Mutex<HashMap<(String, String), Named>>,
    most_named: usize,
}

struct Named {
    session: Arc<Mutex<Session>>,
    /// How long it lives without a statement.
    time: Duration,
    last: Instant,
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum NoSession {
    /// None has this name.
    Unknown,
    /// There are too many.
    Full,
    Failed(Failure),
}

impl Sessions {
    pub(crate) fn new(engine: Engine, most_named: usize) -> Sessions {
        Sessions { engine, fresh: Mutex::default(), named: Mutex::default(), most_named }
    }

    /// What sessions are made of.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A new session of a user.
    pub(crate) fn open(&self, user: &User, read_only: bool) -> Result<Session, Failure> {
        let mut session = self.engine.session()?;
        if user.read_only || read_only {
            session = session.read_only();
        }
        if let Some(tables) = &user.tables {
            session = session.only_tables(tables)?;
        }
        Ok(session)
    }

    /// A session that nothing has changed.
    pub(crate) fn borrow(&self, user: &User, read_only: bool) -> Result<Session, Failure> {
        let key = (user.name.clone(), user.read_only || read_only);
        let waiting = lock(&self.fresh).get_mut(&key).and_then(Vec::pop);
        waiting.map_or_else(|| self.open(user, read_only), Ok)
    }

    /// Keeps a session that nothing has changed for the next statement.
    pub(crate) fn give_back(&self, user: &User, read_only: bool, session: Session) {
        // They were about the statement that has ended.
        session.take_notes();
        let mut fresh = lock(&self.fresh);
        let key = (user.name.clone(), user.read_only || read_only);
        if fresh.len() >= MOST_USERS && !fresh.contains_key(&key) {
            fresh.clear();
        }
        let waiting = fresh.entry(key).or_default();
        if waiting.len() < MOST_WAITING {
            waiting.push(session);
        }
    }

    /// The session of this name, which is made if there is none. It is locked while a statement
    /// uses it.
    pub(crate) fn named(
        &self,
        user: &User,
        name: &str,
        time: Duration,
        must_exist: bool,
    ) -> Result<Arc<Mutex<Session>>, NoSession> {
        let key = (user.name.clone(), name.to_owned());
        let mut named = lock(&self.named);
        if let Some(known) = named.get_mut(&key) {
            (known.time, known.last) = (time, Instant::now());
            return Ok(Arc::clone(&known.session));
        }
        if must_exist {
            return Err(NoSession::Unknown);
        }
        let of_user = named.keys().filter(|(name, _)| *name == user.name).count();
        let is_full = named.len() >= self.most_named || of_user >= MOST_OF_USER;
        if is_full || name.len() > MOST_NAME_BYTES {
            return Err(NoSession::Full);
        }
        let session = self.open(user, false).map_err(NoSession::Failed)?;
        let session = Arc::new(Mutex::new(session));
        let (last, made) = (Instant::now(), Arc::clone(&session));
        named.insert(key, Named { session, time, last });
        Ok(made)
    }

    /// A statement of a session with a name has ended: its time begins anew.
    pub(crate) fn used(&self, user: &User, name: &str) {
        if let Some(known) = lock(&self.named).get_mut(&(user.name.clone(), name.to_owned())) {
            known.last = Instant::now();
        }
    }

    /// Ends sessions whose time is over, and closes tables that nobody reads.
    pub(crate) fn tidy(&self) {
        let over: Vec<Named> = {
            let mut named = lock(&self.named);
            let is_over = |_: &(String, String), it: &mut Named| {
                it.last.elapsed() > it.time && Arc::strong_count(&it.session) == 1
            };
            named.extract_if(is_over).map(|(_, session)| session).collect()
        };
        drop(over);
        self.engine.close_unused(UNUSED);
    }

    /// How many sessions have a name.
    pub(crate) fn count_named(&self) -> usize {
        lock(&self.named).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
