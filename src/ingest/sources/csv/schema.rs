//! Names and types of an input's columns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::guess::Guess;
use super::options::CsvOptions;
use super::rules::FieldRules;
use crate::model::{DataType, Schema};

/// A column of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumn {
    /// Name from the header, the options or the position.
    pub name: Arc<str>,
    /// Inferred type. A chunk may come out wider unless the type is fixed.
    pub data_type: DataType,
    /// Whether the user has named the type.
    pub fixed: bool,
}

/// Everything needed to parse chunks of one input.
#[derive(Clone, Debug)]
pub struct CsvSchema {
    /// The columns, in the order of the fields.
    pub columns: Vec<CsvColumn>,
    /// Whether the first row of chunk 0 holds names.
    pub header: bool,
    /// Assumptions about the input.
    pub guesses: Vec<Guess>,
    pub(super) file: PathBuf,
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) rules: FieldRules,
    /// Whether bad rows are left out ([`super::parse_good_rows`]).
    pub skip_bad_rows: bool,
}

impl CsvSchema {
    pub(super) fn new(file: &Path, options: &CsvOptions, delimiter: u8) -> Self {
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
            rules: FieldRules { quote: options.quote, nulls, empty_is_null: options.empty_is_null },
            skip_bad_rows: options.skip_bad_rows,
        }
    }

    /// The same schema, starting from the types of a table where the user has named none.
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
