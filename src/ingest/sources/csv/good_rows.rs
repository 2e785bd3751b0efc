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

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use memchr::memchr_iter;

use super::bad_values::{BadValue, find_bad_values};
use super::chunks::CsvChunk;
use super::faults::{MISSING_REASON, not_text, split_reason, type_reason, utf8_reason};
use super::parse::{parse_all, parse_chunk};
use super::required::{check_required, rows_without_value};
use super::rows::{Row, Rows};
use super::schema::CsvSchema;
use super::split::Fault;
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::rejects::{Reject, Rejects};
use crate::model::DataType;

/// What a chunk holds.
pub(crate) struct ParsedRows {
    /// Its rows, with all columns.
    pub(crate) batch: RecordBatch,
    /// Its bad rows.
    pub(crate) rejects: Rejects,
    /// How many empty lines are no rows.
    pub(crate) blank_lines: u64,
}

/// Returns the good rows of a chunk, with all columns, and the bad rows.
pub fn parse_good_rows(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
) -> Result<(RecordBatch, Rejects)> {
    let skipping = Arc::new(CsvSchema { skip_bad_rows: true, ..CsvSchema::clone(schema) });
    let rows = parse_rows(&skipping, chunk)?;
    Ok((rows.batch, rows.rejects))
}

/// Parses the rows of a chunk. A bad one is an error, unless the schema leaves them out.
pub(crate) fn parse_rows(schema: &Arc<CsvSchema>, chunk: &Arc<CsvChunk>) -> Result<ParsedRows> {
    let parsed = match parse_all(schema, chunk) {
        Ok((batch, blank_lines)) => {
            if !schema.skip_bad_rows {
                let whole = chunk.with_blank_lines(schema.columns.len(), schema.header)?;
                check_required(schema, &whole, &batch)?;
            }
            if rows_without_value(schema, &batch).is_empty() {
                return Ok(ParsedRows { batch, rejects: Rejects::default(), blank_lines });
            }
            Ok(batch)
        }
        Err(error @ Error::InvalidInput(_)) if schema.skip_bad_rows => Err(error),
        Err(error) => return Err(error),
    };
    match chunk.with_blank_lines(schema.columns.len(), schema.header)? {
        Cow::Borrowed(_) => parse_without_bad_rows(schema, chunk, parsed),
        Cow::Owned(whole) => parse_without_bad_rows(schema, &Arc::new(whole), parsed),
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
    /// No value in this column.
    Missing(usize),
}

#[cold]
fn parse_without_bad_rows(
    schema: &Arc<CsvSchema>,
    chunk: &Arc<CsvChunk>,
    parsed: Result<RecordBatch>,
) -> Result<ParsedRows> {
    let from = schema.data_start(chunk)?;
    check_text(schema, chunk)?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let mut all = rows(schema, chunk, from);
    for row in &mut all {
        match row.fault {
            None => good.push(row),
            Some(fault) => bad.push(BadRow::new(row, Cause::Row(fault))),
        }
    }
    let blank_lines = chunk.blank_before + all.blank_lines;
    let (mut batch, mut types) = (None, Vec::new());
    let error = match parsed {
        Ok(all) => {
            batch = Some(all);
            None
        }
        Err(error) if bad.is_empty() => Some(error),
        Err(_) => match parse_chunk(schema, &chunk_of(chunk, &good)) {
            Ok(rest) => {
                batch = Some(rest);
                None
            }
            Err(error) => Some(error),
        },
    };
    if let Some(error) = error {
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
        (good, types) = (remaining, checked.types);
    }
    let batch = match batch {
        Some(batch) => batch,
        None => parse_chunk(schema, &chunk_of(chunk, &good))?,
    };
    let missing = rows_without_value(schema, &batch);
    let mut keep = vec![true; batch.num_rows()];
    for (at, column) in &missing {
        keep.iter_mut().skip(*at).take(1).for_each(|keep| *keep = false);
        bad.extend(good.get(*at).map(|row| BadRow::new(*row, Cause::Missing(*column))));
    }
    let batch = match missing.is_empty() {
        true => batch,
        false => arrow_select::filter::filter_record_batch(&batch, &BooleanArray::from(keep))
            .or_invalid_with(schema.file.display())?,
    };
    bad.sort_unstable_by_key(|bad| bad.start);
    let rejects = rejects(schema, chunk, bad, types);
    Ok(ParsedRows { batch, rejects, blank_lines })
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
    let (left_out, guesses) = (Vec::new(), Vec::new());
    CsvChunk { text, number: chunk.number.max(1), blank_before: 0, left_out, guesses, ..*chunk }
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
                    value_reason(row, bad_value, &types, schema.quote),
                ),
                Cause::Missing(column) => (schema.columns.get(*column), MISSING_REASON.to_owned()),
            };
            Reject {
                file: file.clone(),
                line: chunk.line + bad.line + chunk.comments_before(bad.start as usize),
                column: column.map_or(Arc::from(""), |column| column.name.clone()),
                reason,
                raw: row.to_vec(),
            }
        }),
    )
}

fn value_reason(row: &[u8], bad_value: &BadValue, types: &[DataType], quote: u8) -> String {
    let (at, len) = (bad_value.at as usize, bad_value.len as usize);
    let value = row.get(at..at + len).unwrap_or_default();
    match types.get(bad_value.expected as usize) {
        Some(expected) => {
            let quoted = at > 0 && row.get(at - 1) == Some(&quote);
            type_reason(value, quoted, expected)
        }
        None => utf8_reason(value),
    }
}

#[cfg(test)]
#[path = "good_rows_tests.rs"]
mod tests;
