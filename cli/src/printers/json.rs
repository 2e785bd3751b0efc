//! JSON: one array of objects, or one object per line. Nulls are written, so that every row has
//! every key.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::Cells;
use super::flush::{FLUSH_BYTES, flush};
use super::json_text;
use crate::errors::Failure;
use crate::output::Output;

/// What separates the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Commas, between `[` and `]`.
    Array,
    /// Line ends only.
    Lines,
}

/// Writes one result as JSON.
pub(super) struct JsonPrinter {
    frame: Frame,
    /// What precedes each value: `{"first":`, `,"second":`, …
    keys: Vec<Vec<u8>>,
    is_first: bool,
    buffer: Vec<u8>,
    output: Output,
}

impl JsonPrinter {
    pub(super) fn new(schema: &SchemaRef, frame: Frame, output: Output) -> Self {
        let key = |(at, field): (usize, &std::sync::Arc<arrow_schema::Field>)| {
            let mut key = vec![if at == 0 { b'{' } else { b',' }];
            json_text::string(field.name(), &mut key);
            key.push(b':');
            key
        };
        let keys = schema.fields().iter().enumerate().map(key).collect();
        let buffer = if frame == Frame::Array { vec![b'['] } else { Vec::new() };
        JsonPrinter { frame, keys, is_first: true, buffer, output }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns = batch
            .columns()
            .iter()
            .map(|array| Cells::new(array))
            .collect::<Result<Vec<Cells<'_>>, _>>()?;
        for row in 0..batch.num_rows() {
            self.start_row();
            for (key, cells) in self.keys.iter().zip(&columns) {
                self.buffer.extend_from_slice(key);
                cells.write_json(row, &mut self.buffer)?;
            }
            self.buffer.extend_from_slice(if columns.is_empty() { b"{}" } else { b"}" });
            if self.frame == Frame::Lines {
                self.buffer.push(b'\n');
            }
            if self.buffer.len() >= FLUSH_BYTES {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        flush(&mut self.buffer, &mut self.output)
    }

    fn start_row(&mut self) {
        if self.frame == Frame::Array {
            self.buffer.extend_from_slice(if self.is_first { b"\n" } else { b",\n" });
        }
        self.is_first = false;
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        if self.frame == Frame::Array {
            self.buffer.extend_from_slice(if self.is_first { b"]\n" } else { b"\n]\n" });
        }
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}
