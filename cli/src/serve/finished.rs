//! Statements that have ended and wait to be written to the query log. They are dropped, and
//! counted, where the log is behind: no statement waits for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Statements that wait, and the bytes of their texts, at most.
const MOST_WAITING: usize = 1 << 16;
const MOST_BYTES: usize = 16 << 20;
/// The most bytes that are kept of a failure's text.
const MOST_OF_MESSAGE: usize = 4096;

/// ClickHouse's number of a failure that it does not know.
pub(crate) const OTHER_FAILURE: u16 = 1002;

/// What is known of the work of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Rows that were read.
    pub(crate) rows_read: Option<u64>,
    /// Rows and bytes of its answer.
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Rows that it has stored or changed.
    pub(crate) rows_written: u64,
    /// The most memory that its operators have had at a time.
    pub(crate) memory: Option<u64>,
    /// ClickHouse's number of its failure, and the text.
    pub(crate) failure: Option<(u16, String)>,
    /// Notes about its answer, such as missing rows.
    pub(crate) notes: Option<String>,
    /// Whether it was only planned, which is no statement of its own.
    pub(crate) is_planned_only: bool,
}

impl Done {
    /// It has failed.
    pub(crate) fn fail(&mut self, code: u16, message: &str) {
        let end = message.floor_char_boundary(MOST_OF_MESSAGE.min(message.len()));
        self.failure = Some((code, message.get(..end).unwrap_or_default().to_owned()));
    }

    /// Its client was told these.
    pub(crate) fn note(&mut self, notes: &[String]) {
        for note in notes {
            let all = self.notes.get_or_insert_default();
            if !all.is_empty() {
                all.push_str("; ");
            }
            all.push_str(note);
            all.truncate(all.floor_char_boundary(MOST_OF_MESSAGE));
        }
    }
}

/// A statement that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) begun: SystemTime,
    pub(crate) time: Duration,
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) protocol: &'static str,
    pub(crate) sql: String,
    /// Why it was asked to end, if it was.
    pub(crate) ended: Option<&'static str>,
    pub(crate) done: Done,
}

impl Finished {
    /// The bytes of its texts.
    fn bytes(&self) -> usize {
        let message = self.done.failure.as_ref().map_or(0, |(_, message)| message.len());
        let notes = self.done.notes.as_ref().map_or(0, String::len);
        self.id.len() + self.user.len() + self.sql.len() + message + notes
    }
}

/// Those that wait.
#[derive(Debug, Default)]
pub(crate) struct FinishedStatements {
    /// Whether there is a log.
    are_kept: AtomicBool,
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    statements: Vec<Finished>,
    bytes: usize,
}

impl FinishedStatements {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, statements are kept.
    pub(crate) fn keep(&self) {
        self.are_kept.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_kept(&self) -> bool {
        self.are_kept.load(Ordering::Relaxed)
    }

    /// Adds one, or counts it where too many wait.
    pub(crate) fn add(&self, statement: Finished) {
        let (mut waiting, bytes) = (self.lock(), statement.bytes());
        if waiting.statements.len() >= MOST_WAITING || waiting.bytes + bytes > MOST_BYTES {
            self.drop_some(1);
            return;
        }
        waiting.bytes += bytes;
        waiting.statements.push(statement);
    }

    /// Takes all that wait.
    pub(crate) fn take(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.lock()).statements
    }

    /// Some could not be written.
    pub(crate) fn drop_some(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    /// How many were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_has_a_bound() {
        let finished = FinishedStatements::default();
        let statement = Finished {
            begun: SystemTime::now(),
            time: Duration::ZERO,
            id: "1".to_owned(),
            user: "u".to_owned(),
            protocol: "http",
            sql: "x".repeat(1 << 20),
            ended: None,
            done: Done::default(),
        };
        (0..20).for_each(|_| finished.add(statement.clone()));
        assert_eq!((finished.take().len(), finished.dropped()), (15, 5));
        let short = Finished { sql: String::new(), ..statement };
        (0..MOST_WAITING + 3).for_each(|_| finished.add(short.clone()));
        assert_eq!((finished.take().len(), finished.dropped()), (MOST_WAITING, 8));
        assert!(finished.take().is_empty());
    }
}
