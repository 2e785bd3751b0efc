//! Readers of Parquet files that compare the headers of pages with the memory limit before the
//! pages are decompressed.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::error::Result as DataFusionResult;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::BoxFuture;

use super::{Kind, Place};
use crate::error;
use crate::ingest::sources::parquet_checks::{Page, Pages, column_place};

#[derive(Debug)]
pub(super) struct CheckedReaders {
    pub(super) inner: Arc<dyn ParquetFileReaderFactory>,
    pub(super) memory: u64,
}

impl ParquetFileReaderFactory for CheckedReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<Box<dyn AsyncFileReader + Send>> {
        let place = Place::new(&file.object_meta.location, Kind::Parquet);
        let (size, memory) = (file.object_meta.size, self.memory);
        let inner = self.inner.create_reader(partition, file, size_hint, metrics)?;
        Ok(Box::new(CheckedReader { inner, place, size, memory, repeated: None }))
    }
}

struct CheckedReader {
    inner: Box<dyn AsyncFileReader + Send>,
    place: Place,
    /// Bytes of the file.
    size: u64,
    memory: u64,
    /// The places of columns with repeated values, by where they start; `None` until the metadata
    /// are read.
    repeated: Option<Vec<Range<u64>>>,
}

impl CheckedReader {
    fn note_repeated(&mut self, metadata: &ParquetMetaData) {
        let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
        let repeated = columns.filter(|column| column.column_descr().max_rep_level() > 0);
        let places = repeated.filter_map(|column| column_place(column, self.size));
        let mut places: Vec<_> = places.map(|(start, length)| start..start + length).collect();
        places.sort_by_key(|place| place.start);
        self.repeated = Some(places);
    }

    fn is_repeated(&self, at: u64) -> bool {
        let places = self.repeated.as_deref().unwrap_or_default();
        let before = places.partition_point(|place| place.start <= at);
        before.checked_sub(1).and_then(|n| places.get(n)).is_some_and(|place| at < place.end)
    }

    /// Checks the pages in these bytes. Each range starts at a page: that of a column does, and so
    /// do those of selected pages.
    fn check<'b>(
        &self,
        read: impl Iterator<Item = (&'b Range<u64>, &'b Bytes)>,
    ) -> error::Result<()> {
        let mut pages = Pages::new(Path::new(&*self.place.name), self.memory);
        for (range, bytes) in read {
            pages.start_column(self.is_repeated(range.start));
            let mut rest = bytes.as_ref();
            while let Some(page) = Page::parse(rest) {
                pages.add(&page)?;
                let length = page.header_bytes.saturating_add(page.stored_bytes);
                let behind = usize::try_from(length).ok().and_then(|length| rest.get(length..));
                rest = behind.unwrap_or_default();
            }
        }
        Ok(())
    }
}

fn external(error: error::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            let bytes = self.inner.get_bytes(range.clone()).await?;
            self.check(std::iter::once((&range, &bytes))).map_err(external)?;
            Ok(bytes)
        })
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        Box::pin(async move {
            if self.repeated.is_none() {
                let metadata = self.inner.get_metadata(None).await?;
                self.note_repeated(&metadata);
            }
            let read = self.inner.get_byte_ranges(ranges.clone()).await?;
            self.check(ranges.iter().zip(&read)).map_err(external)?;
            Ok(read)
        })
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        Box::pin(async move {
            let metadata = self.inner.get_metadata(options).await?;
            self.note_repeated(&metadata);
            Ok(metadata)
        })
    }
}
