//! Readers of Parquet files that compare the headers of pages with the memory limit before the
//! pages are decompressed. They hide minimum and maximum of floats, which leave out NaN: it is
//! greater than all other numbers here, so nothing can be pruned by them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::error::Result as DataFusionResult;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::basic::{LogicalType, Type as PhysicalType};
use datafusion::parquet::errors::{ParquetError, Result};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::file::page_index::column_index::ColumnIndexMetaData;
use datafusion::parquet::file::statistics::Statistics;
use datafusion::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::BoxFuture;

use super::{Kind, Place};
use crate::error;
use crate::ingest::sources::parquet_checks::{Page, Pages, column_place, unreadable};
use crate::ingest::sources::parquet_footer::sound;

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
        let path = Path::new(&*self.place.name);
        let mut pages = Pages::new(path, self.memory);
        for (range, bytes) in read {
            pages.start_column(self.is_repeated(range.start));
            let mut rest = bytes.as_ref();
            while !rest.is_empty() {
                let page = Page::parse(path, rest)?.ok_or_else(|| unreadable(path))?;
                pages.add(&page)?;
                let length = page.header_bytes.saturating_add(page.stored_bytes);
                let behind = usize::try_from(length).ok().and_then(|length| rest.get(length..));
                rest = behind.unwrap_or_default();
            }
        }
        Ok(())
    }
}

/// The metadata without the bounds of floats in row groups and pages.
fn without_float_bounds(metadata: Arc<ParquetMetaData>) -> Result<Arc<ParquetMetaData>> {
    let columns = metadata.file_metadata().schema_descr().columns();
    if !columns.iter().any(|column| is_float(column)) {
        return Ok(metadata);
    }
    let groups = metadata.row_groups().iter().map(|group| {
        let columns = group.columns().iter().map(|column| {
            let unbounded = match column.statistics() {
                _ if !is_float(column.column_descr()) => return Ok(column.clone()),
                Some(Statistics::Float(known)) => {
                    Some(Statistics::float(None, None, None, known.null_count_opt(), false))
                }
                Some(Statistics::Double(known)) => {
                    Some(Statistics::double(None, None, None, known.null_count_opt(), false))
                }
                _ => None,
            };
            let column = column.clone().into_builder().clear_statistics();
            let column = column.set_column_index_offset(None).set_column_index_length(None);
            unbounded.into_iter().fold(column, |column, known| column.set_statistics(known)).build()
        });
        group.clone().into_builder().set_column_metadata(columns.collect::<Result<_>>()?).build()
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    let index = metadata.column_index().map(|groups| {
        let of_group = |group: &Vec<ColumnIndexMetaData>| {
            let each = group.iter().zip(columns);
            let unless_float = |(index, column): (&ColumnIndexMetaData, &ColumnDescPtr)| {
                if is_float(column) { ColumnIndexMetaData::NONE } else { index.clone() }
            };
            each.map(unless_float).collect()
        };
        groups.iter().map(of_group).collect()
    });
    let builder = ParquetMetaData::clone(&metadata).into_builder().set_row_groups(groups);
    Ok(Arc::new(builder.set_column_index(index).build()))
}

fn is_float(column: &ColumnDescriptor) -> bool {
    matches!(column.physical_type(), PhysicalType::FLOAT | PhysicalType::DOUBLE)
        || column.logical_type_ref() == Some(&LogicalType::Float16)
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
                let metadata = sound(self.inner.get_metadata(None).await?)?;
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
            let metadata = sound(self.inner.get_metadata(options).await?)?;
            self.note_repeated(&metadata);
            without_float_bounds(metadata)
        })
    }
}
