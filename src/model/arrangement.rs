//! How a table arranges its rows: spread over partitions by the values of expressions, and ordered
//! within segments.

use std::sync::Arc;

use super::{ColumnId, DataType};

/// What a table was told about the places of its rows; both lists may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// A segment holds rows of one value of each; outermost directory first.
    pub partition_by: Vec<PartitionKey>,
    /// The order of the rows within each segment, most significant first.
    pub sort_by: Vec<SortKey>,
}

impl Arrangement {
    /// Whether rows stay as they come.
    pub fn is_none(&self) -> bool {
        self.partition_by.is_empty() && self.sort_by.is_empty()
    }

    /// Whether a partition or an order depends on a column.
    pub fn uses(&self, column: ColumnId) -> bool {
        self.sort_by.iter().any(|key| key.column == column)
            || self.partition_by.iter().any(|key| key.columns.iter().any(|(_, id)| *id == column))
    }
}

/// An expression by whose values rows are spread over directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionKey {
    /// Stands before `=` in the directory's name.
    pub name: Arc<str>,
    /// SQL over the table's columns.
    pub expression: Arc<str>,
    /// The columns as the expression names them, and which they are, whatever they are called by
    /// now.
    pub columns: Vec<(Arc<str>, ColumnId)>,
    /// The type of its values.
    pub data_type: DataType,
}

/// A column that rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Which one.
    pub column: ColumnId,
    /// From great to small.
    pub descending: bool,
    /// Whether nulls come before all values.
    pub nulls_first: bool,
}
