//! Opens Arrow files by ingest's reader, as a whole or the batches of a part. Files of one table
//! may have their columns in several orders, and lack some: these are null.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::SchemaRef;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::error::Result;
use datafusion::object_store::ObjectStore;
use futures::StreamExt;

use super::local_file;
use crate::error::Error;
use crate::ingest::sources::arrow::ArrowBatches;

/// An opener for the columns that DataFusion's source reads, with the same projection after it.
pub(super) fn opener(
    store: Arc<dyn ObjectStore>,
    source: &dyn FileSource,
    memory: u64,
) -> Result<Arc<dyn FileOpener>> {
    let table = source.table_schema();
    let split = match source.projection() {
        Some(projection) => SplitProjection::new(table.file_schema(), projection),
        None => SplitProjection::unprojected(table),
    };
    let columns = Arc::new(table.file_schema().project(&split.file_indices)?);
    let schema = match source.projection() {
        Some(projection) => Arc::new(projection.project_schema(table.table_schema())?),
        None => Arc::clone(table.table_schema()),
    };
    let inner = Arc::new(ArrowOpener { store, columns, memory });
    let inner = ProjectionOpener::try_new(split, inner, table.file_schema())?;
    Ok(Arc::new(Declared { inner, schema }))
}

/// Gives batches the schema of the table. Those of DataFusion's projection (55.2) have for a column
/// of paths that of one file's value, which is never null, or always.
struct Declared {
    inner: Arc<dyn FileOpener>,
    schema: SchemaRef,
}

impl FileOpener for Declared {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (opened, schema) = (self.inner.open(file)?, Arc::clone(&self.schema));
        Ok(Box::pin(async move {
            let batches = opened.await?;
            let declared = move |batch: Result<RecordBatch>| {
                let (_, columns, rows) = batch?.into_parts();
                let options = RecordBatchOptions::new().with_row_count(Some(rows));
                Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
            };
            Ok(batches.map(declared).boxed())
        }))
    }
}

struct ArrowOpener {
    store: Arc<dyn ObjectStore>,
    /// The columns to read, as the table has them.
    columns: SchemaRef,
    memory: u64,
}

/// A batch of the columns at these positions of a file, as the table has them.
fn arranged(
    batch: &RecordBatch,
    places: &[Option<usize>],
    columns: &SchemaRef,
) -> Result<RecordBatch> {
    let mut arrays = Vec::with_capacity(places.len());
    for (place, field) in places.iter().zip(columns.fields()) {
        arrays.push(match place.and_then(|at| batch.columns().get(at)) {
            Some(array) if array.data_type() == field.data_type() => Arc::clone(array),
            Some(array) => arrow_cast::cast(array, field.data_type())?,
            None => new_null_array(field.data_type(), batch.num_rows()),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(columns), arrays, &options)?)
}

impl FileOpener for ArrowOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (store, columns) = (Arc::clone(&self.store), Arc::clone(&self.columns));
        let memory = self.memory;
        let offset = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        let part: Option<Range<u64>> =
            file.range.as_ref().map(|range| offset(range.start)..offset(range.end));
        Ok(Box::pin(async move {
            let location = &file.object_meta.location;
            let Some((path, file)) = local_file(store.as_ref(), location).await? else {
                let what = format!("{location}: only local Arrow files are read");
                return Err(Error::Unsupported(what).into());
            };
            let batches = ArrowBatches::open_file(&path, file, memory)?;
            let own = batches.columns()?;
            let found: Vec<Option<usize>> =
                columns.fields().iter().map(|field| own.index_of(field.name()).ok()).collect();
            let mut read: Vec<usize> = found.iter().flatten().copied().collect();
            read.sort_unstable();
            let places: Vec<Option<usize>> =
                found.iter().map(|at| read.binary_search(at.as_ref()?).ok()).collect();
            let batches = futures::stream::iter(batches.select(read, part));
            Ok(batches.map(move |batch| arranged(&batch?, &places, &columns)).boxed())
        }))
    }
}
