//! Small inserts of several sessions, stored by one commit.
//!
//! Where this stands on the road of a byte: before the ingest of rows that are in memory. A commit
//! takes some fsyncs under the writer's lock of its table. The first insert is committed at once;
//! those that come meanwhile wait, and one of them commits all of these next, as the group commit
//! of a log does. So an insert waits for nothing where it comes alone, and many at once take few
//! commits. Each returns when the commit that has its rows is on disk.
//!
//! Rows that wait are in the types of their table, and checked: what is wrong with an insert is
//! known before. If a commit of several fails nevertheless, each of them tries alone.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::model::Schema;
use crate::sql::convert::copied;
use crate::store::TableWriter;

/// Rows and bytes of an insert that waits with others, at most.
const SMALL_ROWS: usize = 1 << 16;
const SMALL_BYTES: usize = 4 << 20;
/// Those of all that one commit has, unless one has more.
const MOST_ROWS: usize = 1 << 18;
const MOST_BYTES: usize = 32 << 20;
/// How often one that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The inserts that wait, by table; sessions share them.
#[derive(Debug, Default)]
pub(in crate::sql) struct Groups {
    queues: Mutex<HashMap<String, Queue>>,
    changed: Condvar,
}

/// Rows of an insert.
#[derive(Clone, Debug, Default)]
pub(in crate::sql) struct SmallInsert {
    /// The columns of the table for which they were made.
    schema: Schema,
    pub(in crate::sql) batches: Vec<RecordBatch>,
    pub(in crate::sql) rows: usize,
    pub(in crate::sql) bytes: usize,
}

impl SmallInsert {
    pub(in crate::sql) fn new(schema: Schema) -> SmallInsert {
        SmallInsert { schema, ..SmallInsert::default() }
    }

    pub(in crate::sql) fn push(&mut self, batch: RecordBatch) {
        self.rows = self.rows.saturating_add(batch.num_rows());
        self.bytes = self.bytes.saturating_add(batch.get_array_memory_size());
        self.batches.push(batch);
    }

    /// Whether it is too large to wait with others.
    pub(in crate::sql) fn is_large(&self) -> bool {
        self.rows > SMALL_ROWS || self.bytes > SMALL_BYTES
    }
}

/// The inserts of one table.
#[derive(Debug, Default)]
struct Queue {
    stage: Stage,
    waiting: VecDeque<(u64, SmallInsert)>,
    /// What has become of those that do not wait any more.
    outcomes: HashMap<u64, Outcome>,
    /// How many have come.
    begun: u64,
}

/// What one of them does for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Nothing,
    /// It waits for the writer's lock.
    Locks,
    Commits,
}

/// What has become of an insert.
#[derive(Debug)]
enum Outcome {
    Stored,
    /// It is to try alone.
    Alone,
    Failed(Error),
}

impl Outcome {
    /// Whether the rows are stored.
    fn stored(self) -> Result<bool> {
        match self {
            Outcome::Stored => Ok(true),
            Outcome::Alone => Ok(false),
            Outcome::Failed(error) => Err(error),
        }
    }
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores rows of a table, perhaps with those of others. `open` locks the table, `load` commits
    /// rows, be they of this insert or not. Returns whether the rows are stored: if not, they are
    /// to be stored alone.
    pub(in crate::sql) fn store(
        &self,
        table: &str,
        insert: SmallInsert,
        wait: &LockWait,
        open: impl Fn() -> Result<TableWriter>,
        load: impl Fn(TableWriter, Vec<RecordBatch>) -> Result<()>,
    ) -> Result<bool> {
        let ticket = self.lock().entry(table.to_owned()).or_default().join(insert);
        loop {
            if let Some(outcome) = self.outcome(table, ticket, wait) {
                return outcome.stored();
            }
            let mut lead = Lead { groups: self, table, own: ticket, leaves: true, taken: vec![] };
            let writer = open()?;
            let rows = lead.take(writer.schema());
            let done = match rows.is_empty() {
                true => Ok(()),
                false => load(writer, rows),
            };
            lead.tell(done);
        }
    }

    /// Waits for the outcome of an insert; `None` if it is to commit what waits.
    fn outcome(&self, table: &str, ticket: u64, wait: &LockWait) -> Option<Outcome> {
        let since = Instant::now();
        let mut queues = self.lock();
        loop {
            let queue = queues.entry(table.to_owned()).or_default();
            let mut outcome = queue.outcomes.remove(&ticket);
            if outcome.is_none() && queue.waits(ticket) {
                outcome = match queue.stage {
                    Stage::Nothing => {
                        queue.stage = Stage::Locks;
                        return None;
                    }
                    _ if wait.cancelled.load(Ordering::Relaxed) => {
                        Some(Outcome::Failed(Error::Cancelled))
                    }
                    // Another process, or a long statement, writes for longer than this one waits.
                    Stage::Locks if since.elapsed() >= wait.most => Some(late(table, wait)),
                    _ => None,
                };
            }
            if let Some(outcome) = outcome {
                queue.leave(ticket);
                if queue.is_empty() {
                    queues.remove(table);
                }
                return Some(outcome);
            }
            let waited = self.changed.wait_timeout(queues, LOOK);
            (queues, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    fn join(&mut self, insert: SmallInsert) -> u64 {
        self.begun += 1;
        self.waiting.push_back((self.begun, insert));
        self.begun
    }

    fn waits(&self, ticket: u64) -> bool {
        self.waiting.iter().any(|(waiting, _)| *waiting == ticket)
    }

    fn leave(&mut self, ticket: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != ticket);
    }

    fn is_empty(&self) -> bool {
        self.stage == Stage::Nothing && self.waiting.is_empty() && self.outcomes.is_empty()
    }
}

/// What becomes of an insert that has waited for as long as it may.
fn late(table: &str, wait: &LockWait) -> Outcome {
    match wait.most.is_zero() {
        // Who waits for nobody tries at once.
        true => Outcome::Alone,
        false => Outcome::Failed(Error::LimitExceeded(format!(
            "table '{table}' is being written by another one, still after {:.1} s of waiting for it",
            wait.most.as_secs_f64()
        ))),
    }
}

/// One insert that commits those that wait. When it is dropped, another one may.
struct Lead<'a> {
    groups: &'a Groups,
    table: &'a str,
    /// Its ticket.
    own: u64,
    /// Whether it waits no more, because it has not got the lock.
    leaves: bool,
    /// Those whose rows are being committed.
    taken: Vec<u64>,
}

impl Lead<'_> {
    fn with_queue<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(self.groups.lock().entry(self.table.to_owned()).or_default())
    }

    /// The rows that are committed next, in the order in which they came. Those that were made for
    /// other columns try alone.
    fn take(&mut self, schema: &Schema) -> Vec<RecordBatch> {
        let (taken, batches) = self.with_queue(|queue| {
            queue.stage = Stage::Commits;
            let (mut taken, mut batches) = (Vec::new(), Vec::new());
            let (mut rows, mut bytes) = (0, 0);
            while let Some((ticket, insert)) = queue.waiting.pop_front() {
                if insert.schema != *schema {
                    queue.outcomes.insert(ticket, Outcome::Alone);
                    continue;
                }
                rows += insert.rows;
                bytes += insert.bytes;
                if !taken.is_empty() && (rows > MOST_ROWS || bytes > MOST_BYTES) {
                    queue.waiting.push_front((ticket, insert));
                    break;
                }
                taken.push(ticket);
                batches.extend(insert.batches);
            }
            (taken, batches)
        });
        (self.taken, self.leaves) = (taken, false);
        batches
    }

    /// Tells those whose rows were taken what has become of them.
    fn tell(&mut self, done: Result<()>) {
        let taken = std::mem::take(&mut self.taken);
        self.with_queue(|queue| match (taken.as_slice(), done) {
            ([ticket], Err(error)) if *ticket == self.own => {
                queue.outcomes.insert(*ticket, Outcome::Failed(error));
            }
            (taken, done) => {
                let outcome = |ticket: &u64| {
                    let outcome = match &done {
                        Ok(()) => Outcome::Stored,
                        // The rows are stored: to try once more would store them twice.
                        Err(error @ (Error::Unconfirmed { .. } | Error::Unreported { .. })) => {
                            Outcome::Failed(copied(error))
                        }
                        Err(_) => Outcome::Alone,
                    };
                    (*ticket, outcome)
                };
                queue.outcomes.extend(taken.iter().map(outcome));
            }
        });
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        let mut queues = self.groups.lock();
        let queue = queues.entry(self.table.to_owned()).or_default();
        queue.stage = Stage::Nothing;
        if self.leaves {
            queue.leave(self.own);
        }
        // After a panic, nobody has told them.
        for ticket in taken {
            let what = "the commit with these rows ended without an outcome: they may be stored";
            queue.outcomes.insert(ticket, Outcome::Failed(Error::Unsupported(what.into())));
        }
        if queue.is_empty() {
            queues.remove(self.table);
        }
        drop(queues);
        self.groups.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn who_gets_no_lock_leaves_nobody_waiting() {
        let groups = Groups::default();
        let store = |open: &dyn Fn() -> Result<TableWriter>| {
            let (insert, wait) = (SmallInsert::default(), LockWait::default());
            catch_unwind(AssertUnwindSafe(|| {
                groups.store("t", insert, &wait, open, |_, _| Ok(())).map_err(|e| e.to_string())
            }))
        };
        assert!(store(&|| panic!("of the file system")).is_err());
        assert!(groups.lock().is_empty());
        let refused = store(&|| Err(Error::Busy("another one writes".into()))).unwrap();
        assert_eq!(refused, Err("another one writes".to_owned()));
        assert!(groups.lock().is_empty());
    }
}
