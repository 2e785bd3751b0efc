//! Walks over the first rows of an input, from which columns are inferred.

use std::borrow::Cow;

use super::chunks::CsvChunk;
use super::faults::row_error;
use super::good_rows::splittable;
use super::schema::CsvSchema;
use super::split::{Splitter, Tile};
use crate::error::Result;

/// The chunk to infer from and the start of its rows; without bad rows if these are left out.
pub(super) fn sample<'a>(
    schema: &CsvSchema,
    chunk: &'a CsvChunk,
    from: usize,
    rows: usize,
) -> Result<(Cow<'a, CsvChunk>, usize)> {
    if schema.skip_bad_rows && for_tiles(schema, chunk, from, rows, |_| ()).is_err() {
        return Ok((Cow::Owned(splittable(schema, chunk, from)?), 0));
    }
    Ok((Cow::Borrowed(chunk), from))
}

/// Calls `f` with the first `rows` rows, rounded up to whole tiles.
pub(super) fn for_tiles(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    from: usize,
    rows: usize,
    mut f: impl FnMut(Tile<'_>),
) -> Result<()> {
    let mut splitter =
        Splitter::new(&chunk.text, from, schema.columns.len(), schema.delimiter, schema.quote);
    let mut seen = 0;
    while seen < rows {
        match splitter.next_tile().map_err(|fault| row_error(schema, chunk, fault))? {
            Some(tile) => {
                seen += tile.rows();
                f(tile);
            }
            None => break,
        }
    }
    Ok(())
}
