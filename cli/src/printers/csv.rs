//! CSV and TSV (RFC 4180 with `\n`), as our own reader, DuckDB, pandas and others read them.
//!
//! A field is quoted if it holds the delimiter, a quote or a line break, or if it is the empty
//! text: an empty field is null, and `""` is the empty text. In a result of one column, null is an
//! empty line.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::{Cells, TextKind};
use super::flush::{FLUSH_BYTES, flush};
use crate::errors::Failure;
use crate::output::Output;

/// Writes one result as delimited text.
pub(super) struct CsvPrinter {
    delimiter: u8,
    /// The bytes that need quotes.
    needs_quotes: [bool; 256],
    buffer: Vec<u8>,
    /// The text of a composite value before it is quoted.
    scratch: Vec<u8>,
    output: Output,
}

impl CsvPrinter {
    pub(super) fn new(schema: &SchemaRef, delimiter: u8, header: bool, output: Output) -> Self {
        let mut needs_quotes = [false; 256];
        for byte in [delimiter, b'"', b'\n', b'\r'] {
            needs_quotes[usize::from(byte)] = true;
        }
        let mut printer =
            CsvPrinter { delimiter, needs_quotes, buffer: Vec::new(), scratch: Vec::new(), output };
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
            quote_if_needed(field.name().as_bytes(), &self.needs_quotes, &mut self.buffer);
        }
        self.buffer.push(b'\n');
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns: Vec<(TextKind, Cells<'_>)> = batch
            .columns()
            .iter()
            .map(|array| Cells::new(array).map(|cells| (cells.text_kind(), cells)))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            for (at, (kind, cells)) in columns.iter().enumerate() {
                if at > 0 {
                    self.buffer.push(self.delimiter);
                }
                self.field(*kind, cells, row)?;
            }
            self.buffer.push(b'\n');
            if self.buffer.len() >= FLUSH_BYTES {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        flush(&mut self.buffer, &mut self.output)
    }

    fn field(&mut self, kind: TextKind, cells: &Cells<'_>, row: usize) -> Result<(), Failure> {
        match kind {
            TextKind::Plain => cells.write_text(row, &mut self.buffer)?,
            TextKind::Free if cells.is_null(row) => {}
            TextKind::Free => {
                let text = cells.text(row).unwrap_or_default();
                quote_if_needed(text.as_bytes(), &self.needs_quotes, &mut self.buffer);
            }
            TextKind::Composite if cells.is_null(row) => {}
            TextKind::Composite => {
                self.scratch.clear();
                cells.write_text(row, &mut self.scratch)?;
                quote_if_needed(&self.scratch, &self.needs_quotes, &mut self.buffer);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}

fn quote_if_needed(text: &[u8], needs_quotes: &[bool; 256], out: &mut Vec<u8>) {
    if !text.is_empty() && !text.iter().any(|byte| needs_quotes[usize::from(*byte)]) {
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
