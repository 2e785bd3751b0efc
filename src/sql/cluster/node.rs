//! What a machine does for others: it answers what the state of its tables is, and runs tasks over
//! the state for which the statement was planned. It refuses a task over any other state.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::execution::TaskContext;

use super::nodes::CHANGED;
use super::state::{self, state_of};
use super::status;
use crate::error::{Error, Result};
use crate::maintain::partitions::is_within;
use crate::sql::names::catalog::Tables;
use crate::sql::run::parts::Share;
use crate::sql::run::table::StoreTable;
use crate::sql::run::task::Task;
use crate::sql::work::handle::OfSession;
use crate::store::SegmentEntry;

/// The session of this machine in which a task of another one's statement runs, among what its
/// operators know. The task ends with it.
pub(in crate::sql) struct OfNode {
    session: Arc<OfSession>,
    tables: Arc<Tables>,
    /// The functions that plans may name.
    functions: Arc<TaskContext>,
    /// The threads, which are kept for the task.
    _held: Box<dyn Any + Send + Sync>,
}

impl OfNode {
    pub(in crate::sql) fn new(
        session: &Arc<OfSession>,
        tables: &Arc<Tables>,
        functions: &Arc<TaskContext>,
        held: Box<dyn Any + Send + Sync>,
    ) -> OfNode {
        let (session, tables) = (Arc::clone(session), Arc::clone(tables));
        OfNode { session, tables, functions: Arc::clone(functions), _held: held }
    }

    pub(super) fn functions(&self) -> &TaskContext {
        &self.functions
    }

    pub(super) fn session(&self) -> &Arc<OfSession> {
        &self.session
    }

    /// A table of this machine as it is now.
    pub(super) fn table(&self, name: &str) -> Result<Arc<StoreTable>> {
        let found = self.tables.own_table(name)?;
        found.ok_or_else(|| Error::NotFound(format!("there is no table {name} any more")))
    }

    /// The rows of a task.
    pub(super) fn part(&self, task: &Task) -> Result<Arc<StoreTable>> {
        let name = &*task.table;
        let is_it = |table: &Arc<StoreTable>| state_of(table.snapshot().root()) == task.state;
        let newest = self.tables.own_table(name)?;
        let found = match newest.clone().filter(is_it) {
            Some(table) => Some(table),
            // A commit came in between.
            None => self
                .tables
                .own_table(&format!("{name}@{}", task.state.generation))
                .ok()
                .flatten()
                .filter(is_it),
        };
        let Some(table) = found else {
            let now = match newest {
                None => "is not there any more".to_owned(),
                Some(now) if now.snapshot().root().table != task.state.table => {
                    "is another table than the one".to_owned()
                }
                Some(now) => format!("has generation {}, not the one", now.snapshot().generation()),
            };
            return Err(Error::Busy(format!(
                "table {name} {now} {CHANGED} (generation {}); try again",
                task.state.generation
            )));
        };
        if task.share.is_none() && task.without.is_none() {
            return Ok(table);
        }
        let snapshot = table.snapshot();
        let is_other = |number: u64, segment: &SegmentEntry| {
            let is_of_other =
                |share: Share| number % u64::from(share.of.max(1)) != u64::from(share.number);
            let without = task.without.as_deref();
            task.share.is_some_and(is_of_other)
                || without.is_some_and(|partition| is_within(&segment.partition, partition))
        };
        let segments = snapshot.segments()?;
        let numbered = (0..).zip(segments.iter());
        let others = numbered.filter(|(number, segment)| is_other(*number, segment));
        let others: BTreeSet<u64> = others.map(|(number, _)| number).collect();
        Ok(Arc::new(StoreTable::new(snapshot.without(&others)?, None)))
    }
}

impl Drop for OfNode {
    /// Nobody waits for the task any more.
    fn drop(&mut self) {
        self.session.canceller.cancel();
        self.tables.end_statement();
    }
}

impl fmt::Debug for OfNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfNode").field("session", &self.session).finish_non_exhaustive()
    }
}

/// What this machine says of a table of its own.
pub(in crate::sql) fn answer(tables: &Tables, question: &[u8]) -> Result<Vec<u8>> {
    let moving = |name: &str| match tables.store() {
        Some(store) => store.table(name)?.moving(),
        None => Ok(None),
    };
    state::answer(question, |name| tables.own_table(name), moving)
}

/// What this machine says of what was loaded into a table of its own.
pub(in crate::sql) fn ledger(tables: &Tables, question: &[u8]) -> Result<Vec<u8>> {
    let wait = |name: &str| match tables.store() {
        Some(store) => store.table(name)?.wait_for_writer(),
        None => Ok(()),
    };
    state::ledger_answer(question, |name| tables.own_table(name), wait)
}

/// What this machine says of all its tables.
pub(in crate::sql) fn tables(tables: &Tables, question: &[u8]) -> Result<Vec<u8>> {
    match tables.store() {
        Some(store) => status::tables(store, question),
        None => Err(Error::NotFound("the node has no store".into())),
    }
}

/// The names of this machine's tables.
pub(in crate::sql) fn names(tables: &Tables, question: &[u8]) -> Result<Vec<u8>> {
    match tables.store() {
        Some(store) => state::names_answer(question, &store.tables()?),
        None => Err(Error::NotFound("the node has no store".into())),
    }
}
