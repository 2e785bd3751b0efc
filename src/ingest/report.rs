//! Reports of loads.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use super::rejects::Reject;
use super::resume::ChangedInput;
use super::sources::csv::Guess;
use crate::manifest::WriteVolume;
use crate::model::{Column, ColumnId, Schema};

/// The report of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Rows read: stored, rejected or not selected.
    pub rows_read: u64,
    /// Rows that are now in the table.
    pub rows_stored: u64,
    /// Rows rejected because they cannot be stored.
    pub rows_rejected: u64,
    /// Rows that were not selected.
    pub rows_left_out: u64,
    /// Empty lines of CSV with several columns, which are no rows.
    pub blank_lines: u64,
    /// The first rejected rows.
    pub first_rejects: Vec<Reject>,
    /// What was read from each input, in order.
    pub inputs: Vec<InputReport>,
    /// The generation of the table that has the new rows.
    pub generation: u64,
    /// Bytes read from the inputs, before decompression.
    pub bytes_in: u64,
    /// Bytes of the new segments.
    pub bytes_stored: u64,
    /// Bytes of the new manifest files.
    pub bytes_metadata: u64,
    /// All bytes written: segments, merged segments, manifest files.
    pub bytes_written: u64,
    /// Bytes loaded and written over the life of the table.
    pub write_volume: WriteVolume,
    /// Number of commits; 0 if nothing changed.
    pub commits: u64,
    /// Inputs that were skipped because they were loaded before.
    pub loaded_before: Vec<String>,
    /// Inputs that were read as a whole although other bytes were loaded from them before.
    pub replaced: Vec<ChangedInput>,
    /// Inputs that have the bytes of another file that was loaded, whose path is beside them.
    pub same_bytes: Vec<(String, String)>,
    /// Inputs that were skipped although they have changed since they were loaded.
    pub changed: Vec<ChangedInput>,
    /// Inputs that had been loaded before and have grown: only their new rows were read.
    pub added: Vec<ChangedInput>,
    /// Inputs that were partly loaded before.
    pub resumed: Vec<String>,
    /// Number of new segments.
    pub segments: u64,
    /// Columns skipped because of their type.
    pub skipped: Vec<String>,
    /// Columns that were added to a table which has rows.
    pub new_columns: Vec<NewColumn>,
    /// Guesses about the inputs, once each, with the input.
    pub guesses: Vec<(PathBuf, Guess)>,
    /// Wall-clock time, including the commit.
    pub elapsed: Duration,
}

/// A column that a load has added to a table which has rows: it is null in these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewColumn {
    /// Its name.
    pub name: String,
    /// The column of the table whose name differs from this one only in case.
    pub alike: Option<String>,
    /// The rows that were there.
    pub rows: u64,
}

impl NewColumn {
    /// The columns of `after` that `before` lacks, if the table had rows before.
    pub(super) fn between(before: &Schema, after: &Schema, rows: u64) -> Vec<NewColumn> {
        let ids: HashSet<ColumnId> = before.columns().iter().map(|column| column.id).collect();
        let is_new = |column: &&Column| rows > 0 && !ids.contains(&column.id);
        let added: Vec<&Column> = after.columns().iter().filter(is_new).collect();
        if added.is_empty() {
            return Vec::new();
        }
        let folded = |column: &Column| (column.name.to_lowercase(), column.name.to_string());
        let known: HashMap<String, String> = before.columns().iter().map(folded).collect();
        let new = |column: &Column| NewColumn {
            name: column.name.to_string(),
            alike: known.get(&column.name.to_lowercase()).cloned(),
            rows,
        };
        added.into_iter().map(new).collect()
    }
}

/// What a load did with one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputReport {
    /// Name of the input.
    pub name: PathBuf,
    /// Rows read: stored, rejected or not selected.
    pub rows_read: u64,
    /// Rows rejected.
    pub rows_rejected: u64,
    /// Rows that were not selected.
    pub rows_left_out: u64,
    /// Empty lines, which were left out.
    pub blank_lines: u64,
    /// Bytes read from it, before decompression.
    pub bytes: u64,
}
