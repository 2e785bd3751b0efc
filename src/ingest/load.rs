//! A whole ingest: inputs → segments of a table → one commit, all or nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use super::columns::SegmentLimits;
use super::pipeline::{self, PipelineOptions, Task};
use super::sources::arrow::ArrowBatches;
use super::sources::csv::{self, CsvChunk, CsvChunks, CsvOptions, CsvSchema, Guess};
use super::sources::json::{self, JsonChunk, JsonChunks, JsonOptions, JsonSchema};
#[cfg(feature = "parquet")]
use super::sources::parquet::{ParquetSource, Spooled};
use super::sources::{Constants, Format, Input, Inputs, Opened, constants};
use super::widening::check_widening;
use crate::encoding::{Encoding, Options, Profile};
use crate::error::{Error, Result};
use crate::model::{DataType, Schema};
use crate::segment::EncodedSegment;
use crate::store::{DataFile, DataFiles, NewSegment, TableWriter};

/// Bytes of values in memory at which a segment is closed, unless a memory limit asks for less.
const SEGMENT_BYTES: usize = 192 << 20;
/// The smallest segment that a memory limit can force.
const MIN_SEGMENT_BYTES: usize = 4 << 20;
/// What one text chunk takes while it is parsed: its text, and the arrays made of it.
const TASK_BYTES: usize = 16 << 20;
/// Bytes of a write, unless a part of a segment is longer.
const WRITE_BYTES: usize = 8 << 20;
/// What is being parsed takes at most this, unless a memory limit asks for less.
const IN_FLIGHT_BYTES: usize = 256 << 20;

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
    /// The balance of size and speed; `None` takes the table's.
    pub profile: Option<Profile>,
    /// For tests: the encoding to use wherever it can.
    pub force: Option<Encoding>,
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
            profile: None,
            force: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_limit: None,
            cancelled: Arc::default(),
        }
    }
}

/// What an ingest did.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Rows read, all of them stored.
    pub rows: u64,
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

/// Loads `inputs` into the table that `writer` holds, and commits. On any error nothing is committed.
pub fn load(writer: TableWriter, inputs: Vec<Input>, options: &LoadOptions) -> Result<LoadReport> {
    let consumed: Vec<_> = inputs.iter().map(Input::consumed).collect();
    let (mut skipped, mut guesses) = (Vec::new(), Vec::new());
    let prior: Vec<_> =
        writer.schema().columns().iter().map(|c| (c.name.to_string(), c.data_type.clone())).collect();
    let pipeline = pipeline_options(&writer, options);
    let filename = options.filename_column.as_deref();
    let constants = constants(&inputs, options.partition_columns, filename, &options.csv.schema, &prior)?;
    let tasks = Tasks {
        inputs: Inputs::new(inputs),
        constants: constants.into_iter().map(Arc::new).collect(),
        current: None,
        added: Arc::default(),
        options,
        prior,
        skipped: &mut skipped,
        guesses: &mut guesses,
        consumed: Arc::default(),
        most: pipeline.in_flight_bytes,
    };
    let mut report = store(writer, tasks, &pipeline, options)?;
    report.bytes_in = consumed.iter().map(|c| c.load(Ordering::Relaxed)).sum();
    (report.skipped, report.guesses) = (skipped, guesses);
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
        Ok(Task { weight: batch.get_array_memory_size(), work: Box::new(move || Ok(vec![batch])) })
    };
    store(writer, batches.map(task), &pipeline, options)
}

/// Runs `tasks` into segments of the table, and commits.
fn store(
    mut writer: TableWriter,
    tasks: impl Iterator<Item = Result<Task>>,
    pipeline: &PipelineOptions,
    options: &LoadOptions,
) -> Result<LoadReport> {
    let started = Instant::now();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .thread_name(|i| format!("ingest-{i}"))
        // Its answer will be missed, which is an error; without a handler the process would be aborted.
        .panic_handler(|_| {})
        .build()
        .map_err(|e| Error::LimitExceeded(format!("no threads: {e}")))?;
    let before = writer.schema().clone();
    let mut schema = before.clone();
    // One segment is written while the next is encoded; none waits between them.
    let (to_disk, encoded) = sync_channel::<EncodedSegment>(0);
    let files = writer.data_files();
    let (rows, segments) = std::thread::scope(|scope| {
        let storing = scope.spawn(move || store_segments(&files, encoded));
        let rows = feed(&pool, tasks, &mut schema, pipeline, to_disk);
        let segments = storing.join().unwrap_or_else(|_| Err(pipeline::stopped("<writer>")));
        // A failure to write also ends the feeding, and is the one to report.
        segments.and_then(|segments| rows.map(|rows| (rows, segments)))
    })?;
    check_widening(&writer, &before, &schema, &segments)?;
    let mut report = LoadReport { rows, segments: segments.len() as u64, ..LoadReport::default() };
    report.bytes_stored = segments.iter().map(|s| s.length).sum();
    report.bytes_metadata = writer.commit(schema, segments)?.metadata_bytes;
    report.elapsed = started.elapsed();
    Ok(report)
}

fn pipeline_options(writer: &TableWriter, options: &LoadOptions) -> PipelineOptions {
    let table = writer.options();
    // One segment fills, one is encoded (and doubled while its bytes appear), a quarter is input on its way.
    let quarter = options.memory_limit.map_or(usize::MAX, |limit| usize::try_from(limit / 4).unwrap_or(usize::MAX));
    let bytes = quarter.clamp(MIN_SEGMENT_BYTES, SEGMENT_BYTES);
    PipelineOptions {
        segment: SegmentLimits { rows: table.segment_rows as usize, bytes, block_rows: table.block_rows as usize },
        encoding: Options { force: options.force, ..Options::new(options.profile.unwrap_or(table.profile)) },
        in_flight: options.threads * 2,
        in_flight_bytes: quarter.clamp(TASK_BYTES, IN_FLIGHT_BYTES),
    }
}

/// Runs the pipeline; the channel to the writing thread closes when it returns.
fn feed(
    pool: &rayon::ThreadPool,
    tasks: impl Iterator<Item = Result<Task>>,
    schema: &mut Schema,
    options: &PipelineOptions,
    to_disk: SyncSender<EncodedSegment>,
) -> Result<u64> {
    let stopped = |_| Error::Cancelled;
    pipeline::run(pool, tasks, schema, options, &mut |segment| to_disk.send(segment).map_err(stopped))
}

/// The writing thread: each segment becomes a durable file of its own, in large writes.
fn store_segments(files: &DataFiles, encoded: Receiver<EncodedSegment>) -> Result<Vec<NewSegment>> {
    let mut segments = Vec::new();
    for segment in encoded {
        let mut file = files.create()?;
        write_parts(&mut file, segment.parts)?;
        file.sync()?;
        segments.push(NewSegment {
            file: file.uuid(),
            offset: 0,
            length: segment.len,
            uuid: segment.uuid,
            footer_crc: segment.footer_crc,
            rows: segment.rows,
            stats: segment.stats,
        });
    }
    Ok(segments)
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

/// The parsing tasks of all inputs, in order.
struct Tasks<'a> {
    inputs: Inputs,
    /// The columns that each input's path tells.
    constants: Vec<Arc<Constants>>,
    current: Option<Current>,
    /// Those of the input at hand.
    added: Arc<Constants>,
    options: &'a LoadOptions,
    /// Types of the table's columns, and of those that earlier inputs had.
    prior: Vec<(String, DataType)>,
    skipped: &'a mut Vec<String>,
    guesses: &'a mut Vec<(PathBuf, Guess)>,
    /// Bytes read from the input at hand.
    consumed: Arc<AtomicU64>,
    /// The heaviest task to make, where there is a choice.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    most: usize,
}

enum Current {
    Csv { first: Option<CsvChunk>, chunks: CsvChunks, schema: Arc<CsvSchema> },
    Json { first: Option<JsonChunk>, chunks: Box<JsonChunks>, schema: Arc<JsonSchema> },
    Other(Box<dyn Iterator<Item = Result<Task>>>),
}

impl Iterator for Tasks<'_> {
    type Item = Result<Task>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.options.cancelled.load(Ordering::Relaxed) {
            return Some(Err(Error::Cancelled));
        }
        loop {
            let next = match &mut self.current {
                None => None,
                Some(Current::Other(tasks)) => tasks.next(),
                Some(Current::Csv { first, chunks, schema }) => {
                    first.take().map(Ok).or_else(|| chunks.next()).map(|chunk| csv_task(chunk, schema))
                }
                Some(Current::Json { first, chunks, schema }) => {
                    first.take().map(Ok).or_else(|| chunks.next()).map(|chunk| json_task(chunk, schema))
                }
            };
            if let Some(task) = next {
                return Some(task.map(|task| with_constants(task, &self.added)));
            }
            let turn = self.inputs.next()?;
            self.consumed = turn.consumed;
            self.added = self.constants.get(turn.number).cloned().unwrap_or_default();
            match turn.opened.and_then(|opened| self.open(opened)) {
                Ok(current) => self.current = Some(current),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn csv_task(chunk: Result<CsvChunk>, schema: &Arc<CsvSchema>) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    // Rows longer than a chunk make a longer one.
    let weight = TASK_BYTES.max(chunk.text.len().saturating_mul(4));
    Ok(Task { weight, work: Box::new(move || Ok(vec![csv::parse_chunk(&schema, &chunk)?])) })
}

fn json_task(chunk: Result<JsonChunk>, schema: &Arc<JsonSchema>) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    let weight = TASK_BYTES.max(chunk.text.len().saturating_mul(4));
    Ok(Task { weight, work: Box::new(move || Ok(vec![json::parse_chunk(&schema, &chunk)?])) })
}

/// The task, with the columns that its input's path tells.
fn with_constants(task: Task, added: &Arc<Constants>) -> Task {
    if added.names().next().is_none() {
        return task;
    }
    let Task { weight, work } = task;
    let added = added.clone();
    let work = Box::new(move || work()?.into_iter().map(|batch| added.add_to(batch)).collect());
    Task { weight, work }
}

impl Tasks<'_> {
    fn open(&mut self, opened: Opened) -> Result<Current> {
        match opened.format {
            Format::Csv | Format::Tsv => self.open_csv(opened),
            Format::Json => self.open_json(opened),
            Format::Arrow => self.open_arrow(opened),
            #[cfg(feature = "parquet")]
            Format::Parquet => self.open_parquet(opened),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(Error::Unsupported("this build does not read Parquet".into())),
        }
    }

    /// Small row groups are decoded by workers, large ones batch by batch on the caller's thread while workers encode.
    #[cfg(feature = "parquet")]
    fn open_parquet(&mut self, opened: Opened) -> Result<Current> {
        let (source, skipped) = ParquetSource::open(Spooled::of(opened)?, self.options.skip_unsupported)?;
        self.skipped.extend(skipped);
        let in_place = source.bytes_in_place()?;
        if let Some(size) = in_place {
            // What is between the row groups counts at once.
            let groups: u64 = (0..source.groups()).map(|group| source.stored_bytes(group)).sum();
            self.consumed.store(size.saturating_sub(groups), Ordering::Relaxed);
        }
        let (consumed, most) = (self.consumed.clone(), self.most);
        let tasks = (0..source.groups()).flat_map(move |group| {
            if in_place.is_some() {
                consumed.fetch_add(source.stored_bytes(group), Ordering::Relaxed);
            }
            let weight = source.memory_bytes(group);
            let tasks: Box<dyn Iterator<Item = Result<Task>>> = if weight <= most {
                let source = source.clone();
                let work = Box::new(move || source.read(group)?.collect());
                Box::new(std::iter::once(Ok(Task { weight, work })))
            } else {
                match source.read(group) {
                    Ok(batches) => Box::new(batches.map(|batch| {
                        let batch = batch?;
                        let weight = batch.get_array_memory_size();
                        Ok(Task { weight, work: Box::new(move || Ok(vec![batch])) })
                    })),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            };
            tasks
        });
        Ok(Current::Other(Box::new(tasks)))
    }

    fn open_csv(&mut self, opened: Opened) -> Result<Current> {
        let mut options = self.options.csv.clone();
        options.delimiter = options.delimiter.or(CsvOptions::for_format(opened.format).delimiter);
        options.prior.clone_from(&self.prior);
        options.elsewhere.extend(self.added.names().map(str::to_owned));
        let mut chunks = CsvChunks::new(&opened.name, opened.bytes, &options);
        let first = chunks.next().transpose()?;
        if first.is_none() && !options.prior.is_empty() {
            // Not a byte: nothing to add where the columns are known.
            return Ok(Current::Other(Box::new(std::iter::empty())));
        }
        let schema = Arc::new(csv::infer(&opened.name, &options, first.as_ref())?);
        for guess in &schema.guesses {
            if self.guesses.iter().all(|(_, known)| known != guess) {
                self.guesses.push((opened.name.clone(), guess.clone()));
            }
        }
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        Ok(Current::Csv { first, chunks, schema })
    }

    fn open_json(&mut self, opened: Opened) -> Result<Current> {
        let mut options = JsonOptions::from(&self.options.csv);
        options.prior.clone_from(&self.prior);
        options.elsewhere.extend(self.added.names().map(str::to_owned));
        let mut chunks = JsonChunks::new(&opened.name, opened.bytes);
        let first = chunks.next().transpose()?;
        if first.is_none() && !options.prior.is_empty() {
            return Ok(Current::Other(Box::new(std::iter::empty())));
        }
        let schema = Arc::new(json::infer(&opened.name, &options, first.as_ref())?);
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        Ok(Current::Json { first, chunks: Box::new(chunks), schema })
    }

    /// Batches are decoded on the caller's thread while workers encode.
    fn open_arrow(&mut self, opened: Opened) -> Result<Current> {
        let (batches, skipped) = ArrowBatches::open(&opened.name, opened.bytes, self.options.skip_unsupported)?;
        self.skipped.extend(skipped);
        Ok(Current::Other(Box::new(batches.map(|batch| {
            let batch = batch?;
            Ok(Task { weight: batch.get_array_memory_size(), work: Box::new(move || Ok(vec![batch])) })
        }))))
    }

    /// Notes the types of an input's columns, for the inputs after it.
    fn note_types<'c>(&mut self, columns: impl Iterator<Item = (&'c str, &'c DataType)>) {
        let places: HashMap<String, usize> =
            self.prior.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        for (name, data_type) in columns {
            match places.get(name).and_then(|at| self.prior.get_mut(*at)) {
                Some((_, known)) => *known = known.join(data_type).unwrap_or_else(|| data_type.clone()),
                None => self.prior.push((name.to_owned(), data_type.clone())),
            }
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
