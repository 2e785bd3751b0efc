//! Reads a file of rejected rows back.

use std::path::Path;
use std::sync::Arc;

use super::chunks::{CsvChunk, CsvChunks};
use super::faults::row_error;
use super::options::CsvOptions;
use super::rows::Rows;
use super::rules::{FieldRules, unquoted};
use super::schema::{CsvColumn, CsvSchema};
use super::split::{Fault, Field, Splitter, Tile};
use crate::error::{Error, Result};
use crate::ingest::sources::stream::Bytes;
use crate::model::DataType;

/// The columns of the file.
const COLUMNS: [&str; 5] = ["file", "line", "column", "reason", "raw"];

/// A row of the file.
#[derive(Debug)]
pub(crate) struct RejectedRow {
    /// The input that the row comes from.
    pub(crate) file: Arc<str>,
    /// Its line there.
    pub(crate) line: u64,
    /// The row, with a line feed at its end.
    pub(crate) raw: Vec<u8>,
}

/// The rows of the file, in order.
pub(crate) struct RejectedRows {
    chunks: CsvChunks,
    schema: CsvSchema,
    /// Rows of the current chunk that are still to come.
    rows: std::vec::IntoIter<RejectedRow>,
    /// The file of the row before.
    file: Arc<str>,
}

impl RejectedRows {
    /// Reads nothing yet.
    pub(crate) fn new(name: &Path, bytes: Bytes) -> Self {
        let options = CsvOptions::default();
        let mut schema = CsvSchema::new(name, &options, b',');
        let column = |name: &str| CsvColumn {
            data_type: DataType::Utf8,
            fixed: true,
            ..CsvColumn::named(name)
        };
        schema.columns = COLUMNS.iter().map(|name| column(name)).collect();
        let chunks = CsvChunks::new(name, bytes, &options);
        RejectedRows { chunks, schema, rows: Vec::new().into_iter(), file: Arc::from("") }
    }

    fn read(&mut self, chunk: &CsvChunk) -> Result<Vec<RejectedRow>> {
        self.schema.delimiter = chunk.delimiter;
        let mut splitter =
            Splitter::new(&chunk.text, 0, COLUMNS.len(), chunk.delimiter, self.schema.quote);
        let mut rows = Vec::new();
        loop {
            let tile = match splitter.next_tile() {
                Ok(Some(tile)) => tile,
                Ok(None) => return Ok(rows),
                Err(Fault::Fields { .. }) if chunk.number == 0 && rows.is_empty() => {
                    return Err(self.no_rejects());
                }
                Err(fault) => return Err(row_error(&self.schema, chunk, fault)),
            };
            for row in 0..tile.rows() {
                let fields = (0..COLUMNS.len()).map(|column| tile.field(row, column));
                let fields: Vec<Field> = fields.collect();
                let is_header = chunk.number == 0 && rows.is_empty() && row == 0;
                let [file, line, _, _, raw] = fields.as_slice() else { continue };
                let texts = [*file, *line, *raw].map(|field| text(tile, field, &self.schema.rules));
                let [file, line, raw] = texts;
                if is_header {
                    let names = fields.iter().map(|field| text(tile, *field, &self.schema.rules));
                    if !names.eq(COLUMNS.iter().map(|name| name.as_bytes().to_vec())) {
                        return Err(self.no_rejects());
                    }
                    continue;
                }
                rows.push(self.row(&file, &line, raw).ok_or_else(|| {
                    let at = tile.row_start(row);
                    Error::InvalidInput(format!(
                        "{}: line {}: a file and the number of a line are expected, as in the row \
                         that was rejected",
                        self.chunks.name().display(),
                        chunk.line_at(at)
                    ))
                })?);
            }
        }
    }

    fn row(&mut self, file: &[u8], line: &[u8], mut raw: Vec<u8>) -> Option<RejectedRow> {
        if self.file.as_bytes() != file {
            self.file = Arc::from(std::str::from_utf8(file).ok()?);
        }
        let line = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
        raw.push(b'\n');
        Some(RejectedRow { file: Arc::clone(&self.file), line, raw })
    }

    #[cold]
    fn no_rejects(&self) -> Error {
        Error::InvalidInput(format!(
            "{} is no file of rejected rows: its first line is not {}",
            self.chunks.name().display(),
            COLUMNS.join(",")
        ))
    }
}

impl Iterator for RejectedRows {
    type Item = Result<RejectedRow>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let read = self.chunks.next()?.and_then(|chunk| self.read(&chunk));
            match read {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn text(tile: Tile<'_>, field: Field, rules: &FieldRules) -> Vec<u8> {
    unquoted(tile.text(), field, rules, &mut Vec::new()).bytes().to_vec()
}

/// Whether a text with a line feed at its end is one row by itself, so that it cannot become part
/// of the row after it.
pub(crate) fn is_one_row(schema: &CsvSchema, text: &[u8]) -> bool {
    let mut rows = Rows::new(text, 0, schema.columns.len(), schema.delimiter, schema.quote);
    rows.next().is_some_and(|row| {
        row.end == text.len() && matches!(row.fault, None | Some(Fault::Fields { .. }))
    })
}
