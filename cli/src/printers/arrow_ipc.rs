//! Arrow IPC: the stream format in a pipe, since readers start before the end, and the file format
//! with `-o`, so that readers can seek.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::SchemaRef;

use super::flush::FLUSH_BYTES;
use super::plain_types::{plain_batch, plain_schema, without_dictionaries};
use crate::errors::Failure;
use crate::output::Output;

/// Writes one result as Arrow IPC.
pub(super) struct ArrowPrinter {
    schema: SchemaRef,
    writer: Writer,
}

enum Writer {
    Stream(StreamWriter<std::io::BufWriter<Output>>),
    File(FileWriter<std::io::BufWriter<Output>>),
}

impl ArrowPrinter {
    pub(super) fn new(schema: &SchemaRef, output: Output) -> Result<Self, Failure> {
        let is_file = output.is_file();
        // Views may be values of a dictionary.
        let schema = match is_file {
            true => plain_schema(&without_dictionaries(schema)),
            false => plain_schema(schema),
        };
        let buffered = std::io::BufWriter::with_capacity(FLUSH_BYTES, output);
        let writer = if is_file {
            Writer::File(FileWriter::try_new(buffered, &schema)?)
        } else {
            Writer::Stream(StreamWriter::try_new(buffered, &schema)?)
        };
        Ok(ArrowPrinter { schema, writer })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let batch = plain_batch(batch, &self.schema)?;
        match &mut self.writer {
            Writer::Stream(writer) => {
                writer.write(&batch)?;
                writer.flush()?;
            }
            Writer::File(writer) => writer.write(&batch)?,
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Output, Failure> {
        let buffered = match self.writer {
            Writer::Stream(writer) => writer.into_inner()?,
            Writer::File(writer) => writer.into_inner()?,
        };
        buffered
            .into_inner()
            .map_err(|failed| Failure::from(arrow_schema::ArrowError::from(failed.into_error())))
    }
}
