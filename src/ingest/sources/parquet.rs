//! Parquet files: decodes row groups in order, and their columns in parallel, in bounded memory.
//!
//! The columns of a row group are divided among readers by their sizes, because writers make row
//! groups so large that only one fits into memory at a time.
//!
//! Text and binary columns are read as views: a dictionary value is in memory once, however many
//! rows have it. Where the rows go into segments as they come, the columns of a row group that have
//! only pages of dictionary codes are read as codes, and each value is looked up once. The number
//! of rows of a batch is chosen per row group, by the average bytes of its rows.
//!
//! Decoding by row groups alone let one thread decode while the others waited: writers make row
//! groups of up to a million rows.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType as ArrowType, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use rayon::iter::{IntoParallelIterator, IntoParallelRefMutIterator, ParallelIterator};

use super::foreign::{guarded_read, said};
use super::input::Opened;
use super::parquet_checks::{check_file, check_row_group};
use super::parquet_footer::sound;
use super::parquet_types::{marked, with_codes, with_interval_bytes, with_views};
use super::stream::read_error;
use super::supported::{Wanted, supported_columns};
use crate::error::{Error, IoResult, Result};

/// The name of the format in messages.
const FORMAT: &str = "Parquet";
/// The most rows of a batch.
const BATCH_ROWS: usize = 65_536;
/// Approximate bytes of a batch.
const BATCH_BYTES: usize = 16 << 20;
/// Rows of a batch where the metadata say nothing about the length of texts.
const UNKNOWN_ROWS: usize = 256;
/// Readers per thread for a row group: more than one, so that threads that finish early find more
/// work.
const GROUPS_PER_THREAD: usize = 2;
/// Bytes of a view.
const VIEW_BYTES: usize = 16;

/// A Parquet file that can be read at any position: the file itself, or a temporary copy of a pipe
/// or a compressed file, removed on drop.
#[derive(Debug)]
pub(crate) struct Spooled {
    /// Name for messages.
    name: PathBuf,
    /// The copy; `None` for the file itself.
    copy: Option<tempfile::NamedTempFile>,
}

impl Spooled {
    /// Makes an open input seekable.
    pub(crate) fn new(opened: Opened) -> Result<Self> {
        if let Some(path) = opened.path {
            return Ok(Spooled { name: path, copy: None });
        }
        let mut bytes = opened.bytes;
        let mut copy = tempfile::NamedTempFile::new().with_path(std::env::temp_dir())?;
        std::io::copy(&mut bytes, &mut copy).map_err(|e| read_error(&opened.name, e))?;
        Ok(Spooled { name: opened.name, copy: Some(copy) })
    }

    fn open(&self) -> Result<File> {
        let path = self.copy.as_ref().map_or(self.name.as_path(), tempfile::NamedTempFile::path);
        File::open(path).with_path(path)
    }
}

/// A file that many readers read at positions of their own, with one descriptor.
#[derive(Clone, Debug)]
struct SharedFile(Arc<File>);

/// Reads a shared file from a position on.
struct OffsetReader {
    file: Arc<File>,
    at: u64,
}

impl Read for OffsetReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        if n == 0 && !buffer.is_empty() {
            // The library (59.3) passes over as many items of a list as it claims to have, also
            // where there are no more bytes.
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.at += n as u64;
        Ok(n)
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |found| found.len())
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<OffsetReader>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(OffsetReader { file: Arc::clone(&self.0), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // As much as there is, so that a false length allocates nothing.
        let there = self.len().saturating_sub(start).min(length as u64);
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(usize::try_from(there).unwrap_or(usize::MAX))
            .map_err(|error| ParquetError::General(format!("{there} bytes: {error}")))?;
        let reader = OffsetReader { file: Arc::clone(&self.0), at: start };
        match reader.take(length as u64).read_to_end(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(ParquetError::EOF(format!("{length} bytes at {start} reach beyond the file")))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(bytes.into()),
        }
    }
}

/// An open Parquet file. What its library does for it runs guarded: see `foreign`.
#[derive(Clone, Debug)]
pub(crate) struct ParquetSource {
    /// Keeps a temporary copy alive while any task reads it.
    file: Arc<Spooled>,
    opened: SharedFile,
    metadata: ArrowReaderMetadata,
    /// Positions of the columns to read.
    columns: Arc<Vec<usize>>,
    /// The memory limit of the load.
    memory: u64,
    /// Whether columns may be read as codes.
    codes: bool,
    /// Positions of columns of intervals, which are read as bytes.
    intervals: Arc<Vec<usize>>,
}

impl ParquetSource {
    /// Opens a file. The second result names columns that are skipped. With `codes`, texts may
    /// come as codes and their values.
    pub(crate) fn open(
        spooled: Spooled,
        wanted: Wanted<'_>,
        memory: u64,
        codes: bool,
    ) -> Result<(Self, Vec<String>)> {
        let (opened, path) = (SharedFile(Arc::new(spooled.open()?)), spooled.name.as_path());
        check_file(path, &opened.0, memory, false)?;
        let (metadata, intervals) = guarded_read(path, FORMAT, || {
            ArrowReaderMetadata::load(&opened, ArrowReaderOptions::new())
                .and_then(|read| {
                    let metadata = sound(Arc::clone(read.metadata()))?;
                    ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new())
                })
                .and_then(with_interval_bytes)
                .map(|(metadata, intervals)| (with_views(metadata), intervals))
                .map_err(|e| invalid(path, &e.to_string()))
        })?;
        let (columns, skipped) = supported_columns(path, metadata.schema(), wanted)?;
        let (file, columns, intervals) =
            (Arc::new(spooled), Arc::new(columns), Arc::new(intervals));
        Ok((ParquetSource { file, opened, metadata, columns, memory, codes, intervals }, skipped))
    }

    /// Size of the file, if it is read in place; a copy was counted while it was made.
    pub(crate) fn bytes_in_place(&self) -> Result<Option<u64>> {
        let name = &self.file.name;
        let size = || name.metadata().map(|m| m.len()).with_path(name);
        self.file.copy.is_none().then(size).transpose()
    }

    /// Number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Rows of the row groups before one.
    pub(crate) fn rows_before(&self, group: usize) -> u64 {
        let groups = self.metadata.metadata().row_groups().iter().take(group);
        groups
            .map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
            .fold(0, u64::saturating_add)
    }

    /// Rows of all row groups.
    pub(crate) fn rows(&self) -> u64 {
        self.rows_before(self.groups())
    }

    /// The columns to read; those of UUIDs and intervals have a mark of such.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        let schema = self.columns_of(&self.metadata)?;
        Ok(marked(&schema, &self.columns, &self.metadata, &self.intervals))
    }

    fn columns_of(&self, metadata: &ArrowReaderMetadata) -> Result<SchemaRef> {
        let schema = metadata.schema().project(&self.columns);
        schema.map(Arc::new).map_err(|e| invalid(&self.file.name, &e.to_string()))
    }

    /// Approximate bytes of a row group as Arrow arrays.
    pub(crate) fn memory_bytes(&self, group: usize) -> usize {
        let rows =
            usize::try_from(self.metadata.metadata().row_group(group).num_rows()).unwrap_or(0);
        rows.saturating_mul(self.row_bytes(group))
    }

    /// Approximate average bytes of a row as Arrow arrays.
    fn row_bytes(&self, group: usize) -> usize {
        let metadata = self.metadata.metadata();
        let group = metadata.row_group(group);
        let (mut fixed, mut texts, mut unknown) = (0_usize, 0_i64, false);
        for (leaf, column) in group.columns().iter().enumerate() {
            let root = metadata.file_metadata().schema_descr().get_column_root_idx(leaf);
            if self.columns.binary_search(&root).is_err() {
                continue;
            }
            if let Some(width) = width(self.metadata.schema().field(root).data_type()) {
                fixed = fixed.saturating_add(width);
                continue;
            }
            fixed = fixed.saturating_add(VIEW_BYTES);
            texts = texts.saturating_add(column.uncompressed_size());
            // Only this encoding, besides dictionaries, which stay shared, stores less than the
            // values.
            if column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY) {
                // Some writers count only the stored part of a value here.
                let stored = column.uncompressed_size();
                let told = column.unencoded_byte_array_data_bytes().filter(|bytes| *bytes > stored);
                texts = texts.saturating_add(told.unwrap_or(0));
                unknown |= told.is_none();
            }
        }
        let rows = usize::try_from(group.num_rows()).unwrap_or(0).max(1);
        let bytes = fixed.saturating_add(usize::try_from(texts).unwrap_or(0).div_ceil(rows));
        if unknown { bytes.max(BATCH_BYTES / UNKNOWN_ROWS) } else { bytes }
    }

    /// How many rows a batch of this row group has.
    fn batch_rows(&self, group: usize) -> usize {
        (BATCH_BYTES / self.row_bytes(group).max(1)).clamp(1, BATCH_ROWS)
    }

    /// Uncompressed bytes of a row group.
    pub(crate) fn plain_bytes(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(group).total_byte_size()).unwrap_or(0)
    }

    /// Bytes of a row group in the file.
    pub(crate) fn stored_bytes(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(group).compressed_size()).unwrap_or(0)
    }

    /// A reader for a row group, which can use this many threads.
    pub(crate) fn read(&self, group: usize, threads: usize) -> Result<RowGroup> {
        let (metadata, name) = (self.metadata.metadata(), &self.file.name);
        let schema = metadata.file_metadata().schema_descr();
        let wanted =
            |leaf: usize| self.columns.binary_search(&schema.get_column_root_idx(leaf)).is_ok();
        check_row_group(name, &self.opened.0, metadata.row_group(group), wanted, self.memory)?;
        let metadata = match self.codes {
            true => guarded_read(name, FORMAT, || Ok(with_codes(&self.metadata, group)))?,
            false => self.metadata.clone(),
        };
        let mut parts = Vec::new();
        for columns in self.column_groups(group, threads.saturating_mul(GROUPS_PER_THREAD)) {
            let reader = guarded_read(name, FORMAT, || self.reader(&metadata, group, &columns))?;
            parts.push(ColumnGroup { columns, reader });
        }
        Ok(RowGroup { parts, schema: self.columns_of(&metadata)?, source: self.clone(), group })
    }

    fn reader(
        &self,
        metadata: &ArrowReaderMetadata,
        group: usize,
        columns: &[usize],
    ) -> Result<ParquetRecordBatchReader> {
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(self.opened.clone(), metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(self.batch_rows(group))
            .build()
            .map_err(|e| self.invalid(group, e))
    }

    /// Divides the columns into at most `max_groups` groups of similar size in bytes.
    fn column_groups(&self, group: usize, max_groups: usize) -> Vec<Vec<usize>> {
        let metadata = self.metadata.metadata();
        let mut bytes = vec![0_i64; self.metadata.schema().fields().len()];
        for (leaf, column) in metadata.row_group(group).columns().iter().enumerate() {
            let root = metadata.file_metadata().schema_descr().get_column_root_idx(leaf);
            bytes
                .iter_mut()
                .skip(root)
                .take(1)
                .for_each(|sum| *sum = sum.saturating_add(column.uncompressed_size()));
        }
        let size = |column: &usize| bytes.get(*column).copied().unwrap_or(0);
        let mut largest_first = self.columns.to_vec();
        largest_first.sort_by_key(|column| std::cmp::Reverse(size(column)));
        let mut parts: Vec<(i64, Vec<usize>)> =
            vec![(0, Vec::new()); max_groups.clamp(1, self.columns.len().max(1))];
        for column in largest_first {
            if let Some((sum, part)) = parts.iter_mut().min_by_key(|(sum, part)| (*sum, part.len()))
            {
                *sum = sum.saturating_add(size(&column));
                part.push(column);
            }
        }
        parts
            .into_iter()
            .map(|(_, mut columns)| {
                columns.sort_unstable();
                columns
            })
            .collect()
    }
}

/// A row group being read.
pub(crate) struct RowGroup {
    parts: Vec<ColumnGroup>,
    schema: SchemaRef,
    source: ParquetSource,
    group: usize,
}

/// Some columns of a row group, read together.
struct ColumnGroup {
    /// Positions in the file, ascending.
    columns: Vec<usize>,
    reader: ParquetRecordBatchReader,
}

impl RowGroup {
    /// Decodes all rows, on the rayon pool that this is called in.
    pub(crate) fn read_all(self) -> Result<Vec<RecordBatch>> {
        let RowGroup { parts, schema, source, group } = self;
        let decode = |part: ColumnGroup| -> Result<_> {
            let failed = |error: ArrowError| source.invalid(group, error);
            let ColumnGroup { columns, reader } = part;
            let batches = guarded_read(&source.file.name, FORMAT, || {
                reader.collect::<Result<Vec<_>, _>>().map_err(failed)
            })?;
            Ok((columns, batches))
        };
        let parts: Vec<(Vec<usize>, Vec<RecordBatch>)> =
            parts.into_par_iter().map(decode).collect::<Result<_>>()?;
        let batches = parts.iter().map(|(_, batches)| batches.len()).max().unwrap_or(0);
        let batch_at = |at| {
            let part_batch = |(columns, batches): &(Vec<usize>, Vec<RecordBatch>)| {
                (columns.clone(), batches.get(at).cloned())
            };
            source.join_columns(group, &schema, parts.iter().map(part_batch))
        };
        (0..batches).map(batch_at).collect()
    }

    /// Decodes the next batch, on the rayon pool that this is called in.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let RowGroup { parts, schema, source, group } = self;
        let decode = |part: &mut ColumnGroup| -> Result<_> {
            let failed = |error: ArrowError| source.invalid(*group, error);
            let batch = guarded_read(&source.file.name, FORMAT, || {
                part.reader.next().transpose().map_err(failed)
            })?;
            Ok((part.columns.clone(), batch))
        };
        let parts: Vec<(Vec<usize>, Option<RecordBatch>)> =
            parts.par_iter_mut().map(decode).collect::<Result<_>>()?;
        if parts.iter().all(|(_, batch)| batch.is_none()) {
            return Ok(None);
        }
        source.join_columns(*group, schema, parts.into_iter()).map(Some)
    }
}

impl ParquetSource {
    /// Joins the batches of the column groups into one.
    fn join_columns(
        &self,
        group: usize,
        schema: &SchemaRef,
        parts: impl Iterator<Item = (Vec<usize>, Option<RecordBatch>)>,
    ) -> Result<RecordBatch> {
        let (mut columns, mut rows) = (Vec::with_capacity(self.columns.len()), None);
        for (places, batch) in parts {
            let batch = batch.filter(|batch| rows.is_none_or(|rows| rows == batch.num_rows()));
            let batch = batch.ok_or_else(|| {
                self.invalid(group, "its columns do not have the same number of rows")
            })?;
            rows = Some(batch.num_rows());
            columns.extend(places.into_iter().zip(batch.columns().to_vec()));
        }
        columns.sort_by_key(|(place, _)| *place);
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        let options = RecordBatchOptions::new().with_row_count(rows);
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|error| self.invalid(group, error))
    }

    #[cold]
    fn invalid(&self, group: usize, what: impl Display) -> Error {
        invalid(&self.file.name, &format!("row group {group}: {what}"))
    }
}

/// Bytes of a value, if the type has a fixed width.
fn width(arrow: &ArrowType) -> Option<usize> {
    match arrow {
        ArrowType::Null => Some(0),
        ArrowType::Boolean => Some(1),
        ArrowType::FixedSizeBinary(width) => {
            usize::try_from(*width).ok().map(|width| width + VIEW_BYTES)
        }
        other => other.primitive_width(),
    }
}

fn invalid(path: &Path, what: &str) -> Error {
    let what = said(what);
    Error::InvalidInput(format!("{}: cannot be read as {FORMAT}: {what}", path.display()))
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
