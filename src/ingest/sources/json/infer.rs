//! Infers names and types of an input's columns from its first chunk.

use std::path::Path;
use std::sync::Arc;

use super::chunks::JsonChunk;
use super::fields::{Table, read_table};
use super::options::JsonOptions;
use super::schema::{JsonColumn, JsonSchema};
use crate::error::{Error, Result};
use crate::model::DataType;

/// Infers names and types. `first` is the first chunk, or `None` if the input has no values.
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
        skip_bad_rows: options.skip_bad_rows,
        required: Vec::new(),
        flattened: options
            .flatten
            .then(|| options.schema.iter().map(|(name, _)| name.clone()).collect()),
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
        let unknown = schema.columns.is_empty() && options.prior.is_empty();
        if let Some(bad) = bad.first().filter(|_| unknown) {
            return Err(bad.error(file));
        }
    }
    // Keys that the user has named may first appear later.
    for named in &options.schema {
        let elsewhere = options.external_columns.contains(&named.0);
        if !elsewhere && schema.columns.iter().all(|column| *column.name != *named.0) {
            schema.columns.push(fixed(named));
        }
    }
    if schema.columns.is_empty() {
        // Rows of empty objects are rows of nulls, where the table says of what; and no rows are
        // none of its columns.
        let known =
            options.prior.iter().filter(|(name, _)| !options.external_columns.contains(name));
        schema.columns.extend(known.map(|known| JsonColumn { fixed: false, ..fixed(known) }));
    }
    if schema.columns.is_empty() {
        let what =
            if first.is_some() { "the first rows have no keys" } else { "there are no rows" };
        return Err(Error::InvalidInput(format!(
            "{}: {what}, so the columns are unknown; name them with --schema NAME:TYPE,…",
            file.display()
        )));
    }
    Ok(schema)
}
