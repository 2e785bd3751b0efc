//! Parquet files: row groups and their columns decoded in parallel, in order, in bounded memory.
//!
//! The columns of a row group are dealt out to a few readers of about equal work: writers like
//! row groups so large that only one of them fits into memory at a time.
//!
//! Texts and bytes are read as views: a value of a dictionary is in memory once, however many rows
//! have it. How many rows a batch has is decided for each row group, by the bytes that its rows
//! take on average.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Schema, SchemaRef};
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

use super::input::Opened;
use super::stream::read_error;
use super::supported::supported_columns;
use crate::error::{Error, Result};

/// Rows of a batch at most.
const BATCH_ROWS: usize = 65_536;
/// Bytes of a batch, about.
const BATCH_BYTES: usize = 16 << 20;
/// Rows of a batch where texts may be of any length for all that the file says.
const UNKNOWN_ROWS: usize = 256;
/// Readers of a row group for each thread: more than one, so that those that end early find more to
/// do.
const GROUPS_PER_THREAD: usize = 2;
/// What a text takes besides its bytes.
const VIEW_BYTES: usize = 16;

/// A Parquet file that can be read at any place: the file itself, or a temporary copy of what came
/// through a pipe or a compressed file, gone when this is dropped.
#[derive(Debug)]
pub struct Spooled {
    /// For messages.
    name: PathBuf,
    /// `None` for the file as named.
    copy: Option<tempfile::NamedTempFile>,
}

impl Spooled {
    /// Makes an opened input seekable.
    pub fn new(opened: Opened) -> Result<Self> {
        if let Some(path) = opened.path {
            return Ok(Spooled { name: path, copy: None });
        }
        let mut bytes = opened.bytes;
        let mut copy =
            tempfile::NamedTempFile::new().map_err(|e| Error::io(std::env::temp_dir(), e))?;
        std::io::copy(&mut bytes, &mut copy).map_err(|e| read_error(&opened.name, e))?;
        Ok(Spooled { name: opened.name, copy: Some(copy) })
    }

    fn open(&self) -> Result<File> {
        let path = self.copy.as_ref().map_or(self.name.as_path(), tempfile::NamedTempFile::path);
        File::open(path).map_err(|e| Error::io(path, e))
    }
}

/// A file that many readers read at places of their own, without a descriptor for each.
#[derive(Clone, Debug)]
struct SharedFile(Arc<File>);

/// The bytes of a shared file from a place on.
struct OffsetReader {
    file: Arc<File>,
    at: u64,
}

impl Read for OffsetReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
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
        let mut bytes = Vec::new();
        // As much as there is, whatever the file says of itself.
        let read = OffsetReader { file: Arc::clone(&self.0), at: start }
            .take(length as u64)
            .read_to_end(&mut bytes)?;
        if read < length {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} reach beyond the file"
            )));
        }
        Ok(bytes.into())
    }
}

/// An open Parquet file.
#[derive(Clone, Debug)]
pub struct ParquetSource {
    /// Stays while any task may read it.
    file: Arc<Spooled>,
    opened: SharedFile,
    metadata: ArrowReaderMetadata,
    /// Positions of the columns that are read.
    columns: Arc<Vec<usize>>,
}

impl ParquetSource {
    /// Opens a file. A column of a type that a table cannot hold is an error that names it or, with
    /// `skip_unsupported`, left out and named in the second result.
    pub fn open(spooled: Spooled, skip_unsupported: bool) -> Result<(Self, Vec<String>)> {
        let (file, path) = (SharedFile(Arc::new(spooled.open()?)), spooled.name.as_path());
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|e| invalid(path, &e.to_string()))?;
        let metadata = with_views(metadata);
        let (columns, skipped) = supported_columns(path, metadata.schema(), skip_unsupported)?;
        let columns = Arc::new(columns);
        Ok((ParquetSource { file: Arc::new(spooled), opened: file, metadata, columns }, skipped))
    }

    /// Bytes of the file, if it is read where it is; a copy was counted while it was made.
    pub fn bytes_in_place(&self) -> Result<Option<u64>> {
        let name = &self.file.name;
        let size = || name.metadata().map(|m| m.len()).map_err(|e| Error::io(name, e));
        self.file.copy.is_none().then(size).transpose()
    }

    /// Row groups.
    pub fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Rows of all row groups.
    pub fn rows(&self) -> u64 {
        let groups = self.metadata.metadata().row_groups().iter();
        groups
            .map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
            .fold(0, u64::saturating_add)
    }

    /// The columns that are read.
    pub fn schema(&self) -> Result<SchemaRef> {
        let schema = self.metadata.schema().project(&self.columns);
        schema.map(Arc::new).map_err(|e| invalid(&self.file.name, &e.to_string()))
    }

    /// Bytes that a row group takes as Arrow arrays, about.
    pub fn memory_bytes(&self, group: usize) -> usize {
        let rows =
            usize::try_from(self.metadata.metadata().row_group(group).num_rows()).unwrap_or(0);
        rows.saturating_mul(self.row_bytes(group))
    }

    /// Bytes that a row takes as Arrow arrays, on average and about.
    fn row_bytes(&self, group: usize) -> usize {
        let metadata = self.metadata.metadata();
        let group = metadata.row_group(group);
        let (mut fixed, mut texts, mut unknown) = (0, 0, false);
        for (leaf, column) in group.columns().iter().enumerate() {
            let root = metadata.file_metadata().schema_descr().get_column_root_idx(leaf);
            if self.columns.binary_search(&root).is_err() {
                continue;
            }
            if let Some(width) = width(self.metadata.schema().field(root).data_type()) {
                fixed += width;
                continue;
            }
            fixed += VIEW_BYTES;
            texts += column.uncompressed_size();
            // Only this encoding takes less than the values, unless in a dictionary that is shared.
            if column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY) {
                // Some programs that write files count only what they store of a value.
                let stored = column.uncompressed_size();
                let told = column.unencoded_byte_array_data_bytes().filter(|bytes| *bytes > stored);
                texts += told.unwrap_or(0);
                unknown |= told.is_none();
            }
        }
        let rows = usize::try_from(group.num_rows()).unwrap_or(0).max(1);
        let bytes = fixed + usize::try_from(texts).unwrap_or(0).div_ceil(rows);
        if unknown { bytes.max(BATCH_BYTES / UNKNOWN_ROWS) } else { bytes }
    }

    /// Rows of a batch of this row group.
    fn batch_rows(&self, group: usize) -> usize {
        (BATCH_BYTES / self.row_bytes(group).max(1)).clamp(1, BATCH_ROWS)
    }

    /// Bytes of a row group without its compression.
    pub fn plain_bytes(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(group).total_byte_size()).unwrap_or(0)
    }

    /// Bytes of a row group in the file.
    pub fn stored_bytes(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(group).compressed_size()).unwrap_or(0)
    }

    /// The rows of a row group, to be decoded by so many threads.
    pub fn read(&self, group: usize, threads: usize) -> Result<RowGroup> {
        let mut parts = Vec::new();
        for columns in self.column_groups(group, threads.saturating_mul(GROUPS_PER_THREAD)) {
            let mask =
                ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied());
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                self.opened.clone(),
                self.metadata.clone(),
            )
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(self.batch_rows(group))
            .build()
            .map_err(|e| invalid(&self.file.name, &e.to_string()))?;
            parts.push(ColumnGroup { columns, reader });
        }
        Ok(RowGroup { parts, schema: self.schema()?, source: self.clone(), group })
    }

    /// The columns in at most so many parts of about the same number of bytes.
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

/// A row group that is being read.
pub struct RowGroup {
    parts: Vec<ColumnGroup>,
    schema: SchemaRef,
    source: ParquetSource,
    group: usize,
}

/// Some of the columns of a row group.
struct ColumnGroup {
    /// By position in the file, rising.
    columns: Vec<usize>,
    reader: ParquetRecordBatchReader,
}

impl RowGroup {
    /// All rows, decoded on the threads of the pool that this is called in.
    pub fn read_all(self) -> Result<Vec<RecordBatch>> {
        let RowGroup { parts, schema, source, group } = self;
        let decode = |part: ColumnGroup| -> Result<_> {
            let failed = |error: ArrowError| source.invalid(group, &error.to_string());
            Ok((part.columns, part.reader.collect::<Result<Vec<_>, _>>().map_err(failed)?))
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

    /// The next rows, decoded on the threads of the pool that this is called in.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let RowGroup { parts, schema, source, group } = self;
        let decode = |part: &mut ColumnGroup| -> Result<_> {
            let failed = |error: ArrowError| source.invalid(*group, &error.to_string());
            Ok((part.columns.clone(), part.reader.next().transpose().map_err(failed)?))
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
    /// A batch of all columns from batches of some.
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
            .map_err(|error| self.invalid(group, &error.to_string()))
    }

    #[cold]
    fn invalid(&self, group: usize, what: &str) -> Error {
        invalid(&self.file.name, &format!("row group {group}: {what}"))
    }
}

/// The same file with texts and bytes read as views, whatever the program that wrote it had them
/// in.
fn with_views(metadata: ArrowReaderMetadata) -> ArrowReaderMetadata {
    let view = |field: &Arc<Field>| match viewed(field.data_type()) {
        Some(view) => Arc::new(field.as_ref().clone().with_data_type(view)),
        None => field.clone(),
    };
    let schema = metadata.schema();
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(view).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    // Should the reader not want to, it is read as it was written.
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).unwrap_or(metadata)
}

fn viewed(arrow: &ArrowType) -> Option<ArrowType> {
    match arrow {
        ArrowType::Utf8 | ArrowType::LargeUtf8 => Some(ArrowType::Utf8View),
        ArrowType::Binary | ArrowType::LargeBinary => Some(ArrowType::BinaryView),
        ArrowType::Dictionary(_, value) => viewed(value),
        _ => None,
    }
}

/// Bytes of a value, if all are of the same width.
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
    let what = what.trim_start_matches("Parquet error: ");
    Error::InvalidInput(format!("{}: cannot be read as Parquet: {what}", path.display()))
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
