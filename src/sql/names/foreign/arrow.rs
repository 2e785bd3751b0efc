//! Opens Arrow files by ingest's reader, as a whole or the batches of a part.

use std::ops::Range;
use std::sync::Arc;

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
    let columns = split.file_indices.clone();
    let inner = Arc::new(ArrowOpener { store, columns, memory });
    ProjectionOpener::try_new(split, inner, table.file_schema())
}

struct ArrowOpener {
    store: Arc<dyn ObjectStore>,
    /// Positions of the columns to read.
    columns: Vec<usize>,
    memory: u64,
}

impl FileOpener for ArrowOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (store, columns, memory) = (Arc::clone(&self.store), self.columns.clone(), self.memory);
        let offset = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        let part: Option<Range<u64>> =
            file.range.as_ref().map(|range| offset(range.start)..offset(range.end));
        Ok(Box::pin(async move {
            let location = &file.object_meta.location;
            let Some((path, file)) = local_file(store.as_ref(), location).await? else {
                let what = format!("{location}: only local Arrow files are read");
                return Err(Error::Unsupported(what).into());
            };
            let batches = ArrowBatches::open_file(&path, file, memory)?.select(columns, part);
            Ok(futures::stream::iter(batches).map(|batch| batch.map_err(Into::into)).boxed())
        }))
    }
}
