//! What a verification is asked and what it finds.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::error::Error;
use crate::ingest::partition::{ColumnsOnly, Compile};
pub use crate::segment::DamageKind;

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// The number of threads.
    pub threads: usize,
    /// Compiles partition keys; by default one that knows columns only. A key that it cannot
    /// compile is not checked.
    pub compile: Arc<dyn Compile>,
    /// Set to stop: what was not checked by then is left out of the report.
    pub cancelled: Arc<AtomicBool>,
    /// Progress: bytes of segments that are checked.
    pub done: Arc<AtomicU64>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            compile: Arc::new(ColumnsOnly),
            cancelled: Arc::default(),
            done: Arc::default(),
        }
    }
}

/// One thing that is wrong in a table.
#[derive(Debug)]
pub struct Damage {
    /// The number of the segment in table order, if it is in one.
    pub segment: Option<u64>,
    /// The column's name, if it is in one.
    pub column: Option<Arc<str>>,
    /// The rows of the segment concerned, counted from its first.
    pub rows: Option<Range<u64>>,
    /// What puts it right.
    pub kind: DamageKind,
    /// What is wrong, with the file and the byte in it.
    pub error: Error,
}

impl Damage {
    /// Damage outside of segments.
    pub(super) fn of_table(error: Error) -> Damage {
        Damage { segment: None, column: None, rows: None, kind: DamageKind::Unreadable, error }
    }

    /// Whether values cannot be read for it. Otherwise something false is said of readable values.
    pub fn is_unreadable(&self) -> bool {
        self.kind == DamageKind::Unreadable
    }

    /// Where in the table it is, such as `segment 3, column 'v', rows 0 to 65535`; empty outside of
    /// segments.
    pub fn place(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.segment.map(|segment| format!("segment {segment}")));
        parts.extend(self.column.as_ref().map(|column| format!("column '{column}'")));
        let last = |rows: &Range<u64>| rows.end.saturating_sub(1).max(rows.start);
        parts.extend(self.rows.as_ref().map(|rows| match last(rows) {
            last if last == rows.start => format!("row {last}"),
            last => format!("rows {} to {last}", rows.start),
        }));
        parts.join(", ")
    }
}

impl From<Error> for Damage {
    fn from(error: Error) -> Self {
        Damage::of_table(error)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            place if place.is_empty() => self.error.fmt(f),
            place => write!(f, "{} ({place})", self.error),
        }
    }
}

/// The result of a verification.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Chunks checked.
    pub chunks: u64,
    /// Segments checked.
    pub segments: u64,
    /// Rows that the manifest lists.
    pub rows: u64,
    /// Bytes of the manifest and of the segments.
    pub bytes: u64,
    /// All that is wrong, in order; empty for a sound table.
    pub problems: Vec<Damage>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
}
