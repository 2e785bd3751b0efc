//! JSON: one array of objects, or one object per line. Nulls are written, so that every row has
//! every key.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cell_rows::write_rows;
use super::cells::Cells;
use super::json_text;
use super::text_rows::TextRows;
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
    rows: TextRows,
}

impl JsonPrinter {
    pub(super) fn new(schema: &SchemaRef, frame: Frame, threads: usize, output: Output) -> Self {
        let key = |(at, field): (usize, &std::sync::Arc<arrow_schema::Field>)| {
            let mut key = vec![if at == 0 { b'{' } else { b',' }];
            json_text::string(field.name(), &mut key);
            key.push(b':');
            key
        };
        let keys = schema.fields().iter().enumerate().map(key).collect();
        let head = if frame == Frame::Array { vec![b'['] } else { Vec::new() };
        JsonPrinter { frame, keys, is_first: true, rows: TextRows::new(head, threads, output) }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        // Of an array, the first object has no comma before it.
        let skipped = usize::from(self.frame == Frame::Array && self.is_first);
        self.is_first &= batch.num_rows() == 0;
        let (frame, keys) = (self.frame, &self.keys);
        self.rows.write(batch, skipped, |batch, text| objects(frame, keys, batch, text))
    }

    pub(super) fn finish(self) -> Result<Output, Failure> {
        self.rows.finish(match self.frame {
            Frame::Array if self.is_first => b"]\n",
            Frame::Array => b"\n]\n",
            Frame::Lines => b"",
        })
    }
}

fn objects(
    frame: Frame,
    keys: &[Vec<u8>],
    batch: &RecordBatch,
    text: &mut Vec<u8>,
) -> Result<(), Failure> {
    let columns = batch
        .columns()
        .iter()
        .map(|array| Cells::new(array))
        .collect::<Result<Vec<Cells<'_>>, _>>()?;
    let before: &[u8] = if frame == Frame::Array { b",\n" } else { b"" };
    let behind: &[u8] = match (columns.is_empty(), frame) {
        (false, Frame::Array) => b"}",
        (false, Frame::Lines) => b"}\n",
        (true, Frame::Array) => b"{}",
        (true, Frame::Lines) => b"{}\n",
    };
    write_rows(&columns, batch.num_rows(), (before, behind), text, |at, cells, row, text| {
        text.extend_from_slice(&keys[at]);
        Ok(cells.write_json(row, text)?)
    })
}
