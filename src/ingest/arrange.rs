//! Partitioning and sort order: as requested, and resolved against the columns of the table.

use std::sync::Arc;

use super::partition::{ColumnsOnly, Compile, partition_keys};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Arrangement, Schema, SortKey};

/// A requested sort column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortBy {
    /// Column name.
    pub column: String,
    /// Largest values first.
    pub descending: bool,
    /// Whether nulls come first. SQL's default is last when ascending and first when descending.
    pub nulls_first: bool,
}

/// The requested arrangement, and that of the table.
#[derive(Clone, Debug, Default)]
pub struct Arrange {
    /// SQL expressions, optionally with `AS name`; empty keeps those of the table.
    pub partition_by: Vec<String>,
    /// Sort columns; empty keeps those of the table.
    pub sort_by: Vec<SortBy>,
    /// Compiles the expressions.
    pub compile: Option<Arc<dyn Compile>>,
    /// The arrangement of the table, if it exists.
    #[doc(hidden)]
    pub table: Option<Arrangement>,
}

impl Arrange {
    /// The expression compiler; by default one that knows columns only.
    pub(crate) fn compile(&self) -> Arc<dyn Compile> {
        self.compile.clone().unwrap_or_else(|| Arc::new(ColumnsOnly))
    }

    /// Whether rows are partitioned.
    pub(crate) fn is_partitioned(&self) -> bool {
        let table = self.table.as_ref().is_some_and(|table| !table.partition_by.is_empty());
        table || !self.partition_by.is_empty()
    }

    /// The arrangement of the table after this load. An existing table keeps its own: requesting
    /// another one is an error.
    pub(crate) fn resolve(&self, schema: &Schema) -> Result<Arrangement> {
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
                "the table is {current}; other partitions need another table: sty export with \
                 --partition-by, and ingest"
            )));
        }
        if !requested.sort_by.is_empty() && requested.sort_by != table.sort_by {
            return Err(Error::InvalidInput(
                "the table is sorted in another way, or not at all: sty compact --sort-by changes \
                 that"
                    .into(),
            ));
        }
        Ok(table.clone())
    }
}

/// The requested sort keys, by column id.
pub(crate) fn sort_keys(requested: &[SortBy], schema: &Schema) -> Result<Vec<SortKey>> {
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
