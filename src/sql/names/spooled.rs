//! Parquet and Arrow that cannot be read where they are, from the standard input or compressed, as
//! temporary files: their readers need to find places in a file.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SessionState;
use datafusion::execution::spill_file::SpillFile;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Error, IoResult, Result};
use crate::ingest::sources::Opened;
use crate::sql::names::foreign::shown;

/// The temporary files of a table, which exist as long as it does.
#[derive(Default)]
pub(super) struct Spooled {
    files: Vec<Arc<dyn SpillFile>>,
}

impl Spooled {
    /// Writes the decompressed bytes of an input to a file, among those that operators spill.
    pub(super) fn add(&mut self, mut opened: Opened, state: &SessionState) -> Result<PathBuf> {
        let disk = &state.runtime_env().disk_manager;
        let file = disk.create_tmp_file("reading a file that is not plain")?;
        let mut writer = file.open_writer()?;
        io::copy(&mut opened.bytes, &mut writer).with_path(&opened.name)?;
        writer.finish()?;
        let Some(path) = file.path().map(PathBuf::from) else {
            return Err(Error::Unsupported("temporary files are not on this machine".into()));
        };
        self.files.push(file);
        Ok(path)
    }

    /// An error about a temporary file as one about what it was made of.
    pub(super) fn renamed(&self, error: Error, name: &str) -> Error {
        let Error::InvalidInput(mut what) = error else { return error };
        for path in self.files.iter().filter_map(|file| file.path()) {
            what = what.replace(&*shown(path).to_string_lossy(), name);
        }
        Error::InvalidInput(what)
    }

    /// A table over the files.
    pub(super) fn keep_with(self, table: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
        if self.files.is_empty() {
            return table;
        }
        Arc::new(SpooledTable { table, _spooled: self })
    }
}

struct SpooledTable {
    table: Arc<dyn TableProvider>,
    _spooled: Spooled,
}

impl fmt::Debug for SpooledTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

#[async_trait]
impl TableProvider for SpooledTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }
}
