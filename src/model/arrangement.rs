//! How a table arranges its rows: partitioned by the values of expressions, and sorted within
//! segments.

use std::sync::Arc;

use super::{ColumnId, DataType};

/// The partition and sort keys of a table; both lists may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// All rows of a segment have the same values of these; outermost directory first.
    pub partition_by: Vec<PartitionKey>,
    /// The sort keys of the rows within each segment, most significant first.
    pub sort_by: Vec<SortKey>,
}

impl Arrangement {
    /// Whether there are neither partition nor sort keys.
    pub fn is_none(&self) -> bool {
        self.partition_by.is_empty() && self.sort_by.is_empty()
    }

    /// Whether a partition or sort key depends on a column.
    pub fn uses(&self, column: ColumnId) -> bool {
        self.sort_by.iter().any(|key| key.column == column)
            || self.partition_by.iter().any(|key| key.columns.iter().any(|(_, id)| *id == column))
    }
}

/// An expression by whose values rows are partitioned into directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    /// The name before `=` in the directory's name.
    pub name: Arc<str>,
    /// SQL over the table's columns.
    pub expression: Arc<str>,
    /// The columns by their names in the expression, with their ids, since columns may have been
    /// renamed.
    pub columns: Vec<(Arc<str>, ColumnId)>,
    /// The type of the values.
    pub data_type: DataType,
}

/// A column by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column.
    pub column: ColumnId,
    /// Whether the order is descending.
    pub descending: bool,
    /// Whether nulls come before all values.
    pub nulls_first: bool,
}
