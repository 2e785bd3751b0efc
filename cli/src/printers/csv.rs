//! CSV and TSV (RFC 4180 with `\n`), as our own reader, DuckDB, pandas and others read them.
//!
//! A field is quoted if it holds the delimiter, a quote or a line break, or if it is the empty
//! text: an empty field is null, and `""` is the empty text. In a result of one column, null is an
//! empty line.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::{Cells, TextKind};
use super::text_rows::TextRows;
use crate::errors::Failure;
use crate::output::Output;

/// Writes one result as delimited text.
pub(super) struct CsvPrinter {
    dialect: Dialect,
    rows: TextRows,
}

struct Dialect {
    delimiter: u8,
    /// The bytes that need quotes.
    needs_quotes: [bool; 256],
}

impl CsvPrinter {
    pub(super) fn new(
        schema: &SchemaRef,
        delimiter: u8,
        header: bool,
        threads: usize,
        output: Output,
    ) -> Self {
        let mut needs_quotes = [false; 256];
        for byte in [delimiter, b'"', b'\n', b'\r'] {
            needs_quotes[usize::from(byte)] = true;
        }
        let dialect = Dialect { delimiter, needs_quotes };
        let mut head = Vec::new();
        if header && !schema.fields().is_empty() {
            dialect.header(schema, &mut head);
        }
        CsvPrinter { dialect, rows: TextRows::new(head, threads, output) }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.rows.write(batch, 0, |batch, text| self.dialect.rows(batch, text))
    }

    pub(super) fn finish(self) -> Result<Output, Failure> {
        self.rows.finish(&[])
    }
}

impl Dialect {
    fn header(&self, schema: &SchemaRef, text: &mut Vec<u8>) {
        for (at, field) in schema.fields().iter().enumerate() {
            if at > 0 {
                text.push(self.delimiter);
            }
            quote_if_needed(field.name().as_bytes(), &self.needs_quotes, text);
        }
        text.push(b'\n');
    }

    fn rows(&self, batch: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Failure> {
        let columns: Vec<(TextKind, Cells<'_>)> = batch
            .columns()
            .iter()
            .map(|array| Cells::new(array).map(|cells| (cells.text_kind(), cells)))
            .collect::<Result<_, _>>()?;
        // The text of a composite value before it is quoted.
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            for (at, (kind, cells)) in columns.iter().enumerate() {
                if at > 0 {
                    text.push(self.delimiter);
                }
                self.field(*kind, cells, row, &mut scratch, text)?;
            }
            text.push(b'\n');
        }
        Ok(())
    }

    fn field(
        &self,
        kind: TextKind,
        cells: &Cells<'_>,
        row: usize,
        scratch: &mut Vec<u8>,
        text: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        match kind {
            TextKind::Plain => cells.write_text(row, text)?,
            TextKind::Free | TextKind::Composite if cells.is_null(row) => {}
            TextKind::Free => {
                let free = cells.text(row).unwrap_or_default();
                quote_if_needed(free.as_bytes(), &self.needs_quotes, text);
            }
            TextKind::Composite => {
                scratch.clear();
                cells.write_text(row, scratch)?;
                quote_if_needed(scratch, &self.needs_quotes, text);
            }
        }
        Ok(())
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
