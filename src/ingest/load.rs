//! A whole load: inputs → segments of a table → one commit at the end, all or nothing, or several
//! commits on the way.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;

use super::accounting::RowAccounting;
use super::arrange::Arrange;
use super::input_tasks::selected::select_for;
use super::input_tasks::{InputTasks, LoadWarnings};
pub use super::options::{LoadOptions, LoadProgress};
pub(crate) use super::options::{pipeline_options, thread_pool};
use super::pace::Pace;
use super::pipeline::{self, Feed, PipelineOptions};
use super::rejects::{OnError, PriorRejects};
use super::rejects_file;
pub use super::report::{InputReport, LoadReport, NewColumn};
use super::resume::{self, CommitEvery, IfLoaded};
use super::segment_files::store_segments;
pub(crate) use super::segment_files::{store_segment, write_parts};
use super::sources::input::Input;
use super::task::Task;
use super::tiers;
use super::widening::check_widening;
use crate::error::{Error, Result};
use crate::manifest::{Id, LoadedSource};
use crate::model::{Arrangement, Schema};
use crate::store::{Changes, NewSegment, TableWriter};

/// How often rows of an input that may never end are handed on.
const LEAST_TICK: Duration = Duration::from_millis(10);
const MOST_TICK: Duration = Duration::from_millis(250);

/// Loads `inputs` into the table that `writer` holds and commits: once, so that an error leaves the
/// table unchanged, or as often as the options say. Inputs that were loaded before are not loaded
/// again unless asked for.
pub fn load(writer: TableWriter, inputs: Vec<Input>, options: &LoadOptions) -> Result<LoadReport> {
    let known = writer.sources()?;
    let ended = match options.on_error {
        OnError::Reject { .. } => resume::ended_loads(&inputs, &known)?,
        _ => Vec::new(),
    };
    let planned = resume::plan_load(inputs, &known, options.if_loaded);
    // Where rows are left to load, the file is theirs.
    let rejects = match &planned {
        Ok(plan) if !plan.inputs.is_empty() => None,
        _ => publish_left(&ended, options)?,
    };
    let mut plan = planned.map_err(|error| match (error, rejects) {
        (Error::InvalidInput(what), Some(file)) => {
            let file = file.display();
            Error::InvalidInput(format!("{what}; the rows that it rejected are in {file} now"))
        }
        (error, _) => error,
    })?;
    let pipeline = pipeline_options(writer.options(), options);
    let (most, pool) = (pipeline.in_flight_bytes, Arc::new(thread_pool(options.threads)?));
    let selected = select_for(&mut plan, options, &pool, most)?;
    let read: Vec<_> = plan
        .inputs
        .iter()
        .map(|input| ReadInput {
            name: input.name().to_path_buf(),
            consumed: input.consumed(),
            hash: input.hash(),
            loaded_bytes: input.loaded_bytes(),
        })
        .collect();
    let total = plan
        .inputs
        .iter()
        .map(|input| Some(input.size()?.saturating_sub(input.loaded_bytes())))
        .sum();
    let consumed = read.iter().map(|input| (Arc::clone(&input.consumed), input.loaded_bytes));
    let _ = options.progress.consumed.set(consumed.collect());
    if let Some(total) = total {
        let _ = options.progress.total.set(total);
    }
    let mut accounting =
        RowAccounting::open(&options.on_error, options.max_errors, &plan.prior_rejects)?;
    accounting.count_in(Arc::clone(&options.progress.rows));
    let mut warnings = LoadWarnings::default();
    let pieces_before: Vec<u64> = plan
        .sources
        .iter()
        .map(|source| source.as_ref().map_or(0, |source| source.pieces))
        .collect();
    let tasks = InputTasks::new(
        plan.inputs.into_iter().map(|input| live(input, options)).collect(),
        writer.schema(),
        options,
        Arc::clone(&pool),
        most,
        pieces_before.clone(),
        plan.done,
        selected,
        &mut warnings,
    )?;
    let mut feed = Feed::new(tasks);
    let mut loading = Loading::new(writer, pool, pipeline, options, accounting);
    let mut begun = 0;
    loop {
        let stored = loading.part(&mut feed)?;
        // Inputs before that of the next piece have been read completely.
        let next = feed.position();
        let (end, pieces) = next.unwrap_or((plan.sources.len(), 0));
        let pieces = pieces_before.get(end).copied().unwrap_or(0) + pieces;
        if pieces > 0 && read.get(end).is_some_and(|input| input.loaded_bytes > 0) {
            // Rows that were added to a file are one piece. Within it, nothing but an error comes
            // to stand here: it ends the load without this commit.
            return loading.part(&mut feed).and(Err(Error::Cancelled));
        }
        let mut sources = Vec::new();
        for number in begun..=end.min(plan.sources.len().saturating_sub(1)) {
            let known = plan.sources.get(number).and_then(Option::as_ref).zip(read.get(number));
            let Some((source, input)) = known else { continue };
            let counts = loading.accounting.counts(number);
            let done = number < end;
            let hash = input.hash.get().copied().filter(|_| done);
            sources.push(LoadedSource {
                // The file may have grown while it was read.
                size: match hash {
                    Some(_) => input.consumed.load(Ordering::Relaxed),
                    None => source.size,
                },
                rows: source.rows + counts.read(),
                rejected: source.rejected + counts.rejected,
                pieces: if done { 0 } else { pieces },
                hash: if done { hash } else { source.hash },
                done,
                ..source.clone()
            });
        }
        begun = end;
        loading.commit(stored, sources)?;
        loading.pace.iter_mut().for_each(|pace| pace.committed(feed.cut));
        if next.is_none() {
            break;
        }
    }
    drop(feed);
    let (mut report, accounting) = loading.finish()?;
    let input = |(at, input): (usize, ReadInput)| {
        let counts = accounting.counts(at);
        let bytes = input.consumed.load(Ordering::Relaxed).saturating_sub(input.loaded_bytes);
        InputReport {
            name: input.name,
            rows_read: counts.read(),
            rows_rejected: counts.rejected,
            rows_left_out: counts.left_out,
            blank_lines: counts.blank,
            bytes,
        }
    };
    report.inputs = read.into_iter().enumerate().map(input).collect();
    report.bytes_in = report.inputs.iter().map(|input| input.bytes).sum();
    (report.skipped, report.guesses) = (warnings.skipped, warnings.guesses);
    (report.loaded_before, report.resumed) = (plan.skipped, plan.resumed);
    (report.changed, report.added) = (plan.changed, plan.added);
    (report.replaced, report.same_bytes) = (plan.replaced, plan.same_bytes);
    Ok(report)
}

/// Names the rejected rows of an ended load that was killed right after its commit. Returns their
/// file, if there are such rows.
fn publish_left<'o>(ended: &[PriorRejects], options: &'o LoadOptions) -> Result<Option<&'o Path>> {
    let OnError::Reject { file, .. } = &options.on_error else { return Ok(None) };
    for ended in ended {
        if rejects_file::publish_left(file, ended)? {
            return Ok(Some(file.as_path()));
        }
    }
    Ok(None)
}

/// What is known of an input beside its rows.
struct ReadInput {
    name: PathBuf,
    consumed: Arc<AtomicU64>,
    hash: Arc<OnceLock<Id>>,
    loaded_bytes: u64,
}

/// An input that is no file, read as one that may never end if commits come by time.
pub(super) fn live(input: Input, options: &LoadOptions) -> Input {
    match options.commit_every {
        Some(CommitEvery::Time(every)) => {
            let tick = (every / 8).clamp(LEAST_TICK, MOST_TICK);
            input.live(tick, Arc::clone(&options.end_input))
        }
        _ => input,
    }
}

/// How many rows of these inputs were rejected by the stopped load that [`load`] would resume.
pub fn rejected_before(writer: &TableWriter, inputs: &[Input], if_loaded: IfLoaded) -> Result<u64> {
    resume::rejected_before(inputs, &writer.sources()?, if_loaded)
}

/// Appends the rows of `batches` to the table that `writer` holds, matching columns by name, and
/// commits. The iterator runs on this thread, as memory becomes free; if it yields an error,
/// nothing is committed.
pub fn load_batches(
    writer: TableWriter,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    options: &LoadOptions,
) -> Result<LoadReport> {
    let pipeline = pipeline_options(writer.options(), options);
    let task = |batch: Result<RecordBatch>| {
        let batch = batch?;
        Ok(Task::new(batch.get_array_memory_size(), move || Ok(batch.into())))
    };
    let (pool, accounting) = (
        Arc::new(thread_pool(options.threads)?),
        RowAccounting::open(&OnError::Fail, None, &PriorRejects::default())?,
    );
    let mut loading = Loading::new(writer, pool, pipeline, options, accounting);
    let stored = loading.part(&mut Feed::new(batches.map(task)))?;
    loading.commit(stored, Vec::new())?;
    Ok(loading.finish()?.0)
}

/// A running load.
struct Loading<'a> {
    writer: TableWriter,
    pool: Arc<rayon::ThreadPool>,
    pipeline: PipelineOptions,
    options: &'a LoadOptions,
    accounting: RowAccounting,
    /// Of commits by time.
    pace: Option<Pace>,
    started: Instant,
    report: LoadReport,
}

/// Segments that are written but not committed.
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
        accounting: RowAccounting,
    ) -> Self {
        let (started, report) = (Instant::now(), LoadReport::default());
        let pace = match options.commit_every {
            Some(CommitEvery::Time(every)) => Some(Pace::new(every)),
            _ => None,
        };
        Loading { writer, pool, pipeline, options, accounting, pace, started, report }
    }

    /// Runs tasks into segments until there are no more tasks or a commit is due.
    fn part(&mut self, from: &mut Feed<impl Iterator<Item = Result<Task>>>) -> Result<Stored> {
        let before = self.writer.schema().clone();
        let mut schema = before.clone();
        // One segment is written while the next is encoded; none queues between them.
        let (to_disk, encoded) = sync_channel(0);
        let files = self.writer.data_files();
        // A table without columns has no arrangement yet.
        let told = self.writer.base().filter(|root| !root.schema.columns().is_empty());
        let table = told.map(|root| root.arrangement.clone());
        let arrange = Arrange { table, ..self.options.arrange.clone() };
        let until = self.options.commit_every.filter(|_| !self.options.from_rejects);
        let until = match (until, &self.pace) {
            (Some(CommitEvery::Time(_)), Some(pace)) => Some(CommitEvery::Time(pace.left())),
            (until, _) => until,
        };
        let (pool, pipeline, accounting) = (&self.pool, &self.pipeline, &mut self.accounting);
        let (arrangement, segments) = std::thread::scope(|scope| {
            let storing = std::thread::Builder::new()
                .spawn_scoped(scope, move || store_segments(&files, encoded))
                .map_err(Error::too_few_threads)?;
            let stopped = |_| Error::Cancelled;
            // Dropping the sink closes the channel to the writing thread.
            let mut sink = move |path, segment| to_disk.send((path, segment)).map_err(stopped);
            let arrangement = pipeline::run_part(
                pool,
                from,
                until,
                &mut schema,
                &arrange,
                pipeline,
                accounting,
                &mut sink,
            );
            drop(sink);
            let stored = storing.join().unwrap_or_else(|_| Err(pipeline::stopped("<writer>")));
            // A failed write also ends the pipeline, and is the error to report.
            stored.and_then(|stored| arrangement.map(|arrangement| (arrangement, stored)))
        })?;
        check_widening(
            &self.writer.arrangement(),
            |column| self.writer.column_stats_by_segment(column),
            &before,
            &schema,
            segments.iter().map(|(_, segment)| segment),
        )?;
        Ok(Stored { schema, arrangement, segments })
    }

    /// Commits what was written.
    fn commit(&mut self, stored: Stored, sources: Vec<LoadedSource>) -> Result<()> {
        let Stored { schema, arrangement, segments } = stored;
        self.report.segments += segments.len() as u64;
        let loaded = segments.iter().map(|(_, segment)| segment.length).sum();
        self.report.bytes_stored += loaded;
        let mut changes = Changes { schema, sources, loaded, ..self.writer.changes() };
        changes.arrangement = arrangement.unwrap_or(changes.arrangement);
        let (schema, arrangement) = (&changes.schema, &changes.arrangement);
        let new_columns = NewColumn::between(self.writer.schema(), schema, self.writer.rows());
        changes.edits =
            tiers::append(&self.writer, segments, schema, arrangement, &self.pool, &self.pipeline)?;
        self.accounting.seal()?;
        let commit = match self.writer.commit_changes(changes) {
            // The rows are stored, so those that were rejected beside them are kept too.
            Err(error @ Error::Unconfirmed { .. }) => {
                let _ = self.accounting.publish();
                return Err(error);
            }
            done => done?,
        };
        self.report.generation = commit.generation;
        self.report.new_columns.extend(new_columns);
        self.report.bytes_metadata += commit.metadata_bytes;
        self.report.bytes_written += commit.written_bytes;
        self.report.write_volume = commit.write_volume;
        // Without a change, there is no new generation.
        self.report.commits += u64::from(commit.metadata_bytes > 0);
        let generation = commit.generation;
        let published = self.accounting.publish();
        published.map_err(|error| Error::Unreported { generation, source: Box::new(error) })
    }

    fn finish(mut self) -> Result<(LoadReport, RowAccounting)> {
        self.accounting.finish();
        let counts = self.accounting.total();
        (self.report.rows_stored, self.report.rows_rejected) = (counts.stored, counts.rejected);
        self.report.blank_lines = counts.blank;
        self.report.rows_left_out = counts.left_out;
        self.report.rows_read = counts.read();
        self.report.first_rejects = self.accounting.first().to_vec();
        self.report.elapsed = self.started.elapsed();
        Ok((std::mem::take(&mut self.report), std::mem::take(&mut self.accounting)))
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
