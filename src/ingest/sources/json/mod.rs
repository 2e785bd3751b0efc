//! JSON: objects to typed Arrow batches, in the three steps of [`super::csv`]: cut, infer, parse.
//!
//! 1. [`JsonChunks`] cuts the bytes into chunks of whole rows, serially, at boundaries that depend
//!    on the bytes alone;
//! 2. [`infer`] finds names and types from the first chunk;
//! 3. [`parse_chunk`] turns one chunk into one batch; it is a pure function, so chunks can be
//!    parsed on all cores.
//!
//! **Layouts.** JSON lines, where a line feed ends a row; one array of objects; or concatenated
//! objects with blanks, line ends or nothing between them ([`Layout`]). An input that starts with
//! `[` is an array. One that starts with `{` is JSON lines if its name says so (`.jsonl`,
//! `.ndjson`) or if its first line consists of complete values.
//!
//! **Columns** are the keys of the objects, matched by name. A missing key is null; a key that
//! appears later adds a column. If an object repeats a key, its last value counts. The empty key's
//! column is called `column0` (`C0` in DuckDB; Polars and pandas leave it without a name, which SQL
//! could not say). An empty object is a row of nulls. Objects and arrays within a row, empty ones
//! too, are stored as their JSON text, unchanged, in text columns; with [`JsonOptions::flatten`],
//! the fields of objects are columns of their own, called `a.b`.
//!
//! **Types.** A string never becomes a number or a boolean unless `--schema` says so; columns of
//! strings that are all dates, times or timestamps, spelled as in CSV, get those types. Numbers are
//! typed by their digits as in CSV: `1` beside `1.5` is float64. Integers of more than 64 bits make
//! a column of decimals where all values are integers of at most 38 digits, and else one of texts,
//! in which each value keeps its spelling. Numbers beside strings make a text column, too. Widening
//! over chunks works as in CSV.
//!
//! **Grammar** is exactly RFC 8259: no comments, no trailing commas, no `NaN`, no control
//! characters in strings, no lone surrogates, UTF-8. Values nest at most [`MAX_DEPTH`] deep.
//!
//! The parser is our own: it keeps the spelling of numbers, which exact decimals and CSV's
//! inference need, and finds fields without building values.
//!
//! Workers find where each value lies, key by key, and parse columns from these places with the
//! number and date parsers of CSV. On rows of twelve short fields a prototype found fields two to
//! four times as fast, on one core, as simd-json's tape, serde_json's raw values, sonic-rs's lazy
//! ones (compiled for any x86-64) and arrow-json, all measured on a busy machine and not all doing
//! the same work. The reader's thread cuts JSON lines at line feeds and everything else with a scan
//! of strings and depth, which takes the brackets and commas of an array away, so that workers see
//! values alone. A row that cannot be read is left out and reported; the caller decides what
//! becomes of it.

mod bad_row;
mod chunks;
mod fields;
mod find;
mod infer;
#[cfg(feature = "sql")]
mod items;
mod options;
mod parse;
mod scan;
mod schema;
mod types;
mod value;

pub(crate) use bad_row::BadRow;
pub use chunks::{JsonChunk, JsonChunks};
pub(crate) use find::{find_in_chunk, find_value};
pub use infer::infer;
#[cfg(feature = "sql")]
pub(crate) use items::items;
pub use options::JsonOptions;
pub use parse::parse_rows;
pub(crate) use parse::{ParsedRows, misguessed, parse_chunk, parse_columns};
pub(crate) use scan::Layout;
pub(crate) use schema::JsonColumn;
pub use schema::JsonSchema;
pub(crate) use types::needed_type;

#[cfg(test)]
mod flat_tests;
#[cfg(test)]
mod tests;
