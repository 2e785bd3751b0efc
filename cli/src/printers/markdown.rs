//! A Markdown table as on GitHub, written row by row without padding. Numbers are aligned to the
//! right, `|` and `\` are escaped, line breaks become `<br>`, and null is an empty cell.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cell_rows::write_rows;
use super::cells::Cells;
use super::text_rows::TextRows;
use crate::errors::Failure;
use crate::output::Output;

/// Writes one result as a Markdown table.
pub(super) struct MarkdownPrinter(TextRows);

impl MarkdownPrinter {
    pub(super) fn new(schema: &SchemaRef, threads: usize, output: Output) -> Self {
        let mut head = Vec::new();
        if !schema.fields().is_empty() {
            for field in schema.fields() {
                head.extend_from_slice(b"| ");
                escape(field.name().as_bytes(), &mut head);
                head.push(b' ');
            }
            head.extend_from_slice(b"|\n");
            for field in schema.fields() {
                let right = field.data_type().is_numeric();
                head.extend_from_slice(if right { b"| ---: " } else { b"| --- " });
            }
            head.extend_from_slice(b"|\n");
        }
        MarkdownPrinter(TextRows::new(head, threads, output))
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.0.write(batch, 0, rows)
    }

    pub(super) fn finish(self) -> Result<Output, Failure> {
        self.0.finish(&[])
    }
}

fn rows(batch: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Failure> {
    let columns = batch
        .columns()
        .iter()
        .map(|array| Cells::new(array))
        .collect::<Result<Vec<Cells<'_>>, _>>()?;
    let mut scratch = Vec::new();
    write_rows(&columns, batch.num_rows(), (b"", b"|\n"), text, |_, cells, row, text| {
        scratch.clear();
        cells.write_text(row, &mut scratch)?;
        text.extend_from_slice(b"| ");
        escape(&scratch, text);
        text.push(b' ');
        Ok(())
    })
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
