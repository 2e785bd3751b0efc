//! The formats in which ClickHouse's clients ask for answers, with one file for each family. A
//! [`Writer`] takes the batches of an answer one at a time and appends their bytes; it keeps none
//! of them, except that Parquet gathers a row group, and `Pretty` the rows of one table.

mod arrow;
mod binary;
mod delimited;
mod finished;
mod json;
mod json_lines;
mod json_value;
mod known_types;
mod markdown;
mod native;
mod parquet;
mod pretty;
mod row_binary;
mod sql_values;
mod vertical;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

pub(crate) use finished::Finished;
#[cfg(test)]
pub(super) use samples::every_type;

use super::refusals::invalid;
use crate::errors::Failure;

/// The formats of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    TabSeparated,
    TabSeparatedWithNames,
    TabSeparatedWithNamesAndTypes,
    TabSeparatedRaw,
    TabSeparatedRawWithNames,
    TabSeparatedRawWithNamesAndTypes,
    Csv,
    CsvWithNames,
    CsvWithNamesAndTypes,
    Json,
    JsonCompact,
    JsonStrings,
    JsonEachRow,
    JsonCompactEachRow,
    JsonCompactEachRowWithNames,
    JsonCompactEachRowWithNamesAndTypes,
    RowBinary,
    RowBinaryWithNames,
    RowBinaryWithNamesAndTypes,
    Native,
    /// An Arrow IPC file.
    Arrow,
    ArrowStream,
    Parquet,
    Pretty,
    PrettyCompact,
    Vertical,
    Markdown,
    Values,
    /// Nothing at all.
    Null,
}

/// What is written before the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    Nothing,
    Names,
    NamesAndTypes,
}

impl Format {
    /// All formats.
    pub(crate) const ALL: [Format; 29] = [
        Format::TabSeparated,
        Format::TabSeparatedWithNames,
        Format::TabSeparatedWithNamesAndTypes,
        Format::TabSeparatedRaw,
        Format::TabSeparatedRawWithNames,
        Format::TabSeparatedRawWithNamesAndTypes,
        Format::Csv,
        Format::CsvWithNames,
        Format::CsvWithNamesAndTypes,
        Format::Json,
        Format::JsonCompact,
        Format::JsonStrings,
        Format::JsonEachRow,
        Format::JsonCompactEachRow,
        Format::JsonCompactEachRowWithNames,
        Format::JsonCompactEachRowWithNamesAndTypes,
        Format::RowBinary,
        Format::RowBinaryWithNames,
        Format::RowBinaryWithNamesAndTypes,
        Format::Native,
        Format::Arrow,
        Format::ArrowStream,
        Format::Parquet,
        Format::Pretty,
        Format::PrettyCompact,
        Format::Vertical,
        Format::Markdown,
        Format::Values,
        Format::Null,
    ];

    /// The format of a name, in letters of either case.
    pub(crate) fn named(name: &str) -> Result<Format, Failure> {
        let lower = name.to_ascii_lowercase();
        let known = Format::ALL.into_iter().find(|format| {
            format.name().eq_ignore_ascii_case(name)
                || format.other_names().iter().any(|other| *other == lower)
        });
        known.ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            invalid(format!("answers cannot be written in a format '{name}'"))
                .hint(format!("there are {}", names.join(", ")))
        })
    }

    /// The name, as ClickHouse spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::TabSeparated => "TabSeparated",
            Format::TabSeparatedWithNames => "TabSeparatedWithNames",
            Format::TabSeparatedWithNamesAndTypes => "TabSeparatedWithNamesAndTypes",
            Format::TabSeparatedRaw => "TabSeparatedRaw",
            Format::TabSeparatedRawWithNames => "TabSeparatedRawWithNames",
            Format::TabSeparatedRawWithNamesAndTypes => "TabSeparatedRawWithNamesAndTypes",
            Format::Csv => "CSV",
            Format::CsvWithNames => "CSVWithNames",
            Format::CsvWithNamesAndTypes => "CSVWithNamesAndTypes",
            Format::Json => "JSON",
            Format::JsonCompact => "JSONCompact",
            Format::JsonStrings => "JSONStrings",
            Format::JsonEachRow => "JSONEachRow",
            Format::JsonCompactEachRow => "JSONCompactEachRow",
            Format::JsonCompactEachRowWithNames => "JSONCompactEachRowWithNames",
            Format::JsonCompactEachRowWithNamesAndTypes => "JSONCompactEachRowWithNamesAndTypes",
            Format::RowBinary => "RowBinary",
            Format::RowBinaryWithNames => "RowBinaryWithNames",
            Format::RowBinaryWithNamesAndTypes => "RowBinaryWithNamesAndTypes",
            Format::Native => "Native",
            Format::Arrow => "Arrow",
            Format::ArrowStream => "ArrowStream",
            Format::Parquet => "Parquet",
            Format::Pretty => "Pretty",
            Format::PrettyCompact => "PrettyCompact",
            Format::Vertical => "Vertical",
            Format::Markdown => "Markdown",
            Format::Values => "Values",
            Format::Null => "Null",
        }
    }

    /// Other names for it, in small letters. Tables for people are the same with and without
    /// escape sequences here, and with all rows in one.
    fn other_names(self) -> &'static [&'static str] {
        match self {
            Format::TabSeparated => &["tsv"],
            Format::TabSeparatedWithNames => &["tsvwithnames"],
            Format::TabSeparatedWithNamesAndTypes => &["tsvwithnamesandtypes"],
            Format::TabSeparatedRaw => &["tsvraw", "raw"],
            Format::TabSeparatedRawWithNames => &["tsvrawwithnames", "rawwithnames"],
            Format::TabSeparatedRawWithNamesAndTypes => {
                &["tsvrawwithnamesandtypes", "rawwithnamesandtypes"]
            }
            Format::JsonEachRow => &["jsonlines", "ndjson", "jsonl"],
            Format::Pretty => &["prettymonoblock", "prettynoescapes", "prettynoescapesmonoblock"],
            Format::PrettyCompact => &[
                "prettycompactmonoblock",
                "prettycompactnoescapes",
                "prettycompactnoescapesmonoblock",
            ],
            Format::Markdown => &["md"],
            _ => &[],
        }
    }

    /// The media type that ClickHouse says of it.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::TabSeparated
            | Format::TabSeparatedWithNames
            | Format::TabSeparatedWithNamesAndTypes
            | Format::TabSeparatedRaw
            | Format::TabSeparatedRawWithNames
            | Format::TabSeparatedRawWithNamesAndTypes => {
                "text/tab-separated-values; charset=UTF-8"
            }
            Format::Csv => "text/csv; charset=UTF-8; header=absent",
            Format::CsvWithNames | Format::CsvWithNamesAndTypes => {
                "text/csv; charset=UTF-8; header=present"
            }
            Format::Json | Format::JsonCompact | Format::JsonStrings => {
                "application/json; charset=UTF-8"
            }
            Format::JsonEachRow
            | Format::JsonCompactEachRow
            | Format::JsonCompactEachRowWithNames
            | Format::JsonCompactEachRowWithNamesAndTypes => "application/x-ndjson; charset=UTF-8",
            Format::RowBinary
            | Format::RowBinaryWithNames
            | Format::RowBinaryWithNamesAndTypes
            | Format::Native
            | Format::Parquet => "application/octet-stream",
            Format::Arrow => "application/vnd.apache.arrow.file",
            Format::ArrowStream => "application/vnd.apache.arrow.stream",
            Format::Markdown => "text/markdown; charset=UTF-8",
            Format::Pretty
            | Format::PrettyCompact
            | Format::Vertical
            | Format::Values
            | Format::Null => "text/plain; charset=UTF-8",
        }
    }
}

/// Writes one answer.
pub(crate) struct Writer(FormatWriter);

enum FormatWriter {
    Delimited(delimited::DelimitedWriter),
    Json(json::JsonWriter),
    JsonLines(json_lines::JsonLinesWriter),
    RowBinary(row_binary::RowBinaryWriter),
    Native(native::NativeWriter),
    Arrow(Box<arrow::ArrowWriter>),
    Parquet(Box<parquet::ParquetWriter>),
    Pretty(pretty::PrettyWriter),
    Vertical(vertical::VerticalWriter),
    Markdown(markdown::MarkdownWriter),
    Values(sql_values::ValuesWriter),
    Null,
}

impl Writer {
    /// Starts an answer with these columns. `revision` is that of the protocol that the client
    /// speaks, or 0 if it does not say.
    pub(crate) fn new(
        format: Format,
        schema: &SchemaRef,
        revision: u32,
    ) -> Result<Writer, Failure> {
        use delimited::{DelimitedWriter, Dialect};
        use json::{JsonWriter, Rows};
        use json_lines::JsonLinesWriter;
        let delimited = |dialect, head: Head| {
            let (names, types) = (head != Head::Nothing, head == Head::NamesAndTypes);
            FormatWriter::Delimited(DelimitedWriter::new(schema, dialect, names, types))
        };
        let row_binary = |head: Head| {
            let (names, types) = (head != Head::Nothing, head == Head::NamesAndTypes);
            FormatWriter::RowBinary(row_binary::RowBinaryWriter::new(schema, names, types))
        };
        let lines = |head: Head| {
            let (names, types) = (head != Head::Nothing, head == Head::NamesAndTypes);
            FormatWriter::JsonLines(JsonLinesWriter::compact(schema, names, types))
        };
        let json = |rows| FormatWriter::Json(JsonWriter::new(schema, rows));
        Ok(Writer(match format {
            Format::TabSeparated => delimited(Dialect::Escaped, Head::Nothing),
            Format::TabSeparatedWithNames => delimited(Dialect::Escaped, Head::Names),
            Format::TabSeparatedWithNamesAndTypes => {
                delimited(Dialect::Escaped, Head::NamesAndTypes)
            }
            Format::TabSeparatedRaw => delimited(Dialect::Raw, Head::Nothing),
            Format::TabSeparatedRawWithNames => delimited(Dialect::Raw, Head::Names),
            Format::TabSeparatedRawWithNamesAndTypes => {
                delimited(Dialect::Raw, Head::NamesAndTypes)
            }
            Format::Csv => delimited(Dialect::Csv, Head::Nothing),
            Format::CsvWithNames => delimited(Dialect::Csv, Head::Names),
            Format::CsvWithNamesAndTypes => delimited(Dialect::Csv, Head::NamesAndTypes),
            Format::Json => json(Rows::Objects),
            Format::JsonCompact => json(Rows::Arrays),
            Format::JsonStrings => json(Rows::ObjectsOfStrings),
            Format::JsonEachRow => FormatWriter::JsonLines(JsonLinesWriter::objects(schema)),
            Format::JsonCompactEachRow => lines(Head::Nothing),
            Format::JsonCompactEachRowWithNames => lines(Head::Names),
            Format::JsonCompactEachRowWithNamesAndTypes => lines(Head::NamesAndTypes),
            Format::RowBinary => row_binary(Head::Nothing),
            Format::RowBinaryWithNames => row_binary(Head::Names),
            Format::RowBinaryWithNamesAndTypes => row_binary(Head::NamesAndTypes),
            Format::Native => FormatWriter::Native(native::NativeWriter::new(schema, revision)),
            Format::Arrow => FormatWriter::Arrow(Box::new(arrow::ArrowWriter::file(schema)?)),
            Format::ArrowStream => {
                FormatWriter::Arrow(Box::new(arrow::ArrowWriter::stream(schema)?))
            }
            Format::Parquet => {
                FormatWriter::Parquet(Box::new(parquet::ParquetWriter::new(schema)?))
            }
            Format::Pretty => {
                FormatWriter::Pretty(pretty::PrettyWriter::new(schema, pretty::Style::Full))
            }
            Format::PrettyCompact => {
                FormatWriter::Pretty(pretty::PrettyWriter::new(schema, pretty::Style::Compact))
            }
            Format::Vertical => FormatWriter::Vertical(vertical::VerticalWriter::new(schema)),
            Format::Markdown => FormatWriter::Markdown(markdown::MarkdownWriter::new(schema)),
            Format::Values => FormatWriter::Values(sql_values::ValuesWriter::default()),
            Format::Null => FormatWriter::Null,
        }))
    }

    /// Appends a batch.
    pub(crate) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        match &mut self.0 {
            FormatWriter::Delimited(writer) => writer.write(batch, out),
            FormatWriter::Json(writer) => writer.write(batch, out),
            FormatWriter::JsonLines(writer) => writer.write(batch, out),
            FormatWriter::RowBinary(writer) => writer.write(batch, out),
            FormatWriter::Native(writer) => writer.write(batch, out),
            FormatWriter::Arrow(writer) => writer.write(batch, out),
            FormatWriter::Parquet(writer) => writer.write(batch, out),
            FormatWriter::Pretty(writer) => writer.write(batch, out),
            FormatWriter::Vertical(writer) => writer.write(batch, out),
            FormatWriter::Markdown(writer) => writer.write(batch, out),
            FormatWriter::Values(writer) => writer.write(batch, out),
            FormatWriter::Null => Ok(()),
        }
    }

    /// Appends the end of the answer.
    pub(crate) fn finish(self, finished: &Finished, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self.0 {
            FormatWriter::Delimited(writer) => writer.finish(out),
            FormatWriter::Json(writer) => writer.finish(finished, out),
            FormatWriter::JsonLines(writer) => writer.finish(out),
            FormatWriter::RowBinary(writer) => writer.finish(out),
            FormatWriter::Native(writer) => writer.finish(out),
            FormatWriter::Arrow(writer) => writer.finish(out)?,
            FormatWriter::Parquet(writer) => writer.finish(out)?,
            FormatWriter::Pretty(writer) => writer.finish(out),
            FormatWriter::Vertical(_) | FormatWriter::Values(_) | FormatWriter::Null => {}
            FormatWriter::Markdown(writer) => writer.finish(out),
        }
        Ok(())
    }
}
