//! `TabSeparated`, `TabSeparatedRaw` and `CSV`. In CSV, the elements of a tuple are fields of their
//! own, as in ClickHouse.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::errors::Failure;
use crate::serve::clickhouse::columns::{Column, Values, columns};
use crate::serve::clickhouse::escape;
use crate::serve::clickhouse::text::{Spelling, write};
use crate::serve::clickhouse::types::Type;

/// How fields are separated and escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// By tabs, with backslashes.
    Escaped,
    /// By tabs, as they are.
    Raw,
    /// By commas, in quotes.
    Csv,
}

/// Writes one answer.
pub(super) struct DelimitedWriter {
    dialect: Dialect,
    /// The lines before the rows, until they are written.
    head: Vec<u8>,
}

impl DelimitedWriter {
    pub(super) fn new(schema: &SchemaRef, dialect: Dialect, names: bool, types: bool) -> Self {
        let mut fields = Vec::new();
        for field in schema.fields() {
            field_names(dialect, field.name(), Type::of_field(field), &mut fields);
        }
        let mut head = Vec::new();
        if names {
            dialect.line(fields.iter().map(|(name, _)| name.as_str()), &mut head);
        }
        if types {
            let types: Vec<String> = fields.iter().map(|(_, found)| found.to_string()).collect();
            dialect.line(types.iter().map(String::as_str), &mut head);
        }
        DelimitedWriter { dialect, head }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.append(&mut self.head);
        let columns = columns(batch)?;
        let (delimiter, spelling) = (self.dialect.delimiter(), self.dialect.spelling());
        let fields = fields(self.dialect, &columns);
        for row in 0..batch.num_rows() {
            for (at, field) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(delimiter);
                }
                write(field, row, spelling, out);
            }
            out.push(b'\n');
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        out.append(&mut self.head);
    }
}

impl Dialect {
    fn delimiter(self) -> u8 {
        if self == Dialect::Csv { b',' } else { b'\t' }
    }

    fn spelling(self) -> Spelling {
        match self {
            Dialect::Escaped => Spelling::Escaped,
            Dialect::Raw => Spelling::Raw,
            Dialect::Csv => Spelling::Csv,
        }
    }

    fn line<'a>(self, texts: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
        for (at, text) in texts.enumerate() {
            if at > 0 {
                out.push(self.delimiter());
            }
            match self {
                Dialect::Escaped => escape::backslashes(text.as_bytes(), out),
                Dialect::Raw => out.extend_from_slice(text.as_bytes()),
                Dialect::Csv => escape::csv(text.as_bytes(), out),
            }
        }
        out.push(b'\n');
    }
}

/// The names and types of the fields of a column.
fn field_names(dialect: Dialect, name: &str, found: Type, fields: &mut Vec<(String, Type)>) {
    match found {
        Type::Tuple(elements) if dialect == Dialect::Csv => {
            for (at, (element, found)) in elements.into_iter().enumerate() {
                let element = element.unwrap_or_else(|| (at + 1).to_string());
                field_names(dialect, &format!("{name}.{element}"), found, fields);
            }
        }
        found => fields.push((name.to_owned(), found)),
    }
}

/// The fields of columns.
fn fields(dialect: Dialect, columns: &[Column]) -> Vec<&Column> {
    let mut fields = Vec::new();
    for column in columns {
        match &column.values {
            Values::Tuple { elements, .. } if dialect == Dialect::Csv => {
                fields.extend(self::fields(dialect, elements));
            }
            _ => fields.push(column),
        }
    }
    fields
}
