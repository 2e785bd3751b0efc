//! Names and types of an input's columns, from its first chunk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::JsonOptions;
use super::chunks::JsonChunk;
use super::fields::{Entry, Table, read_table};
use super::parse::{accepted, rules};
use super::value::Kind;
use crate::error::{Error, Result};
use crate::ingest::infer::Kinds;
use crate::ingest::sources::csv::column::Column;
use crate::ingest::text::Text;
use crate::model::DataType;

/// A column of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonColumn {
    /// The key.
    pub name: Arc<str>,
    /// Type to start with; a chunk may come out wider unless it is fixed.
    pub data_type: DataType,
    /// Whether the user has named the type.
    pub fixed: bool,
}

/// All that is needed to parse chunks of one input.
#[derive(Clone, Debug)]
pub struct JsonSchema {
    /// The columns that are known before the first row is read; a chunk may have more.
    pub columns: Vec<JsonColumn>,
    pub(super) file: PathBuf,
    /// Types of the table's columns.
    prior: HashMap<String, DataType>,
}

impl JsonSchema {
    /// The input that it is of.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where a column is whose type is not known yet: the type that its values have in common, or
    /// the table's where all of them fit.
    pub(super) fn type_of(&self, name: &str, text: &[u8], entries: &[Entry]) -> DataType {
        let mut kinds = Kinds::default();
        entries.iter().for_each(|entry| add(text, *entry, &mut kinds));
        let found = kinds.data_type();
        match self.prior.get(name) {
            Some(prior)
                if *prior != DataType::Null && *prior != found && fits(prior, text, entries) =>
            {
                prior.clone()
            }
            _ => found,
        }
    }

    /// Whether the table has a column of floats of this name, which takes the texts of
    /// [`is_float_text`].
    pub(super) fn is_float(&self, name: &str) -> bool {
        self.prior.get(name).is_some_and(is_float)
    }
}

/// Takes a value into its column's kinds.
pub(super) fn add(text: &[u8], entry: Entry, kinds: &mut Kinds) {
    let field = entry.field();
    let value = Text::new(text.get(field.start..).unwrap_or_default(), field.len);
    match entry.kind() {
        Kind::Null => {}
        Kind::Bool | Kind::Number => kinds.add(value),
        Kind::String => kinds.add_text(value),
        Kind::Nested => kinds.add_other(),
    }
}

pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Whether an entry is one of the texts by which an export writes the floats for which JSON has no
/// numbers.
pub(super) fn is_float_text(text: &[u8], entry: Entry) -> bool {
    let field = entry.field();
    let value = text.get(field.start..field.start.saturating_add(field.len)).unwrap_or_default();
    entry.kind() == Kind::String && matches!(value, b"NaN" | b"Infinity" | b"-Infinity")
}

/// Whether a column that the table has takes all entries.
fn fits(data_type: &DataType, text: &[u8], entries: &[Entry]) -> bool {
    let kinds = accepted(data_type, false);
    let fields = entries.iter().map(Entry::field);
    let is_float = is_float(data_type);
    let takes =
        |entry: &Entry| kinds.contains(&entry.kind()) || is_float && is_float_text(text, *entry);
    entries.iter().all(takes)
        && Column::new(data_type, false).push_fields(text, fields, &rules()).is_ok()
}

/// Finds names and types. `first` is the first chunk, or `None` if the input has no values.
pub fn infer(file: &Path, options: &JsonOptions, first: Option<&JsonChunk>) -> Result<JsonSchema> {
    let fixed = |(name, data_type): &(String, DataType)| JsonColumn {
        name: Arc::from(name.as_str()),
        data_type: data_type.clone(),
        fixed: true,
    };
    let mut schema = JsonSchema {
        columns: Vec::new(),
        file: file.to_path_buf(),
        prior: options.prior.iter().cloned().collect(),
    };
    if let Some(chunk) = first {
        let Table { text, columns, bad, .. } =
            read_table(&schema, chunk, options.infer_rows.max(1))?;
        for (name, entries) in columns {
            let column = options.schema.iter().find(|(known, _)| **known == *name).map(fixed);
            schema.columns.push(column.unwrap_or_else(|| {
                let data_type = schema.type_of(&name, &text, &entries);
                JsonColumn { name, data_type, fixed: false }
            }));
        }
        if let Some(bad) = bad.first().filter(|_| schema.columns.is_empty()) {
            return Err(bad.error(file));
        }
    }
    // Keys that the user knows of may come late.
    for named in &options.schema {
        let elsewhere = options.elsewhere.contains(&named.0);
        if !elsewhere && schema.columns.iter().all(|column| *column.name != *named.0) {
            schema.columns.push(fixed(named));
        }
    }
    if schema.columns.is_empty() {
        let what =
            if first.is_some() { "the first rows have no keys" } else { "there are no rows" };
        return Err(Error::InvalidInput(format!(
            "{}: {what}, so nothing tells the columns; name them with --schema NAME:TYPE,…",
            file.display()
        )));
    }
    Ok(schema)
}
