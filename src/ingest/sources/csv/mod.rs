//! CSV and TSV: text to typed Arrow batches, in three steps that a caller can run on any threads.
//!
//! 1. [`CsvChunks`] cuts the bytes into chunks of whole rows, serially, at boundaries that depend
//!    on the bytes alone;
//! 2. [`infer`] finds header, names and types from the first chunk;
//! 3. [`parse_chunk`] turns one chunk into one batch; it is a pure function, so chunks can be
//!    parsed on all cores. [`parse_good_rows`] does the same but leaves out bad rows.
//!
//! **Grammar.** Rows end with LF or CRLF, or with CR if the input has no line feed outside quotes;
//! the last row may lack its line end. A quote at the start of a field opens a quoted field, in
//! which delimiters and line ends are text and a doubled quote stands for one; a quote elsewhere is
//! text. Nothing may come between a closing quote and the next delimiter. Empty lines are skipped,
//! except in input of a single column, where each is a null. Every row must have the same number of
//! fields.
//!
//! **Delimiter.** If none is given, it is a comma, unless the first row has no comma outside
//! quotes: then it is the one of `;`, tab and `|` that is most frequent there and equally frequent
//! in each of the first rows ([`Guess`]).
//!
//! **Dialects.** Comment lines, escaped quotes and blanks before fields are rewritten to this
//! grammar first (`dialect`).
//!
//! **Nulls.** An unquoted empty field is null, and so is an unquoted field that equals one of
//! [`CsvOptions::nulls`]; without any, words such as `NA` are null in columns that would not be
//! text without them (`sample`). With `empty_is_null` off, unquoted empty fields are empty texts in
//! text columns and null in others. A quoted empty field is the empty text, and null in columns
//! that are not text.
//!
//! **Blanks** and tabs around a value are no part of it in columns that are not text, and nothing
//! but blanks is null there, as an empty field is.
//!
//! **Values** may be written in several ways, `13.12.2020` or `yes`. A column has one of them,
//! which its first rows decide (`sample`, `decide`).
//!
//! **Widening.** If a field does not parse as its column's inferred type, the chunk's column comes
//! out in the next wider type of the lattice ([`crate::model::DataType::join`]), and the caller
//! joins the types of all chunks. Columns whose type the user has named never widen, but accept
//! more spellings: `+1`, `007`, `t`.
//!
//! **Bad rows** make the parsing of their chunk fail: a wrong number of fields, text after a
//! closing quote, an unterminated quoted field, a value that no type above its column's type holds
//! or that is not of the type that the user has named, text that is not UTF-8, or no value in a
//! column that is NOT NULL. The module `rows` says where a bad row ends. What does not concern a
//! single row stays an error: a first row that cannot be split or named, a line without an end,
//! binary input, and what only the commit finds out (distant values that no type holds without
//! loss, a NOT NULL column that the input does not have). Column types come from the sample, so a
//! bad value among the first rows makes its column text, unless the
//! table or the user says otherwise: under `skip_bad_rows`, a table's type that the sample cannot
//! widen is kept, and rows that do not fit it are bad.

mod arrays;
mod bad_values;
mod chunks;
pub(super) mod column;
mod decide;
mod dialect;
mod faults;
mod find;
mod first_rows;
mod good_rows;
mod guess;
mod header;
mod infer;
mod line_ends;
mod options;
mod parse;
mod rejected;
mod required;
mod row_ends;
mod rows;
pub(super) mod rules;
mod sample;
mod scan;
mod schema;
pub(super) mod split;
mod values;

pub(crate) use chunks::CHUNK_BYTES;
pub use chunks::{CsvChunk, CsvChunks};
pub(crate) use find::{find_in_chunk, find_value};
pub use good_rows::parse_good_rows;
pub(crate) use good_rows::{ParsedRows, parse_rows};
pub use guess::Guess;
pub use infer::infer;
pub(crate) use infer::infer_types;
pub use options::{CsvOptions, INFER_ROWS};
pub use parse::parse_chunk;
pub(crate) use parse::{misguessed, parse_columns};
pub(crate) use rejected::{RejectedRow, RejectedRows, is_one_row};
pub use schema::CsvSchema;

#[cfg(test)]
mod tests;
