//! Attached stores: each is a schema beside that of the session's own store, and is only read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::TableType;

use crate::error::Result;
use crate::sql::names::catalog::Tables;
use crate::sql::names::stored::{OpenTables, StoredTables};
use crate::sql::names::{SCHEMA, lock};
use crate::store::{Snapshot, Store};

/// The schemas of a session: its own, and one for each attached store.
#[derive(Debug)]
pub(crate) struct Schemas(pub(crate) Arc<Tables>);

impl CatalogProvider for Schemas {
    fn schema_names(&self) -> Vec<String> {
        let attached = self.0.attached().into_iter().map(|(name, _)| name);
        std::iter::once(SCHEMA.to_owned()).chain(attached).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == SCHEMA {
            return Some(Arc::clone(&self.0) as _);
        }
        let stored = self.0.attached_as(name)?;
        let schema = name.to_owned();
        Some(Arc::new(Attached { session: Arc::clone(&self.0), schema, stored }))
    }
}

impl Tables {
    /// What a name means as it is written, with its schema or without.
    pub(crate) async fn find_named(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(used) = self.used().filter(|_| schema.is_none() && !self.in_session(name))
            && let Some(found) = self.find_in(Some(&used), name).await?
        {
            return Ok(Some(found));
        }
        self.find_in(schema, name).await
    }

    /// The newest generation of the stored table that a name means.
    pub(crate) fn stored_in(&self, schema: Option<&str>, name: &str) -> Option<Snapshot> {
        let used = self.used();
        if self.in_session(name) && (schema.is_none() || schema == Some(SCHEMA)) {
            return None;
        }
        let schema = schema.or(used.as_deref()).filter(|schema| *schema != SCHEMA);
        let attached = schema.map(|schema| self.attached_as(schema));
        let store = match &attached {
            Some(attached) => attached.as_ref()?.store(),
            None => self.store()?,
        };
        store.table(name).ok()?.snapshot().ok()
    }

    /// Whether an attached store has a table or view of this name.
    pub(crate) fn has_attached(&self, schema: &str, name: &str) -> Result<bool> {
        self.attached_as(schema).map_or(Ok(false), |stored| stored.has(name))
    }

    /// Attaches a store under a name.
    pub(crate) fn attach(&self, name: &str, store: Store) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let stored = Arc::new(StoredTables::new(store, Some(name), &OpenTables::default()));
        stored.keep(self.own.as_ref().is_some_and(StoredTables::keeps_any));
        lock(&self.attached).insert(name.to_owned(), stored);
    }

    /// From now on, the name of a table means the same generation in all statements as in the first
    /// that has it; or it does not any more.
    pub(crate) fn keep_generations(&self, yes: bool) {
        self.own.iter().for_each(|own| own.keep(yes));
        lock(&self.attached).values().for_each(|stored| stored.keep(yes));
    }

    /// The generation of this table, of the session's own store, that one statement has read, and
    /// that others are to read, too.
    pub(crate) fn kept_generation(&self, table: &str) -> Option<u64> {
        self.own.as_ref()?.kept(table)
    }

    /// A table that the session writes is found anew, also where its store is attached.
    pub(super) fn find_anew(&self, table: &str) {
        let Some(own) = &self.own else { return };
        own.find_anew(table);
        let attached = lock(&self.attached);
        let same = attached.values().filter(|it| it.store().path() == own.store().path());
        same.for_each(|stored| stored.find_anew(table));
    }

    /// Detaches a store; `false` if there is none of this name.
    pub(crate) fn detach(&self, name: &str) -> bool {
        self.changes.fetch_add(1, Ordering::Relaxed);
        lock(&self.attached).remove(&name.to_lowercase()).is_some()
    }

    /// The attached store that is in use.
    pub(crate) fn used(&self) -> Option<String> {
        lock(&self.used).clone()
    }

    /// Looks up names without a schema in an attached store; in the session's own for `None`.
    pub(crate) fn set_used(&self, schema: Option<String>) {
        *lock(&self.used) = schema;
    }

    /// The attached stores by name.
    pub(crate) fn attached(&self) -> Vec<(String, Arc<StoredTables>)> {
        let attached = lock(&self.attached);
        attached.iter().map(|(name, stored)| (name.clone(), Arc::clone(stored))).collect()
    }

    /// The store that is attached under a name, in any case.
    pub(crate) fn attached_as(&self, name: &str) -> Option<Arc<StoredTables>> {
        lock(&self.attached).get(&name.to_lowercase()).cloned()
    }

    /// The names of a schema but those of files; none if there is no such schema.
    pub(crate) fn names_in(&self, schema: &str) -> Vec<String> {
        match self.attached_as(schema) {
            Some(stored) => self.names_of(&stored),
            None if schema == SCHEMA => self.names(),
            None => Vec::new(),
        }
    }

    /// All names but those of files that mean something without a schema.
    pub(crate) fn short_names(&self) -> Vec<String> {
        match self.used().and_then(|used| self.attached_as(&used)) {
            Some(stored) => self.with_views(self.names_of(&stored).into_iter()),
            None => self.names(),
        }
    }
}

/// The tables and views of an attached store.
struct Attached {
    session: Arc<Tables>,
    schema: String,
    stored: Arc<StoredTables>,
}

impl Attached {
    fn is_view(&self, name: &str) -> bool {
        matches!(self.stored.spelled(name), Ok(None)) && self.table_exist(name)
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("store", self.stored.store()).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for Attached {
    fn table_names(&self) -> Vec<String> {
        self.session.names_of(&self.stored)
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        match self.session.find_in(Some(&self.schema), name).await {
            // As for those of the session's own store.
            Err(_) if self.is_view(name) => Ok(None),
            found => Ok(found?),
        }
    }

    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        Ok(Some(if self.is_view(name) { TableType::View } else { TableType::Base }))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.stored.has(name).unwrap_or(false)
    }
}
