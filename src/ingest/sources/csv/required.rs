//! Rows without a value in a column that is NOT NULL in the table.

use arrow_array::{Array, RecordBatch};

use super::chunks::CsvChunk;
use super::faults::missing_error;
use super::schema::CsvSchema;
use crate::error::Result;

/// The rows of a batch of all columns that lack a value which the table requires, in order, each
/// with the first such column.
pub(super) fn rows_without_value(schema: &CsvSchema, batch: &RecordBatch) -> Vec<(usize, usize)> {
    let mut missing = Vec::new();
    for column in schema.required.iter().copied() {
        let Some(array) = batch.columns().get(column) else { continue };
        if let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            missing.extend(
                (0..array.len()).filter(|row| nulls.is_null(*row)).map(|row| (row, column)),
            );
        }
    }
    missing.sort_unstable();
    missing.dedup_by_key(|(row, _)| *row);
    missing
}

/// Refuses a chunk with such a row.
pub(crate) fn check_required(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    batch: &RecordBatch,
) -> Result<()> {
    match rows_without_value(schema, batch).first() {
        Some((row, column)) => Err(missing_error(schema, chunk, *row, *column)),
        None => Ok(()),
    }
}
