//! What a table should hold, in memory.

use std::collections::BTreeMap;

/// The rows of a table by their id, and its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) rows: BTreeMap<i64, (String, i64)>,
    pub(super) columns: Vec<String>,
}

/// A model, or no table.
pub(super) type State = Option<Model>;
