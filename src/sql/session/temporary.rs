//! Temporary tables: rows that a session holds in memory, under a name that nobody else sees.
//!
//! Where this stands on the road of a query: CREATE TEMP TABLE … AS is planned as CREATE TABLE … AS
//! is (`writes`), and its rows get the types that a stored table would have. They are kept here
//! instead of being stored, and count as memory of the session until the table is dropped.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{
    MemTable, SchemaProvider as _, Session as CatalogSession, TableProvider,
};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::Session;
use super::execution::Run;
use crate::error::Result;
use crate::sql::run::stream::BatchStream;
use crate::sql::work::cancel::Canceller;
use crate::sql::write::{Write, empty_answer, in_memory};

/// A table of a session, and the memory that it takes.
#[derive(Debug)]
struct TemporaryTable {
    rows: MemTable,
    _memory: MemoryReservation,
}

#[async_trait]
impl TableProvider for TemporaryTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.rows.scan(state, projection, filters, limit).await
    }
}

impl Session {
    /// Runs a CREATE TEMP TABLE … AS.
    pub(super) fn keep_rows(&self, write: Write, run: &Run) -> Result<BatchStream> {
        let pins = self.tables.pins();
        let pool = &self.context.runtime_env().memory_pool;
        let memory = MemoryConsumer::new("TemporaryTable").register(pool);
        let mut batches = Vec::new();
        if let Some(plan) = write.rows {
            for batch in self.answer(plan, pins, run)? {
                let batch = in_memory(&batch?, &write.columns)?;
                memory.try_grow(batch.get_array_memory_size())?;
                batches.push(batch);
            }
        }
        let rows = MemTable::try_new(write.columns.to_arrow(), vec![batches])?;
        let table = Arc::new(TemporaryTable { rows, _memory: memory });
        drop(self.tables.register_table(write.table, table)?);
        self.start(empty_answer(), &Canceller::default(), run)
    }
}
