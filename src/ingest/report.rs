//! What a load did.

use std::path::PathBuf;
use std::time::Duration;

use super::rejects::Reject;
use super::sources::csv::Guess;
use crate::manifest::Traffic;

/// What an ingest did.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Rows read: stored or rejected.
    pub rows_read: u64,
    /// Rows now in the table.
    pub rows_stored: u64,
    /// Rows left out because they cannot be stored.
    pub rows_rejected: u64,
    /// The first of these.
    pub first_rejects: Vec<Reject>,
    /// What was read of each input, in order.
    pub inputs: Vec<InputReport>,
    /// The generation of the table that holds the rows.
    pub generation: u64,
    /// Bytes read from the inputs, as they are (compressed ones compressed).
    pub bytes_in: u64,
    /// Bytes of the new segments.
    pub bytes_stored: u64,
    /// Bytes of the new manifest files.
    pub bytes_metadata: u64,
    /// All bytes that were written: segments, what they were merged to with others, manifest files.
    pub bytes_written: u64,
    /// What was written for the table since it was made.
    pub traffic: Traffic,
    /// Commits; none if there was nothing to change.
    pub commits: u64,
    /// Inputs that were left out, for they were loaded before.
    pub loaded_before: Vec<String>,
    /// Inputs of which a part was loaded before.
    pub resumed: Vec<String>,
    /// New segments.
    pub segments: u64,
    /// Columns left out because of their type.
    pub skipped: Vec<String>,
    /// What was taken for granted about an input without proof, once each.
    pub guesses: Vec<(PathBuf, Guess)>,
    /// Wall-clock time, commit included.
    pub elapsed: Duration,
}

/// What an ingest did with one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputReport {
    /// Its name.
    pub name: PathBuf,
    /// Rows read: stored or rejected.
    pub rows_read: u64,
    /// Rows left out.
    pub rows_rejected: u64,
    /// Bytes read from it, as they are.
    pub bytes: u64,
}
