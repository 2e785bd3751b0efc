//! Parquet files: row groups decoded in parallel, in order, in bounded memory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::Opened;
use super::input::read_error;
use crate::error::{Error, Result};
use crate::model::DataType;

/// Rows of a batch.
const BATCH_ROWS: usize = 65_536;
/// What a value without a fixed width is taken to need.
const TEXT_BYTES: usize = 24;

/// A Parquet file that can be read at any place: the file itself, or a temporary copy of what came through a pipe or
/// a compressed file, gone when this is dropped.
#[derive(Debug)]
pub struct Spooled {
    /// For messages.
    name: PathBuf,
    /// `None` for the file as named.
    copy: Option<tempfile::NamedTempFile>,
}

impl Spooled {
    /// Makes an opened input seekable.
    pub fn of(opened: Opened) -> Result<Self> {
        if let Some(path) = opened.path {
            return Ok(Spooled { name: path, copy: None });
        }
        let mut bytes = opened.bytes;
        let mut copy = tempfile::NamedTempFile::new().map_err(|e| Error::io(std::env::temp_dir(), e))?;
        std::io::copy(&mut bytes, &mut copy).map_err(|e| read_error(&opened.name, e))?;
        Ok(Spooled { name: opened.name, copy: Some(copy) })
    }

    fn open(&self) -> Result<File> {
        let path = self.copy.as_ref().map_or(self.name.as_path(), tempfile::NamedTempFile::path);
        File::open(path).map_err(|e| Error::io(path, e))
    }
}

/// An open Parquet file.
#[derive(Clone, Debug)]
pub struct ParquetSource {
    /// Stays while any task may read it.
    file: Arc<Spooled>,
    metadata: ArrowReaderMetadata,
    /// Positions of the columns that are read.
    columns: Arc<Vec<usize>>,
}

impl ParquetSource {
    /// Opens a file. A column of a type that a table cannot hold is an error that names it or, with
    /// `skip_unsupported`, left out and named in the second result.
    pub fn open(spooled: Spooled, skip_unsupported: bool) -> Result<(Self, Vec<String>)> {
        let (file, path) = (spooled.open()?, spooled.name.as_path());
        let metadata =
            ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| bad(path, &e.to_string()))?;
        let (mut columns, mut skipped) = (Vec::new(), Vec::new());
        for (i, field) in metadata.schema().fields().iter().enumerate() {
            match DataType::from_arrow(field.data_type()) {
                Some(_) => columns.push(i),
                None if skip_unsupported => skipped.push(field.name().clone()),
                None => {
                    return Err(Error::Unsupported(format!(
                        "{}: column '{}' has type {}, which a table cannot hold yet; \
                         leave such columns out with --skip-unsupported",
                        path.display(),
                        field.name(),
                        field.data_type()
                    )));
                }
            }
        }
        Ok((ParquetSource { file: Arc::new(spooled), metadata, columns: Arc::new(columns) }, skipped))
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

    /// Bytes that a row group takes as Arrow arrays, about: of long texts at least as many as they have encoded.
    pub fn memory_bytes(&self, group: usize) -> usize {
        let group = self.metadata.metadata().row_group(group);
        let fields = self.metadata.schema().fields();
        let width = |i: &usize| fields[*i].data_type().primitive_width().unwrap_or(TEXT_BYTES);
        let fixed: usize = self.columns.iter().map(width).sum();
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        rows.saturating_mul(fixed).max(usize::try_from(group.total_byte_size()).unwrap_or(0))
    }

    /// Bytes of a row group in the file.
    pub fn stored_bytes(&self, group: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(group).compressed_size()).unwrap_or(0)
    }

    /// The rows of a row group.
    pub fn read(&self, group: usize) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let file = self.file.open()?;
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), self.columns.iter().copied());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|e| bad(&self.file.name, &e.to_string()))?;
        let spooled = self.file.clone();
        Ok(reader.map(move |batch| batch.map_err(|e| bad(&spooled.name, &format!("row group {group}: {e}")))))
    }
}

fn bad(path: &Path, what: &str) -> Error {
    Error::InvalidInput(format!("{}: cannot be read as Parquet: {what}", path.display()))
}
