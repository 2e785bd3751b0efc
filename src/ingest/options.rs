//! How to load, and how the memory that there is is dealt out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::arrange::Arrange;
use super::columns::SegmentLimits;
use super::rejects::OnError;
use super::resume::{CommitEvery, IfLoaded};
use super::sources::csv::CsvOptions;
use crate::disk::memory;
use crate::encoding::{Encoding, Options, Profile};
use crate::error::{Error, Result};
use crate::store::TableWriter;

/// Bytes of values in memory at which a segment is closed, unless a memory limit asks for less.
const SEGMENT_BYTES: usize = 192 << 20;
/// The smallest segment that a memory limit can force.
const MIN_SEGMENT_BYTES: usize = 4 << 20;
/// What one text chunk takes while it is parsed: its text, and the arrays made of it.
pub(super) const TASK_BYTES: usize = 16 << 20;
/// What a process takes before it has read a row.
const PROCESS_BYTES: u64 = 48 << 20;
/// In how many parts the rest of the memory is used: one segment fills, one is encoded (and doubled
/// while its bytes appear), a part is input on its way, and two are what the allocator has not
/// given back.
const PARTS: u64 = 6;
/// What is being parsed takes at most this, unless a memory limit asks for less.
const IN_FLIGHT_BYTES: usize = 256 << 20;
/// What waits for the segments of its partitions takes at most this, unless a memory limit asks for
/// less.
const WAITING_BYTES: usize = 1 << 30;

/// How to load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// How to read CSV and TSV; types, and rows to infer them from, are those of JSON too.
    pub csv: CsvOptions,
    /// Make columns of the directories `key=value` in an input's path, where it lacks them.
    pub partition_columns: bool,
    /// A column for the path of the input that a row comes from.
    pub filename_column: Option<String>,
    /// Leave out columns of types that a table cannot hold, instead of failing.
    pub skip_unsupported: bool,
    /// What becomes of rows that cannot be stored.
    pub on_error: OnError,
    /// Rows that may be left out; one more ends the ingest. `None` is no bound.
    pub max_errors: Option<u64>,
    /// The balance of size and speed; `None` takes the table's.
    pub profile: Option<Profile>,
    /// For tests: the encoding to use wherever it can.
    pub force: Option<Encoding>,
    /// What becomes of inputs that were loaded before.
    pub if_loaded: IfLoaded,
    /// Commit before the end, too.
    pub commit_every: Option<CommitEvery>,
    /// Where rows are to go.
    pub arrange: Arrange,
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to stop; nothing is committed then.
    pub cancelled: Arc<AtomicBool>,
}

impl Default for LoadOptions {
    /// All cores, no limit, the table's profile.
    fn default() -> Self {
        LoadOptions {
            csv: CsvOptions::default(),
            partition_columns: true,
            filename_column: None,
            skip_unsupported: false,
            on_error: OnError::Fail,
            max_errors: None,
            profile: None,
            force: None,
            if_loaded: IfLoaded::Error,
            commit_every: None,
            arrange: Arrange::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_limit: None,
            cancelled: Arc::default(),
        }
    }
}

/// What the pipeline is told.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOptions {
    /// When a segment is full.
    pub segment: SegmentLimits,
    /// How columns are encoded.
    pub encoding: Options,
    /// Parsing tasks in flight.
    pub in_flight: usize,
    /// Their weight in bytes, unless a single one is heavier.
    pub in_flight_bytes: usize,
    /// Bytes of values that may wait for the segments of their partitions.
    pub waiting_bytes: usize,
}

/// The workers of an ingest.
pub(crate) fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("ingest-{i}"))
        // Its answer will be missed, which is an error; without a handler the process would be
        // aborted.
        .panic_handler(|_| {})
        .build()
        .map_err(|error| Error::LimitExceeded(format!("no threads: {error}")))
}

/// What the pipeline is told, so that it keeps within the memory that there is.
pub(crate) fn pipeline_options(writer: &TableWriter, options: &LoadOptions) -> PipelineOptions {
    let table = writer.options();
    let limit = options.memory_limit.unwrap_or_else(|| memory::available() / 10 * 7);
    let part = usize::try_from(limit.saturating_sub(PROCESS_BYTES) / PARTS).unwrap_or(usize::MAX);
    let bytes = part.clamp(MIN_SEGMENT_BYTES, SEGMENT_BYTES);
    PipelineOptions {
        segment: SegmentLimits {
            rows: table.segment_rows as usize,
            bytes,
            block_rows: table.block_rows as usize,
        },
        encoding: Options {
            force: options.force,
            ..Options::new(options.profile.unwrap_or(table.profile))
        },
        in_flight: options.threads * 2,
        in_flight_bytes: part.clamp(TASK_BYTES, IN_FLIGHT_BYTES),
        waiting_bytes: part.clamp(MIN_SEGMENT_BYTES, WAITING_BYTES),
    }
}
