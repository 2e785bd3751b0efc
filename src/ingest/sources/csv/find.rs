//! Finds a value of a column, for a message.

use std::path::Path;

use super::chunks::{CsvChunk, CsvChunks};
use super::faults::shown;
use super::infer::infer;
use super::options::CsvOptions;
use super::rules::{Inner, unquoted};
use super::sample::{is_word, type_of_value};
use super::schema::CsvSchema;
use super::split::Splitter;
use crate::error::Result;
use crate::ingest::sources::stream::Bytes;
use crate::model::DataType;

/// The first value of a column that does not go with a type, with its line, within the first
/// `max_chunks` chunks of an input.
pub(crate) fn find_value(
    name: &Path,
    bytes: Bytes,
    options: &CsvOptions,
    column: &str,
    max_chunks: usize,
    other: &DataType,
) -> Result<Option<(u64, String)>> {
    let mut chunks = CsvChunks::new(name, bytes, options);
    let Some(first) = chunks.next().transpose()? else { return Ok(None) };
    let schema = infer(name, options, Some(&first))?;
    let mut found = None;
    for chunk in std::iter::once(Ok(first)).chain(chunks).take(max_chunks) {
        match find_in_chunk(&schema, &chunk?, column, other)? {
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
    schema: &CsvSchema,
    chunk: &CsvChunk,
    column: &str,
    other: &DataType,
) -> Result<Option<((u64, String), bool)>> {
    let Some(at) = schema.names().position(|known| known == column) else { return Ok(None) };
    let (mut scratch, mut found) = (Vec::new(), None);
    let from = schema.data_start(chunk)?;
    let columns = schema.columns.len();
    let mut splitter = Splitter::new(&chunk.text, from, columns, schema.delimiter, schema.quote);
    while let Ok(Some(tile)) = splitter.next_tile() {
        for field in tile.column(at).filter(|field| field.len > 0) {
            let value = unquoted(tile.text(), field, &schema.rules, &mut scratch);
            let bare = match schema.rules.inner(value, field.quoted) {
                Inner::Same => value,
                Inner::Null => continue,
                Inner::Value(inner) => inner,
            };
            let is_null =
                !field.quoted && (schema.rules.is_null(value.bytes()) || is_word(bare.bytes()));
            if is_null || type_of_value(value, schema.layout(at)).join(other).is_some() {
                continue;
            }
            let place = || (chunk.line_at(field.start), shown(value.bytes()));
            let mut builder = schema.builder(at, other, false);
            let rules = schema.rules(at, other);
            if builder.push_fields(tile.text(), std::iter::once(field), rules).is_err() {
                return Ok(Some((place(), true)));
            }
            found.get_or_insert_with(|| (place(), false));
        }
    }
    Ok(found)
}
