//! Parses one chunk of text into one Arrow batch.
//!
//! Rows are split tile by tile, and in each tile the columns are parsed one after the other, so
//! that the work on a column is one tight loop. A column with a value that is not of its type is
//! left to a second pass over the chunk, which finds the wider type; that is rare, and costs
//! nothing otherwise.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};

use super::chunks::CsvChunk;
use super::column::ColumnBuilder;
use super::faults::{find_field, row_error, utf8_error, value_error, widening_error};
use super::rules::{add_field, unquoted};
use super::sample::{ColumnSample, Sampling, type_of_value};
use super::schema::CsvSchema;
use super::split::{Field, Splitter, Tile, first_row};
use crate::error::{ArrowResult, Error, Result};
use crate::model::DataType;

/// The most bytes of a chunk: positions have 30 bits.
const MAX_CHUNK: usize = 1 << 30;

/// Parses all columns of a chunk.
pub fn parse_chunk(schema: &CsvSchema, chunk: &CsvChunk) -> Result<RecordBatch> {
    Ok(parse_all(schema, chunk)?.0)
}

/// [`parse_chunk`], and how many empty lines were left out.
pub(super) fn parse_all(schema: &CsvSchema, chunk: &CsvChunk) -> Result<(RecordBatch, u64)> {
    let all: Vec<usize> = (0..schema.columns.len()).collect();
    parse_and_count(schema, chunk, &all)
}

/// Parses the columns of a chunk at these positions, in this order.
pub(crate) fn parse_columns(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    positions: &[usize],
) -> Result<RecordBatch> {
    Ok(parse_and_count(schema, chunk, positions)?.0)
}

/// Guessed columns whose values in this chunk, where its rows can be split, are of another type.
#[cold]
pub(crate) fn misguessed(schema: &CsvSchema, chunk: &CsvChunk) -> Vec<Arc<str>> {
    if parse_columns(schema, chunk, &[]).is_err() {
        return Vec::new();
    }
    let guesses = schema.columns.iter().enumerate().filter(|(_, column)| column.is_guess());
    let is_wrong =
        |at: usize| matches!(parse_columns(schema, chunk, &[at]), Err(Error::InvalidInput(_)));
    guesses.filter(|(at, _)| is_wrong(*at)).map(|(_, column)| Arc::clone(&column.name)).collect()
}

/// [`parse_columns`], and how many empty lines were left out.
pub(super) fn parse_and_count(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    positions: &[usize],
) -> Result<(RecordBatch, u64)> {
    let chunk = &*chunk.with_blank_lines(schema.columns.len(), schema.header)?;
    if chunk.text.len() >= MAX_CHUNK {
        return Err(Error::LimitExceeded(format!("a chunk of CSV has {} bytes", chunk.text.len())));
    }
    if let Some(missing) = positions.iter().find(|p| **p >= schema.columns.len()) {
        return Err(Error::NotFound(format!("the input has no column {}", missing + 1)));
    }
    let from = schema.data_start(chunk)?;
    let mut parts: Vec<ColumnParse> =
        positions.iter().filter_map(|p| ColumnParse::new(schema, *p)).collect();
    let (rows, blank_lines) = for_tiles(schema, chunk, from, |tile| {
        parts.iter_mut().try_for_each(|part| part.push(schema, chunk, tile))
    })?;
    if parts.iter().any(|part| part.failed) {
        widen_failed(schema, chunk, from, &mut parts)?;
    }
    let mut fields = Vec::with_capacity(parts.len());
    let mut arrays = Vec::with_capacity(parts.len());
    for part in parts {
        let data_type = part.column.data_type().clone();
        let (name, array) = part.finish(schema, chunk, from)?;
        let field = ArrowField::new(name, array.data_type().clone(), true);
        fields.push(data_type.marked(field));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
            .or_invalid_with(schema.file.display())?;
    Ok((batch, chunk.blank_before + blank_lines))
}

impl CsvSchema {
    /// Whether a chunk has rows of data.
    pub(crate) fn has_rows(&self, chunk: &CsvChunk) -> Result<bool> {
        let rows = chunk.text.get(self.data_start(chunk)?..).unwrap_or_default();
        Ok(rows.iter().any(|byte| !matches!(byte, b'\n' | b'\r')))
    }

    /// Offset of the first data row of a chunk.
    pub(super) fn data_start(&self, chunk: &CsvChunk) -> Result<usize> {
        if !self.header || chunk.number > 0 {
            return Ok(0);
        }
        let first = first_row(&chunk.text, self.delimiter, self.quote);
        let row = first.map_err(|fault| row_error(self, chunk, fault))?;
        Ok(row.map_or(chunk.text.len(), |(_, end)| end))
    }
}

/// Calls `f` with each tile of the chunk; returns the number of rows, and of empty lines.
fn for_tiles(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    from: usize,
    mut f: impl FnMut(Tile<'_>) -> Result<()>,
) -> Result<(usize, u64)> {
    let mut splitter =
        Splitter::new(&chunk.text, from, schema.columns.len(), schema.delimiter, schema.quote);
    let mut rows = 0;
    while let Some(tile) = splitter.next_tile().map_err(|fault| row_error(schema, chunk, fault))? {
        rows += tile.rows();
        f(tile)?;
    }
    Ok((rows, splitter.blank_lines))
}

/// A column being parsed.
struct ColumnParse {
    position: usize,
    fixed: bool,
    column: ColumnBuilder,
    failed: bool,
    started: bool,
    /// The first value that needed a wider type, which earlier values may not fit, and the type
    /// before it.
    widened_by: Option<(Field, DataType)>,
}

impl ColumnParse {
    fn new(schema: &CsvSchema, position: usize) -> Option<Self> {
        let column = schema.columns.get(position)?;
        let (fixed, column) =
            (column.fixed, schema.builder(position, &column.data_type, column.fixed));
        let (failed, started, widened_by) = (false, false, None);
        Some(ColumnParse { position, fixed, column, failed, started, widened_by })
    }

    fn push(&mut self, schema: &CsvSchema, chunk: &CsvChunk, tile: Tile<'_>) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        if !self.started {
            self.started = true;
            self.column.reserve(expected_rows(chunk, tile, schema.columns.len()));
        }
        let rules = schema.rules(self.position, self.column.data_type());
        let Err(row) = self.column.push(tile, self.position, rules) else {
            return Ok(());
        };
        if !self.fixed {
            self.failed = true;
            return Ok(());
        }
        let field = tile.column(self.position).nth(row).unwrap_or(Field::NONE);
        let types = (self.column.data_type(), self.widened_by.as_ref());
        Err(misfit_error(schema, chunk, field, self.position, types))
    }

    fn finish(
        self,
        schema: &CsvSchema,
        chunk: &CsvChunk,
        from: usize,
    ) -> Result<(String, ArrayRef)> {
        let name = schema.columns.get(self.position).map_or("", |c| &*c.name).to_owned();
        let position = self.position;
        let array = self.column.finish().map_err(|row| {
            let field = find_field(schema, chunk, from, row, position).unwrap_or(Field::NONE);
            utf8_error(schema, chunk, field, position)
        })?;
        Ok((name, array))
    }
}

/// Estimates the rows of the chunk from the average length of those in its first tile, which may be
/// a single row.
fn expected_rows(chunk: &CsvChunk, tile: Tile<'_>, columns: usize) -> usize {
    let first = tile.column(0).next().map_or(0, |field| field.start);
    let end = tile
        .column(columns.saturating_sub(1))
        .last()
        .map_or(first, |field| field.start + field.len);
    // Plus one for the line feed.
    let row_bytes = end.saturating_sub(first) / tile.rows().max(1) + 1;
    let bytes = chunk.text.len() - first;
    let rows = bytes / row_bytes + tile.rows();
    // With a sixteenth to spare.
    rows + rows / 16
}

/// Finds a wider type for every failed column and parses it again.
fn widen_failed(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    from: usize,
    parts: &mut [ColumnParse],
) -> Result<()> {
    let mut wider: Vec<(usize, Wider)> = Vec::new();
    for (i, part) in parts.iter().enumerate().filter(|(_, part)| part.failed) {
        wider.push((i, Wider::new(part)));
    }
    for_tiles(schema, chunk, from, |tile| {
        wider.iter_mut().try_for_each(|(_, wider)| wider.add(schema, chunk, tile))
    })?;
    for (i, wider) in wider {
        if let Some(part) = parts.get_mut(i) {
            // Fixed from here on: a value that does not parse now is an error. Parsing stays
            // strict.
            let column = schema.builder(part.position, &wider.data_type(), false);
            *part = ColumnParse {
                position: part.position,
                fixed: true,
                column,
                failed: false,
                started: false,
                widened_by: wider.widened_by(),
            };
        }
    }
    let mut again: Vec<&mut ColumnParse> =
        parts.iter_mut().filter(|part| part.fixed && !part.started).collect();
    for_tiles(schema, chunk, from, |tile| {
        again.iter_mut().try_for_each(|part| part.push(schema, chunk, tile))
    })?;
    Ok(())
}

/// The search for a column's wider type.
enum Wider {
    /// The type was unknown: a sample of the values of this chunk.
    Any(usize, Box<ColumnSample>),
    /// A known type, to be widened along the lattice, and what [`ColumnParse::widened_by`] is.
    From(usize, DataType, Option<(Field, DataType)>),
}

impl Wider {
    fn new(part: &ColumnParse) -> Self {
        match part.column.data_type() {
            DataType::Null => Wider::Any(part.position, Box::default()),
            data_type => Wider::From(part.position, data_type.clone(), None),
        }
    }

    fn add(&mut self, schema: &CsvSchema, chunk: &CsvChunk, tile: Tile<'_>) -> Result<()> {
        match self {
            Wider::Any(position, sample) => {
                let sampling = Sampling::later(schema.numbers);
                for field in tile.column(*position) {
                    add_field(tile.text(), field, &schema.rules, &sampling, sample);
                }
                Ok(())
            }
            Wider::From(position, data_type, widened_by) => {
                widen_for_tile(schema, chunk, tile, *position, (data_type, widened_by))
            }
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Wider::Any(_, sample) => sample.decide(None).data_type,
            Wider::From(_, data_type, _) => data_type.clone(),
        }
    }

    fn widened_by(self) -> Option<(Field, DataType)> {
        match self {
            Wider::Any(..) => None,
            Wider::From(_, _, widened_by) => widened_by,
        }
    }
}

/// Widens the type as far as the tile's values need; a value that fits no wider type is an error.
fn widen_for_tile(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    tile: Tile<'_>,
    position: usize,
    (data_type, widened_by): (&mut DataType, &mut Option<(Field, DataType)>),
) -> Result<()> {
    // Rows that parse need no inference: the tile is tried as a whole, and again from the start
    // after each failure.
    let mut scratch = Vec::new();
    loop {
        let rules = schema.rules(position, data_type);
        let Err(row) = schema.builder(position, data_type, false).push(tile, position, rules)
        else {
            return Ok(());
        };
        let field = tile.column(position).nth(row).unwrap_or(Field::NONE);
        let value = unquoted(tile.text(), field, rules, &mut scratch);
        let found = type_of_value(value, schema.layout(position));
        match data_type.join(&found) {
            Some(wider) if wider != *data_type => {
                if widened_by.is_none() && data_type.widens_exactly_if(&wider) {
                    *widened_by = Some((field, data_type.clone()));
                }
                *data_type = wider;
            }
            _ => {
                let types = (&*data_type, widened_by.as_ref());
                return Err(misfit_error(schema, chunk, field, position, types));
            }
        }
    }
}

/// The error for a field that is not of its column's type. If a later value has made that type of a
/// narrower one, it is the later value that conflicts with the others.
#[cold]
fn misfit_error(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    field: Field,
    position: usize,
    (data_type, widened_by): (&DataType, Option<&(Field, DataType)>),
) -> Error {
    match widened_by {
        Some((later, narrow)) if later.start > field.start => {
            widening_error(schema, chunk, *later, position, (narrow, data_type), field)
        }
        _ => value_error(schema, chunk, field, position, data_type),
    }
}
