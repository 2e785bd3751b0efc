//! Load options, and how the memory limit is divided.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::arrange::Arrange;
use super::columns::SegmentLimits;
use super::misguesses::Misguesses;
use super::rejects::OnError;
use super::resume::{CommitEvery, IfLoaded};
use super::selection::Select;
use super::sources::csv::CsvOptions;
use crate::disk::memory;
use crate::encoding::{Encoding, Options, Profile};
use crate::error::{Error, Result};
use crate::store::TableOptions;

/// In-memory bytes of values at which a segment is closed, unless the memory limit asks for less.
/// Web hits with 105 columns have 380,000 rows in it, and their dictionaries hold a tenth fewer
/// values in all than with segments of half the size.
const SEGMENT_BYTES: usize = 384 << 20;
/// The smallest segment size that a memory limit can force.
const MIN_SEGMENT_BYTES: usize = 4 << 20;
/// Memory of one text chunk while it is parsed: its text and the arrays made from it.
pub(super) const TASK_BYTES: usize = 16 << 20;
/// Memory of the process before it has read a row.
const PROCESS_BYTES: u64 = 48 << 20;
/// The rest of the memory is divided into this many parts: one segment being filled, one being
/// encoded (twice its size while its bytes are produced), one part for input in flight, and two for
/// memory that the allocator has not returned.
const PARTS: u64 = 6;
/// Bound on the memory of tasks in flight, unless the memory limit asks for less.
const IN_FLIGHT_BYTES: usize = 256 << 20;
/// Bound on rows that wait for the segments of their partitions, unless the memory limit asks for
/// less.
const WAITING_BYTES: usize = 1 << 30;

/// Options of a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// How to read CSV and TSV. Column types and the rows to infer from apply to JSON too.
    pub csv: CsvOptions,
    /// Make columns from `key=value` directories in an input's path, unless the input has them.
    pub partition_columns: bool,
    /// Name of a column for the path of the input, if wanted.
    pub filename_column: Option<String>,
    /// Skip columns of types that a table cannot hold, instead of failing.
    pub skip_unsupported: bool,
    /// Make a column of each field of the objects in JSON and of the structs in Parquet and Arrow,
    /// and JSON texts of lists and maps.
    pub flatten: bool,
    /// Chooses and computes what is stored of the rows of the inputs; `None` stores them as they
    /// are.
    pub select: Option<Arc<dyn Select>>,
    /// The inputs are files of rejected rows, whose rows are read as those of the inputs that they
    /// name. Such a load commits once.
    pub from_rejects: bool,
    /// What to do with rows that cannot be stored.
    pub on_error: OnError,
    /// How many rows may be rejected before the load fails; `None` for any number.
    pub max_errors: Option<u64>,
    /// The profile to encode with; `None` for the table's.
    pub profile: Option<Profile>,
    /// For tests: force this encoding wherever it applies.
    #[doc(hidden)]
    pub force: Option<Encoding>,
    /// What to do with inputs that were loaded before.
    pub if_loaded: IfLoaded,
    /// Commit on the way, too.
    pub commit_every: Option<CommitEvery>,
    /// Partitioning and sort order.
    pub arrange: Arrange,
    /// What earlier attempts to load the same inputs have found of their types, and what this one
    /// finds.
    #[doc(hidden)]
    pub misguesses: Misguesses,
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to end pipes under [`CommitEvery::Time`]: the load commits the rows that
    /// have come. A load that reads a file stops as if cancelled.
    pub end_input: Arc<AtomicBool>,
    /// Set from outside to stop; nothing more is committed then.
    pub cancelled: Arc<AtomicBool>,
    /// How far the load is, for whoever looks on from another thread.
    pub progress: Arc<LoadProgress>,
}

/// How far a load is.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Bytes read of each input, with those of before the load.
    pub(super) consumed: OnceLock<Vec<(Arc<AtomicU64>, u64)>>,
    pub(super) total: OnceLock<u64>,
    pub(super) rows: Arc<AtomicU64>,
}

impl LoadProgress {
    /// Bytes read of the inputs, compressed as they are.
    pub fn bytes(&self) -> u64 {
        let read = |(bytes, before): &(Arc<AtomicU64>, u64)| {
            bytes.load(Ordering::Relaxed).saturating_sub(*before)
        };
        self.consumed.get().map_or(0, |inputs| inputs.iter().map(read).sum())
    }

    /// How many bytes there are to read, if all inputs are files; those that are left out because
    /// they were loaded before do not count.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total.get().copied()
    }

    /// Rows that were read.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

impl Default for LoadOptions {
    /// All cores, no limit, the table's profile.
    fn default() -> Self {
        LoadOptions {
            csv: CsvOptions::default(),
            partition_columns: true,
            filename_column: None,
            skip_unsupported: false,
            flatten: false,
            select: None,
            from_rejects: false,
            on_error: OnError::Fail,
            max_errors: None,
            profile: None,
            force: None,
            if_loaded: IfLoaded::Error,
            commit_every: None,
            arrange: Arrange::default(),
            misguesses: Misguesses::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_limit: None,
            end_input: Arc::default(),
            cancelled: Arc::default(),
            progress: Arc::default(),
        }
    }
}

impl LoadOptions {
    /// The memory limit, or most of the available memory.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_limit.unwrap_or_else(memory::default_limit)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PipelineOptions {
    /// When a segment is full.
    pub segment: SegmentLimits,
    /// How to encode columns.
    pub encoding: Options,
    /// How many parsing tasks may be in flight.
    pub in_flight: usize,
    /// Bound on their memory, unless a single task exceeds it.
    pub in_flight_bytes: usize,
    /// Bound on the bytes that wait for the segments of their partitions.
    pub waiting_bytes: usize,
}

/// The worker threads of a load.
pub(crate) fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("ingest-{i}"))
        // A missing answer is reported as an error; without a handler rayon would abort the
        // process.
        .panic_handler(|_| {})
        .build()
        .map_err(Error::too_few_threads)
}

/// Divides the memory limit (or most of the available memory) among the stages of the pipeline.
pub(crate) fn pipeline_options(table: TableOptions, options: &LoadOptions) -> PipelineOptions {
    let limit = options.memory();
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
