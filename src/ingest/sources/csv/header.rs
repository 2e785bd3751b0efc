//! Detects a header and names the columns.
//!
//! **Header.** Unless the options say otherwise, the first row is taken for names if all its fields
//! are text and if either some column has values of another type below, or all fields are present,
//! distinct and look like identifiers. Without a header, columns are called `column0`, `column1`,
//! …, as in DuckDB; an empty name in a header becomes one of these, and a repeated name gets `_1`,
//! `_2`, ….
//!
//! A header that is recognised by its looks alone is a guess that is reported ([`Guess`]), unless
//! its names are known: all of them from the table, or one of them from the requested types. So is
//! a first row that is taken for data and may be names: distinct texts above columns of text, or
//! distinct years above columns of something else. A word for null is no name.

use std::collections::HashSet;

use super::chunks::CsvChunk;
use super::guess::{COMMA, Guess};
use super::options::CsvOptions;
use super::rules::{FieldRules, unquoted};
use super::sample::{ColumnSample, Sampling, is_number, is_word};
use super::schema::CsvSchema;
use super::split::Field;
use crate::error::{Error, Result};
use crate::model::DataType;

/// What the first row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstRow {
    Data,
    Names,
    /// Data, although the row may be names.
    LikelyData,
    /// Names, judging by their looks alone.
    LikelyNames,
}

/// Records guesses about the delimiter and the first row, which has these `fields`.
pub(super) fn note_guesses(
    schema: &mut CsvSchema,
    options: &CsvOptions,
    delimiter_is_guessed: bool,
    first: FirstRow,
    fields: Option<&[String]>,
) {
    if delimiter_is_guessed && schema.delimiter != COMMA {
        schema.guesses.push(Guess::Delimiter(schema.delimiter));
    }
    let Some(fields) = fields else { return };
    let within =
        |known: &[(String, DataType)], name: &str| known.iter().any(|(known, _)| known == name);
    match first {
        FirstRow::LikelyNames if !fields.iter().any(|name| within(&options.schema, name)) => {
            schema.guesses.push(Guess::Header(fields.to_vec()));
        }
        FirstRow::LikelyData => schema.guesses.push(Guess::NoHeader(fields.to_vec())),
        FirstRow::Data if options.header.is_none() && has_no_names(options) => {
            schema.guesses.push(Guess::Unnamed(fields.len()));
        }
        _ => {}
    }
}

/// Whether nobody knows what columns are called.
fn has_no_names(options: &CsvOptions) -> bool {
    options.names.is_none() && options.prior.is_empty() && options.schema.is_empty()
}

/// Whether the first row has nothing but names of the table's columns, or all those whose types the
/// user has named.
pub(super) fn are_known(fields: Option<&[String]>, options: &CsvOptions) -> bool {
    let fields = fields.unwrap_or_default();
    let named = options.schema.iter().map(|(name, _)| name);
    let mut named = named.filter(|name| !options.external_columns.contains(name)).peekable();
    if options.names.is_none() && named.peek().is_some() && named.all(|name| fields.contains(name))
    {
        return true;
    }
    let known: HashSet<&str> = options.prior.iter().map(|(name, _)| name.as_str()).collect();
    let mut seen = HashSet::new();
    fields.iter().all(|name| known.contains(&**name) && seen.insert(&**name)) && !seen.is_empty()
}

pub(super) fn classify_first_row(
    text: &[u8],
    fields: &[Field],
    rules: &FieldRules,
    sampling: &Sampling,
    below: &[ColumnSample],
) -> FirstRow {
    let mut row = FirstFields::default();
    let mut scratch = Vec::new();
    for (field, below) in fields.iter().zip(below) {
        let name = unquoted(text, *field, rules, &mut scratch).bytes().trim_ascii();
        row.add(name, sampling, below);
    }
    let mut seen = HashSet::new();
    let raw = |field: &Field| text.get(field.start..field.start + field.len).unwrap_or_default();
    let are_distinct = fields.iter().all(|field| field.len > 0 && seen.insert(raw(field)));
    match row {
        FirstFields { values: 0, above_types: 1.., .. } => FirstRow::Names,
        FirstFields { values: 0, like_below: 0, others: 0, .. } if are_distinct => {
            FirstRow::LikelyNames
        }
        FirstFields { values: 0, like_below: 0, words: 0, rows_below: true, .. }
            if are_distinct =>
        {
            FirstRow::LikelyData
        }
        FirstFields { values, years, .. } if values == years && years > 0 && are_distinct => {
            FirstRow::LikelyData
        }
        _ => FirstRow::Data,
    }
}

/// What the fields of the first row look like; each count is of fields.
#[derive(Default)]
struct FirstFields {
    /// Numbers, and dates in plain layouts.
    values: usize,
    /// Values in the layout of their column, which may be names above another column.
    like_below: usize,
    /// Years above a column of something else.
    years: usize,
    /// Texts that do not look like identifiers.
    others: usize,
    /// Words for null.
    words: usize,
    /// Texts above columns that are not text.
    above_types: usize,
    rows_below: bool,
}

impl FirstFields {
    fn add(&mut self, name: &[u8], sampling: &Sampling, below: &ColumnSample) {
        let column = below.decide(None);
        self.rows_below |= column.data_type != DataType::Null;
        if name.is_empty() {
            self.others += 1;
            return;
        }
        let mut alone = ColumnSample::default();
        alone.add(name.into(), true, sampling);
        let plus_above_number = name.starts_with(b"+") && is_number(&column.data_type);
        // Dates whose order is in doubt are dates all the same, above others and as types.
        let is_date_too = column.doubt.is_some() && alone.decide(None).doubt.is_some();
        if column.layout.value(name).is_some()
            || plus_above_number
            || is_date_too
            || below.has_code(name)
        {
            self.like_below += 1;
            return;
        }
        if alone.is_no_name() {
            self.values += 1;
            let is_year = alone.has_only_years() && !below.has_only_years();
            self.years += usize::from(is_year && column.data_type != DataType::Null);
            return;
        }
        let is_text = matches!(column.data_type, DataType::Utf8 | DataType::Null);
        let (is_word, is_typed) = (is_word(name), !is_text || column.doubt.is_some());
        self.words += usize::from(is_word);
        self.others += usize::from(is_word || !is_identifier(name));
        self.above_types += usize::from(is_typed && !is_word);
    }
}

fn is_identifier(name: &[u8]) -> bool {
    let starts = name.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    starts
        && name.len() <= 64
        && name.iter().all(|b| b.is_ascii_alphanumeric() || b"_ -./".contains(b))
}

pub(super) fn header_names(
    schema: &CsvSchema,
    chunk: &CsvChunk,
    fields: &[Field],
) -> Result<Vec<String>> {
    let mut scratch = Vec::new();
    let mut names = Vec::with_capacity(fields.len());
    for (i, field) in fields.iter().enumerate() {
        let value = unquoted(&chunk.text, *field, &schema.rules, &mut scratch);
        let name = std::str::from_utf8(value.bytes()).map_err(|_| {
            let file = schema.file.display();
            Error::InvalidInput(format!(
                "{file}: the name of column {} in the header is not UTF-8; name what the file is, \
                 for example --encoding latin1",
                i + 1
            ))
        })?;
        names.push(name.trim().to_owned());
    }
    Ok(names)
}

/// Names from the options, the header or the position, made unique.
pub(super) fn column_names(
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
            "{file}: {given} names given for {count} columns; is the delimiter {:?} right \
             (--delimiter)?",
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
