//! The statements that run: who has asked for which, since when, how far they are, and how to end
//! one: by its time, by KILL, by a client that is gone, by the end of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use stylobate::{BatchStream, Canceller, Session, StatementMemory, StatementProgress};

use super::finished::{Done, Finished, FinishedStatements};

/// The protocols by which statements come.
pub(crate) const PROTOCOLS: [&str; 3] = ["http", "postgres", "flight"];

/// The statements of a server that run.
#[derive(Debug, Default)]
pub(crate) struct RunningStatements {
    all: Mutex<BTreeMap<u64, Arc<RunningStatement>>>,
    begun: AtomicU64,
    /// Those that have ended, for the query log.
    pub(crate) finished: FinishedStatements,
    /// Those that have begun, by their protocol.
    begun_by: [AtomicU64; PROTOCOLS.len()],
}

/// One of them.
#[derive(Debug)]
pub(crate) struct RunningStatement {
    /// Its number, which no other of this server has.
    pub(crate) number: u64,
    /// What its client calls it.
    pub(crate) id: String,
    pub(crate) user: String,
    /// The protocol by which it came.
    pub(crate) protocol: &'static str,
    pub(crate) sql: String,
    pub(crate) started: Instant,
    begun: SystemTime,
    /// How long it may take.
    most: Option<Duration>,
    pub(crate) progress: StatementProgress,
    memory: StatementMemory,
    canceller: Canceller,
    state: Mutex<State>,
    done: Mutex<Done>,
}

/// What has become of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// It was asked to end, and may not have noticed yet.
    AskedToEnd(Ended),
    /// Its session may answer another one.
    HasEnded(Option<Ended>),
}

/// Why a statement was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its time was over.
    Late,
    /// A KILL named it.
    Killed,
    /// Its client is gone.
    Gone,
    /// The server ends.
    Ending,
}

impl Ended {
    fn name(self) -> &'static str {
        match self {
            Ended::Late => "timeout",
            Ended::Killed => "killed",
            Ended::Gone => "client gone",
            Ended::Ending => "server ended",
        }
    }
}

/// What is known of a statement before it runs.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) protocol: &'static str,
    pub(crate) sql: String,
    pub(crate) most: Option<Duration>,
}

/// The entry of a statement that runs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    all: Arc<RunningStatements>,
    pub(crate) statement: Arc<RunningStatement>,
}

/// Ends a statement when it is dropped: its client does not wait any more.
#[derive(Debug)]
pub(crate) struct EndWithClient(pub(crate) Arc<RunningStatement>);

impl RunningStatements {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<RunningStatement>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A statement begins, on this session.
    pub(crate) fn begin(self: &Arc<Self>, asked: Asked, session: &Session) -> Entry {
        let statement = self.made(asked, session);
        self.lock().insert(statement.number, Arc::clone(&statement));
        Entry { all: Arc::clone(self), statement }
    }

    /// The same, unless one of the same user runs that has its name.
    pub(crate) fn begin_alone(self: &Arc<Self>, asked: Asked, session: &Session) -> Option<Entry> {
        let statement = self.made(asked, session);
        let mut all = self.lock();
        if all.values().any(|other| other.id == statement.id && other.user == statement.user) {
            return None;
        }
        all.insert(statement.number, Arc::clone(&statement));
        Some(Entry { all: Arc::clone(self), statement })
    }

    fn made(&self, asked: Asked, session: &Session) -> Arc<RunningStatement> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let Asked { id, user, protocol, sql, most } = asked;
        let place = PROTOCOLS.iter().position(|known| *known == protocol);
        if let Some(count) = place.and_then(|place| self.begun_by.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Arc::new(RunningStatement {
            number,
            id,
            user,
            protocol,
            sql,
            started: Instant::now(),
            begun: SystemTime::now(),
            most,
            progress: session.progress(),
            memory: session.memory_used(),
            canceller: session.canceller(),
            state: Mutex::new(State::Runs),
            done: Mutex::default(),
        })
    }

    /// All that run, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<RunningStatement>> {
        self.lock().values().cloned().collect()
    }

    /// How many have begun, and how many of them run.
    pub(crate) fn counts(&self) -> (u64, usize) {
        (self.begun.load(Ordering::Relaxed), self.lock().len())
    }

    /// How many have begun, by their protocol.
    pub(crate) fn counts_by_protocol(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.begun_by.iter().map(|count| count.load(Ordering::Relaxed));
        PROTOCOLS.into_iter().zip(counts)
    }

    /// Ends those whose time is over.
    pub(crate) fn end_late(&self) {
        for statement in self.list() {
            if statement.most.is_some_and(|most| statement.started.elapsed() >= most) {
                statement.end(Ended::Late);
            }
        }
    }

    /// Ends all.
    pub(crate) fn end_all(&self) {
        self.list().iter().for_each(|statement| statement.end(Ended::Ending));
    }
}

impl RunningStatement {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what it has done, for the query log.
    pub(crate) fn tell(&self, tell: impl FnOnce(&mut Done)) {
        tell(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn finished(&self, ended: Option<Ended>) -> Finished {
        let mut done = Done::default();
        self.tell(|told| done = std::mem::take(told));
        done.memory = self.memory.most();
        Finished {
            begun: self.begun,
            time: self.started.elapsed(),
            id: self.id.clone(),
            user: self.user.clone(),
            protocol: self.protocol,
            sql: self.sql.clone(),
            ended: ended.map(Ended::name),
            done,
        }
    }

    /// Asks the statement to end, if it runs. The first reason counts.
    pub(crate) fn end(&self, why: Ended) {
        let mut state = self.state();
        if *state == State::Runs {
            *state = State::AskedToEnd(why);
            // Under the lock: once it has ended, its session may answer another one.
            self.canceller.cancel();
        }
    }

    /// Why it was asked to end, if it was.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match *self.state() {
            State::Runs => None,
            State::AskedToEnd(why) => Some(why),
            State::HasEnded(why) => why,
        }
    }
}

impl Entry {
    /// The statement has ended; why it was asked to, if it was. Nothing cancels its session then.
    pub(crate) fn end(&self) -> Option<Ended> {
        let mut state = self.statement.state();
        let why = match *state {
            State::Runs => None,
            State::AskedToEnd(why) => Some(why),
            State::HasEnded(why) => why,
        };
        *state = State::HasEnded(why);
        why
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let ended = self.end();
        self.all.lock().remove(&self.statement.number);
        if self.all.finished.are_kept() {
            let finished = self.statement.finished(ended);
            if !finished.done.is_planned_only {
                self.all.finished.add(finished);
            }
        }
    }
}

/// The rows that a statement says, by a batch of its answer, it has stored, deleted or changed.
pub(crate) fn rows_changed_in(batch: &RecordBatch) -> u64 {
    let counts = batch.columns().first().and_then(|it| it.as_primitive_opt::<UInt64Type>());
    counts.map_or(0, |counts| counts.iter().flatten().sum())
}

/// The same by the whole answer.
pub(crate) fn rows_changed(answer: &mut BatchStream) -> stylobate::Result<u64> {
    answer.try_fold(0, |rows, batch| Ok(rows + rows_changed_in(&batch?)))
}

impl Drop for EndWithClient {
    fn drop(&mut self) {
        self.0.end(Ended::Gone);
    }
}
