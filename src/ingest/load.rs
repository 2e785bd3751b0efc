//! A whole ingest: inputs → segments of a table → one commit, all or nothing, or several on the
//! way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use super::arrange::Arrange;
use super::columns::SegmentLimits;
use super::pipeline::{self, Feed, PipelineOptions, Task};
use super::rejects::{OnError, Reject, Tally};
use super::resume::{self, Before, CommitEvery, IfLoaded};
use super::sources::Input;
use super::sources::csv::{CsvOptions, Guess};
use super::tasks::{Remarks, Tasks};
use super::tiers;
use super::widening::check_widening;
use crate::disk::memory;
use crate::encoding::{Encoding, Options, Profile};
use crate::error::{Error, Result};
use crate::manifest::{LoadedSource, WriteVolume};
use crate::model::{Arrangement, Schema};
use crate::segment::EncodedSegment;
use crate::store::{Changes, DataFile, DataFiles, NewSegment, TableWriter};

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
/// Bytes of a write, unless a part of a segment is longer.
const WRITE_BYTES: usize = 8 << 20;
/// What is being parsed takes at most this, unless a memory limit asks for less.
const IN_FLIGHT_BYTES: usize = 256 << 20;
/// What waits for the segments of its partitions takes at most this, unless a memory limit asks for
/// less.
const WAITING_BYTES: usize = 1 << 30;
/// A file of at least so many bytes is made durable by the thread that writes it; smaller ones by
/// the commit, together.
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
    pub write_volume: WriteVolume,
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

/// Loads `inputs` into the table that `writer` holds, and commits: once, so that on any error
/// nothing is, or as often as it is told. Inputs that were loaded before are not loaded again
/// unasked.
pub fn load(writer: TableWriter, inputs: Vec<Input>, options: &LoadOptions) -> Result<LoadReport> {
    let plan = resume::plan(inputs, &writer.sources()?, options.if_loaded)?;
    let read: Vec<_> = plan
        .inputs
        .iter()
        .map(|input| (input.name().to_path_buf(), input.consumed(), input.hash()))
        .collect();
    let tally = Tally::open(&options.on_error, options.max_errors, &plan.before)?;
    let mut remarks = Remarks::default();
    let pipeline = pipeline_options(&writer, options);
    let pieces_before: Vec<u64> = plan
        .sources
        .iter()
        .map(|source| source.as_ref().map_or(0, |source| source.pieces))
        .collect();
    let (most, pool) = (pipeline.in_flight_bytes, Arc::new(thread_pool(options.threads)?));
    let tasks = Tasks::new(
        plan.inputs,
        writer.schema(),
        options,
        Arc::clone(&pool),
        most,
        pieces_before.clone(),
        &mut remarks,
    )?;
    let mut feed = Feed::new(tasks);
    let mut loading = Loading::new(writer, pool, pipeline, options, tally);
    let mut begun = 0;
    loop {
        let stored = loading.part(&mut feed)?;
        // Inputs before that of the next piece are read to their ends.
        let next = feed.position();
        let (end, pieces) = next.unwrap_or((plan.sources.len(), 0));
        let pieces = pieces_before.get(end).copied().unwrap_or(0) + pieces;
        let mut sources = Vec::new();
        for number in begun..=end.min(plan.sources.len().saturating_sub(1)) {
            let Some(source) = plan.sources.get(number).and_then(Option::as_ref) else { continue };
            let counts = loading.tally.counts(number);
            let done = number < end;
            sources.push(LoadedSource {
                rows: source.rows + counts.stored + counts.rejected,
                rejected: source.rejected + counts.rejected,
                pieces: if done { 0 } else { pieces },
                hash: read.get(number).and_then(|(.., hash)| hash.get().copied()).filter(|_| done),
                done,
                ..source.clone()
            });
        }
        begun = end;
        loading.commit(stored, sources)?;
        if next.is_none() {
            break;
        }
    }
    drop(feed);
    let (mut report, tally) = loading.finish()?;
    let input = |(at, (name, consumed, _)): (usize, (PathBuf, Arc<AtomicU64>, _))| {
        let counts = tally.counts(at);
        let (rows_read, bytes) =
            (counts.stored + counts.rejected, consumed.load(Ordering::Relaxed));
        InputReport { name, rows_read, rows_rejected: counts.rejected, bytes }
    };
    report.inputs = read.into_iter().enumerate().map(input).collect();
    report.bytes_in = report.inputs.iter().map(|input| input.bytes).sum();
    (report.skipped, report.guesses) = (remarks.skipped, remarks.guesses);
    (report.loaded_before, report.resumed) = (plan.skipped, plan.resumed);
    Ok(report)
}

/// How many rows of these inputs a load has rejected that was stopped, and that [`load`] would go
/// on with.
pub fn rejected_before(writer: &TableWriter, inputs: &[Input], if_loaded: IfLoaded) -> Result<u64> {
    resume::rejected_before(inputs, &writer.sources()?, if_loaded)
}

/// Appends the rows of `batches`, whose columns are matched by name with those of the table that
/// `writer` holds, and commits. Batches are asked for on this thread, as room for them appears; an
/// error among them ends it, and nothing is committed.
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
    let (pool, tally) = (
        Arc::new(thread_pool(options.threads)?),
        Tally::open(&OnError::Fail, None, &Before::default())?,
    );
    let mut loading = Loading::new(writer, pool, pipeline, options, tally);
    let stored = loading.part(&mut Feed::new(batches.map(task)))?;
    loading.commit(stored, Vec::new())?;
    Ok(loading.finish()?.0)
}

/// A load on its way.
struct Loading<'a> {
    writer: TableWriter,
    pool: Arc<rayon::ThreadPool>,
    pipeline: PipelineOptions,
    options: &'a LoadOptions,
    tally: Tally,
    started: Instant,
    report: LoadReport,
}

/// What is written and not yet in force.
struct Stored {
    schema: Schema,
    arrangement: Option<Arrangement>,
    segments: Vec<(Arc<str>, NewSegment)>,
}

impl<'a> Loading<'a> {
    fn new(
        writer: TableWriter,
        pool: Arc<rayon::ThreadPool>,
        pipeline: PipelineOptions,
        options: &'a LoadOptions,
        tally: Tally,
    ) -> Self {
        let (started, report) = (Instant::now(), LoadReport::default());
        Loading { writer, pool, pipeline, options, tally, started, report }
    }

    /// Runs tasks into segments, until there are none or a commit is due.
    fn part(&mut self, from: &mut Feed<impl Iterator<Item = Result<Task>>>) -> Result<Stored> {
        let before = self.writer.schema().clone();
        let mut schema = before.clone();
        // One segment is written while the next is encoded; none waits between them.
        let (to_disk, encoded) = sync_channel(0);
        let files = self.writer.data_files();
        // A table without columns has not been told yet.
        let told = self.writer.base().filter(|root| !root.schema.columns().is_empty());
        let table = told.map(|root| root.arrangement.clone());
        let arrange = Arrange { table, ..self.options.arrange.clone() };
        let (pool, pipeline, until, tally) =
            (&self.pool, &self.pipeline, self.options.commit_every, &mut self.tally);
        let (arrangement, segments) = std::thread::scope(|scope| {
            let storing = scope.spawn(move || store_segments(&files, encoded));
            let stopped = |_| Error::Cancelled;
            // The channel to the writing thread closes when this is over.
            let mut sink = move |path, segment| to_disk.send((path, segment)).map_err(stopped);
            let arrangement = pipeline::run_part(
                pool,
                from,
                until,
                &mut schema,
                &arrange,
                pipeline,
                tally,
                &mut sink,
            );
            drop(sink);
            let stored = storing.join().unwrap_or_else(|_| Err(pipeline::stopped("<writer>")));
            // A failure to write also ends the feeding, and is the one to report.
            stored.and_then(|stored| arrangement.map(|arrangement| (arrangement, stored)))
        })?;
        check_widening(
            &self.writer,
            &before,
            &schema,
            segments.iter().map(|(_, segment)| segment),
        )?;
        Ok(Stored { schema, arrangement, segments })
    }

    /// Puts in force what was written.
    fn commit(&mut self, stored: Stored, sources: Vec<LoadedSource>) -> Result<()> {
        let Stored { schema, arrangement, segments } = stored;
        self.report.segments += segments.len() as u64;
        let loaded = segments.iter().map(|(_, segment)| segment.length).sum();
        self.report.bytes_stored += loaded;
        let mut changes = Changes { schema, sources, loaded, ..self.writer.changes() };
        changes.arrangement = arrangement.unwrap_or(changes.arrangement);
        let (schema, arrangement) = (&changes.schema, &changes.arrangement);
        changes.edits =
            tiers::append(&self.writer, segments, schema, arrangement, &self.pool, &self.pipeline)?;
        self.tally.seal()?;
        let commit = self.writer.commit_changes(changes)?;
        self.report.generation = commit.generation;
        self.report.bytes_metadata += commit.metadata_bytes;
        self.report.bytes_written += commit.written_bytes;
        self.report.write_volume = commit.write_volume;
        self.report.commits += 1;
        self.tally.publish()
    }

    fn finish(mut self) -> Result<(LoadReport, Tally)> {
        self.tally.finish();
        let counts = self.tally.total();
        (self.report.rows_stored, self.report.rows_rejected) = (counts.stored, counts.rejected);
        self.report.rows_read = counts.stored + counts.rejected;
        self.report.first_rejects = self.tally.first().to_vec();
        self.report.elapsed = self.started.elapsed();
        Ok((std::mem::take(&mut self.report), std::mem::take(&mut self.tally)))
    }
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

/// The writing thread: each segment becomes a file of its own, in large writes. They come back by
/// partition, and within each in the order of their rows.
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
pub(crate) fn store_segment(
    files: &DataFiles,
    partition: &str,
    segment: EncodedSegment,
) -> Result<NewSegment> {
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

/// Writes small parts together and large ones as they are, and lets go of each as soon as it is
/// written.
pub(crate) fn write_parts(file: &mut DataFile, parts: Vec<Vec<u8>>) -> Result<()> {
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
