//! How an ingest is told to arrange rows, and what that means once columns are known.

use std::sync::Arc;

use super::partition::{ColumnsOnly, Compile, partition_keys};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Arrangement, Schema, SortKey};

/// A column to sort by, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortBy {
    /// Its name.
    pub column: String,
    /// From great to small.
    pub descending: bool,
    /// Whether nulls come before all values; SQL has them last if rising and first if falling.
    pub nulls_first: bool,
}

/// What was asked for, and what the table has.
#[derive(Clone, Debug, Default)]
pub struct Arrange {
    /// SQL expressions, each perhaps with `AS name`; empty to take what the table has.
    pub partition_by: Vec<String>,
    /// Columns; empty to take what the table has.
    pub sort_by: Vec<SortBy>,
    /// Makes functions of expressions.
    pub compile: Option<Arc<dyn Compile>>,
    /// How the table arranges its rows, if there is one.
    pub table: Option<Arrangement>,
}

impl Arrange {
    /// What makes functions of expressions.
    pub fn compile(&self) -> Arc<dyn Compile> {
        self.compile.clone().unwrap_or_else(|| Arc::new(ColumnsOnly))
    }

    /// Whether rows are to be spread over partitions.
    pub fn is_partitioned(&self) -> bool {
        let table = self.table.as_ref().is_some_and(|table| !table.partition_by.is_empty());
        table || !self.partition_by.is_empty()
    }

    /// The arrangement of the table from now on. A table that has one keeps it: asking for another
    /// is an error.
    pub fn resolve(&self, schema: &Schema) -> Result<Arrangement> {
        let partition_by = match self.partition_by.as_slice() {
            [] => Vec::new(),
            requests => partition_keys(requests, schema, &*self.compile())?,
        };
        let requested = Arrangement { partition_by, sort_by: sort_keys(&self.sort_by, schema)? };
        let Some(table) = &self.table else { return Ok(requested) };
        let expressions = |arrangement: &Arrangement| {
            let keys = arrangement.partition_by.iter();
            keys.map(|key| (Arc::clone(&key.name), Arc::clone(&key.expression))).collect::<Vec<_>>()
        };
        if !requested.partition_by.is_empty() && expressions(&requested) != expressions(table) {
            let current: Vec<&str> =
                table.partition_by.iter().map(|key| &*key.expression).collect();
            let current = if current.is_empty() {
                "not partitioned".into()
            } else {
                format!("partitioned by {}", current.join(", "))
            };
            return Err(Error::InvalidInput(format!(
                "the table is {current}; other partitions need another table: sty export with --partition-by, and ingest"
            )));
        }
        if !requested.sort_by.is_empty() && requested.sort_by != table.sort_by {
            return Err(Error::InvalidInput(
                "the table is sorted in another way, or not at all: sty compact --sort-by changes that".into(),
            ));
        }
        Ok(table.clone())
    }
}

/// The columns that are asked for, by id.
pub fn sort_keys(requested: &[SortBy], schema: &Schema) -> Result<Vec<SortKey>> {
    if requested.len() > limits::MAX_SORT_KEYS {
        return Err(Error::LimitExceeded(format!(
            "{} sort keys; at most {}",
            requested.len(),
            limits::MAX_SORT_KEYS
        )));
    }
    let mut keys: Vec<SortKey> = Vec::with_capacity(requested.len());
    for by in requested {
        let at = schema.expect(&by.column)?;
        let Some(column) = schema.columns().get(at) else { continue };
        if keys.iter().any(|key| key.column == column.id) {
            return Err(Error::InvalidInput(format!(
                "column '{}' is named twice in --sort-by",
                by.column
            )));
        }
        keys.push(SortKey {
            column: column.id,
            descending: by.descending,
            nulls_first: by.nulls_first,
        });
    }
    Ok(keys)
}
