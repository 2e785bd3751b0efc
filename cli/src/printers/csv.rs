//! CSV and TSV (RFC 4180 with `\n`), as our own reader, DuckDB, pandas and others read them.
//!
//! A field is quoted if it holds the delimiter, a quote or a line break, or if it is the empty
//! text: an empty field is null, and `""` is the empty text. In a result of one column, null is an
//! empty line.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cell_rows::write_rows;
use super::cells::{Cells, TextKind};
use super::scan::first_that;
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
}

impl CsvPrinter {
    pub(super) fn new(
        schema: &SchemaRef,
        delimiter: u8,
        header: bool,
        threads: usize,
        output: Output,
    ) -> Self {
        let dialect = Dialect { delimiter };
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
            self.quote_if_needed(field.name().as_bytes(), text);
        }
        text.push(b'\n');
    }

    fn rows(&self, batch: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Failure> {
        let columns = batch.columns().iter().map(|array| Cells::new(array));
        let columns = columns.collect::<Result<Vec<Cells<'_>>, _>>()?;
        let kinds: Vec<TextKind> = columns.iter().map(Cells::text_kind).collect();
        // The text of a composite value before it is quoted.
        let mut scratch = Vec::new();
        write_rows(&columns, batch.num_rows(), (b"", b"\n"), text, |at, cells, row, text| {
            if at > 0 {
                text.push(self.delimiter);
            }
            self.field(kinds[at], cells, row, &mut scratch, text)
        })
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
                self.quote_if_needed(free.as_bytes(), text);
            }
            TextKind::Composite => {
                scratch.clear();
                cells.write_text(row, scratch)?;
                self.quote_if_needed(scratch, text);
            }
        }
        Ok(())
    }

    fn quote_if_needed(&self, text: &[u8], out: &mut Vec<u8>) {
        let needs_quotes =
            |byte: u8| byte == self.delimiter || matches!(byte, b'"' | b'\n' | b'\r');
        if !text.is_empty() && first_that(text, needs_quotes).is_none() {
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
}
