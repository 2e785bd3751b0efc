//! The formats of the bodies of INSERT that only ClickHouse's clients send: bytes → batches of the
//! columns that the statement declares. Formats that files have, too, are read by the library: CSV,
//! JSON, Parquet, Arrow.
//!
//! A body says how many rows, items and bytes follow. None of that is believed: memory grows with
//! the bytes that were read, and a bound on the bytes of a batch refuses what would grow beyond it.

mod arrange;
mod build;
mod finish;
mod input;
mod literals;
mod native;
mod offsets;
mod row_binary;
mod text_column;
mod text_rows;
mod uuids;

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;

use std::io::Read;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

pub(in crate::serve) use literals::{ends_in_escape, unescape};

use self::text_column::TextColumn;
use super::refusals::invalid;
use super::types::Type;
use crate::errors::Failure;

/// The formats of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Native,
    RowBinary,
    RowBinaryWithNames,
    RowBinaryWithNamesAndTypes,
    Values,
    TabSeparated,
    TabSeparatedWithNames,
    TabSeparatedWithNamesAndTypes,
    TabSeparatedRaw,
}

impl BodyFormat {
    /// The format of a name, in letters of either case, if it is one of these.
    pub(crate) fn named(name: &str) -> Option<BodyFormat> {
        Some(match name.to_ascii_lowercase().as_str() {
            "native" => BodyFormat::Native,
            "rowbinary" => BodyFormat::RowBinary,
            "rowbinarywithnames" => BodyFormat::RowBinaryWithNames,
            "rowbinarywithnamesandtypes" => BodyFormat::RowBinaryWithNamesAndTypes,
            "values" => BodyFormat::Values,
            "tabseparated" | "tsv" => BodyFormat::TabSeparated,
            "tabseparatedwithnames" | "tsvwithnames" => BodyFormat::TabSeparatedWithNames,
            "tabseparatedwithnamesandtypes" | "tsvwithnamesandtypes" => {
                BodyFormat::TabSeparatedWithNamesAndTypes
            }
            "tabseparatedraw" | "tsvraw" | "raw" => BodyFormat::TabSeparatedRaw,
            _ => return None,
        })
    }
}

/// Reads the rows of one body.
pub(crate) struct Reader<'a>(FormatReader<'a>);

enum FormatReader<'a> {
    Native(native::NativeReader<'a>),
    RowBinary(row_binary::RowBinaryReader<'a>),
    Text(text_rows::TextReader<'a>),
}

impl<'a> Reader<'a> {
    /// Starts a body. `declared` are the columns of the statement: batches have exactly these.
    /// `revision` is that of the protocol in which the body is written: 0 for bodies of HTTP, where
    /// ClickHouse takes no other. A batch may take `most_bytes` when it is unpacked.
    pub(crate) fn new(
        format: BodyFormat,
        declared: &SchemaRef,
        revision: u32,
        most_bytes: u64,
        body: impl Read + Send + 'a,
    ) -> Reader<'a> {
        use row_binary::{Head, RowBinaryReader};
        use text_rows::{Dialect, TextReader};
        let input = input::Input::new(Box::new(body), most_bytes);
        let row_binary =
            |input, head| FormatReader::RowBinary(RowBinaryReader::new(input, declared, head));
        let tabs = |input, escaped, head| {
            FormatReader::Text(TextReader::new(input, declared, Dialect::Tabs { escaped, head }))
        };
        Reader(match format {
            BodyFormat::Native => {
                FormatReader::Native(native::NativeReader::new(input, declared, revision))
            }
            BodyFormat::RowBinary => row_binary(input, Head::Nothing),
            BodyFormat::RowBinaryWithNames => row_binary(input, Head::Names),
            BodyFormat::RowBinaryWithNamesAndTypes => row_binary(input, Head::NamesAndTypes),
            BodyFormat::Values => {
                FormatReader::Text(TextReader::new(input, declared, Dialect::Values))
            }
            BodyFormat::TabSeparated => tabs(input, true, 0),
            BodyFormat::TabSeparatedWithNames => tabs(input, true, 1),
            BodyFormat::TabSeparatedWithNamesAndTypes => tabs(input, true, 2),
            BodyFormat::TabSeparatedRaw => tabs(input, false, 0),
        })
    }

    /// The next rows, or none at the end of the body.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        match &mut self.0 {
            FormatReader::Native(reader) => reader.next_batch(),
            FormatReader::RowBinary(reader) => reader.next_batch(),
            FormatReader::Text(reader) => reader.next_batch(),
        }
    }
}

/// The value of a parameter (`param_x` for `{x:Type}`), as an array of one row. It is written as a
/// field of tab-separated values.
pub(crate) fn parameter(found: &Type, text: &[u8]) -> Result<ArrayRef, Failure> {
    let wrong = |failure: Failure| {
        let shown = String::from_utf8_lossy(&text[..text.len().min(100)]).into_owned();
        invalid(format!("the parameter '{shown}' is no {found}: {}", failure.message))
    };
    let mut column = TextColumn::new(&found.arrow());
    column.push_field(text, true).map_err(wrong)?;
    let array = uuids::spelled(found, column.finish().map_err(wrong)?).map_err(wrong)?;
    if array.logical_null_count() > 0 && !found.is_nullable() {
        return Err(invalid(format!("a parameter of type {found} cannot be null")));
    }
    Ok(array)
}
