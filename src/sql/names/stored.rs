//! The tables of a store as statements see them: each at the generation that the statement first
//! found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::sql::names::lock;
use crate::sql::run::table::StoreTable;
use crate::store::{Snapshot, Store, check_name};

/// The tables of a session's own store, or of an attached one.
pub(crate) struct StoredTables {
    store: Store,
    /// The name of an attached store.
    attached: Option<Arc<str>>,
    /// Tables that statements have used, by name, with their generation.
    used: Mutex<HashMap<String, (u64, Arc<StoreTable>)>>,
    /// The tables that the statement in progress has looked up.
    pinned: Mutex<HashMap<String, Arc<StoreTable>>>,
}

/// The rows of a generation that statements see.
type See<'a> = &'a dyn Fn(Snapshot) -> Result<Snapshot>;

impl StoredTables {
    pub(super) fn new(store: Store, attached: Option<&str>) -> StoredTables {
        StoredTables {
            store,
            attached: attached.map(Arc::from),
            used: Mutex::default(),
            pinned: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Forgets what the last statement looked up.
    pub(super) fn begin_statement(&self) {
        lock(&self.pinned).clear();
    }

    /// Closes a table.
    pub(super) fn release(&self, table: &str) {
        lock(&self.used).remove(table);
    }

    /// The newest generation of a table. It stays the same for the whole statement, and is shared
    /// with earlier statements while it is the newest.
    pub(super) fn find(&self, name: &str, see: See) -> Result<Option<Arc<StoreTable>>> {
        let Some(name) = self.spelled(name)? else { return self.find_older(name, see) };
        if let Some(table) = lock(&self.pinned).get(&name) {
            return Ok(Some(Arc::clone(table)));
        }
        let table = self.store.table(&name)?;
        let Some(generation) = table.generation()? else { return Ok(None) };
        let known = lock(&self.used).get(&name).filter(|(known, _)| *known == generation).cloned();
        let table = match known {
            Some((_, table)) => table,
            None => {
                let snapshot = see(table.snapshot()?)?;
                let generation = snapshot.generation();
                let table = self.opened(snapshot);
                lock(&self.used).insert(name.clone(), (generation, Arc::clone(&table)));
                table
            }
        };
        lock(&self.pinned).insert(name, Arc::clone(&table));
        Ok(Some(table))
    }

    /// An older generation that is still kept, named as in `"trips@12"`.
    fn find_older(&self, name: &str, see: See) -> Result<Option<Arc<StoreTable>>> {
        let parts = name
            .rsplit_once('@')
            .and_then(|(table, number)| Some((table, number.parse::<u64>().ok()?)));
        let Some((table, generation)) = parts else { return Ok(None) };
        let Some(table) = self.spelled(table)? else { return Ok(None) };
        if let Some(known) = lock(&self.pinned).get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let table = self.opened(see(self.store.table(&table)?.snapshot_at(generation)?)?);
        lock(&self.pinned).insert(name.to_owned(), Arc::clone(&table));
        Ok(Some(table))
    }

    fn opened(&self, snapshot: Snapshot) -> Arc<StoreTable> {
        Arc::new(StoreTable::new(snapshot, self.attached.clone()))
    }

    /// The table that a name means: the one of exactly this name, or else the only one that differs
    /// just in case, since SQL folds unquoted names.
    pub(super) fn spelled(&self, name: &str) -> Result<Option<String>> {
        // What is no possible name of a table may be that of a file.
        if check_name(name).is_err() {
            return Ok(None);
        }
        // A damaged table is an error, and not a name that means nothing.
        if self.store.has_table(name)? {
            return Ok(Some(name.to_owned()));
        }
        if !self.store.exists()? {
            return Ok(None);
        }
        let mut alike =
            self.store.tables()?.into_iter().filter(|table| table.to_lowercase() == name);
        Ok(alike.next().filter(|_| alike.next().is_none()))
    }

    /// The names of all tables; none if there is no store yet.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        match self.store.exists() {
            Ok(false) => Ok(Vec::new()),
            _ => self.store.tables(),
        }
    }
}
