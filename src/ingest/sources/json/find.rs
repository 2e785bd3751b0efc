//! Finds a value of a key, for a message.

use std::path::Path;

use super::bad_row::shown;
use super::chunks::JsonChunks;
use super::fields::{LineCounter, read_table};
use super::infer::infer;
use super::options::JsonOptions;
use super::types::type_alone;
use crate::error::Result;
use crate::ingest::sources::stream::Bytes;
use crate::model::DataType;

/// The first value of a key whose type alone is wanted, with its line, within the first
/// `max_chunks` chunks of an input.
pub(crate) fn find_value(
    name: &Path,
    bytes: Bytes,
    options: &JsonOptions,
    key: &str,
    max_chunks: usize,
    is_wanted: impl Fn(&DataType) -> bool,
) -> Result<Option<(u64, String)>> {
    let mut chunks = JsonChunks::new(name, bytes);
    let Some(first) = chunks.next().transpose()? else { return Ok(None) };
    let schema = infer(name, options, Some(&first))?;
    for chunk in std::iter::once(Ok(first)).chain(chunks).take(max_chunks) {
        let chunk = chunk?;
        let table = read_table(&schema, &chunk, usize::MAX)?;
        let Some((_, entries)) = table.columns.iter().find(|(name, _)| **name == *key) else {
            continue;
        };
        let wanted = |found: &DataType| *found != DataType::Null && is_wanted(found);
        let found = entries.iter().zip(&table.rows);
        let found = found.map(|(entry, row)| (*entry, *row));
        if let Some((entry, (start, _))) =
            found.into_iter().find(|(entry, _)| wanted(&type_alone(&table.text, *entry)))
        {
            let field = entry.field();
            let value = table.text.get(field.start..field.start + field.len).unwrap_or_default();
            let mut lines = LineCounter { text: &chunk.text, at: 0, line: chunk.line };
            return Ok(Some((lines.line_at(start), shown(value))));
        }
    }
    Ok(None)
}
