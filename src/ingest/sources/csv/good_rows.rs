//! The good rows of a chunk that does not parse as a whole, and what is wrong with the others.
//!
//! Nothing of this runs while chunks parse. When one does not, its rows are taken apart one by one
//! (`rows`), those that cannot be split are left out and the rest is parsed again; if that fails
//! too, the values of all rows are judged (`judge`), and what is left without the bad ones parses.
//! A chunk is decided upon by itself, and chunks are cut by bytes alone, so the verdict on a row
//! depends on nothing but the input.
//!
//! In the first chunk, more zero bytes than half its lines mean that the input is no text at all:
//! that is an error.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use memchr::memchr_iter;

use super::chunks::CsvChunk;
use super::faults::{bad_row, bad_utf8, bad_value, not_text};
use super::judge::{Verdict, judge};
use super::parse::parse_chunk;
use super::rows::{Row, Rows};
use super::schema::CsvSchema;
use super::split::Fault;
use crate::error::{Error, Result};
use crate::ingest::rejects::{Reject, Rejects};
use crate::model::DataType;

/// The good rows of a chunk, all columns, and the bad ones.
pub fn parse_good_rows(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
) -> Result<(RecordBatch, Rejects)> {
    match parse_chunk(schema, chunk) {
        Ok(batch) => Ok((batch, Rejects::default())),
        Err(error @ Error::InvalidInput(_)) => sort_out(schema, chunk, error),
        Err(error) => Err(error),
    }
}

/// The rows of a chunk from `from` on that can be split, in a chunk of their own.
pub(super) fn splittable(schema: &CsvSchema, chunk: &CsvChunk, from: usize) -> Result<CsvChunk> {
    check_text(schema, chunk)?;
    let good: Vec<Row> = rows(schema, chunk, from).filter(|row| row.fault.is_none()).collect();
    Ok(chunk_of(chunk, &good))
}

/// A bad row of the chunk.
struct Bad {
    start: u32,
    end: u32,
    line: u64,
    why: Why,
}

enum Why {
    Row(Fault),
    Value(Verdict),
}

#[cold]
fn sort_out(
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
            Some(fault) => bad.push(Bad::new(row, Why::Row(fault))),
        }
    }
    if !bad.is_empty() {
        match parse_chunk(schema, &chunk_of(chunk, &good)) {
            Ok(batch) => return Ok((batch, rejects(schema, chunk, bad, Vec::new()))),
            Err(still) => error = still,
        }
    }
    let judged = judge(schema, &chunk_of(chunk, &good));
    if judged.verdicts.len() != good.len() || judged.verdicts.iter().all(Option::is_none) {
        return Err(error);
    }
    let mut better = Vec::with_capacity(good.len());
    for (row, verdict) in good.into_iter().zip(judged.verdicts) {
        match verdict {
            None => better.push(row),
            Some(verdict) => bad.push(Bad::new(row, Why::Value(verdict))),
        }
    }
    bad.sort_unstable_by_key(|bad| bad.start);
    let batch = parse_chunk(schema, &chunk_of(chunk, &better))?;
    Ok((batch, rejects(schema, chunk, bad, judged.types)))
}

impl Bad {
    // A chunk has less than 2³⁰ bytes.
    fn new(row: Row, why: Why) -> Self {
        Bad { start: row.start as u32, end: row.end as u32, line: row.line, why }
    }
}

fn rows<'a>(schema: &CsvSchema, chunk: &'a CsvChunk, from: usize) -> Rows<'a> {
    Rows::new(&chunk.text, from, schema.columns.len(), schema.delimiter, schema.quote)
}

/// Refuses an input that is anything but text.
fn check_text(schema: &CsvSchema, chunk: &CsvChunk) -> Result<()> {
    let count = |byte| memchr_iter(byte, &chunk.text).count();
    let is_text = chunk.number > 0 || count(0) <= count(b'\n') / 2;
    if is_text { Ok(()) } else { Err(not_text(schema, chunk)) }
}

/// A chunk of these rows alone, without a header.
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

/// The bad rows, told of when they are asked for.
fn rejects(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
    bad: Vec<Bad>,
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
            let (column, reason) = match &bad.why {
                Why::Row(fault) => (None, bad_row(&schema, row, *fault)),
                Why::Value(verdict) => {
                    (schema.columns.get(verdict.column as usize), tell(row, verdict, &types))
                }
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

fn tell(row: &[u8], verdict: &Verdict, types: &[DataType]) -> String {
    let (at, len) = (verdict.at as usize, verdict.len as usize);
    let value = row.get(at..at + len).unwrap_or_default();
    match types.get(verdict.expected as usize) {
        Some(expected) => bad_value(value, expected),
        None => bad_utf8(value),
    }
}

#[cfg(test)]
#[path = "good_rows_tests.rs"]
mod tests;
