//! What a machine does for others: it says what its tables are, and runs what it is told over the
//! state of a table for which the statement was planned, or refuses.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::state::{self, state_of};
use crate::error::{Error, Result};
use crate::sql::names::catalog::Tables;
use crate::sql::run::parts::Share;
use crate::sql::run::table::StoreTable;
use crate::sql::run::told::Told;
use crate::sql::work::handle::OfSession;

/// The session of this machine in which a task of another one's statement runs, among what its
/// operators know. The task ends with it.
pub(in crate::sql) struct OfNode {
    session: Arc<OfSession>,
    tables: Arc<Tables>,
    /// The threads, which are kept for the task.
    _held: Box<dyn Any + Send + Sync>,
}

impl OfNode {
    pub(in crate::sql) fn new(
        session: &Arc<OfSession>,
        tables: &Arc<Tables>,
        held: Box<dyn Any + Send + Sync>,
    ) -> OfNode {
        OfNode { session: Arc::clone(session), tables: Arc::clone(tables), _held: held }
    }

    pub(super) fn session(&self) -> &Arc<OfSession> {
        &self.session
    }

    /// The rows that this machine is told of.
    pub(super) fn part(&self, told: &Told) -> Result<Arc<StoreTable>> {
        let name = &*told.table;
        let is_it = |table: &Arc<StoreTable>| state_of(table.snapshot().root()) == told.state;
        let newest = self.tables.own_table(name)?;
        let found = match newest.clone().filter(is_it) {
            Some(table) => Some(table),
            // A commit came in between.
            None => self
                .tables
                .own_table(&format!("{name}@{}", told.state.generation))
                .ok()
                .flatten()
                .filter(is_it),
        };
        let Some(table) = found else {
            let now = match newest {
                None => "is not there any more".to_owned(),
                Some(now) if now.snapshot().root().table != told.state.table => {
                    "is another table than the one".to_owned()
                }
                Some(now) => format!("has generation {}, not the one", now.snapshot().generation()),
            };
            return Err(Error::InvalidInput(format!(
                "table {name} {now} for which the statement was planned (generation {}); try again",
                told.state.generation
            )));
        };
        let Some(Share { number, of }) = told.share else { return Ok(table) };
        let snapshot = table.snapshot();
        let others: BTreeSet<u64> = (0..snapshot.segments()?.len() as u64)
            .filter(|segment| segment % u64::from(of.max(1)) != u64::from(number))
            .collect();
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
    state::answer(question, |name| tables.own_table(name))
}
