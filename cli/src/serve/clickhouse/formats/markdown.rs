//! `Markdown`: a table for documents.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::errors::Failure;
use crate::serve::clickhouse::columns::columns;
use crate::serve::clickhouse::escape;
use crate::serve::clickhouse::text::{Spelling, write};
use crate::serve::clickhouse::types::Type;

/// Writes one answer.
pub(super) struct MarkdownWriter {
    /// The lines before the rows, until they are written.
    head: Vec<u8>,
}

impl MarkdownWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let mut head = b"|".to_vec();
        for field in schema.fields() {
            head.push(b' ');
            escape::backslashes(field.name().as_bytes(), &mut head);
            head.extend_from_slice(b" |");
        }
        head.extend_from_slice(b"\n|");
        for field in schema.fields() {
            let flush_right = Type::of_field(field).is_flush_right();
            head.extend_from_slice(if flush_right { b"-:|" } else { b":-|" });
        }
        head.push(b'\n');
        MarkdownWriter { head }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.append(&mut self.head);
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            out.push(b'|');
            for column in &columns {
                out.push(b' ');
                write(column, row, Spelling::Escaped, out);
                out.extend_from_slice(b" |");
            }
            out.push(b'\n');
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        out.append(&mut self.head);
    }
}
