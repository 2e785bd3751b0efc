//! How many bytes rows and results may have, and what a statement does where they have more.
//!
//! Where this stands on the road of a query: operators and functions handle 8,192 rows at a time.
//! Where these do not fit into the memory limit, the statement ends, [`Widest`] keeps how wide its
//! rows are, and `session/frugal` begins it once more with fewer rows in a batch.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result as DataFusionResult;

use crate::error::Error;

/// The share of the memory limit that a batch of the widest rows takes when a statement is begun
/// once more.
pub(in crate::sql) const SMALL_SHARE: usize = 16;

/// In the extensions of a session: the bytes of the widest row that ended its statement.
#[derive(Debug, Default)]
pub(in crate::sql) struct Widest(AtomicUsize);

impl Widest {
    /// Notes that a statement ends because rows have this many bytes.
    pub(in crate::sql) fn note(&self, bytes: usize) {
        self.0.fetch_max(bytes, Ordering::Relaxed);
    }

    /// How many rows a batch may have under a memory limit, if a row was too wide since this was
    /// asked last.
    pub(in crate::sql) fn take_rows(&self, memory: u64) -> Option<usize> {
        match self.0.swap(0, Ordering::Relaxed) {
            0 => None,
            bytes => Some(rows_within(memory as usize / SMALL_SHARE, bytes)),
        }
    }
}

/// How many rows of `row` bytes fit into `bytes`; at least one.
pub(in crate::sql) fn rows_within(bytes: usize, row: usize) -> usize {
    (bytes / row.max(1)).max(1)
}

/// The most bytes of the result of a function for a batch. Calls of the same function are equal,
/// whatever has ended a statement.
#[derive(Clone, Debug)]
pub(in crate::sql) struct MostBytes {
    most: u64,
    widest: Arc<Widest>,
}

impl MostBytes {
    /// An eighth of a session's memory, because several threads hold several batches each, and
    /// what the offsets of an Arrow array can say.
    pub(in crate::sql) fn new(memory: u64, widest: Arc<Widest>) -> MostBytes {
        MostBytes { most: (memory / 8).min(i32::MAX as u64), widest }
    }

    /// In bytes.
    pub(in crate::sql) fn bytes(&self) -> usize {
        usize::try_from(self.most).unwrap_or(usize::MAX)
    }

    pub(super) fn allows(&self, bytes: i128) -> bool {
        bytes <= i128::from(self.most)
    }

    /// Refuses a result of too many bytes for some rows.
    pub(super) fn check(&self, name: &str, bytes: i128, rows: usize) -> DataFusionResult<()> {
        self.check_whole(name, bytes, rows, 1)
    }

    /// Refuses a result that was put together of parts, which may have as many times the bytes.
    pub(super) fn check_whole(
        &self,
        name: &str,
        bytes: i128,
        rows: usize,
        times: u64,
    ) -> DataFusionResult<()> {
        let most = self.most.saturating_mul(times).min(i32::MAX as u64);
        if bytes <= i128::from(most) {
            return Ok(());
        }
        if rows > 1 {
            self.widest.note(usize::try_from(bytes / rows as i128).unwrap_or(usize::MAX));
        }
        Err(Error::LimitExceeded(format!(
            "{name} would make {bytes} bytes at a time, and at most {most} are allowed under \
             --memory-limit"
        ))
        .into())
    }
}

impl PartialEq for MostBytes {
    fn eq(&self, other: &Self) -> bool {
        self.most == other.most
    }
}

impl Eq for MostBytes {}

impl Hash for MostBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.most.hash(state);
    }
}
