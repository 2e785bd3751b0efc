//! Infers names and types of an input's columns from its first chunk.

use std::path::Path;
use std::sync::Arc;

use super::chunks::CsvChunk;
use super::decide::{decide_columns, fix_types};
use super::faults::row_error;
use super::first_rows::{for_tiles, sample};
use super::guess::COMMA;
use super::header::{
    FirstRow, are_known, classify_first_row, column_names, header_names, note_guesses,
};
use super::options::CsvOptions;
use super::rules::{FieldRules, add_field};
use super::sample::{ColumnSample, Sampling};
use super::schema::{CsvColumn, CsvSchema};
use super::split::{Tile, first_row};
use crate::error::{Error, Result};
use crate::limits;

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
    schema.columns = vec![CsvColumn::named(""); fields.len()];
    let sampling = Sampling::new(options);
    let mut samples = vec![ColumnSample::default(); fields.len()];
    let (sample, from) = sample(&schema, chunk, end, options.infer_rows)?;
    for_tiles(&schema, &sample, from, options.infer_rows, |tile| {
        add_tile(tile, &schema.rules, &sampling, &mut samples)
    })?;
    // A row that is data need not be UTF-8.
    let names = header_names(&schema, chunk, &fields);
    let known = names.as_deref().ok();
    let first = match options.header {
        Some(true) => FirstRow::Names,
        Some(false) => FirstRow::Data,
        None if are_known(known, options) => FirstRow::Names,
        None => classify_first_row(&chunk.text, &fields, &schema.rules, &sampling, &samples),
    };
    schema.guesses.extend(chunk.guesses.iter().cloned());
    note_guesses(&mut schema, options, chunk.delimiter_is_guessed, first, known);
    schema.header = matches!(first, FirstRow::Names | FirstRow::LikelyNames);
    let header = if schema.header { Some(names?) } else { None };
    if !schema.header {
        for (sample, field) in samples.iter_mut().zip(&fields) {
            add_field(&chunk.text, *field, &schema.rules, &sampling, sample);
        }
    }
    let names = column_names(&schema, options, header)?;
    for (column, name) in schema.columns.iter_mut().zip(names) {
        column.name = Arc::from(name);
    }
    decide_columns(&mut schema, options, chunk, &samples)?;
    Ok(schema)
}

/// A schema with the names of another one, and the types of rows further down in its input.
pub(crate) fn infer_types(
    mut schema: CsvSchema,
    options: &CsvOptions,
    chunk: &CsvChunk,
) -> Result<CsvSchema> {
    let sampling = Sampling::new(options);
    let mut samples = vec![ColumnSample::default(); schema.columns.len()];
    let (sample, from) = sample(&schema, chunk, schema.data_start(chunk)?, options.infer_rows)?;
    for_tiles(&schema, &sample, from, options.infer_rows, |tile| {
        add_tile(tile, &schema.rules, &sampling, &mut samples)
    })?;
    // The rows before these may have told the day from the month.
    let prior_orders = schema.date_orders().map(|(name, order)| (name.to_owned(), order));
    let prior_orders = options.prior_orders.iter().cloned().chain(prior_orders).collect();
    decide_columns(&mut schema, &CsvOptions { prior_orders, ..options.clone() }, chunk, &samples)?;
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
    let known = match options.schema.is_empty() {
        true => &options.prior,
        false => &options.schema,
    };
    let are_here = known.iter().filter(|(name, _)| !options.external_columns.contains(name));
    let from_types = || are_here.map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let names = options.names.clone().unwrap_or_else(from_types);
    if names.is_empty() {
        let file = schema.file.display();
        return Err(Error::InvalidInput(format!(
            "{file} is empty: there are no rows, and no header with column names; name them with \
             --names"
        )));
    }
    schema.columns = names.iter().map(|name| CsvColumn::named(name)).collect();
    for column in &mut schema.columns {
        if let Some((_, prior)) = options.prior.iter().find(|(name, _)| **name == *column.name) {
            column.data_type = prior.clone();
        }
    }
    fix_types(&mut schema, options)?;
    Ok(schema)
}

fn add_tile(tile: Tile<'_>, rules: &FieldRules, sampling: &Sampling, samples: &mut [ColumnSample]) {
    for (index, sample) in samples.iter_mut().enumerate() {
        for field in tile.column(index) {
            add_field(tile.text(), field, rules, sampling, sample);
        }
    }
}
