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

mod bad_row;
mod chunks;
mod fields;
mod infer;
mod options;
mod parse;
mod scan;
mod schema;
mod types;
mod value;

pub use bad_row::BadRow;
pub use chunks::{JsonChunk, JsonChunks};
pub use infer::infer;
pub use options::JsonOptions;
pub use parse::{ParsedRows, parse_chunk, parse_columns, parse_rows};
pub use scan::Layout;
pub use schema::{JsonColumn, JsonSchema};
pub use value::MAX_DEPTH;

#[cfg(test)]
mod tests;
