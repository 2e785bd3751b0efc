//! CSV and TSV: text to typed Arrow batches, in three steps that a caller puts on threads as it
//! likes.
//!
//! 1. [`CsvChunks`] cuts the bytes into chunks of whole rows, serially, at boundaries that depend
//!    on the bytes alone;
//! 2. [`infer`] finds header, names and types from the first chunk;
//! 3. [`parse_chunk`] turns one chunk into one batch, purely, so that chunks are parsed on all
//!    cores; [`parse_good_rows`] does the same where bad rows are not to be the end of it.
//!
//! **Grammar.** Rows end with LF or CRLF, and in input without a line feed outside quotes with CR;
//! the last one may go without. A quote at the start of a field opens a quoted field, in which
//! delimiters and line ends are text and a doubled quote is one; a quote elsewhere is text. Nothing
//! may stand between a closing quote and the next delimiter. Empty lines are skipped, except in
//! input of a single column, where each is a null. Every row has the same number of fields;
//! anything else is an error.
//!
//! **Delimiter.** Where none is asked for it is a comma, unless the first row has none outside
//! quotes: then that one of `;`, tab and `|` which is most frequent there, and as frequent in each
//! of the first rows ([`Guess`]).
//!
//! **Nulls.** An unquoted empty field is null (unless told otherwise, and then still null in
//! columns that are not text), and so is an unquoted field spelled like one of
//! [`CsvOptions::nulls`]. A quoted empty field is the empty text; in a column that is not text it
//! is null.
//!
//! **Widening.** Where a field does not parse as its column's inferred type, the chunk's column
//! comes out in the next wider type of the lattice ([`crate::model::DataType::join`]), and the
//! caller joins types over chunks. Columns whose type the user has named never widen, but take more
//! spellings: blanks around numbers, `+1`, `007`, `t`.
//!
//! **Bad rows** are those that end the parsing of their chunk: a wrong number of fields, text after
//! a closing quote, a quoted field without an end, a value that has no place in the lattice above
//! its column's type or is not of the type that the user has named, text that is not UTF-8. Where
//! the text goes on after one of them is told in `rows`. What is not about one row stays an error:
//! a first row that cannot be split or named, a line without an end, input that is no text, and
//! what only the commit sees (values far apart that no type holds without loss, a null in a NOT
//! NULL column). A column's type comes from the sample, so a bad value among the first rows makes
//! it text, unless the table or the user knows better: under `skip_bad_rows` a table's type that
//! the sample cannot widen is kept, and its misfits are bad.

mod arrays;
mod bad_values;
mod chunks;
pub(super) mod column;
mod faults;
mod good_rows;
mod guess;
mod header;
mod infer;
mod line_ends;
mod options;
mod parse;
mod rows;
pub(super) mod rules;
mod scan;
mod schema;
pub(super) mod split;

pub use chunks::{CHUNK_BYTES, CsvChunk, CsvChunks};
pub use good_rows::parse_good_rows;
pub use guess::Guess;
pub use infer::infer;
pub use options::{CsvOptions, INFER_ROWS};
pub use parse::{parse_chunk, parse_columns};
pub use schema::{CsvColumn, CsvSchema};

#[cfg(test)]
mod tests;
