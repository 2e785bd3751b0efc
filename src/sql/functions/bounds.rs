//! How many bytes rows and results may have, and what a statement does where they have more.
//!
//! Where this stands on the road of a query: operators and functions handle 8,192 rows at a time.
//! Where these do not fit into the memory limit, the statement ends, its session notes how wide its
//! rows are, and `session/frugal` begins it once more with fewer rows in a batch.

use datafusion::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;

use crate::error::Error;
use crate::sql::work::handle::SessionHandle;

/// The share of the memory limit that a batch of the widest rows takes when a statement is begun
/// once more.
pub(in crate::sql) const SMALL_SHARE: usize = 16;

/// How many rows of `row` bytes fit into `bytes`; at least one.
pub(in crate::sql) fn rows_within(bytes: usize, row: usize) -> usize {
    (bytes / row.max(1)).max(1)
}

/// The most bytes of the result of a function for a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::sql) struct MostBytes {
    most: u64,
}

impl MostBytes {
    /// An eighth of a session's memory, because several threads hold several batches each, and
    /// what the offsets of an Arrow array can say.
    pub(in crate::sql) fn new(memory: u64) -> MostBytes {
        MostBytes { most: (memory / 8).min(i32::MAX as u64) }
    }

    /// In bytes.
    pub(in crate::sql) fn bytes(&self) -> usize {
        usize::try_from(self.most).unwrap_or(usize::MAX)
    }

    pub(super) fn allows(&self, bytes: i128) -> bool {
        bytes <= i128::from(self.most)
    }

    /// Refuses a result of too many bytes for some rows, of a statement with these options.
    pub(super) fn check(
        &self,
        name: &str,
        bytes: i128,
        rows: usize,
        options: &ConfigOptions,
    ) -> DataFusionResult<()> {
        self.check_whole(name, bytes, rows, 1, options)
    }

    /// Refuses a result that was put together of parts, which may have as many times the bytes.
    pub(super) fn check_whole(
        &self,
        name: &str,
        bytes: i128,
        rows: usize,
        times: u64,
        options: &ConfigOptions,
    ) -> DataFusionResult<()> {
        let most = self.most.saturating_mul(times).min(i32::MAX as u64);
        if bytes <= i128::from(most) {
            return Ok(());
        }
        if rows > 1
            && let Some(session) = SessionHandle::of(options)
        {
            session.widest.note(usize::try_from(bytes / rows as i128).unwrap_or(usize::MAX));
        }
        Err(Error::LimitExceeded(format!(
            "{name} would make {bytes} bytes at a time, and at most {most} are allowed under \
             --memory-limit"
        ))
        .into())
    }
}
