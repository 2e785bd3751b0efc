//! Rows that an earlier load rejected, as input: each `raw` of a file of rejected rows is a row of
//! the input that it names, with the columns of that input.
//!
//! Messages and rejects have the file and the line of that input, so that a row that is rejected
//! once more can be corrected once more. Where rows of one input follow each other, the lines
//! between them are empty ones in the text that is parsed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::options::LoadOptions;
use super::rejects::OnError;
use super::sources::csv::{
    CHUNK_BYTES, CsvChunk, CsvChunks, CsvOptions, CsvSchema, RejectedRow, RejectedRows, is_one_row,
};
use super::sources::json::{self, JsonChunk, JsonOptions, JsonSchema, Layout};
use super::sources::{
    Format, Input, Opened, PathColumns, TextEncoding, find_format, infer, path_columns,
};
use crate::error::{Error, Result};
use crate::model::DataType;

/// The most lines between two rows of a piece.
const MAX_GAP: u64 = 1 << 12;

/// What the rejected rows are parsed with.
pub(super) struct Reading {
    pub(super) options: LoadOptions,
    /// Types of the table's columns.
    pub(super) prior: Vec<(String, DataType)>,
    /// Columns that are NOT NULL.
    pub(super) required: Vec<String>,
    pub(super) encoding: Option<TextEncoding>,
}

/// Rows of one input.
pub(super) struct RejectedPiece {
    pub(super) rows: PieceRows,
    pub(super) path_columns: Arc<PathColumns>,
}

/// The text of a piece, with what is known of its columns.
pub(super) enum PieceRows {
    Csv(CsvChunk, Arc<CsvSchema>),
    Json(JsonChunk, Arc<JsonSchema>),
}

/// The pieces of a file of rejected rows.
pub(super) struct RejectedPieces {
    rows: RejectedRows,
    name: PathBuf,
    reading: Reading,
    /// A row that begins the next piece.
    next: VecDeque<RejectedRow>,
    current: Option<Original>,
    /// Number of the next piece, from 1: no row is a header.
    number: u64,
}

/// The input that rows come from.
struct Original {
    file: Arc<str>,
    columns: Columns,
    path_columns: Arc<PathColumns>,
}

#[derive(Clone)]
enum Columns {
    Csv(Arc<CsvSchema>),
    /// Those of a piece are found out from its rows.
    Json(Arc<JsonReading>),
}

struct JsonReading {
    options: JsonOptions,
    required: Vec<String>,
}

impl RejectedPieces {
    pub(super) fn new(opened: Opened, reading: Reading) -> Self {
        let Opened { name, bytes, .. } = opened;
        let rows = RejectedRows::new(&name, bytes);
        RejectedPieces { rows, name, reading, next: VecDeque::new(), current: None, number: 1 }
    }

    fn next_row(&mut self) -> Result<Option<RejectedRow>> {
        self.next.pop_front().map(Ok).or_else(|| self.rows.next()).transpose()
    }

    fn piece(&mut self) -> Result<Option<RejectedPiece>> {
        let Some(first) = self.next_row()? else { return Ok(None) };
        if self.current.as_ref().is_none_or(|current| current.file != first.file) {
            self.current = Some(self.original(&first)?);
        }
        let Some(Original { file, columns, path_columns }) = &self.current else { return Ok(None) };
        let (file, columns, path_columns) =
            (Arc::clone(file), columns.clone(), Arc::clone(path_columns));
        let (line, mut lines) = (first.line, 0);
        let (mut text, mut alone) = (Vec::new(), false);
        let mut row = Some(first);
        while let Some(next) = row {
            let gap = next.line.checked_sub(line.saturating_add(lines));
            let follows = next.file == file && gap.is_some_and(|gap| gap <= MAX_GAP);
            let full = text.len() + next.raw.len() > CHUNK_BYTES;
            let joins = columns.joins(&next.raw);
            if !text.is_empty() && (alone || !joins || !follows || full) {
                self.next.push_front(next);
                break;
            }
            let gap = gap.filter(|_| !text.is_empty()).unwrap_or(0);
            text.extend(std::iter::repeat_n(b'\n', usize::try_from(gap).unwrap_or(0)));
            text.extend_from_slice(&next.raw);
            lines += gap + memchr::memchr_iter(b'\n', &next.raw).count() as u64;
            alone |= !joins;
            row = self.next_row()?;
        }
        self.number += 1;
        let rows = match columns {
            Columns::Csv(schema) => {
                let chunk = CsvChunk::new(text, self.number, line, schema.delimiter());
                PieceRows::Csv(chunk, schema)
            }
            Columns::Json(reading) => {
                let layout = if alone { Layout::Values } else { Layout::Lines };
                let chunk = JsonChunk { text, layout, number: self.number, line, offset: 0 };
                let schema = json::infer(Path::new(&*file), &reading.options, Some(&chunk))?;
                PieceRows::Json(chunk, Arc::new(schema.requiring(&reading.required)))
            }
        };
        Ok(Some(RejectedPiece { rows, path_columns }))
    }

    /// Finds out the columns of the input that a row comes from.
    fn original(&self, row: &RejectedRow) -> Result<Original> {
        let Reading { options, prior, required, encoding } = &self.reading;
        let path = Path::new(&*row.file);
        let input = || {
            let input = Input::path(path);
            encoding.map_or(Input::path(path), |encoding| input.encoded(encoding))
        };
        let path_columns = path_columns(
            &[input()],
            options.partition_columns,
            options.filename_column.as_deref(),
            &options.csv.schema,
            prior,
        )?;
        let path_columns = Arc::new(path_columns.into_iter().next().unwrap_or_default());
        let external: Vec<String> = path_columns.names().map(str::to_owned).collect();
        let required: Vec<String> =
            required.iter().filter(|name| !external.contains(name)).cloned().collect();
        let head = row.raw.get(..row.raw.len().min(8)).unwrap_or_default();
        let columns = if find_format(path, head)? == Format::Json {
            let mut json = JsonOptions::from(&options.csv);
            json.flatten = options.flatten;
            (json.prior, json.external_columns) = (prior.clone(), external);
            json.skip_bad_rows = options.on_error != OnError::Fail;
            Columns::Json(Arc::new(JsonReading { options: json, required }))
        } else {
            let mut csv = options.csv.clone();
            csv.prior.clone_from(prior);
            csv.external_columns.extend(external);
            csv.skip_bad_rows = true;
            let schema = self.csv_schema(path, input(), csv, row)?;
            let skip_bad_rows = options.on_error != OnError::Fail;
            let mut schema = schema.requiring(&required);
            schema.skip_bad_rows = skip_bad_rows;
            Columns::Csv(Arc::new(schema))
        };
        Ok(Original { file: Arc::clone(&row.file), columns, path_columns })
    }

    /// The columns of a CSV input: as they are named, or those of the input itself.
    fn csv_schema(
        &self,
        path: &Path,
        input: Input,
        mut csv: CsvOptions,
        row: &RejectedRow,
    ) -> Result<CsvSchema> {
        if csv.names.is_some() {
            let tab = path.extension().is_some_and(|end| end == "tsv" || end == "tab");
            let delimiter = csv.delimiter.unwrap_or(if tab { b'\t' } else { b',' });
            csv.header = Some(false);
            let chunk = CsvChunk::new(row.raw.clone(), 1, row.line, delimiter);
            return infer(path, &csv, Some(&chunk));
        }
        let original = || -> Result<CsvSchema> {
            let opened = input.open()?;
            csv.delimiter = csv.delimiter.or(CsvOptions::for_format(opened.format).delimiter);
            let mut chunks = CsvChunks::new(path, opened.bytes, &csv);
            infer(path, &csv, chunks.next().transpose()?.as_ref())
        };
        let needed = |error| {
            Error::InvalidInput(format!(
                "{}: rows of {} need the columns of that file: {error}; --names A,B,… says what \
                 they are, in order",
                self.name.display(),
                row.file
            ))
        };
        original().map_err(needed)
    }
}

impl Columns {
    /// Whether a row can stand in one text with others.
    fn joins(&self, raw: &[u8]) -> bool {
        match self {
            // Empty lines are rows of a single column.
            Columns::Csv(schema) => schema.columns.len() > 1 && is_one_row(schema, raw),
            Columns::Json(_) => memchr::memchr(b'\n', raw).is_some_and(|end| end + 1 == raw.len()),
        }
    }
}

impl Iterator for RejectedPieces {
    type Item = Result<RejectedPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        self.piece().transpose()
    }
}
