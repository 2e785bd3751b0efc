//! Arrow IPC: the stream format, and the file format (Feather), which is a stream between two magic
//! numbers.
//!
//! Both are read front to back, so that a pipe works as well as a file; the footer, which locates
//! the batches of a file, is not needed. Messages are framed here, so that every claimed length is
//! read or refused before anything is allocated for it; their contents are decoded by `arrow-ipc`,
//! which checks offsets and texts. Each message is decoded on its own: a batch without a body, of
//! null columns or no rows, is an ordinary batch.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, MessageHeader, RecordBatch as Layout, root_as_message};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::stream::{Bytes, read_error, read_full};
use super::supported::supported_columns;
use crate::error::{Error, Result};

/// The file format starts and ends with this.
pub(super) const FILE_MAGIC: &[u8] = b"ARROW1";
/// Precedes each message since version 0.15.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];
/// The largest metadata of a message.
const MAX_METADATA: usize = 256 << 20;
/// The most bytes of a batch, stored or decompressed.
const MAX_BODY: u64 = 8 << 30;
/// How many rows a batch may have beyond those for which it has bytes: null columns need none.
const ROWS_WITHOUT_BYTES: u64 = 1 << 32;
/// Rows of null columns are returned in slices of this size, because later stages need memory for
/// them.
const SLICE_ROWS: usize = 1 << 20;

/// The batches of one input, in order.
pub(crate) struct ArrowBatches {
    name: PathBuf,
    bytes: Bytes,
    is_file: bool,
    schema: SchemaRef,
    /// The dictionaries so far, by their ids in the fields.
    dictionaries: HashMap<i64, ArrayRef>,
    /// Positions of the columns to read; `None` for all.
    columns: Option<Vec<usize>>,
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
    /// Reads the schema. A column of a type that a table cannot hold is an error that names it or,
    /// with `skip_unsupported`, is skipped and named in the second result.
    pub(crate) fn open(
        name: &Path,
        bytes: Bytes,
        skip_unsupported: bool,
    ) -> Result<(Self, Vec<String>)> {
        let mut batches = ArrowBatches {
            name: name.to_path_buf(),
            bytes,
            is_file: false,
            schema: Arc::new(Schema::empty()),
            dictionaries: HashMap::new(),
            columns: None,
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
        let rest = std::mem::replace(&mut batches.bytes, Box::new(std::io::empty()));
        let start = start.get(..n).unwrap_or_default().to_vec();
        batches.bytes = Box::new(std::io::Cursor::new(start).chain(rest));
        let Some(first) = batches.message()? else {
            return Err(batches.invalid("there is no schema"));
        };
        let schema = batches.schema(&first.metadata)?;
        let (columns, skipped) = supported_columns(name, &schema, skip_unsupported)?;
        batches.columns = (!skipped.is_empty()).then_some(columns);
        batches.schema = Arc::new(schema);
        Ok((batches, skipped))
    }

    /// The columns that are read.
    pub(crate) fn columns(&self) -> Result<SchemaRef> {
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
        if !schema.endianness().equals_to_target_endianness() {
            return Err(self.invalid(
                "its numbers are big-endian, which is not read; write it on another machine",
            ));
        }
        self.catch_panics(|| Ok(arrow_ipc::convert::fb_to_schema(schema)))
    }

    /// Runs code that may panic on damaged input.
    fn catch_panics<T>(&self, f: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => result.map_err(|e| self.invalid(e)),
            Err(_) => Err(self.invalid("it is damaged")),
        }
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
        let decoded = self.catch_panics(|| {
            let Framed { metadata, body } = message;
            let message =
                root_as_message(&metadata).map_err(|e| ArrowError::IpcError(e.to_string()))?;
            let (body, version) = (Buffer::from_vec(body), message.version());
            if let Some(dictionary) = message.header_as_dictionary_batch() {
                return read_dictionary(
                    &body,
                    dictionary,
                    &self.schema,
                    &mut dictionaries,
                    &version,
                )
                .map(|()| None);
            }
            let Some(batch) = message.header_as_record_batch() else {
                return Err(ArrowError::IpcError("a second schema".to_owned()));
            };
            let (schema, columns) = (Arc::clone(&self.schema), self.columns.as_deref());
            read_record_batch(&body, batch, schema, &dictionaries, columns, &version).map(Some)
        });
        self.dictionaries = dictionaries;
        decoded
    }

    /// The next message and its body; `None` at the end.
    fn message(&mut self) -> Result<Option<Framed>> {
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
        let message = root_as_message(&metadata).map_err(|e| self.invalid(e))?;
        let body_length =
            u64::try_from(message.bodyLength()).ok().filter(|length| *length <= MAX_BODY);
        let Some(body_length) = body_length else {
            return Err(self.invalid(format_args!(
                "a batch has {} bytes; write smaller ones",
                message.bodyLength()
            )));
        };
        let mut body = Vec::new();
        self.read_exactly(body_length, &mut body)?;
        check(message, &body).map_err(|what| self.invalid(what))?;
        Ok(Some(Framed { metadata, body }))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        read_full(&mut *self.bytes, buffer).map_err(|e| read_error(&self.name, e))
    }

    /// Appends `length` bytes as they arrive: the input may have fewer.
    fn read_exactly(&mut self, length: u64, to: &mut Vec<u8>) -> Result<()> {
        let read = (&mut self.bytes)
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
        (&mut self.bytes)
            .take(MAX_METADATA as u64)
            .read_to_end(&mut footer)
            .map_err(|e| read_error(&self.name, e))?;
        if footer.ends_with(FILE_MAGIC) { Ok(()) } else { Err(self.cut_off()) }
    }

    #[cold]
    fn invalid(&self, what: impl Display) -> Error {
        Error::InvalidInput(format!("{}: cannot be read as Arrow IPC: {what}", self.name.display()))
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

/// Refuses claims that the decoder would trust.
fn check(message: Message<'_>, body: &[u8]) -> Result<(), String> {
    let (layout, what) = match message.header_type() {
        MessageHeader::RecordBatch => (message.header_as_record_batch(), "a batch"),
        MessageHeader::DictionaryBatch => {
            (message.header_as_dictionary_batch().and_then(|batch| batch.data()), "a dictionary")
        }
        MessageHeader::Schema if message.header_as_schema().is_some() => return Ok(()),
        other => return Err(format!("a message of an unknown kind ({})", other.0)),
    };
    let layout = layout.ok_or_else(|| format!("{what} without a description"))?;
    let bytes = checked_bytes(&layout, body)?;
    let most = bytes.saturating_mul(8).saturating_add(ROWS_WITHOUT_BYTES);
    let fits = |length: i64| u64::try_from(length).is_ok_and(|length| length <= most);
    let nodes = layout.nodes();
    let mut counts = nodes
        .iter()
        .flat_map(|nodes| nodes.iter())
        .flat_map(|node| [node.length(), node.null_count()]);
    if !fits(layout.length()) || !counts.all(fits) {
        return Err(format!("{what} claims more rows than it has bytes for"));
    }
    Ok(())
}

/// Decompressed bytes of all buffers. Checks that each lies within the body.
fn checked_bytes(layout: &Layout<'_>, body: &[u8]) -> Result<u64, String> {
    let compressed = layout.compression().is_some();
    let mut bytes = 0_u64;
    for buffer in layout.buffers().iter().flat_map(|buffers| buffers.iter()) {
        let range =
            usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let part = range.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let part = part.ok_or("a buffer is not within its batch")?;
        let length = match part.first_chunk::<8>().filter(|_| compressed) {
            // -1 marks an uncompressed buffer.
            Some(length) => u64::try_from(i64::from_le_bytes(*length)).unwrap_or(part.len() as u64),
            None if compressed && !part.is_empty() => {
                return Err("a compressed buffer has no length".to_owned());
            }
            None => part.len() as u64,
        };
        bytes = bytes.saturating_add(length);
    }
    if bytes > MAX_BODY {
        return Err(format!(
            "a batch of {bytes} bytes without its compression; write smaller ones"
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "arrow_tests.rs"]
mod tests;
