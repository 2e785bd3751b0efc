//! JSON: objects to typed Arrow batches, in the three steps of [`super::csv`]: cut, infer, parse.
//!
//! 1. [`JsonChunks`] cuts the bytes into chunks of whole rows, serially, at boundaries that depend
//!    on the bytes alone;
//! 2. [`infer`] finds names and types from the first chunk;
//! 3. [`parse_chunk`] turns one chunk into one batch, purely, so that chunks are parsed on all
//!    cores.
//!
//! **Layouts.** JSON lines, where rows end with line feeds; one array of objects; objects one after
//! the other, with blanks, line ends or nothing between them ([`Layout`]). An input that starts
//! with `[` is an array. One that starts with `{` is JSON lines if its name says so (`.jsonl`,
//! `.ndjson`) or its first line is nothing but whole values.
//!
//! **Columns** are the keys of the objects, found by name. A key that is missing is null, as `null`
//! is; one that appears later adds a column. Of a key that an object has twice the last value
//! counts. Objects and arrays within a row are stored as their JSON text, as it stands in the
//! input, in columns of text.
//!
//! **Types.** A string never becomes a number or a truth value, unless `--schema` says so; strings
//! that are all dates, times or timestamps, spelled as in CSV, become these. Numbers are typed by
//! their digits as in CSV: `1` beside `1.5` is float64, and a whole number that no machine word
//! holds makes a column of text, in which each value keeps its spelling. So does a column of
//! numbers beside strings. Widening over chunks is as in CSV.
//!
//! **Grammar** is that of RFC 8259, and nothing else: no comments, no trailing commas, no `NaN`, no
//! control characters in strings, no halves of surrogate pairs, UTF-8. Values nest at most
//! [`MAX_DEPTH`] deep.
//!
//! The reader of values is our own: it keeps numbers as they are spelled, which exact decimals and
//! the inference of CSV need, and finds fields without making values of them. ARCHITECTURE.md has
//! what it was compared with.

mod chunks;
mod fields;
mod parse;
mod scan;
mod schema;
mod value;

pub use chunks::{JsonChunk, JsonChunks};
pub use parse::{BadRow, Parsed, parse_chunk, parse_columns, parse_rows};
pub use scan::Layout;
pub use schema::{JsonColumn, JsonSchema, infer};
pub use value::MAX_DEPTH;

use super::csv::{CsvOptions, INFER_ROWS};
use crate::model::DataType;

/// How to read the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// Types of some columns by name, taken as they are.
    pub schema: Vec<(String, DataType)>,
    /// Columns that do not come from the input, unless it has them too.
    pub elsewhere: Vec<String>,
    /// Types that the table at hand has already, by name: preferred where the sample fits them.
    pub prior: Vec<(String, DataType)>,
    /// Rows of the first chunk to infer from.
    pub infer_rows: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions {
            schema: Vec::new(),
            elsewhere: Vec::new(),
            prior: Vec::new(),
            infer_rows: INFER_ROWS,
        }
    }
}

impl From<&CsvOptions> for JsonOptions {
    /// What the options of text have to say of JSON.
    fn from(csv: &CsvOptions) -> Self {
        JsonOptions {
            schema: csv.schema.clone(),
            elsewhere: csv.elsewhere.clone(),
            prior: csv.prior.clone(),
            infer_rows: csv.infer_rows,
        }
    }
}

#[cfg(test)]
mod tests;
