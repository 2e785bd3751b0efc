//! `JSONEachRow` and `JSONCompactEachRow`: a line of JSON for each row.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::json_value::{Invalid, Layout, write_json};
use crate::errors::Failure;
use crate::serve::clickhouse::columns::columns;
use crate::serve::clickhouse::escape;
use crate::serve::clickhouse::types::Type;

/// Writes one answer.
pub(super) struct JsonLinesWriter {
    /// The lines before the rows, until they are written.
    head: Vec<u8>,
    /// What is before each value of a row.
    keys: Vec<Vec<u8>>,
    /// What is behind the values.
    end: &'static [u8],
}

impl JsonLinesWriter {
    /// Rows are objects.
    pub(super) fn objects(schema: &SchemaRef) -> Self {
        let key = |(at, name): (usize, &str)| {
            let mut key = vec![if at > 0 { b',' } else { b'{' }];
            escape::json(name.as_bytes(), &mut key);
            key.push(b':');
            key
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let keys: Vec<Vec<u8>> = names.enumerate().map(key).collect();
        let end: &[u8] = if keys.is_empty() { b"{}\n" } else { b"}\n" };
        JsonLinesWriter { head: Vec::new(), keys, end }
    }

    /// Rows are arrays, before which there may be lines of names and types.
    pub(super) fn compact(schema: &SchemaRef, names: bool, types: bool) -> Self {
        let mut head = Vec::new();
        if names {
            line(schema.fields().iter().map(|field| field.name().clone()), &mut head);
        }
        if types {
            line(schema.fields().iter().map(|field| Type::of_field(field).to_string()), &mut head);
        }
        let key = |at: usize| if at > 0 { b", ".to_vec() } else { b"[".to_vec() };
        let keys: Vec<Vec<u8>> = (0..schema.fields().len()).map(key).collect();
        let end: &[u8] = if keys.is_empty() { b"[]\n" } else { b"]\n" };
        JsonLinesWriter { head, keys, end }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.append(&mut self.head);
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            for (column, key) in columns.iter().zip(&self.keys) {
                out.extend_from_slice(key);
                write_json(column, row, Invalid::Kept, Layout::Line, out);
            }
            out.extend_from_slice(self.end);
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        out.append(&mut self.head);
    }
}

fn line(texts: impl Iterator<Item = String>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, text) in texts.enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        escape::json(text.as_bytes(), out);
    }
    out.extend_from_slice(b"]\n");
}
