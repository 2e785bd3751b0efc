//! Finds a value of a column, for a message.

use std::path::Path;

use super::chunks::CsvChunks;
use super::faults::shown;
use super::infer::infer;
use super::options::CsvOptions;
use super::rules::unquoted;
use super::sample::{is_word, type_of_value};
use super::split::Splitter;
use crate::error::Result;
use crate::ingest::sources::stream::Bytes;
use crate::model::DataType;

/// The first value of a column whose type alone is wanted, with its line, within the first
/// `max_chunks` chunks of an input.
pub(crate) fn find_value(
    name: &Path,
    bytes: Bytes,
    options: &CsvOptions,
    column: &str,
    max_chunks: usize,
    is_wanted: impl Fn(&DataType) -> bool,
) -> Result<Option<(u64, String)>> {
    let mut chunks = CsvChunks::new(name, bytes, options);
    let Some(first) = chunks.next().transpose()? else { return Ok(None) };
    let schema = infer(name, options, Some(&first))?;
    let Some(at) = schema.names().position(|known| known == column) else { return Ok(None) };
    let mut scratch = Vec::new();
    for chunk in std::iter::once(Ok(first)).chain(chunks).take(max_chunks) {
        let chunk = chunk?;
        let from = schema.data_start(&chunk)?;
        let columns = schema.columns.len();
        let mut splitter =
            Splitter::new(&chunk.text, from, columns, schema.delimiter, schema.quote);
        while let Ok(Some(tile)) = splitter.next_tile() {
            for field in tile.column(at).filter(|field| field.len > 0) {
                let value = unquoted(tile.text(), field, &schema.rules, &mut scratch);
                let is_null = !field.quoted
                    && (schema.rules.is_null(value.bytes()) || is_word(value.bytes()));
                if !is_null && is_wanted(&type_of_value(value, schema.layout(at))) {
                    let line = chunk.line_at(field.start);
                    return Ok(Some((line, shown(value.bytes()))));
                }
            }
        }
    }
    Ok(None)
}
