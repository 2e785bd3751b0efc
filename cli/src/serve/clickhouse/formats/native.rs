//! `Native`: blocks of columns, as ClickHouse's servers send them to each other.
//!
//! ```text
//! block   = [ info ] columns:varuint rows:varuint column…
//! info    = 1 is_overflows:u8  2 bucket:i32  0        from the first revision on
//! column  = name:text type:text [ serialization:u8 ] data        the byte from 54454 on
//! Nullable(T) = a byte for each row, then T with any value for a null
//! Array(T)    = for each row the number of items up to its end, as u64; then all items
//! Map(K, V)   = Array(Tuple(K, V));  Tuple(…) = one element after the other
//! ```
//!
//! An answer without rows is one block without rows, so that clients know its columns.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::binary::{check_types, text, unexpected_null, varuint, write_default, write_value};
use crate::errors::Failure;
use crate::serve::clickhouse::columns::{Column, Values, columns};
use crate::serve::clickhouse::revision::WITH_SERIALIZATION;
use crate::serve::clickhouse::types::Type;

/// No overflow rows, and no bucket of a hash table.
const INFO: [u8; 8] = [1, 0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0];

/// Writes one answer.
pub(super) struct NativeWriter {
    names: Vec<String>,
    types: Vec<Type>,
    revision: u32,
    has_blocks: bool,
}

impl NativeWriter {
    pub(super) fn new(schema: &SchemaRef, revision: u32) -> Self {
        NativeWriter {
            names: schema.fields().iter().map(|field| field.name().clone()).collect(),
            types: schema.fields().iter().map(|field| Type::of_field(field)).collect(),
            revision,
            has_blocks: false,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        check_types(batch, &self.types)?;
        self.block(batch.num_rows(), &columns(batch)?, out)
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        if !self.has_blocks {
            // Nothing of a block without rows can fail.
            let _ = self.block(0, &[], out);
        }
    }

    fn block(&mut self, rows: usize, columns: &[Column], out: &mut Vec<u8>) -> Result<(), Failure> {
        self.has_blocks = true;
        if self.revision > 0 {
            out.extend_from_slice(&INFO);
        }
        varuint(self.names.len() as u64, out);
        varuint(rows as u64, out);
        for (at, (name, found)) in self.names.iter().zip(&self.types).enumerate() {
            text(name.as_bytes(), out);
            text(found.to_string().as_bytes(), out);
            if self.revision >= WITH_SERIALIZATION {
                out.push(0);
            }
            if let Some(column) = columns.get(at) {
                write(column, found, std::slice::from_ref(&(0..rows)), out)?;
            }
        }
        Ok(())
    }
}

/// Appends the rows of a column that are in ranges.
fn write(
    column: &Column,
    found: &Type,
    ranges: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let rows = || ranges.iter().cloned().flatten();
    match (&column.values, found) {
        (_, Type::Nullable(_)) => {
            out.extend(rows().map(|row| u8::from(column.is_null(row))));
            scalars(column, true, ranges, out)
        }
        (Values::Array { rows: items, items: item }, Type::Array(found)) => {
            let items = offsets(items, ranges, out);
            write(item, found, &items, out)
        }
        (Values::Tuple { elements, .. }, Type::Tuple(types)) => {
            let mut elements = elements.iter().zip(types);
            elements.try_for_each(|(element, (_, found))| write(element, found, ranges, out))
        }
        (Values::Map { rows: items, keys, values }, Type::Map(key, value)) => {
            let items = offsets(items, ranges, out);
            write(keys, key, &items, out)?;
            write(values, value, &items, out)
        }
        _ => scalars(column, false, ranges, out),
    }
}

/// Appends where the items of each row end, and returns which items these are.
fn offsets(
    items: &[Range<usize>],
    ranges: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut end = 0_u64;
    for row in ranges.iter().cloned().flatten() {
        let range = items[row].clone();
        end += range.len() as u64;
        out.extend_from_slice(&end.to_le_bytes());
        match found.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => found.push(range),
        }
    }
    found
}

/// Appends values that are no arrays, tuples or maps.
fn scalars(
    column: &Column,
    nullable: bool,
    ranges: &[Range<usize>],
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    if column.nulls.is_none()
        && let Some((bytes, width)) = numbers(&column.values)
    {
        for range in ranges {
            out.extend_from_slice(&bytes[range.start * width..range.end * width]);
        }
        return Ok(());
    }
    for row in ranges.iter().cloned().flatten() {
        unexpected_null(column, row, nullable)?;
        if column.is_null(row) {
            write_default(&column.values, out);
        } else {
            write_value(&column.values, row, out)?;
        }
    }
    Ok(())
}

/// Numbers whose bytes in memory are those of the format, and how many each has.
fn numbers(values: &Values) -> Option<(&[u8], usize)> {
    if cfg!(target_endian = "big") {
        return None;
    }
    Some(match values {
        Values::Int8(values) => (values.inner().as_slice(), 1),
        Values::Int16(values) => (values.inner().as_slice(), 2),
        Values::Int32(values) | Values::Date(values) => (values.inner().as_slice(), 4),
        Values::Int64(values) | Values::DateTime { ticks: values, .. } => {
            (values.inner().as_slice(), 8)
        }
        Values::UInt8(values) => (values.inner().as_slice(), 1),
        Values::UInt16(values) => (values.inner().as_slice(), 2),
        Values::UInt32(values) => (values.inner().as_slice(), 4),
        Values::UInt64(values) => (values.inner().as_slice(), 8),
        Values::Float32(values) => (values.inner().as_slice(), 4),
        Values::Float64(values) => (values.inner().as_slice(), 8),
        _ => return None,
    })
}
