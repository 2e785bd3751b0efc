//! Arrow IPC: the stream format, and the file format (Feather), which is a stream between two magic
//! numbers.
//!
//! Both are read front to back, so that a pipe works as well as a file. Only where a file does not
//! begin with a message is its footer asked for schema and batches (`footer`): Polars writes such
//! files. Messages are framed here, so that every claimed length is
//! read or refused before anything is allocated for it; their contents are decoded by `arrow-ipc`,
//! which checks offsets and texts. Each message is decoded on its own: a batch without a body, of
//! null columns or no rows, is an ordinary batch.

mod checks;
mod footer;
mod source;

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use self::checks::{Refused, check};
use self::source::Source;
use super::foreign::{guarded, most_bytes, too_large};
use super::stream::{Bytes, read_error};
use super::supported::{Wanted, supported_columns};
use crate::error::{Error, Result};

/// The name of the format in messages.
const FORMAT: &str = "Arrow IPC";
/// The file format starts and ends with this.
pub(super) const FILE_MAGIC: &[u8] = b"ARROW1";
/// Precedes each message since version 0.15.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];
/// The largest metadata of a message.
const MAX_METADATA: usize = 256 << 20;
/// Rows of null columns are returned in slices of this size, because later stages need memory for
/// them.
const SLICE_ROWS: usize = 1 << 20;

/// The batches of one input, in order.
pub struct ArrowBatches {
    name: PathBuf,
    source: Source,
    is_file: bool,
    schema: SchemaRef,
    /// The dictionaries so far, by their ids in the fields.
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes of the dictionaries.
    dictionary_bytes: u64,
    /// Positions of the columns to read; `None` for all.
    columns: Option<Vec<usize>>,
    /// Where messages are, rising, of a file that is read by its footer.
    blocks: Option<VecDeque<Range<u64>>>,
    /// Only batches that start within this part of the input are read.
    part: Range<u64>,
    /// The most bytes of a batch and the dictionaries, stored or decompressed.
    most_bytes: u64,
    /// Rows of the last batch that are still to be returned.
    rest: Option<RecordBatch>,
    done: bool,
}

impl std::fmt::Debug for ArrowBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowBatches").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ArrowBatches {
    /// Reads the schema of an input for a table. The second result names columns that are skipped.
    /// `path` is the file with these bytes, if there is one.
    pub(crate) fn open(
        name: &Path,
        bytes: Bytes,
        path: Option<&Path>,
        wanted: Wanted<'_>,
        memory: u64,
    ) -> Result<(Self, Vec<String>)> {
        let mut batches = Self::start(name, Source::pipe(bytes, path), memory)?;
        let (columns, skipped) = supported_columns(name, &batches.schema, wanted)?;
        batches.columns = (columns.len() < batches.schema.fields().len()).then_some(columns);
        Ok((batches, skipped))
    }

    /// Reads the schema of a file, whose columns may have any types.
    pub(crate) fn open_file(name: &Path, file: File, memory: u64) -> Result<Self> {
        Self::start(name, Source::file(Box::new(file)), memory)
    }

    /// Reads the schema of bytes as they come, whose columns may have any types.
    pub fn of_bytes(name: &Path, bytes: Bytes, memory: u64) -> Result<Self> {
        Self::start(name, Source::pipe(bytes, None), memory)
    }

    /// Reads only these columns, and of a file only the batches that start within a part of it.
    pub(crate) fn select(self, columns: Vec<usize>, part: Option<Range<u64>>) -> Self {
        let part = part.filter(|_| self.is_file).unwrap_or_else(|| self.part.clone());
        ArrowBatches { columns: Some(columns), part, ..self }
    }

    fn start(name: &Path, source: Source, memory: u64) -> Result<Self> {
        let mut batches = ArrowBatches {
            name: name.to_path_buf(),
            source,
            is_file: false,
            schema: Arc::new(Schema::empty()),
            dictionaries: HashMap::new(),
            dictionary_bytes: 0,
            columns: None,
            blocks: None,
            part: 0..u64::MAX,
            most_bytes: most_bytes(memory),
            rest: None,
            done: false,
        };
        let mut start = [0; 8];
        let mut n = batches.read(&mut start)?;
        batches.is_file = start.starts_with(FILE_MAGIC);
        if batches.is_file {
            // Zeros pad the magic number to 8 bytes, or to a larger boundary of the writer's
            // choice.
            start = [0; 8];
            while start == [0; 8] {
                n = batches.read(&mut start)?;
                if n < start.len() {
                    return Err(batches.cut_off());
                }
            }
        }
        batches.source.unread(start.get(..n).unwrap_or_default());
        if batches.is_file && !start.starts_with(&CONTINUATION) {
            batches.read_footer()?;
            return Ok(batches);
        }
        let Some(first) = batches.message()? else {
            return Err(batches.invalid("there is no schema"));
        };
        batches.schema = Arc::new(batches.schema(&first.metadata)?);
        Ok(batches)
    }

    /// The columns that are read.
    pub fn columns(&self) -> Result<SchemaRef> {
        match &self.columns {
            Some(columns) => {
                self.schema.project(columns).map(Arc::new).map_err(|e| self.invalid(e))
            }
            None => Ok(Arc::clone(&self.schema)),
        }
    }

    /// The schema in the first message.
    fn schema(&self, metadata: &[u8]) -> Result<Schema> {
        let message = root_as_message(metadata).map_err(|e| self.invalid(e))?;
        let Some(schema) = message.header_as_schema() else {
            return Err(self.invalid("it does not start with a schema"));
        };
        self.converted(schema)
    }

    fn converted(&self, schema: arrow_ipc::Schema<'_>) -> Result<Schema> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err(self.invalid(
                "its numbers are big-endian, which is not read; write it on another machine",
            ));
        }
        self.guarded(|| Ok(arrow_ipc::convert::fb_to_schema(schema)))
    }

    /// Runs code that may panic on damaged input.
    fn guarded<T>(&self, f: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
        guarded(f)
            .map_err(|panicked| panicked.into_error(self.name.display(), FORMAT))?
            .map_err(|e| self.invalid(e))
    }

    /// The next batch, or slice of a batch.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.decode_batch()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        if rows <= SLICE_ROWS || rows / 8 <= bytes {
            return Ok(Some(batch));
        }
        self.rest = Some(batch.slice(SLICE_ROWS, rows - SLICE_ROWS));
        Ok(Some(batch.slice(0, SLICE_ROWS)))
    }

    /// The next record batch; `None` at the end.
    fn decode_batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(message) = self.message()? {
            if let Some(batch) = self.decode(message)? {
                return Ok(Some(batch));
            }
        }
        self.done = true;
        Ok(None)
    }

    /// Decodes a record batch, or stores a dictionary batch and returns `None`.
    fn decode(&mut self, message: Framed) -> Result<Option<RecordBatch>> {
        let mut dictionaries = std::mem::take(&mut self.dictionaries);
        let decoded = self.guarded(|| {
            let Framed { metadata, body } = message;
            let message =
                root_as_message(&metadata).map_err(|e| ArrowError::IpcError(e.to_string()))?;
            let (body, version) = (Buffer::from_vec(body), message.version());
            if let Some(dictionary) = message.header_as_dictionary_batch() {
                let schema = &self.schema;
                read_dictionary(&body, dictionary, schema, &mut dictionaries, &version)?;
                return Ok(None);
            }
            let Some(batch) = message.header_as_record_batch() else {
                return Err(ArrowError::IpcError("a second schema".to_owned()));
            };
            let (schema, columns) = (Arc::clone(&self.schema), self.columns.as_deref());
            read_record_batch(&body, batch, schema, &dictionaries, columns, &version).map(Some)
        });
        self.dictionaries = dictionaries;
        let sizes = self.dictionaries.values().map(|array| array.get_array_memory_size() as u64);
        self.dictionary_bytes = sizes.fold(0, u64::saturating_add);
        decoded
    }

    /// The next message and its body; `None` at the end, also of the part.
    fn message(&mut self) -> Result<Option<Framed>> {
        loop {
            if let Some(blocks) = &mut self.blocks {
                let Some(block) = blocks.pop_front() else { return self.pass_rest() };
                let distance = block.start.saturating_sub(self.source.position());
                self.source.skip(distance).map_err(|e| read_error(&self.name, e))?;
            }
            let start = self.source.position();
            let Some(metadata) = self.metadata()? else { return Ok(None) };
            let message = root_as_message(&metadata).map_err(|e| self.invalid(e))?;
            let length = u64::try_from(message.bodyLength())
                .map_err(|_| self.invalid("a batch has a negative length"))?;
            if message.header_type() == MessageHeader::RecordBatch {
                if start >= self.part.end {
                    return Ok(None);
                }
                if start < self.part.start {
                    self.source.skip(length).map_err(|e| read_error(&self.name, e))?;
                    continue;
                }
            }
            let most = self.most_bytes.saturating_sub(self.dictionary_bytes);
            if length > most {
                return Err(self.too_large(length));
            }
            let mut body = Vec::new();
            self.read_exactly(length, &mut body)?;
            check(message, &body, most).map_err(|refused| match refused {
                Refused::Damaged(what) => self.invalid(what),
                Refused::TooLarge(bytes) => self.too_large(bytes),
            })?;
            return Ok(Some(Framed { metadata, body }));
        }
    }

    /// Reads what is behind the last message: whoever counts or hashes the bytes sees all of them.
    fn pass_rest(&mut self) -> Result<Option<Framed>> {
        std::io::copy(&mut self.source, &mut std::io::sink())
            .map_err(|e| read_error(&self.name, e))?;
        Ok(None)
    }

    /// The metadata of the next message; `None` at the end.
    fn metadata(&mut self) -> Result<Option<Vec<u8>>> {
        let mut head = [0; 4];
        match self.read(&mut head)? {
            0 if !self.is_file => return Ok(None),
            4 => {}
            _ => return Err(self.cut_off()),
        }
        if head == CONTINUATION && self.read(&mut head)? < 4 {
            return Err(self.cut_off());
        }
        let size = u32::from_le_bytes(head) as usize;
        if size == 0 {
            return self.check_end().map(|()| None);
        }
        if size > MAX_METADATA {
            return Err(self.invalid(format_args!("a message has {size} bytes of metadata")));
        }
        let mut metadata = Vec::new();
        self.read_exactly(size as u64, &mut metadata)?;
        Ok(Some(metadata))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.source.read_full(buffer).map_err(|e| read_error(&self.name, e))
    }

    /// Appends `length` bytes as they arrive: the input may have fewer.
    fn read_exactly(&mut self, length: u64, to: &mut Vec<u8>) -> Result<()> {
        let read = (&mut self.source)
            .take(length)
            .read_to_end(to)
            .map_err(|e| read_error(&self.name, e))?;
        if (read as u64) < length { Err(self.cut_off()) } else { Ok(()) }
    }

    /// Checks the end of a file: the footer and the magic number again.
    fn check_end(&mut self) -> Result<()> {
        if !self.is_file {
            return Ok(());
        }
        let mut footer = Vec::new();
        (&mut self.source)
            .take(MAX_METADATA as u64)
            .read_to_end(&mut footer)
            .map_err(|e| read_error(&self.name, e))?;
        if footer.ends_with(FILE_MAGIC) { Ok(()) } else { Err(self.cut_off()) }
    }

    #[cold]
    fn invalid(&self, what: impl Display) -> Error {
        Error::InvalidInput(format!("{}: cannot be read as {FORMAT}: {what}", self.name.display()))
    }

    #[cold]
    fn too_large(&self, bytes: u64) -> Error {
        too_large(self.name.display(), "a batch", bytes, self.most_bytes)
    }

    #[cold]
    fn cut_off(&self) -> Error {
        self.invalid("it ends early; is the file truncated?")
    }
}

impl Iterator for ArrowBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let batch = self.next_batch();
        self.done |= batch.is_err();
        batch.transpose()
    }
}

/// A message: its metadata, and the bytes of its arrays.
struct Framed {
    metadata: Vec<u8>,
    body: Vec<u8>,
}

#[cfg(test)]
mod tests;
