//! Writes results in one of several formats, with one file here for each.
//!
//! A [`Printer`] takes the batches of one result one at a time and keeps none of them, except that
//! the table keeps up to 10,000 rows to find its column widths. [`cells`] is the one rule by which
//! values become text. [`hash`] condenses an answer to a number.

mod arrow_ipc;
mod cell_rows;
mod cells;
mod chart;
mod csv;
mod figures;
mod flush;
mod hash;
mod html;
mod json;
mod json_text;
mod markdown;
pub(crate) mod number;
mod parquet;
#[cfg(feature = "serve")]
mod plain_text;
mod plain_types;
pub(crate) mod scan;
mod svg;
mod table;
mod table_layout;
mod text_rows;
pub(crate) mod time;
mod vertical;

#[cfg(test)]
mod chart_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use clap::ValueEnum;

pub(crate) use hash::answer_hash;
pub(crate) use html::{PagePart, Place};
#[cfg(feature = "serve")]
pub(crate) use plain_text::plain_text;

use crate::charts::ChartOptions;
use crate::compressed::uncompressed;
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

/// The formats in which results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A box for people.
    Table,
    /// A value a line, for wide rows.
    #[value(alias = "line")]
    Vertical,
    /// Comma-separated, with a header.
    Csv,
    /// Tab-separated, quoted like CSV, with a header.
    Tsv,
    /// One array of objects.
    Json,
    /// One object a line.
    #[value(alias = "ndjson")]
    Jsonl,
    /// A table for documents.
    #[value(alias = "md")]
    Markdown,
    /// Arrow IPC: a stream on stdout, a file with `-o`.
    Arrow,
    /// One Parquet file, zstd.
    Parquet,
    /// A chart, drawn with characters.
    Chart,
    /// A chart as an SVG file.
    Svg,
    /// A page with each answer as a chart and a table.
    Html,
}

impl Format {
    /// The format asked for, or that of the output file's extension, or else `table` on a terminal
    /// and `csv` in a pipe.
    pub(crate) fn choose(asked: Option<Format>, path: Option<&Path>, output: &Output) -> Format {
        let default = || if output.is_terminal() { Format::Table } else { Format::Csv };
        asked.or_else(|| Format::of_name(path?)).unwrap_or_else(default)
    }

    /// The format that the name of a file says, compressed or not.
    pub(crate) fn of_name(path: &Path) -> Option<Format> {
        let extension =
            uncompressed(path).extension().and_then(OsStr::to_str)?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "csv" => Format::Csv,
            "tsv" | "tab" => Format::Tsv,
            "json" => Format::Json,
            "jsonl" | "ndjson" => Format::Jsonl,
            "md" | "markdown" => Format::Markdown,
            "arrow" | "arrows" | "feather" | "ipc" => Format::Arrow,
            "parquet" => Format::Parquet,
            "svg" => Format::Svg,
            "html" | "htm" => Format::Html,
            _ => return None,
        })
    }

    /// The end of the names of files of rows in it.
    pub(crate) fn extension(self) -> Option<&'static str> {
        Some(match self {
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Json => "json",
            Format::Jsonl => "jsonl",
            Format::Arrow => "arrow",
            Format::Parquet => "parquet",
            _ => return None,
        })
    }

    /// Whether it draws a chart.
    pub(crate) fn has_chart(self) -> bool {
        matches!(self, Format::Chart | Format::Svg | Format::Html)
    }

    /// Whether an output can hold several results. Readers would not see a second Parquet file,
    /// Arrow stream or JSON document behind the first.
    pub(crate) fn holds_many(self) -> bool {
        !matches!(self, Format::Arrow | Format::Parquet | Format::Json | Format::Svg)
    }

    /// Whether the bytes are not text, and must not go to a terminal.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::Arrow | Format::Parquet)
    }
}

/// How results are written, besides their format.
#[derive(Clone, Debug)]
pub(crate) struct PrintOptions {
    /// Whether CSV and TSV start with the column names.
    pub(crate) header: bool,
    /// The maximum number of rows.
    pub(crate) max_rows: Option<u64>,
    /// What the table may use: colours, box characters, width.
    pub(crate) look: Look,
    /// Threads that may encode.
    pub(crate) threads: usize,
    /// What a chart is asked to be.
    pub(crate) chart: ChartOptions,
    /// What a page says about the answer.
    pub(crate) part: PagePart,
}

impl PrintOptions {
    /// All rows with their names, on one thread.
    pub(crate) fn new(look: Look) -> Self {
        PrintOptions {
            header: true,
            max_rows: None,
            look,
            threads: 1,
            chart: ChartOptions::default(),
            part: PagePart::default(),
        }
    }
}

/// Writes one result.
pub(crate) struct Printer {
    rows: u64,
    max_rows: Option<u64>,
    cut: bool,
    format: FormatPrinter,
    /// Of the output.
    name: PathBuf,
}

enum FormatPrinter {
    Table(Box<table::TablePrinter>),
    Vertical(vertical::VerticalPrinter),
    Csv(Box<csv::CsvPrinter>),
    Json(json::JsonPrinter),
    Markdown(markdown::MarkdownPrinter),
    Arrow(Box<arrow_ipc::ArrowPrinter>),
    Parquet(Box<parquet::ParquetPrinter>),
    Chart(Box<chart::ChartPrinter>),
    Svg(Box<svg::SvgPrinter>),
    Html(Box<html::HtmlPrinter>),
}

/// What was printed.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The destination, to be committed or used for the next result.
    pub(crate) output: Output,
    /// The number of rows written.
    pub(crate) rows: u64,
    /// Whether rows beyond `max_rows` were left out.
    pub(crate) cut: bool,
    /// What a chart does not show.
    pub(crate) notes: Vec<String>,
}

impl Printer {
    /// Starts a result with these columns.
    pub(crate) fn new(
        format: Format,
        schema: &SchemaRef,
        options: &PrintOptions,
        output: Output,
    ) -> Result<Self, Failure> {
        if format.is_binary() && output.is_terminal() {
            let hint = "name a file with -o, or pipe the output into a program that reads it";
            return Err(Failure::usage("a terminal cannot show this format").hint(hint));
        }
        let name = output.name().to_path_buf();
        if format.is_binary() && output.is_compressed() {
            let what = format!(
                "{}: Parquet and Arrow files are not compressed as a whole",
                name.display()
            );
            let hint = format!("name the file {}", uncompressed(&name).display());
            return Err(Failure::usage(what).hint(hint));
        }
        let printer = match format {
            Format::Table => FormatPrinter::Table(Box::new(table::TablePrinter::new(
                schema,
                options.look,
                output,
            ))),
            Format::Vertical => FormatPrinter::Vertical(vertical::VerticalPrinter::new(
                schema,
                options.look,
                output,
            )),
            Format::Csv => FormatPrinter::Csv(Box::new(csv::CsvPrinter::new(
                schema,
                b',',
                options.header,
                options.threads,
                output,
            ))),
            Format::Tsv => FormatPrinter::Csv(Box::new(csv::CsvPrinter::new(
                schema,
                b'\t',
                options.header,
                options.threads,
                output,
            ))),
            Format::Json => FormatPrinter::Json(json::JsonPrinter::new(
                schema,
                json::Frame::Array,
                options.threads,
                output,
            )),
            Format::Jsonl => FormatPrinter::Json(json::JsonPrinter::new(
                schema,
                json::Frame::Lines,
                options.threads,
                output,
            )),
            Format::Markdown => FormatPrinter::Markdown(markdown::MarkdownPrinter::new(
                schema,
                options.threads,
                output,
            )),
            Format::Arrow => {
                FormatPrinter::Arrow(Box::new(arrow_ipc::ArrowPrinter::new(schema, output)?))
            }
            Format::Parquet => FormatPrinter::Parquet(Box::new(parquet::ParquetPrinter::new(
                schema,
                options.threads,
                output,
            )?)),
            Format::Chart => FormatPrinter::Chart(Box::new(chart::ChartPrinter::new(
                schema,
                &options.chart,
                options.look,
                output,
            ))),
            Format::Svg => {
                FormatPrinter::Svg(Box::new(svg::SvgPrinter::new(schema, &options.chart, output)))
            }
            Format::Html => FormatPrinter::Html(Box::new(html::HtmlPrinter::new(
                schema,
                &options.chart,
                options.part.clone(),
                output,
            ))),
        };
        Ok(Printer { rows: 0, max_rows: options.max_rows, cut: false, format: printer, name })
    }

    /// Writes a batch. `Break` means that no more rows are wanted and the query can be dropped.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>, Failure> {
        let wanted = self.max_rows.map_or(u64::MAX, |max| max.saturating_sub(self.rows));
        let rows = batch.num_rows().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        self.cut |= rows < batch.num_rows();
        self.rows += rows as u64;
        let batch = batch.slice(0, rows);
        let written = match &mut self.format {
            FormatPrinter::Table(printer) => printer.write(&batch),
            FormatPrinter::Vertical(printer) => printer.write(&batch),
            FormatPrinter::Csv(printer) => printer.write(&batch),
            FormatPrinter::Json(printer) => printer.write(&batch),
            FormatPrinter::Markdown(printer) => printer.write(&batch),
            FormatPrinter::Arrow(printer) => printer.write(&batch),
            FormatPrinter::Parquet(printer) => printer.write(&batch),
            FormatPrinter::Chart(printer) => printer.write(&batch),
            FormatPrinter::Svg(printer) => printer.write(&batch),
            FormatPrinter::Html(printer) => printer.write(&batch),
        };
        written.map_err(|failure| failure.of_output(&self.name))?;
        Ok(if self.cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Writes the end of the result.
    pub(crate) fn finish(self) -> Result<Finished, Failure> {
        let without_notes = |output| (output, Vec::new());
        let finished = match self.format {
            FormatPrinter::Table(printer) => printer.finish().map(without_notes),
            FormatPrinter::Vertical(printer) => printer.finish().map(without_notes),
            FormatPrinter::Csv(printer) => printer.finish().map(without_notes),
            FormatPrinter::Json(printer) => printer.finish().map(without_notes),
            FormatPrinter::Markdown(printer) => printer.finish().map(without_notes),
            FormatPrinter::Arrow(printer) => printer.finish().map(without_notes),
            FormatPrinter::Parquet(printer) => printer.finish().map(without_notes),
            FormatPrinter::Chart(printer) => printer.finish(),
            FormatPrinter::Svg(printer) => printer.finish(),
            FormatPrinter::Html(printer) => printer.finish(),
        };
        let (output, notes) = finished.map_err(|failure| failure.of_output(&self.name))?;
        Ok(Finished { output, rows: self.rows, cut: self.cut, notes })
    }
}
