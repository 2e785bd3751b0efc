//! CSV and TSV (RFC 4180 with `\n`): read back by our own reader, DuckDB, pandas and everyone else.
//!
//! A field is quoted if it holds the delimiter, a quote or a line break, or if it is text of no
//! length: an empty field is null, `""` is the empty text. A result of one column shows null as an
//! empty line.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::{Cells, Shape};
use super::{FLUSH_AT, flush};
use crate::errors::Failure;
use crate::output::Output;

/// Writes one result as delimited text.
pub(super) struct CsvPrinter {
    delimiter: u8,
    /// Bytes that call for quotes.
    special: [bool; 256],
    buffer: Vec<u8>,
    /// A composite value's text, before it is quoted.
    scratch: Vec<u8>,
    output: Output,
}

impl CsvPrinter {
    pub(super) fn new(schema: &SchemaRef, delimiter: u8, header: bool, output: Output) -> Self {
        let mut special = [false; 256];
        for byte in [delimiter, b'"', b'\n', b'\r'] {
            special[usize::from(byte)] = true;
        }
        let mut printer =
            CsvPrinter { delimiter, special, buffer: Vec::new(), scratch: Vec::new(), output };
        if header && !schema.fields().is_empty() {
            printer.header(schema);
        }
        printer
    }

    fn header(&mut self, schema: &SchemaRef) {
        for (at, field) in schema.fields().iter().enumerate() {
            if at > 0 {
                self.buffer.push(self.delimiter);
            }
            quote_if_needed(field.name().as_bytes(), &self.special, &mut self.buffer);
        }
        self.buffer.push(b'\n');
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns: Vec<(Shape, Cells<'_>)> = batch
            .columns()
            .iter()
            .map(|array| Cells::new(array).map(|cells| (cells.shape(), cells)))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            for (at, (shape, cells)) in columns.iter().enumerate() {
                if at > 0 {
                    self.buffer.push(self.delimiter);
                }
                self.field(*shape, cells, row)?;
            }
            self.buffer.push(b'\n');
            if self.buffer.len() >= FLUSH_AT {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        flush(&mut self.buffer, &mut self.output)
    }

    fn field(&mut self, shape: Shape, cells: &Cells<'_>, row: usize) -> Result<(), Failure> {
        match shape {
            Shape::Plain => cells.write_text(row, &mut self.buffer)?,
            Shape::Text if cells.is_null(row) => {}
            Shape::Text => {
                let text = cells.text(row).unwrap_or_default();
                quote_if_needed(text.as_bytes(), &self.special, &mut self.buffer);
            }
            Shape::Composite if cells.is_null(row) => {}
            Shape::Composite => {
                self.scratch.clear();
                cells.write_text(row, &mut self.scratch)?;
                quote_if_needed(&self.scratch, &self.special, &mut self.buffer);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}

fn quote_if_needed(text: &[u8], special: &[bool; 256], out: &mut Vec<u8>) {
    if !text.is_empty() && !text.iter().any(|byte| special[usize::from(*byte)]) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.last() == Some(&b'"') {
            out.push(b'"');
        }
    }
    out.push(b'"');
}
