//! Arrow IPC: the stream format, and the file format (Feather), which is a stream between two magic numbers.
//!
//! Both are read from front to back, so that a pipe serves as well as a file; the file's footer, which says where
//! batches lie, is not needed. Messages are taken apart here, so that what a length claims is read or refused before
//! anything is allocated for it; what is in a message is decoded by `arrow-ipc`, which checks offsets and texts.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, MessageHeader, RecordBatch as Layout, root_as_message};
use arrow_schema::Schema;

use super::ahead::read_full;
use super::input::{Bytes, read_error, supported_columns};
use crate::error::{Error, Result};

/// What the file format starts and ends with.
pub(super) const FILE_MAGIC: &[u8] = b"ARROW1";
/// Before each message since version 0.15.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];
/// The largest description of a message.
const MAX_METADATA: usize = 256 << 20;
/// The most bytes of a batch, as they are and without their compression.
const MAX_BODY: u64 = 8 << 30;
/// Rows of a batch for which no column has bytes.
const ROWS_WITHOUT_BYTES: u64 = 1 << 20;
/// The end of a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The batches of one input, in order.
pub struct ArrowBatches {
    name: PathBuf,
    bytes: Bytes,
    is_file: bool,
    decoder: StreamDecoder,
    /// Positions of the columns that are read, where that is not all.
    columns: Option<Vec<usize>>,
    done: bool,
}

impl std::fmt::Debug for ArrowBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowBatches").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ArrowBatches {
    /// Reads the schema. A column of a type that a table cannot hold is an error that names it or, with
    /// `skip_unsupported`, left out and named in the second result.
    pub fn open(name: &Path, bytes: Bytes, skip_unsupported: bool) -> Result<(Self, Vec<String>)> {
        let decoder = StreamDecoder::new();
        let mut batches =
            ArrowBatches { name: name.to_path_buf(), bytes, is_file: false, decoder, columns: None, done: false };
        let mut start = [0; 8];
        let mut n = batches.read(&mut start)?;
        batches.is_file = start.starts_with(FILE_MAGIC);
        if batches.is_file {
            // Zeros fill up to a boundary, of 8 bytes or of as many as the writer likes.
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
        let Some((framed, body)) = batches.message()? else {
            return Err(batches.bad("there is no schema"));
        };
        let schema = batches.schema(framed.metadata())?;
        let (columns, skipped) = supported_columns(name, &schema, skip_unsupported)?;
        batches.columns = (!skipped.is_empty()).then_some(columns);
        batches.decode(framed.bytes.into())?;
        batches.decode(body.into())?;
        Ok((batches, skipped))
    }

    /// The schema that the first message holds.
    fn schema(&self, metadata: &[u8]) -> Result<Schema> {
        let message = root_as_message(metadata).map_err(|e| self.bad(&e.to_string()))?;
        let Some(schema) = message.header_as_schema() else {
            return Err(self.bad("it does not start with a schema"));
        };
        self.guarded(|| Ok(arrow_ipc::convert::fb_to_schema(schema)))
    }

    /// Runs what trusts the input more than we do.
    fn guarded<T>(&self, f: impl FnOnce() -> Result<T, arrow_schema::ArrowError>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => result.map_err(|e| self.bad(&e.to_string())),
            Err(_) => Err(self.bad("it is damaged")),
        }
    }

    fn decode(&mut self, bytes: Buffer) -> Result<Option<RecordBatch>> {
        let mut decoder = std::mem::take(&mut self.decoder);
        let mut bytes = bytes;
        let decoded = self.guarded(|| decoder.decode(&mut bytes));
        self.decoder = decoder;
        decoded
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match self.message()? {
                Some((framed, body)) => {
                    // A message without a body is decoded when the next bytes come.
                    match self.decode(framed.bytes.into())? {
                        Some(batch) => {
                            self.decode(body.into())?;
                            Some(batch)
                        }
                        None => self.decode(body.into())?,
                    }
                }
                None => {
                    self.done = true;
                    self.decode(Buffer::from(END.to_vec()))?
                }
            };
            match batch {
                Some(batch) => return self.chosen(batch).map(Some),
                None if self.done => return Ok(None),
                None => {}
            }
        }
    }

    fn chosen(&self, batch: RecordBatch) -> Result<RecordBatch> {
        match &self.columns {
            Some(columns) => batch.project(columns).map_err(|e| self.bad(&e.to_string())),
            None => Ok(batch),
        }
    }

    /// The next message and its body; `None` at the end.
    fn message(&mut self) -> Result<Option<(Framed, Vec<u8>)>> {
        let mut head = vec![0; 4];
        match self.read(&mut head)? {
            0 if !self.is_file => return Ok(None),
            4 => {}
            _ => return Err(self.cut_off()),
        }
        if head == CONTINUATION {
            let mut size = [0; 4];
            if self.read(&mut size)? < 4 {
                return Err(self.cut_off());
            }
            head.extend_from_slice(&size);
        }
        let size = head.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size)) as usize;
        if size == 0 {
            return self.check_end().map(|()| None);
        }
        if size > MAX_METADATA {
            return Err(self.bad(&format!("a message describes itself in {size} bytes")));
        }
        let start = head.len();
        let mut bytes = head;
        self.read_exactly(size as u64, &mut bytes)?;
        let framed = Framed { bytes, start };
        let message = root_as_message(framed.metadata()).map_err(|e| self.bad(&e.to_string()))?;
        let body_length = u64::try_from(message.bodyLength()).ok().filter(|length| *length <= MAX_BODY);
        let Some(body_length) = body_length else {
            return Err(self.bad(&format!("a batch has {} bytes; write smaller ones", message.bodyLength())));
        };
        let mut body = Vec::new();
        self.read_exactly(body_length, &mut body)?;
        check(message, &body).map_err(|what| self.bad(&what))?;
        Ok(Some((framed, body)))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        read_full(&mut *self.bytes, buffer).map_err(|e| read_error(&self.name, e))
    }

    /// Appends `length` bytes: as they come, for there may be none.
    fn read_exactly(&mut self, length: u64, to: &mut Vec<u8>) -> Result<()> {
        let read = (&mut self.bytes).take(length).read_to_end(to).map_err(|e| read_error(&self.name, e))?;
        if (read as u64) < length { Err(self.cut_off()) } else { Ok(()) }
    }

    /// Behind the last message: of a file, the footer and the magic number again.
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
    fn bad(&self, what: &str) -> Error {
        Error::InvalidInput(format!("{}: cannot be read as Arrow IPC: {what}", self.name.display()))
    }

    #[cold]
    fn cut_off(&self) -> Error {
        self.bad("it ends before it should; is the file cut off?")
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

/// A message as it is framed, without its body.
struct Framed {
    bytes: Vec<u8>,
    /// Where the description starts, behind its length.
    start: usize,
}

impl Framed {
    fn metadata(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// Refuses what the decoder would believe.
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
    let mut counts =
        nodes.iter().flat_map(|nodes| nodes.iter()).flat_map(|node| [node.length(), node.null_count()]);
    if !fits(layout.length()) || !counts.all(fits) {
        return Err(format!("{what} claims more rows than it has bytes for"));
    }
    Ok(())
}

/// Bytes of all buffers without their compression. Each lies within the body.
fn checked_bytes(layout: &Layout<'_>, body: &[u8]) -> Result<u64, String> {
    let compressed = layout.compression().is_some();
    let mut bytes = 0_u64;
    for buffer in layout.buffers().iter().flat_map(|buffers| buffers.iter()) {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let part = range.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?));
        let part = part.ok_or("a buffer is not within its batch")?;
        let length = match part.first_chunk::<8>().filter(|_| compressed) {
            // -1 marks a buffer that is as it was.
            Some(length) => u64::try_from(i64::from_le_bytes(*length)).unwrap_or(part.len() as u64),
            None if compressed && !part.is_empty() => return Err("a compressed buffer has no length".to_owned()),
            None => part.len() as u64,
        };
        bytes = bytes.saturating_add(length);
    }
    if bytes > MAX_BODY {
        return Err(format!("a batch of {bytes} bytes without its compression; write smaller ones"));
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "arrow_tests.rs"]
mod tests;
