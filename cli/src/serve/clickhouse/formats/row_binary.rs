//! `RowBinary`: the values of each row as bytes, with names and types before the first or without.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::binary::{check_types, text, unexpected_null, varuint, write_value};
use crate::errors::Failure;
use crate::serve::clickhouse::columns::{Column, Values, columns};
use crate::serve::clickhouse::types::Type;

/// Writes one answer.
pub(super) struct RowBinaryWriter {
    types: Vec<Type>,
    /// What is before the rows, until it is written.
    head: Vec<u8>,
}

impl RowBinaryWriter {
    pub(super) fn new(schema: &SchemaRef, names: bool, types: bool) -> Self {
        let found: Vec<Type> = schema.fields().iter().map(|field| Type::of_field(field)).collect();
        let mut head = Vec::new();
        if names {
            varuint(schema.fields().len() as u64, &mut head);
            for field in schema.fields() {
                text(field.name().as_bytes(), &mut head);
            }
        }
        if types {
            for found in &found {
                text(found.to_string().as_bytes(), &mut head);
            }
        }
        RowBinaryWriter { types: found, head }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        out.append(&mut self.head);
        check_types(batch, &self.types)?;
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            for (column, found) in columns.iter().zip(&self.types) {
                write(column, found, row, out)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        out.append(&mut self.head);
    }
}

fn write(column: &Column, found: &Type, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    match (&column.values, found) {
        (_, Type::Nullable(_)) => {
            let is_null = column.is_null(row);
            out.push(u8::from(is_null));
            if is_null { Ok(()) } else { write_value(&column.values, row, out) }
        }
        (Values::Array { rows, items }, Type::Array(item)) => {
            varuint(rows[row].len() as u64, out);
            rows[row].clone().try_for_each(|row| write(items, item, row, out))
        }
        (Values::Tuple { elements, .. }, Type::Tuple(types)) => {
            let mut elements = elements.iter().zip(types);
            elements.try_for_each(|(element, (_, found))| write(element, found, row, out))
        }
        (Values::Map { rows, keys, values }, Type::Map(key, value)) => {
            varuint(rows[row].len() as u64, out);
            rows[row].clone().try_for_each(|row| {
                write(keys, key, row, out)?;
                write(values, value, row, out)
            })
        }
        _ => {
            unexpected_null(column, row, false)?;
            write_value(&column.values, row, out)
        }
    }
}
