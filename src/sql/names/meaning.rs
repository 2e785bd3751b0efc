//! Whether names still mean what they meant in a statement before: plans that are kept ask that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::sql::names::catalog::Tables;
use crate::sql::names::lock;
use crate::sql::run::provider::StoreProvider;
use crate::sql::run::table::StoreTable;

/// Tables by the names that a statement has for them.
pub(in crate::sql) type Meanings = Arc<[(String, Arc<StoreTable>)]>;

impl Tables {
    /// How often what names of the session mean has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The tables that the statement in progress has looked up, by name, if these are the newest of
    /// the session's own store, and it has looked up nothing else.
    pub(crate) fn looked_up(&self) -> Option<Meanings> {
        let only_own = lock(&self.attached).is_empty() && lock(&self.session).is_empty();
        if !only_own || self.skips_damaged() {
            return None;
        }
        let opened = lock(&self.opened);
        let stored = opened.iter().map(|(name, table)| {
            let table = &table.downcast_ref::<StoreProvider>()?.table;
            self.still_means(name, table).then(|| (name.clone(), Arc::clone(table)))
        });
        stored.collect()
    }

    /// Whether a name means this table of the session's own store. It does then for the rest of the
    /// statement.
    pub(crate) fn still_means(&self, name: &str, table: &Arc<StoreTable>) -> bool {
        let found = self.stored(name);
        !name.contains('@') && matches!(found, Ok(Some(found)) if Arc::ptr_eq(&found, table))
    }
}
