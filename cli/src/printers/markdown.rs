//! A Markdown table as on GitHub, written row by row without padding. Numbers are aligned to the
//! right, `|` and `\` are escaped, line breaks become `<br>`, and null is an empty cell.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::Cells;
use super::flush::{FLUSH_BYTES, flush};
use crate::errors::Failure;
use crate::output::Output;

/// Writes one result as a Markdown table.
pub(super) struct MarkdownPrinter {
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    output: Output,
}

impl MarkdownPrinter {
    pub(super) fn new(schema: &SchemaRef, output: Output) -> Self {
        let mut buffer = Vec::new();
        if !schema.fields().is_empty() {
            for field in schema.fields() {
                buffer.extend_from_slice(b"| ");
                escape(field.name().as_bytes(), &mut buffer);
                buffer.push(b' ');
            }
            buffer.extend_from_slice(b"|\n");
            for field in schema.fields() {
                let right = field.data_type().is_numeric();
                buffer.extend_from_slice(if right { b"| ---: " } else { b"| --- " });
            }
            buffer.extend_from_slice(b"|\n");
        }
        MarkdownPrinter { buffer, scratch: Vec::new(), output }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns = batch
            .columns()
            .iter()
            .map(|array| Cells::new(array))
            .collect::<Result<Vec<Cells<'_>>, _>>()?;
        for row in 0..batch.num_rows() {
            for cells in &columns {
                self.scratch.clear();
                cells.write_text(row, &mut self.scratch)?;
                self.buffer.extend_from_slice(b"| ");
                escape(&self.scratch, &mut self.buffer);
                self.buffer.push(b' ');
            }
            self.buffer.extend_from_slice(b"|\n");
            if self.buffer.len() >= FLUSH_BYTES {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        flush(&mut self.buffer, &mut self.output)
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'|' => out.extend_from_slice(b"\\|"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\r' if after.first() == Some(&b'\n') => {}
            b'\n' | b'\r' => out.extend_from_slice(b"<br>"),
            _ => out.push(byte),
        }
    }
}
