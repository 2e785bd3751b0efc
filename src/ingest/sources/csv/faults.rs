//! Error messages about an input: file, line, column, value, and what to do.

use super::chunks::CsvChunk;
use super::guess::in_shell;
use super::sample::is_word;
use super::schema::CsvSchema;
use super::split::{Fault, Field, Splitter};
use crate::error::Error;
use crate::model::DataType;

/// Characters of a value that a message shows.
const SHOWN: usize = 80;
/// How many bytes after a fault are checked for binary data.
const BINARY_CHECK_BYTES: usize = 256;

/// The error for a row that cannot be split.
#[cold]
pub(super) fn row_error(schema: &CsvSchema, chunk: &CsvChunk, fault: Fault) -> Error {
    let file = schema.file.display();
    let quote = char::from(schema.quote);
    let (Fault::Fields { at, .. } | Fault::AfterQuote { at } | Fault::Unterminated { at }) = fault;
    if let Some(nul) =
        memchr::memchr(0, chunk.text.get(..at + BINARY_CHECK_BYTES).unwrap_or(&chunk.text))
    {
        return Error::InvalidInput(format!(
            "{file} does not look like text: byte {} is 0, and line {} is not a row of fields",
            chunk.offset + nul as u64,
            chunk.line_at(at)
        ));
    }
    Error::InvalidInput(match fault {
        Fault::Fields { at, found } => format!(
            "{file}: line {}: {found} {}, expected {}; is the delimiter {:?} right (--delimiter), \
             or a quote missing?{}{}",
            chunk.line_at(at),
            if found == 1 { "field" } else { "fields" },
            schema.columns.len(),
            char::from(schema.delimiter),
            comment_hint(chunk, at),
            title_hint(schema, chunk, at, found),
        ),
        Fault::AfterQuote { at } => format!(
            "{file}: line {}: text after a closing quote; a quote inside a quoted field is written \
             twice: {quote}{quote}; if quotes are text like any other: --quote none",
            chunk.line_at(at)
        ),
        Fault::Unterminated { at } => {
            format!(
                "{file}: line {}: a quoted field starts here and does not end in the file; if quotes \
                 are text like any other: --quote none",
                chunk.line_at(at)
            )
        }
    })
}

/// What to do about lines that look like comments: the first, from which the columns are, or this.
fn comment_hint(chunk: &CsvChunk, at: usize) -> &'static str {
    let is_first = chunk.number == 0 && chunk.text.first() == Some(&b'#');
    match is_first || chunk.text.get(at) == Some(&b'#') {
        true => " If lines that begin with # are no rows: --comment '#'",
        false => "",
    }
}

/// What to do about a title above the names: lines of one field, from which the columns are.
fn title_hint(schema: &CsvSchema, chunk: &CsvChunk, at: usize, found: usize) -> String {
    let before = chunk.line_at(at).saturating_sub(1);
    let is_title = chunk.number == 0 && schema.columns.len() == 1 && found > 1 && before > 0;
    match is_title {
        true => format!(" If the lines above it are a title: --skip {before}"),
        false => String::new(),
    }
}

/// The error for a chunk of binary data.
#[cold]
pub(super) fn not_text(schema: &CsvSchema, chunk: &CsvChunk) -> Error {
    let nul = memchr::memchr(0, &chunk.text).unwrap_or(0);
    Error::InvalidInput(format!(
        "{} does not look like text: byte {} is 0, and many others are",
        schema.file.display(),
        chunk.offset + nul as u64
    ))
}

/// Why a row that cannot be split is left out.
pub(super) fn split_reason(schema: &CsvSchema, row: &[u8], fault: Fault) -> String {
    let mut reason = match fault {
        Fault::Fields { found: 1, .. } => format!("1 field, expected {}", schema.columns.len()),
        Fault::Fields { found, .. } => format!("{found} fields, expected {}", schema.columns.len()),
        Fault::AfterQuote { .. } => "text after a closing quote".to_owned(),
        Fault::Unterminated { .. } => "a quoted field does not end".to_owned(),
    };
    if memchr::memchr(0, row).is_some() {
        reason.push_str("; it holds a zero byte");
    }
    reason
}

/// Why a row with a value that its column cannot hold is left out.
pub(super) fn type_reason(value: &[u8], quoted: bool, expected: &DataType) -> String {
    format!("'{}' is not of type {expected}{}", shown(value), null_hint(value, quoted))
}

/// What to do about a word that may stand for null, but was not among the first rows.
fn null_hint(value: &[u8], quoted: bool) -> String {
    let word = std::str::from_utf8(value).ok().filter(|word| !quoted && is_word(word.as_bytes()));
    word.map_or_else(String::new, |word| format!("; if it means null: --null {}", in_shell(word)))
}

/// Why a row with text that is not UTF-8 is left out.
pub(super) fn utf8_reason(value: &[u8]) -> String {
    format!("'{}' is not UTF-8", shown(value))
}

/// Why a row without a value that the table requires is left out.
pub(super) const MISSING_REASON: &str = "no value, and the column is NOT NULL";

/// The error for a row without a value that the table requires.
#[cold]
pub(super) fn missing_error(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    row: usize,
    column: usize,
) -> Error {
    let from = schema.data_start(chunk).unwrap_or(0);
    let field = find_field(schema, chunk, from, row, column).unwrap_or(Field::NONE);
    Error::InvalidInput(format!(
        "{}: line {}: column '{}' is NOT NULL, but the row has no value in it; --on-error skip \
         leaves out such rows, --rejects FILE keeps them",
        schema.file.display(),
        chunk.line_at(field.start),
        schema.columns.get(column).map_or("", |c| &*c.name)
    ))
}

/// The field at a row (counted from the first data row) and column of the chunk.
pub(super) fn find_field(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    from: usize,
    row: usize,
    column: usize,
) -> Option<Field> {
    let mut splitter =
        Splitter::new(&chunk.text, from, schema.columns.len(), schema.delimiter, schema.quote);
    let mut before = 0;
    while let Ok(Some(tile)) = splitter.next_tile() {
        if row < before + tile.rows() {
            return tile.column(column).nth(row - before);
        }
        before += tile.rows();
    }
    None
}

/// The error for a field that is not of its column's type.
#[cold]
pub(super) fn value_error(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    field: Field,
    column: usize,
    expected: &DataType,
) -> Error {
    let name = schema.columns.get(column).map_or("", |c| &*c.name);
    let fixed = schema.columns.get(column).is_some_and(|c| c.fixed);
    let value = chunk.text.get(field.start..field.start + field.len).unwrap_or_default();
    let hint = if fixed {
        "--schema gives that type; as text it would be"
    } else {
        "to read the column as text:"
    };
    let null = null_hint(value, field.quoted);
    Error::InvalidInput(format!(
        "{}: line {}, column {} ('{name}'): '{}' is not of type {expected}{null}; {hint} \
         --schema {name}:utf8",
        schema.file.display(),
        chunk.line_at(field.start),
        column + 1,
        shown(value),
    ))
}

/// The error for a value that needs a wider type, in which an earlier one would not be exact.
#[cold]
pub(super) fn widening_error(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    field: Field,
    column: usize,
    (narrow, wider): (&DataType, &DataType),
    earlier: Field,
) -> Error {
    let name = schema.columns.get(column).map_or("", |c| &*c.name);
    let value = |field: Field| {
        shown(chunk.text.get(field.start..field.start + field.len).unwrap_or_default())
    };
    Error::InvalidInput(format!(
        "{}: line {}, column {} ('{name}'): '{}' is not of type {narrow}, and '{}' in line {} \
         would not be exact as {wider}; to read the column as text: --schema {name}:utf8",
        schema.file.display(),
        chunk.line_at(field.start),
        column + 1,
        value(field),
        value(earlier),
        chunk.line_at(earlier.start),
    ))
}

/// The error for a text that is not UTF-8.
#[cold]
pub(super) fn utf8_error(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    field: Field,
    column: usize,
) -> Error {
    let name = schema.columns.get(column).map_or("", |c| &*c.name);
    let value = chunk.text.get(field.start..field.start + field.len).unwrap_or_default();
    Error::InvalidInput(format!(
        "{}: line {}, column {} ('{name}'): '{}' is not UTF-8; name what it is, for example \
         --encoding latin1, or keep the bytes: --schema {name}:binary",
        schema.file.display(),
        chunk.line_at(field.start),
        column + 1,
        shown(value),
    ))
}

/// A value, shortened for a message.
pub(super) fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value.get(..4 * SHOWN).unwrap_or(value));
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < value.len() && text.chars().count() > SHOWN {
        short.push('…');
    }
    short
}
