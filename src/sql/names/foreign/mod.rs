//! Parquet and Arrow files as tables, read by DataFusion's sources under the guard of
//! `ingest/sources/foreign`: what they would panic at, and what damaged claims would make them
//! allocate, becomes an error that names the file.
//!
//! [`ForeignFormat`] stands before DataFusion's format and guards what reads metadata: schemas and
//! statistics. The plans that it makes read through a [`ForeignSource`](source::ForeignSource),
//! which guards every step of a scan. The pages of Parquet pass `parquet`, which compares their
//! headers with the memory limit. Arrow files are decoded by ingest's reader, whose checks come
//! before every allocation; DataFusion's only plans how to divide them. `directories` adds the
//! columns of `key=value` directories.

mod arrow;
mod directories;
mod morsels;
mod parquet;
mod source;

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::file_format::{FileFormat, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::PageIndexPolicy;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;

pub(super) use self::directories::with_path_columns;
use self::source::ForeignSource;
use crate::error::Error;
use crate::ingest::sources::arrow::ArrowBatches;
use crate::ingest::sources::foreign::{Panicked, guarded, said};
use crate::ingest::sources::parquet_checks::check_file;

/// A format whose reader is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Parquet,
    Arrow,
}

/// How messages name a file of DataFusion's sources, which know it by its whole path only: as it is
/// seen from the working directory.
pub(super) fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let below = here.as_ref().and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).to_owned()
}

/// The file that is being read, for messages.
#[derive(Clone, Debug)]
struct Place {
    name: Arc<str>,
    kind: Kind,
}

impl Place {
    fn new(location: &datafusion::object_store::path::Path, kind: Kind) -> Self {
        let path = PathBuf::from(format!("/{location}"));
        Place { name: shown(&path).to_string_lossy().into(), kind }
    }

    fn format(&self) -> &'static str {
        match self.kind {
            Kind::Parquet => "Parquet",
            Kind::Arrow => "Arrow IPC",
        }
    }

    fn panicked(&self, panicked: Panicked) -> DataFusionError {
        panicked.into_error(&self.name, self.format()).into()
    }

    /// Adds the file to an error of the reader.
    fn named(&self, error: DataFusionError) -> DataFusionError {
        let what = match error {
            DataFusionError::ParquetError(inner) => match *inner {
                ParquetError::External(inner) => match inner.downcast::<Error>() {
                    Ok(ours) => return (*ours).into(),
                    Err(other) => other.to_string(),
                },
                other => other.to_string(),
            },
            DataFusionError::ArrowError(inner, _)
                if matches!(*inner, ArrowError::ParquetError(_) | ArrowError::IpcError(_)) =>
            {
                inner.to_string()
            }
            other => return other,
        };
        let what = said(&what);
        let (name, format) = (&self.name, self.format());
        Error::InvalidInput(format!("{name}: cannot be read as {format}: {what}")).into()
    }

    /// Runs a step of a reader that may panic.
    fn guard<T>(&self, read: impl FnOnce() -> DataFusionResult<T>) -> DataFusionResult<T> {
        guarded(read).map_err(|p| self.panicked(p))?.map_err(|error| self.named(error))
    }

    /// Polls a future of a reader that may panic.
    async fn guard_future<T>(
        &self,
        mut future: Pin<Box<dyn Future<Output = DataFusionResult<T>> + Send + '_>>,
    ) -> DataFusionResult<T> {
        std::future::poll_fn(|context| match guarded(|| future.as_mut().poll(context)) {
            Ok(poll) => poll.map_err(|error| self.named(error)),
            Err(panicked) => Poll::Ready(Err(self.panicked(panicked))),
        })
        .await
    }
}

/// DataFusion's format with a guard before it.
#[derive(Debug)]
pub(super) struct ForeignFormat {
    inner: Arc<dyn FileFormat>,
    kind: Kind,
}

impl ForeignFormat {
    pub(super) fn new(kind: Kind) -> Self {
        let inner: Arc<dyn FileFormat> = match kind {
            // Timestamps of 96 bits reach beyond those of 64 bits in nanoseconds.
            Kind::Parquet => {
                Arc::new(ParquetFormat::default().with_coerce_int96(Some("us".to_owned())))
            }
            Kind::Arrow => Arc::new(ArrowFormat),
        };
        ForeignFormat { inner, kind }
    }

    fn place(&self, object: &ObjectMeta) -> Place {
        Place::new(&object.location, self.kind)
    }

    /// Checks what a Parquet file claims; returns the columns of an Arrow file.
    async fn open(
        &self,
        state: &dyn Session,
        store: &dyn ObjectStore,
        object: &ObjectMeta,
    ) -> DataFusionResult<Option<Schema>> {
        let Some((path, file)) = local_file(store, &object.location).await? else {
            return Ok(None);
        };
        let (path, memory) = (shown(&path), memory_limit(state));
        match self.kind {
            Kind::Parquet => check_file(&path, &file, memory, true)?,
            Kind::Arrow => {
                let batches = ArrowBatches::open_file(&path, file, memory)?;
                return Ok(Some(batches.columns()?.as_ref().clone()));
            }
        }
        Ok(None)
    }

    /// The columns of a file as DataFusion reads it.
    async fn infer_one(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
    ) -> DataFusionResult<Schema> {
        let place = self.place(object);
        let inferred = self.inner.infer_schema(state, store, std::slice::from_ref(object));
        let schema = place.guard_future(inferred).await?.as_ref().clone();
        refuse_intervals(&place, &schema)?;
        if self.kind == Kind::Arrow {
            return Ok(schema);
        }
        // DataFusion has merged columns of one name. The metadata are in its cache by now.
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let metadata = DFParquetMetadata::new(store.as_ref(), object)
            .with_file_metadata_cache(Some(cache))
            .with_page_index_policy(Some(PageIndexPolicy::Skip));
        let metadata = place.guard_future(Box::pin(metadata.fetch_metadata())).await?;
        let columns = metadata.file_metadata().schema_descr().root_schema().get_fields();
        refuse_repeated(&place, columns.iter().map(|column| column.name()))?;
        Ok(schema)
    }
}

/// Refuses a Parquet file with an INTERVAL: the reader (parquet 59) leaves its months out.
fn refuse_intervals(place: &Place, schema: &Schema) -> DataFusionResult<()> {
    let is_interval =
        |field: &&arrow_schema::FieldRef| matches!(field.data_type(), DataType::Interval(_));
    match schema.fields().iter().find(is_interval) {
        Some(field) => Err(Error::Unsupported(format!(
            "{}: a query would read column '{}', an INTERVAL of Parquet, without its months; `sty \
             ingest` stores it whole",
            place.name,
            field.name()
        ))
        .into()),
        None => Ok(()),
    }
}

/// Refuses a file with two columns of one name: DataFusion finds columns by name, and would read
/// one of them and leave out the other.
fn refuse_repeated<'n>(
    place: &Place,
    mut names: impl Iterator<Item = &'n str>,
) -> DataFusionResult<()> {
    let mut known = HashSet::new();
    match names.find(|name| !known.insert(*name)) {
        Some(name) => Err(Error::Unsupported(format!(
            "{}: two columns are named '{name}'; write the file with names that differ",
            place.name
        ))
        .into()),
        None => Ok(()),
    }
}

/// The local file at a location; `None` if the store is of another kind.
async fn local_file(
    store: &dyn ObjectStore,
    location: &datafusion::object_store::path::Path,
) -> DataFusionResult<Option<(PathBuf, File)>> {
    match store.get_opts(location, GetOptions::default()).await?.payload {
        GetResultPayload::File(file, path) => Ok(Some((path, file))),
        GetResultPayload::Stream(_) => Ok(None),
    }
}

/// Statistics that do not bound floats: Parquet leaves NaN out of them, which is greater than all
/// other numbers here, and DataFusion takes columns whose bounds are equal for constants.
fn without_float_bounds(schema: &Schema, mut statistics: Statistics) -> Statistics {
    for (field, column) in schema.fields().iter().zip(&mut statistics.column_statistics) {
        if field.data_type().is_floating() {
            (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
        }
    }
    statistics
}

/// The session's memory limit in bytes.
pub(super) fn memory_limit(state: &dyn Session) -> u64 {
    match state.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes as u64,
        MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
    }
}

#[async_trait]
impl FileFormat for ForeignFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(
        &self,
        compression: &FileCompressionType,
    ) -> DataFusionResult<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> DataFusionResult<SchemaRef> {
        let mut schemas = Vec::with_capacity(objects.len());
        for object in objects {
            let schema = match self.open(state, store.as_ref(), object).await? {
                Some(schema) => {
                    let names = schema.fields().iter().map(|field| field.name().as_str());
                    refuse_repeated(&self.place(object), names)?;
                    schema
                }
                None => self.infer_one(state, store, object).await?,
            };
            schemas.push(schema);
        }
        Ok(Arc::new(Schema::try_merge(schemas)?))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DataFusionResult<Statistics> {
        let inferred = self.inner.infer_stats(state, store, Arc::clone(&table_schema), object);
        let statistics = self.place(object).guard_future(inferred).await?;
        Ok(without_float_bounds(&table_schema, statistics))
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DataFusionResult<Option<LexOrdering>> {
        let inferred = self.inner.infer_ordering(state, store, table_schema, object);
        self.place(object).guard_future(inferred).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> DataFusionResult<FileMeta> {
        let schema = Arc::clone(&table_schema);
        let inferred = self.inner.infer_stats_and_ordering(state, store, schema, object);
        let mut found = self.place(object).guard_future(inferred).await?;
        found.statistics = without_float_bounds(&table_schema, found.statistics);
        Ok(found)
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(state, config).await?;
        let config = plan
            .downcast_ref::<DataSourceExec>()
            .and_then(|exec| exec.data_source().downcast_ref::<FileScanConfig>());
        let Some(config) = config else { return Ok(plan) };
        let memory = memory_limit(state);
        let source = ForeignSource::new(Arc::clone(config.file_source()), self.kind, memory);
        let config =
            FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}

#[cfg(test)]
mod tests;
