//! Names and types of an input's columns, from its first chunk.
//!
//! **Header.** Unless told, the first row is taken for names if its fields are nothing but text,
//! and if either some column has such a text above values of another type, or all fields are there,
//! distinct and look like identifiers. Without a header columns are called `column0`, `column1`, …,
//! as DuckDB does; an empty name in a header becomes one of these, and a repeated one gets `_1`,
//! `_2`, ….
//!
//! A header found by the looks of its fields alone is a guess that the user hears of ([`Guess`]),
//! unless its names are known: all from the table, or one from the types asked for.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CsvOptions;
use super::chunks::CsvChunk;
use super::column::{Column, Rules, unquoted};
use super::faults::row_error;
use super::good_rows::splittable;
use super::guess::{COMMA, Guess};
use super::split::{Field, Splitter, Tile, first_row};
use crate::error::{Error, Result};
use crate::ingest::infer::{Kinds, type_of};
use crate::limits;
use crate::model::{DataType, Schema};

/// A column of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumn {
    /// Name, from the header, the options or the position.
    pub name: Arc<str>,
    /// Type to start with; a chunk may come out wider unless it is fixed.
    pub data_type: DataType,
    /// Whether the user has named the type.
    pub fixed: bool,
}

/// All that is needed to parse chunks of one input.
#[derive(Clone, Debug)]
pub struct CsvSchema {
    /// The columns, in the order of the fields.
    pub columns: Vec<CsvColumn>,
    /// Whether the first row of chunk 0 holds names.
    pub header: bool,
    /// What was taken for granted without proof.
    pub guesses: Vec<Guess>,
    pub(super) file: PathBuf,
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) rules: Rules,
    /// Whether bad rows are left out, here and by [`super::parse_good_rows`].
    pub skip_bad_rows: bool,
}

impl CsvSchema {
    fn new(file: &Path, options: &CsvOptions, delimiter: u8) -> Self {
        let nulls = options
            .nulls
            .iter()
            .filter(|n| !n.is_empty())
            .map(|n| n.clone().into_bytes())
            .collect();
        CsvSchema {
            columns: Vec::new(),
            header: false,
            guesses: Vec::new(),
            file: file.to_path_buf(),
            delimiter,
            quote: options.quote,
            rules: Rules { quote: options.quote, nulls, empty_is_null: options.empty_is_null },
            skip_bad_rows: options.skip_bad_rows,
        }
    }

    /// Where the data rows of a chunk start.
    pub(super) fn data_start(&self, chunk: &CsvChunk) -> Result<usize> {
        if !self.header || chunk.number > 0 {
            return Ok(0);
        }
        let first = first_row(&chunk.text, self.delimiter, self.quote);
        let row = first.map_err(|fault| row_error(self, chunk, fault))?;
        Ok(row.map_or(chunk.text.len(), |(_, end)| end))
    }

    /// The same with the types that a table has as the ones to start with, where the user has named
    /// none.
    #[must_use]
    pub fn starting_from(&self, table: &Schema) -> Self {
        let types: HashMap<&str, &DataType> =
            table.columns().iter().map(|c| (&*c.name, &c.data_type)).collect();
        let mut schema = self.clone();
        for column in schema.columns.iter_mut().filter(|column| !column.fixed) {
            if let Some(known) = types.get(&*column.name).filter(|known| ***known != DataType::Null)
            {
                column.data_type = (*known).clone();
            }
        }
        schema
    }

    /// The names of the columns, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| &*c.name)
    }
}

/// What the first row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstRow {
    Data,
    Names,
    /// Nothing but its looks says so.
    NamesPerhaps,
}

/// Finds header, names and types. `first` is the first chunk, or `None` if the input has no bytes.
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
    let mut kinds = vec![Kinds::default(); fields.len()];
    let (sample, from) = sample(&schema, chunk, end, options.infer_rows)?;
    for_tiles(&schema, &sample, from, options.infer_rows, |tile| {
        add_tile(tile, &schema.rules, &mut kinds)
    })?;
    let first = match options.header {
        Some(true) => FirstRow::Names,
        Some(false) => FirstRow::Data,
        None => look_at_first_row(&chunk.text, &fields, &kinds),
    };
    schema.header = first != FirstRow::Data;
    if !schema.header {
        for (kinds, field) in kinds.iter_mut().zip(&fields) {
            add_field(&chunk.text, *field, &schema.rules, kinds);
        }
    }
    let header = schema.header.then(|| header_names(&schema, chunk, &fields)).transpose()?;
    note_guesses(
        &mut schema,
        options,
        header.as_deref().filter(|_| first == FirstRow::NamesPerhaps),
    );
    let names = column_names(&schema, options, header)?;
    for ((column, name), kinds) in schema.columns.iter_mut().zip(names).zip(&kinds) {
        (column.name, column.data_type) = (Arc::from(name), kinds.data_type());
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

/// Notes what the user has not said and nothing has proved; `perhaps` are names that may be data.
fn note_guesses(schema: &mut CsvSchema, options: &CsvOptions, perhaps: Option<&[String]>) {
    if options.delimiter.is_none() && schema.delimiter != COMMA {
        schema.guesses.push(Guess::Delimiter(schema.delimiter));
    }
    let Some(names) = perhaps else { return };
    let within =
        |known: &[(String, DataType)], name: &str| known.iter().any(|(known, _)| known == name);
    let in_table = names.iter().all(|name| within(&options.prior, name));
    if !in_table && !names.iter().any(|name| within(&options.schema, name)) {
        schema.guesses.push(Guess::Header(names.to_vec()));
    }
}

/// An input without rows has the columns that the options name.
fn empty_input(mut schema: CsvSchema, options: &CsvOptions) -> Result<CsvSchema> {
    let from_schema = || options.schema.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let names = options.names.clone().unwrap_or_else(from_schema);
    if names.is_empty() {
        let file = schema.file.display();
        return Err(Error::InvalidInput(format!(
            "{file} is empty: there are no rows, and no header to tell the columns; name them with --names"
        )));
    }
    let column =
        |name: String| CsvColumn { name: Arc::from(name), data_type: DataType::Null, fixed: false };
    schema.columns = names.into_iter().map(column).collect();
    fix_types(&mut schema, options)?;
    Ok(schema)
}

/// The rows to infer from, and where they start: without bad ones, if these are left out.
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

/// Hands the first `rows` rows (to the end of their tile) to `f`.
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

fn add_tile(tile: Tile<'_>, rules: &Rules, kinds: &mut [Kinds]) {
    for (index, kinds) in kinds.iter_mut().enumerate() {
        for field in tile.column(index) {
            add_field(tile.text(), field, rules, kinds);
        }
    }
}

/// Takes a field into its column's kinds, if it is a value.
#[inline]
pub(super) fn add_field(text: &[u8], field: Field, rules: &Rules, kinds: &mut Kinds) {
    if field.len == 0 {
        if field.quoted || !rules.empty_is_null {
            kinds.add_quoted_empty();
        }
        return;
    }
    let mut scratch = Vec::new();
    let value = unquoted(text, field, rules, &mut scratch);
    if field.quoted || !rules.is_null(value.bytes()) {
        kinds.add(value);
    }
}

fn look_at_first_row(text: &[u8], fields: &[Field], below: &[Kinds]) -> FirstRow {
    let names =
        fields.iter().map(|f| text.get(f.start..f.start + f.len).unwrap_or_default().trim_ascii());
    let names: Vec<&[u8]> = names.collect();
    let is_text = |name: &[u8]| name.is_empty() || type_of(name.into()) == DataType::Utf8;
    if !names.iter().all(|name| is_text(name)) {
        return FirstRow::Data;
    }
    let typed = |kinds: &Kinds| !matches!(kinds.data_type(), DataType::Utf8 | DataType::Null);
    if names.iter().zip(below).any(|(name, kinds)| !name.is_empty() && typed(kinds)) {
        return FirstRow::Names;
    }
    let mut seen = HashSet::new();
    let look_so = names.iter().all(|name| is_identifier(name) && seen.insert(*name));
    if look_so { FirstRow::NamesPerhaps } else { FirstRow::Data }
}

fn is_identifier(name: &[u8]) -> bool {
    let starts = name.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    starts
        && name.len() <= 64
        && name.iter().all(|b| b.is_ascii_alphanumeric() || b"_ -./".contains(b))
}

fn header_names(schema: &CsvSchema, chunk: &CsvChunk, fields: &[Field]) -> Result<Vec<String>> {
    let mut scratch = Vec::new();
    let mut names = Vec::with_capacity(fields.len());
    for (i, field) in fields.iter().enumerate() {
        let value = unquoted(&chunk.text, *field, &schema.rules, &mut scratch);
        let name = std::str::from_utf8(value.bytes()).map_err(|_| {
            let file = schema.file.display();
            Error::InvalidInput(format!(
                "{file}: the name of column {} in the header is not UTF-8; name what the file is, for example \
                 --encoding latin1",
                i + 1
            ))
        })?;
        names.push(name.trim().to_owned());
    }
    Ok(names)
}

/// Names by the options, the header or the position, made unique.
fn column_names(
    schema: &CsvSchema,
    options: &CsvOptions,
    header: Option<Vec<String>>,
) -> Result<Vec<String>> {
    let count = schema.columns.len();
    if let Some(names) = &options.names {
        if names.len() == count {
            return Ok(names.clone());
        }
        let (file, given) = (schema.file.display(), names.len());
        return Err(Error::InvalidInput(format!(
            "{file}: {given} names given for {count} columns; is the delimiter {:?} right (--delimiter)?",
            char::from(schema.delimiter)
        )));
    }
    if header.is_none() && options.schema.len() == count {
        return Ok(options.schema.iter().map(|(name, _)| name.clone()).collect());
    }
    let names = header.unwrap_or_else(|| vec![String::new(); count]);
    let mut taken: HashSet<String> =
        names.iter().filter(|name| !name.is_empty()).cloned().collect();
    let mut used = HashSet::new();
    let mut unique = Vec::with_capacity(count);
    for (i, name) in names.into_iter().enumerate() {
        let wanted = if name.is_empty() { format!("column{i}") } else { name };
        let mut chosen = wanted.clone();
        let mut n = 0;
        while used.contains(&chosen) || (chosen != wanted && taken.contains(&chosen)) {
            n += 1;
            chosen = format!("{wanted}_{n}");
        }
        taken.insert(chosen.clone());
        used.insert(chosen.clone());
        unique.push(chosen);
    }
    Ok(unique)
}

/// Takes the table's type where all of the sample parses as it, or where what does not is to be
/// left out.
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
        let mut trial = Column::new(prior, false);
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
            None if options.elsewhere.contains(name) => {}
            None => {
                let names: Vec<&str> = schema.names().take(20).collect();
                return Err(Error::InvalidInput(format!(
                    "{}: no column is called '{name}' (--schema); its columns are {}{}",
                    schema.file.display(),
                    names.join(", "),
                    if schema.columns.len() > 20 { ", …" } else { "" },
                )));
            }
        }
    }
    Ok(())
}
