//! Infers names and types of an input's columns from its first chunk.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::chunks::CsvChunk;
use super::column::ColumnBuilder;
use super::faults::row_error;
use super::good_rows::splittable;
use super::guess::COMMA;
use super::header::{FirstRow, classify_first_row, column_names, header_names, note_guesses};
use super::options::CsvOptions;
use super::rules::{FieldRules, add_field};
use super::schema::{CsvColumn, CsvSchema};
use super::split::{Splitter, Tile, first_row};
use crate::error::{Error, Result};
use crate::ingest::infer::TypeCandidates;
use crate::ingest::sources::supported::no_such_column;
use crate::limits;
use crate::model::DataType;

/// Infers header, names and types. `first` is the first chunk, or `None` for an empty input.
pub fn infer(file: &Path, options: &CsvOptions, first: Option<&CsvChunk>) -> Result<CsvSchema> {
    options.check()?;
    let delimiter = first.map_or(options.delimiter.unwrap_or(COMMA), |chunk| chunk.delimiter);
    let mut schema = CsvSchema::new(file, options, delimiter);
    let row = match first {
        Some(chunk) => first_row(&chunk.text, delimiter, options.quote)
            .map_err(|fault| row_error(&schema, chunk, fault))?,
        None => None,
    };
    let (Some(chunk), Some((fields, end))) = (first, row) else {
        return empty_input(schema, options);
    };
    check_width(file, fields.len())?;
    let placeholder = CsvColumn { name: Arc::from(""), data_type: DataType::Null, fixed: false };
    schema.columns = vec![placeholder; fields.len()];
    let mut candidates = vec![TypeCandidates::default(); fields.len()];
    let (sample, from) = sample(&schema, chunk, end, options.infer_rows)?;
    for_tiles(&schema, &sample, from, options.infer_rows, |tile| {
        add_tile(tile, &schema.rules, &mut candidates)
    })?;
    let first = match options.header {
        Some(true) => FirstRow::Names,
        Some(false) => FirstRow::Data,
        None => classify_first_row(&chunk.text, &fields, &candidates),
    };
    schema.header = first != FirstRow::Data;
    if !schema.header {
        for (candidates, field) in candidates.iter_mut().zip(&fields) {
            add_field(&chunk.text, *field, &schema.rules, candidates);
        }
    }
    let header = schema.header.then(|| header_names(&schema, chunk, &fields)).transpose()?;
    note_guesses(
        &mut schema,
        options,
        chunk.delimiter_is_guessed,
        header.as_deref().filter(|_| first == FirstRow::LikelyNames),
    );
    let names = column_names(&schema, options, header)?;
    for ((column, name), candidates) in schema.columns.iter_mut().zip(names).zip(&candidates) {
        (column.name, column.data_type) = (Arc::from(name), candidates.data_type());
    }
    prefer_prior(&mut schema, options, chunk)?;
    fix_types(&mut schema, options)?;
    Ok(schema)
}

fn check_width(file: &Path, columns: usize) -> Result<()> {
    if columns > limits::MAX_COLUMNS {
        return Err(Error::LimitExceeded(format!(
            "{}: {columns} columns; a table has at most {}",
            file.display(),
            limits::MAX_COLUMNS
        )));
    }
    Ok(())
}

/// For an input without rows, the columns come from the options.
fn empty_input(mut schema: CsvSchema, options: &CsvOptions) -> Result<CsvSchema> {
    let from_schema = || options.schema.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let names = options.names.clone().unwrap_or_else(from_schema);
    if names.is_empty() {
        let file = schema.file.display();
        return Err(Error::InvalidInput(format!(
            "{file} is empty: there are no rows, and no header with column names; name them with \
             --names"
        )));
    }
    let column =
        |name: String| CsvColumn { name: Arc::from(name), data_type: DataType::Null, fixed: false };
    schema.columns = names.into_iter().map(column).collect();
    fix_types(&mut schema, options)?;
    Ok(schema)
}

/// The chunk to infer from and the start of its rows; without bad rows if these are left out.
fn sample<'a>(
    schema: &CsvSchema,
    chunk: &'a CsvChunk,
    from: usize,
    rows: usize,
) -> Result<(Cow<'a, CsvChunk>, usize)> {
    if schema.skip_bad_rows && for_tiles(schema, chunk, from, rows, |_| ()).is_err() {
        return Ok((Cow::Owned(splittable(schema, chunk, from)?), 0));
    }
    Ok((Cow::Borrowed(chunk), from))
}

/// Calls `f` with the first `rows` rows, rounded up to whole tiles.
fn for_tiles(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    from: usize,
    rows: usize,
    mut f: impl FnMut(Tile<'_>),
) -> Result<()> {
    let mut splitter =
        Splitter::new(&chunk.text, from, schema.columns.len(), schema.delimiter, schema.quote);
    let mut seen = 0;
    while seen < rows {
        match splitter.next_tile().map_err(|fault| row_error(schema, chunk, fault))? {
            Some(tile) => {
                seen += tile.rows();
                f(tile);
            }
            None => break,
        }
    }
    Ok(())
}

fn add_tile(tile: Tile<'_>, rules: &FieldRules, candidates: &mut [TypeCandidates]) {
    for (index, candidates) in candidates.iter_mut().enumerate() {
        for field in tile.column(index) {
            add_field(tile.text(), field, rules, candidates);
        }
    }
}

/// Uses the table's type if the whole sample parses as it, or if the rows that do not are left out.
fn prefer_prior(schema: &mut CsvSchema, options: &CsvOptions, chunk: &CsvChunk) -> Result<()> {
    let (sample, from) = sample(schema, chunk, schema.data_start(chunk)?, options.infer_rows)?;
    let priors: HashMap<&str, &DataType> =
        options.prior.iter().map(|(name, t)| (name.as_str(), t)).collect();
    for index in 0..schema.columns.len() {
        let Some(column) = schema.columns.get(index) else { break };
        let prior = priors.get(&*column.name).copied();
        let Some(prior) =
            prior.filter(|prior| **prior != DataType::Null && **prior != column.data_type)
        else {
            continue;
        };
        let mut trial = ColumnBuilder::new(prior, false);
        let mut fits = true;
        for_tiles(schema, &sample, from, options.infer_rows, |tile| {
            fits = fits && trial.push(tile, index, &schema.rules).is_ok();
        })?;
        let kept = fits || schema.skip_bad_rows && prior.join(&column.data_type).is_none();
        if kept && let Some(column) = schema.columns.get_mut(index) {
            column.data_type = prior.clone();
        }
    }
    Ok(())
}

/// Sets the types that the user has named.
fn fix_types(schema: &mut CsvSchema, options: &CsvOptions) -> Result<()> {
    for (name, data_type) in &options.schema {
        match schema.columns.iter_mut().find(|column| *column.name == **name) {
            Some(column) => (column.data_type, column.fixed) = (data_type.clone(), true),
            None if options.external_columns.contains(name) => {}
            None => return Err(no_such_column(&schema.file, name, schema.names())),
        }
    }
    Ok(())
}
