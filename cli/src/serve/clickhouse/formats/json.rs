//! `JSON`, `JSONCompact` and `JSONStrings`: one object with the columns, the rows and some
//! statistics.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::finished::Finished;
use super::json_value::{Invalid, Layout, write_json, write_string};
use crate::errors::Failure;
use crate::printers::number;
use crate::serve::clickhouse::columns::columns;
use crate::serve::clickhouse::escape;
use crate::serve::clickhouse::types::Type;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Objects,
    Arrays,
    /// Objects whose values are all strings.
    ObjectsOfStrings,
}

/// Writes one answer.
pub(super) struct JsonWriter {
    rows: Rows,
    /// What is before the rows, until it is written.
    head: Vec<u8>,
    /// The names of the columns as strings.
    keys: Vec<Vec<u8>>,
    is_first: bool,
}

impl JsonWriter {
    pub(super) fn new(schema: &SchemaRef, rows: Rows) -> Self {
        let mut head = b"{\n\t\"meta\":\n\t[".to_vec();
        let mut keys = Vec::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            let mut key = Vec::new();
            escape::json(field.name().as_bytes(), &mut key);
            head.extend_from_slice(if at > 0 { b",\n\t\t{\n" } else { b"\n\t\t{\n" });
            head.extend_from_slice(b"\t\t\t\"name\": ");
            head.extend_from_slice(&key);
            head.extend_from_slice(b",\n\t\t\t\"type\": ");
            escape::json(Type::of_field(field).to_string().as_bytes(), &mut head);
            head.extend_from_slice(b"\n\t\t}");
            keys.push(key);
        }
        head.extend_from_slice(b"\n\t],\n\n\t\"data\":\n\t[\n");
        JsonWriter { rows, head, keys, is_first: true }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.append(&mut self.head);
        let columns = columns(batch)?;
        let (start, between, end): (&[u8], &[u8], &[u8]) = match self.rows {
            Rows::Arrays => (b"\t\t[", b", ", b"]"),
            _ => (b"\t\t{\n", b",\n", b"\n\t\t}"),
        };
        for row in 0..batch.num_rows() {
            if !std::mem::take(&mut self.is_first) {
                out.extend_from_slice(b",\n");
            }
            out.extend_from_slice(start);
            for (at, (column, key)) in columns.iter().zip(&self.keys).enumerate() {
                if at > 0 {
                    out.extend_from_slice(between);
                }
                if self.rows != Rows::Arrays {
                    out.extend_from_slice(b"\t\t\t");
                    out.extend_from_slice(key);
                    out.extend_from_slice(b": ");
                }
                match self.rows {
                    Rows::ObjectsOfStrings => write_string(column, row, Invalid::Replaced, out),
                    Rows::Objects => {
                        write_json(column, row, Invalid::Replaced, Layout::Lines(3), out);
                    }
                    Rows::Arrays => {
                        write_json(column, row, Invalid::Replaced, Layout::Line, out);
                    }
                }
            }
            out.extend_from_slice(end);
        }
        Ok(())
    }

    pub(super) fn finish(mut self, finished: &Finished, out: &mut Vec<u8>) {
        out.append(&mut self.head);
        let mut number = |name: &[u8], value: u64| {
            out.extend_from_slice(name);
            number::integer(value, out);
        };
        number(b"\n\t],\n\n\t\"rows\": ", finished.rows);
        let seconds = if finished.seconds.is_finite() { finished.seconds } else { 0.0 };
        out.extend_from_slice(b",\n\n\t\"statistics\":\n\t{\n\t\t\"elapsed\": ");
        out.extend_from_slice(format!("{seconds:.9}").as_bytes());
        let mut number = |name: &[u8], value: u64| {
            out.extend_from_slice(name);
            number::integer(value, out);
        };
        number(b",\n\t\t\"rows_read\": ", finished.rows_read);
        number(b",\n\t\t\"bytes_read\": ", finished.bytes_read);
        out.extend_from_slice(b"\n\t}\n}\n");
    }
}
