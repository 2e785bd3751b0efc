//! Finds a value of a key, for a message.

use std::path::Path;

use super::bad_row::shown;
use super::chunks::{JsonChunk, JsonChunks};
use super::fields::{Entry, LineCounter, read_table};
use super::infer::infer;
use super::options::JsonOptions;
use super::schema::JsonSchema;
use super::types::{fits, type_alone};
use crate::error::Result;
use crate::ingest::sources::stream::Bytes;
use crate::model::DataType;

/// The first value of a key that does not go with a type, with its line, within the first
/// `max_chunks` chunks of an input.
pub(crate) fn find_value(
    name: &Path,
    bytes: Bytes,
    options: &JsonOptions,
    key: &str,
    max_chunks: usize,
    other: &DataType,
) -> Result<Option<(u64, String)>> {
    let mut chunks = JsonChunks::new(name, bytes);
    let Some(first) = chunks.next().transpose()? else { return Ok(None) };
    let schema = infer(name, options, Some(&first))?;
    let mut found = None;
    for chunk in std::iter::once(Ok(first)).chain(chunks).take(max_chunks) {
        match find_in_chunk(&schema, &chunk?, key, other)? {
            Some((place, true)) => return Ok(Some(place)),
            Some((place, false)) => found = found.or(Some(place)),
            None => {}
        }
    }
    Ok(found)
}

/// The same in one chunk, and whether the value itself is none of that type: `1.5` is a decimal,
/// though as a float it goes with none.
pub(crate) fn find_in_chunk(
    schema: &JsonSchema,
    chunk: &JsonChunk,
    key: &str,
    other: &DataType,
) -> Result<Option<((u64, String), bool)>> {
    let table = read_table(schema, chunk, usize::MAX)?;
    let Some((_, entries)) = table.columns.iter().find(|(name, _)| **name == *key) else {
        return Ok(None);
    };
    let misfits = |entry: &Entry| {
        let found = type_alone(&table.text, *entry);
        found != DataType::Null && found.join(other).is_none()
    };
    let mut misfitting =
        entries.iter().zip(&table.rows).filter(|(entry, _)| misfits(entry)).peekable();
    let first = misfitting.peek().copied();
    let other_kind = misfitting.find(|(entry, _)| !fits(other, &table.text, &[**entry]));
    let is_other_kind = other_kind.is_some();
    let place = other_kind.or(first).map(|(entry, (start, _))| {
        let field = entry.field();
        let value = table.text.get(field.start..field.start + field.len).unwrap_or_default();
        let mut lines = LineCounter { text: &chunk.text, at: 0, line: chunk.line };
        (lines.line_at(*start), shown(value))
    });
    Ok(place.map(|place| (place, is_other_kind)))
}
