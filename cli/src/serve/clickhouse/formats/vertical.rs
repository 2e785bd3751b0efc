//! `Vertical`: a line for each value.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use unicode_width::UnicodeWidthStr;

use crate::errors::Failure;
use crate::serve::clickhouse::columns::columns;
use crate::serve::clickhouse::text::{Spelling, write};

/// Writes one answer.
pub(super) struct VerticalWriter {
    /// The names with colons, padded to the same width.
    names: Vec<String>,
    rows: u64,
}

impl VerticalWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let fields = schema.fields();
        let width = fields.iter().map(|field| field.name().width()).max().unwrap_or(0);
        let padded = |name: &str| format!("{name}:{}", " ".repeat(1 + width - name.width()));
        VerticalWriter { names: fields.iter().map(|field| padded(field.name())).collect(), rows: 0 }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            if self.rows > 0 {
                out.push(b'\n');
            }
            self.rows += 1;
            let title = format!("Row {}:", self.rows);
            out.extend_from_slice(title.as_bytes());
            out.push(b'\n');
            out.extend_from_slice("─".repeat(title.len()).as_bytes());
            out.push(b'\n');
            for (name, column) in self.names.iter().zip(&columns) {
                out.extend_from_slice(name.as_bytes());
                write(column, row, Spelling::Plain, out);
                out.push(b'\n');
            }
        }
        Ok(())
    }
}
