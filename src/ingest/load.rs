//! A whole ingest: inputs → segments of a table → one commit, all or nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use super::arrange::Arrange;
use super::columns::SegmentLimits;
use super::pipeline::{self, PipelineOptions, Task};
use super::rejects::{OnError, Reject, Tally};
use super::sources::Input;
use super::sources::csv::{CsvOptions, Guess};
use super::tasks::{Remarks, Tasks};
use super::tiers;
use super::widening::check_widening;
use crate::disk::memory;
use crate::encoding::{Encoding, Options, Profile};
use crate::error::{Error, Result};
use crate::model::{Arrangement, Schema};
use crate::segment::EncodedSegment;
use crate::store::{Changes, DataFile, DataFiles, NewSegment, TableWriter};

/// Bytes of values in memory at which a segment is closed, unless a memory limit asks for less.
const SEGMENT_BYTES: usize = 192 << 20;
/// The smallest segment that a memory limit can force.
const MIN_SEGMENT_BYTES: usize = 4 << 20;
/// What one text chunk takes while it is parsed: its text, and the arrays made of it.
pub(super) const TASK_BYTES: usize = 16 << 20;
/// Bytes of a write, unless a part of a segment is longer.
const WRITE_BYTES: usize = 8 << 20;
/// What is being parsed takes at most this, unless a memory limit asks for less.
const IN_FLIGHT_BYTES: usize = 256 << 20;
/// What waits for the segments of its partitions takes at most this, unless a memory limit asks for less.
const WAITING_BYTES: usize = 1 << 30;
/// A file of at least so many bytes is made durable by the thread that writes it; smaller ones by the commit, together.
const SYNC_BYTES: u64 = 4 << 20;

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
            arrange: Arrange::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_limit: None,
            cancelled: Arc::default(),
        }
    }
}

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

/// Loads `inputs` into the table that `writer` holds, and commits. On any error nothing is committed.
pub fn load(writer: TableWriter, inputs: Vec<Input>, options: &LoadOptions) -> Result<LoadReport> {
    let named: Vec<_> = inputs.iter().map(|input| (input.name().to_path_buf(), input.consumed())).collect();
    let mut tally = Tally::open(&options.on_error, options.max_errors)?;
    let mut remarks = Remarks::default();
    let pipeline = pipeline_options(&writer, options);
    let tasks = Tasks::new(inputs, writer.schema(), options, pipeline.in_flight_bytes, &mut remarks)?;
    let mut report = store(writer, tasks, &pipeline, options, &mut tally)?;
    report.inputs = named
        .into_iter()
        .enumerate()
        .map(|(at, (name, consumed))| {
            let counts = tally.counts(at);
            let (rows_read, bytes) = (counts.stored + counts.rejected, consumed.load(Ordering::Relaxed));
            InputReport { name, rows_read, rows_rejected: counts.rejected, bytes }
        })
        .collect();
    report.bytes_in = report.inputs.iter().map(|input| input.bytes).sum();
    (report.skipped, report.guesses) = (remarks.skipped, remarks.guesses);
    Ok(report)
}

/// Appends the rows of `batches`, whose columns are matched by name with those of the table that `writer` holds, and
/// commits. Batches are asked for on this thread, as room for them appears; an error among them ends it, and nothing
/// is committed.
pub fn load_batches(
    writer: TableWriter,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    options: &LoadOptions,
) -> Result<LoadReport> {
    let pipeline = pipeline_options(&writer, options);
    let task = |batch: Result<RecordBatch>| {
        let batch = batch?;
        Ok(Task::new(batch.get_array_memory_size(), move || Ok(batch.into())))
    };
    let mut tally = Tally::open(&OnError::Fail, None)?;
    store(writer, batches.map(task), &pipeline, options, &mut tally)
}

/// Runs `tasks` into segments of the table, and commits.
fn store(
    mut writer: TableWriter,
    tasks: impl Iterator<Item = Result<Task>>,
    pipeline: &PipelineOptions,
    options: &LoadOptions,
    tally: &mut Tally,
) -> Result<LoadReport> {
    let started = Instant::now();
    let pool = thread_pool(options.threads)?;
    let before = writer.schema().clone();
    let mut schema = before.clone();
    // One segment is written while the next is encoded; none waits between them.
    let (to_disk, encoded) = sync_channel(0);
    let files = writer.data_files();
    let table = writer.base().map(|root| root.arrangement.clone());
    let arrange = Arrange { table, ..options.arrange.clone() };
    let (arrangement, stored) = std::thread::scope(|scope| {
        let storing = scope.spawn(move || store_segments(&files, encoded));
        let arrangement = feed(&pool, tasks, &mut schema, &arrange, pipeline, tally, to_disk);
        let stored = storing.join().unwrap_or_else(|_| Err(pipeline::stopped("<writer>")));
        // A failure to write also ends the feeding, and is the one to report.
        stored.and_then(|stored| arrangement.map(|arrangement| (arrangement, stored)))
    })?;
    check_widening(&writer, &before, &schema, stored.iter().map(|(_, segment)| segment))?;
    let mut report = LoadReport { segments: stored.len() as u64, ..LoadReport::default() };
    (report.rows_stored, report.rows_rejected) = (tally.total().stored, tally.total().rejected);
    report.rows_read = report.rows_stored + report.rows_rejected;
    report.first_rejects = tally.first().to_vec();
    report.bytes_stored = stored.iter().map(|(_, segment)| segment.length).sum();
    let mut changes = Changes { schema, ..writer.changes() };
    changes.arrangement = arrangement.unwrap_or(changes.arrangement);
    changes.edits = tiers::append(&writer, stored, &changes.schema, &changes.arrangement, &pool, pipeline)?;
    tally.seal()?;
    let commit = writer.commit_changes(changes)?;
    (report.generation, report.bytes_metadata) = (commit.generation, commit.metadata_bytes);
    tally.publish()?;
    report.elapsed = started.elapsed();
    Ok(report)
}

/// The workers of an ingest.
pub(crate) fn thread_pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("ingest-{i}"))
        // Its answer will be missed, which is an error; without a handler the process would be aborted.
        .panic_handler(|_| {})
        .build()
        .map_err(|error| Error::LimitExceeded(format!("no threads: {error}")))
}

/// What the pipeline is told, so that it keeps within the memory that there is.
pub(crate) fn pipeline_options(writer: &TableWriter, options: &LoadOptions) -> PipelineOptions {
    let table = writer.options();
    // One segment fills, one is encoded (and doubled while its bytes appear), a quarter is input on its way.
    let limit = options.memory_limit.unwrap_or_else(|| memory::available() / 10 * 7);
    let quarter = usize::try_from(limit / 4).unwrap_or(usize::MAX);
    let bytes = quarter.clamp(MIN_SEGMENT_BYTES, SEGMENT_BYTES);
    PipelineOptions {
        segment: SegmentLimits { rows: table.segment_rows as usize, bytes, block_rows: table.block_rows as usize },
        encoding: Options { force: options.force, ..Options::new(options.profile.unwrap_or(table.profile)) },
        in_flight: options.threads * 2,
        in_flight_bytes: quarter.clamp(TASK_BYTES, IN_FLIGHT_BYTES),
        waiting_bytes: quarter.clamp(MIN_SEGMENT_BYTES, WAITING_BYTES),
    }
}

/// Runs the pipeline; the channel to the writing thread closes when it returns.
fn feed(
    pool: &rayon::ThreadPool,
    tasks: impl Iterator<Item = Result<Task>>,
    schema: &mut Schema,
    arrange: &Arrange,
    options: &PipelineOptions,
    tally: &mut Tally,
    to_disk: SyncSender<(Arc<str>, EncodedSegment)>,
) -> Result<Option<Arrangement>> {
    let stopped = |_| Error::Cancelled;
    let mut sink = |path, segment| to_disk.send((path, segment)).map_err(stopped);
    pipeline::run(pool, tasks, schema, arrange, options, tally, &mut sink)
}

/// The writing thread: each segment becomes a file of its own, in large writes. They come back by partition, and within
/// each in the order of their rows.
fn store_segments(
    files: &DataFiles,
    encoded: Receiver<(Arc<str>, EncodedSegment)>,
) -> Result<Vec<(Arc<str>, NewSegment)>> {
    let mut segments = Vec::new();
    for (partition, segment) in encoded {
        segments.push((Arc::clone(&partition), store_segment(files, &partition, segment)?));
    }
    segments.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(segments)
}

/// Writes a segment to a file of its own.
pub(crate) fn store_segment(files: &DataFiles, partition: &str, segment: EncodedSegment) -> Result<NewSegment> {
    let mut file = files.create_in(partition)?;
    write_parts(&mut file, segment.parts)?;
    if segment.len >= SYNC_BYTES {
        file.sync()?;
    }
    Ok(NewSegment {
        file: file.uuid(),
        offset: 0,
        length: segment.len,
        uuid: segment.uuid,
        footer_crc: segment.footer_crc,
        rows: segment.rows,
        stats: segment.stats,
    })
}

/// Writes small parts together and large ones as they are, and lets go of each as soon as it is written.
fn write_parts(file: &mut DataFile, parts: Vec<Vec<u8>>) -> Result<()> {
    let mut together = Vec::new();
    for part in parts {
        if !together.is_empty() && together.len() + part.len() > WRITE_BYTES {
            file.write_all(&together)?;
            together.clear();
        }
        if part.len() > WRITE_BYTES {
            file.write_all(&part)?;
        } else {
            together.extend_from_slice(&part);
        }
    }
    if together.is_empty() { Ok(()) } else { file.write_all(&together) }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
