//! Names and types of an input's columns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::DataType;

/// A column of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonColumn {
    /// The key.
    pub name: Arc<str>,
    /// Inferred type. A chunk may come out wider unless the type is fixed.
    pub data_type: DataType,
    /// Whether the user has named the type.
    pub fixed: bool,
}

/// Everything needed to parse chunks of one input.
#[derive(Clone, Debug)]
pub struct JsonSchema {
    /// The columns that the sample or the user named; a chunk may have more.
    pub columns: Vec<JsonColumn>,
    pub(super) file: PathBuf,
    /// Types of the table's columns.
    pub(super) prior: HashMap<String, DataType>,
    /// Whether bad rows are left out.
    pub(super) skip_bad_rows: bool,
    /// Keys that have a value in every row of the table.
    pub(super) required: Vec<String>,
    /// Where fields of objects are columns of their own: the columns whose objects stay one text.
    pub(super) flattened: Option<Vec<String>>,
}

impl JsonSchema {
    /// The same schema for a table that takes no nulls in the columns of these names.
    #[must_use]
    pub(crate) fn requiring(mut self, names: &[String]) -> Self {
        self.required = names.to_vec();
        self
    }

    /// The same schema where columns that nobody reads take any values, unless their types are
    /// fixed.
    #[must_use]
    pub(crate) fn reading(&self, is_read: impl Fn(&str) -> bool) -> Self {
        let mut schema = self.clone();
        for column in schema.columns.iter_mut().filter(|one| !one.fixed && !is_read(&one.name)) {
            column.data_type = DataType::Utf8;
        }
        schema
    }

    /// Name of the input.
    pub fn file(&self) -> &Path {
        &self.file
    }
}
