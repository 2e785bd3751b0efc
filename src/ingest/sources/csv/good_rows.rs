//! Parses the good rows of a chunk that does not parse as a whole, and says what is wrong with the
//! others.
//!
//! This code runs only for chunks that do not parse. Their rows are split one by one (`rows`), rows
//! that cannot be split are left out, and the rest is parsed again. If that fails too, the values
//! of all rows are checked (`bad_values`), and the rows without bad values are parsed. Each chunk
//! is decided on its own, and chunks are cut by bytes alone, so the verdict on a row depends only
//! on the input.
//!
//! If the first chunk has more zero bytes than half its lines, the input is binary, which is an
//! error.
//!
//! **Bad rows are looked for only where a chunk does not parse**, so that the fast pass knows
//! nothing of rows that are left out. Where a chunk's types do not fit what the table has become by
//! the rows before it, it is parsed again with the table's types, so that single rows are rejected
//! and not all of them. A field whose quote is never closed ends with its line: a stray quote costs
//! a line, not a file.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use memchr::memchr_iter;

use super::bad_values::{BadValue, find_bad_values};
use super::chunks::CsvChunk;
use super::faults::{not_text, split_reason, type_reason, utf8_reason};
use super::parse::parse_chunk;
use super::rows::{Row, Rows};
use super::schema::CsvSchema;
use super::split::Fault;
use crate::error::{Error, Result};
use crate::ingest::rejects::{Reject, Rejects};
use crate::model::DataType;

/// Returns the good rows of a chunk, with all columns, and the bad rows.
pub fn parse_good_rows(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
) -> Result<(RecordBatch, Rejects)> {
    match parse_chunk(schema, chunk) {
        Ok(batch) => Ok((batch, Rejects::default())),
        Err(error @ Error::InvalidInput(_)) => parse_without_bad_rows(schema, chunk, error),
        Err(error) => Err(error),
    }
}

/// A chunk of only those rows from `from` on that can be split.
pub(super) fn splittable(schema: &CsvSchema, chunk: &CsvChunk, from: usize) -> Result<CsvChunk> {
    check_text(schema, chunk)?;
    let good: Vec<Row> = rows(schema, chunk, from).filter(|row| row.fault.is_none()).collect();
    Ok(chunk_of(chunk, &good))
}

/// A bad row of the chunk.
struct BadRow {
    start: u32,
    end: u32,
    line: u64,
    cause: Cause,
}

enum Cause {
    Row(Fault),
    Value(BadValue),
}

#[cold]
fn parse_without_bad_rows(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
    mut error: Error,
) -> Result<(RecordBatch, Rejects)> {
    let from = schema.data_start(chunk)?;
    check_text(schema, chunk)?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for row in rows(schema, chunk, from) {
        match row.fault {
            None => good.push(row),
            Some(fault) => bad.push(BadRow::new(row, Cause::Row(fault))),
        }
    }
    if !bad.is_empty() {
        match parse_chunk(schema, &chunk_of(chunk, &good)) {
            Ok(batch) => return Ok((batch, rejects(schema, chunk, bad, Vec::new()))),
            Err(still) => error = still,
        }
    }
    let checked = find_bad_values(schema, &chunk_of(chunk, &good));
    if checked.by_row.len() != good.len() || checked.by_row.iter().all(Option::is_none) {
        return Err(error);
    }
    let mut remaining = Vec::with_capacity(good.len());
    for (row, bad_value) in good.into_iter().zip(checked.by_row) {
        match bad_value {
            None => remaining.push(row),
            Some(bad_value) => bad.push(BadRow::new(row, Cause::Value(bad_value))),
        }
    }
    bad.sort_unstable_by_key(|bad| bad.start);
    let batch = parse_chunk(schema, &chunk_of(chunk, &remaining))?;
    Ok((batch, rejects(schema, chunk, bad, checked.types)))
}

impl BadRow {
    // The casts are exact: a chunk has less than 2³⁰ bytes.
    fn new(row: Row, cause: Cause) -> Self {
        BadRow { start: row.start as u32, end: row.end as u32, line: row.line, cause }
    }
}

fn rows<'a>(schema: &CsvSchema, chunk: &'a CsvChunk, from: usize) -> Rows<'a> {
    Rows::new(&chunk.text, from, schema.columns.len(), schema.delimiter, schema.quote)
}

/// Refuses binary input.
fn check_text(schema: &CsvSchema, chunk: &CsvChunk) -> Result<()> {
    let count = |byte| memchr_iter(byte, &chunk.text).count();
    let is_text = chunk.number > 0 || count(0) <= count(b'\n') / 2;
    if is_text { Ok(()) } else { Err(not_text(schema, chunk)) }
}

/// A chunk of only these rows, without a header.
fn chunk_of(chunk: &CsvChunk, rows: &[Row]) -> CsvChunk {
    let mut text = Vec::with_capacity(rows.iter().map(|row| row.end - row.start).sum());
    for row in rows {
        text.extend_from_slice(chunk.text.get(row.start..row.end).unwrap_or_default());
    }
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    CsvChunk { text, number: chunk.number.max(1), ..CsvChunk { text: Vec::new(), ..*chunk } }
}

/// The bad rows; their reasons are put into words on demand.
fn rejects(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
    bad: Vec<BadRow>,
    types: Vec<DataType>,
) -> Rejects {
    let file: Arc<Path> = Arc::from(schema.file.as_path());
    let (schema, chunk) = (schema.clone(), chunk.clone());
    Rejects::new(
        bad.len(),
        bad.into_iter().map(move |bad| {
            let row = chunk.text.get(bad.start as usize..bad.end as usize).unwrap_or_default();
            let row =
                row.strip_suffix(b"\n").map_or(row, |row| row.strip_suffix(b"\r").unwrap_or(row));
            let (column, reason) = match &bad.cause {
                Cause::Row(fault) => (None, split_reason(&schema, row, *fault)),
                Cause::Value(bad_value) => (
                    schema.columns.get(bad_value.column as usize),
                    value_reason(row, bad_value, &types),
                ),
            };
            Reject {
                file: file.clone(),
                line: chunk.line + bad.line,
                column: column.map_or(Arc::from(""), |column| column.name.clone()),
                reason,
                raw: String::from_utf8_lossy(row).into_owned(),
            }
        }),
    )
}

fn value_reason(row: &[u8], bad_value: &BadValue, types: &[DataType]) -> String {
    let (at, len) = (bad_value.at as usize, bad_value.len as usize);
    let value = row.get(at..at + len).unwrap_or_default();
    match types.get(bad_value.expected as usize) {
        Some(expected) => type_reason(value, expected),
        None => utf8_reason(value),
    }
}

#[cfg(test)]
#[path = "good_rows_tests.rs"]
mod tests;
