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
    pub(super) prior: HashMap<String, DataType>,
}

impl JsonSchema {
    /// The input that it is of.
    pub fn file(&self) -> &Path {
        &self.file
    }
}
