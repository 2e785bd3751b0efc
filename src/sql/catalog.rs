//! What the names in a statement mean: tables of the store, views of the session, files.
//!
//! Only tables that a statement names are opened, once for the statement, so that all its scans of one table see the
//! same generation.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableType;

use super::convert::{external, listed, suggestion};
use super::files;
use super::table::{StoreProvider, StoreTable};
use crate::error::{Error, Result};
use crate::store::Store;

/// The names of a session.
#[derive(Default)]
pub(crate) struct Tables {
    /// The session's state, which files need to be opened with; it in turn holds these names.
    state: OnceLock<StateOf>,
    store: Option<Store>,
    /// Tables of the store that statements have used, with what they have open.
    tables: Mutex<HashMap<String, (u64, Arc<StoreTable>)>>,
    /// Views and external tables, which end with the session.
    session: Mutex<BTreeMap<String, Arc<dyn TableProvider>>>,
    /// What the statement in progress has opened.
    opened: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
}

type StateOf = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

impl Tables {
    /// The names of a store.
    pub(crate) fn of(store: &Store) -> Self {
        Tables { store: Some(store.clone()), ..Tables::default() }
    }

    /// Says where the session's state is found.
    pub(crate) fn belong_to(&self, state: impl Fn() -> Option<SessionState> + Send + Sync + 'static) {
        // Set once, when the session is made; a second time changes nothing.
        let _ = self.state.set(Box::new(state));
    }

    /// Forgets what the last statement opened.
    pub(crate) fn begin_statement(&self) {
        lock(&self.opened).clear();
    }

    /// What `name` means, opened at most once in a statement.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(view) = lock(&self.session).get(name) {
            return Ok(Some(Arc::clone(view)));
        }
        if let Some(known) = lock(&self.opened).get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        if let Some(table) = self.stored(name)? {
            let table: Arc<dyn TableProvider> = Arc::new(StoreProvider::new(table));
            lock(&self.opened).insert(name.to_owned(), Arc::clone(&table));
            return Ok(Some(table));
        }
        let found = match self.state.get().and_then(|state| state()) {
            Some(state) => files::open(name, &state).await?,
            None => None,
        };
        if let Some(table) = &found {
            lock(&self.opened).insert(name.to_owned(), Arc::clone(table));
        }
        Ok(found)
    }

    /// The newest generation of a table of the store; the one that an earlier statement opened, if it still is that.
    fn stored(&self, name: &str) -> Result<Option<Arc<StoreTable>>> {
        let Some(name) = self.stored_name(name)? else { return Ok(None) };
        let Some(table) = self.store.as_ref().map(|store| store.table(&name)).transpose()? else { return Ok(None) };
        let Some(generation) = table.generation()? else { return Ok(None) };
        if let Some((known, table)) = lock(&self.tables).get(&name)
            && *known == generation
        {
            return Ok(Some(Arc::clone(table)));
        }
        let snapshot = table.snapshot()?;
        let generation = snapshot.generation();
        let table = Arc::new(StoreTable::new(snapshot));
        lock(&self.tables).insert(name, (generation, Arc::clone(&table)));
        Ok(Some(table))
    }

    /// The table that a name means: the one of just this name, or else the only one that differs in case alone, since
    /// SQL folds names that are not quoted.
    fn stored_name(&self, name: &str) -> Result<Option<String>> {
        let Some(store) = &self.store else { return Ok(None) };
        match store.has_table(name) {
            Ok(true) => return Ok(Some(name.to_owned())),
            Ok(false) => {}
            // Not a possible name: that of a file, perhaps.
            Err(_) => return Ok(None),
        }
        let mut alike = store.tables()?.into_iter().filter(|table| table.to_lowercase() == name);
        Ok(alike.next().filter(|_| alike.next().is_none()))
    }

    /// Every name but those of files.
    fn names(&self) -> Vec<String> {
        let stored = self.store.as_ref().and_then(|store| store.tables().ok()).unwrap_or_default();
        let mut names: Vec<String> = stored.into_iter().chain(lock(&self.session).keys().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// That there is no such table, with what comes close.
    pub(crate) fn missing(&self, name: &str) -> Error {
        let names = self.names();
        let hint = match suggestion(name, names.iter().map(String::as_str)) {
            Some(near) if near.to_lowercase() != *near => {
                format!("did you mean \"{near}\"? Names with upper-case letters go in double quotes")
            }
            Some(near) => format!("did you mean {near}?"),
            None if names.is_empty() => "there are no tables; make one with `sty ingest`".to_owned(),
            None => format!("there are: {}", listed(names.iter().map(String::as_str))),
        };
        Error::NotFound(format!("no table {name}; {hint}"))
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("session", &self.session).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.names()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.find(name).await.map_err(external)
    }

    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        let view = lock(&self.session).get(name).map(|view| view.table_type());
        Ok(view.or(Some(TableType::Base)))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        Ok(lock(&self.session).insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        let removed = lock(&self.session).remove(name);
        if removed.is_none() && self.stored_name(name).map_err(external)?.is_some() {
            return Err(external(Error::InvalidInput(format!("{name} is a table of the store, not a view"))));
        }
        Ok(removed)
    }

    fn table_exist(&self, name: &str) -> bool {
        lock(&self.session).contains_key(name) || self.stored_name(name).is_ok_and(|found| found.is_some())
    }
}

/// A panic elsewhere leaves the maps usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
