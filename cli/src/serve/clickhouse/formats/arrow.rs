//! `Arrow`, the IPC file, and `ArrowStream`, in types that every reader knows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{Schema, SchemaRef};

use super::known_types::{known_batch, known_field};
use crate::errors::Failure;

/// Writes one answer.
pub(super) struct ArrowWriter {
    schema: SchemaRef,
    writer: Ipc,
}

enum Ipc {
    File(FileWriter<Vec<u8>>),
    Stream(StreamWriter<Vec<u8>>),
}

impl ArrowWriter {
    /// Starts a file.
    pub(super) fn file(schema: &SchemaRef) -> Result<Self, Failure> {
        let schema = known_schema(schema);
        Ok(ArrowWriter { writer: Ipc::File(FileWriter::try_new(Vec::new(), &schema)?), schema })
    }

    /// Starts a stream.
    pub(super) fn stream(schema: &SchemaRef) -> Result<Self, Failure> {
        let schema = known_schema(schema);
        Ok(ArrowWriter { writer: Ipc::Stream(StreamWriter::try_new(Vec::new(), &schema)?), schema })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        let batch = known_batch(batch, &self.schema)?;
        match &mut self.writer {
            Ipc::File(writer) => {
                writer.write(&batch)?;
                out.append(writer.get_mut());
            }
            Ipc::Stream(writer) => {
                writer.write(&batch)?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        match &mut self.writer {
            Ipc::File(writer) => {
                writer.finish()?;
                out.append(writer.get_mut());
            }
            Ipc::Stream(writer) => {
                writer.finish()?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }
}

fn known_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().map(known_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
