//! Detects a header and names the columns.
//!
//! **Header.** Unless the options say otherwise, the first row is taken for names if all its fields
//! are text and if either some column has values of another type below, or all fields are present,
//! distinct and look like identifiers. Without a header, columns are called `column0`, `column1`,
//! …, as in DuckDB; an empty name in a header becomes one of these, and a repeated name gets `_1`,
//! `_2`, ….
//!
//! A header that is recognised by its looks alone is a guess that is reported ([`Guess`]), unless
//! its names are known: all of them from the table, or one of them from the requested types.

use std::collections::HashSet;

use super::chunks::CsvChunk;
use super::guess::{COMMA, Guess};
use super::options::CsvOptions;
use super::rules::unquoted;
use super::schema::CsvSchema;
use super::split::Field;
use crate::error::{Error, Result};
use crate::ingest::infer::{TypeCandidates, type_of};
use crate::model::DataType;

/// What the first row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstRow {
    Data,
    Names,
    /// Names, judging by their looks alone.
    LikelyNames,
}

/// Records guesses; `perhaps` are names that may be data.
pub(super) fn note_guesses(
    schema: &mut CsvSchema,
    options: &CsvOptions,
    delimiter_is_guessed: bool,
    perhaps: Option<&[String]>,
) {
    if delimiter_is_guessed && schema.delimiter != COMMA {
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

pub(super) fn classify_first_row(
    text: &[u8],
    fields: &[Field],
    below: &[TypeCandidates],
) -> FirstRow {
    let names =
        fields.iter().map(|f| text.get(f.start..f.start + f.len).unwrap_or_default().trim_ascii());
    let names: Vec<&[u8]> = names.collect();
    let is_text = |name: &[u8]| name.is_empty() || type_of(name.into()) == DataType::Utf8;
    if !names.iter().all(|name| is_text(name)) {
        return FirstRow::Data;
    }
    let typed = |candidates: &TypeCandidates| {
        !matches!(candidates.data_type(), DataType::Utf8 | DataType::Null)
    };
    if names.iter().zip(below).any(|(name, candidates)| !name.is_empty() && typed(candidates)) {
        return FirstRow::Names;
    }
    let mut seen = HashSet::new();
    let look_like_names = names.iter().all(|name| is_identifier(name) && seen.insert(*name));
    if look_like_names { FirstRow::LikelyNames } else { FirstRow::Data }
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
