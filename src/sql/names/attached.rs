//! Attached stores: each is a schema beside that of the session's own store, and is only read.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::TableType;

use crate::sql::names::SCHEMA;
use crate::sql::names::catalog::Tables;
use crate::sql::names::stored::StoredTables;

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
        Some(Arc::new(Attached { session: Arc::clone(&self.0), stored }))
    }
}

/// The tables of an attached store.
struct Attached {
    session: Arc<Tables>,
    stored: Arc<StoredTables>,
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
        Ok(self.session.find_stored(&self.stored, name)?)
    }

    async fn table_type(&self, _: &str) -> DataFusionResult<Option<TableType>> {
        Ok(Some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.stored.spelled(name).is_ok_and(|found| found.is_some())
    }
}
