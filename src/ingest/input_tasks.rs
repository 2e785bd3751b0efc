//! The parsing tasks of all inputs, in order: opens each input, infers its columns from its first
//! rows, and cuts it into pieces for the workers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use rayon::ThreadPool;

use super::batch_checks::BatchChecks;
use super::columns::value_bytes;
use super::options::{LoadOptions, TASK_BYTES};
use super::rejects::{OnError, Reject, Rejects};
use super::sources::arrow::ArrowBatches;
use super::sources::csv::{self, CsvChunk, CsvChunks, CsvOptions, CsvSchema, Guess};
use super::sources::json::{self, JsonChunk, JsonChunks, JsonOptions, JsonSchema};
#[cfg(feature = "parquet")]
use super::sources::parquet::{ParquetSource, Spooled};
use super::sources::supported::no_such_column;
use super::sources::{Format, Input, Inputs, Opened, PathColumns, path_columns};
use super::task::{Parsed, Reparse, Task};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{DataType, Schema};

/// Warnings about inputs, reported at the end of a load.
#[derive(Debug, Default)]
pub(super) struct LoadWarnings {
    /// Columns skipped because of their type.
    pub(super) skipped: Vec<String>,
    /// Guesses, once each, with the first input that they concern.
    pub(super) guesses: Vec<(PathBuf, Guess)>,
}

/// An iterator over the tasks of all inputs.
pub(super) struct InputTasks<'a> {
    inputs: Inputs,
    /// For each input, how many pieces an earlier load has read.
    skip: Vec<u64>,
    /// Number of the current input.
    number: usize,
    /// The columns from the path of each input.
    path_columns: Vec<Arc<PathColumns>>,
    current: Option<CurrentInput>,
    current_columns: Arc<PathColumns>,
    options: &'a LoadOptions,
    /// Decodes row groups that are too large for one task.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    pool: Arc<ThreadPool>,
    /// Types of the table's columns and of the columns of earlier inputs.
    prior: Vec<(String, DataType)>,
    warnings: &'a mut LoadWarnings,
    /// Bytes read from the current input.
    consumed: Arc<AtomicU64>,
    /// The heaviest task to make, where the piece can be divided.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    max_task_bytes: usize,
}

/// Skips `skip` chunks, counting `first`, and returns the next one.
fn skip_chunks<T>(
    skip: u64,
    mut first: Option<T>,
    rest: &mut impl Iterator<Item = Result<T>>,
) -> Result<Option<T>> {
    for _ in 0..skip {
        if first.is_none() {
            break;
        }
        first = rest.next().transpose()?;
    }
    Ok(first)
}

enum CurrentInput {
    Csv { first: Option<CsvChunk>, chunks: CsvChunks, schema: Arc<CsvSchema> },
    Json { first: Option<JsonChunk>, chunks: Box<JsonChunks>, schema: Arc<JsonSchema> },
    Other(Box<dyn Iterator<Item = Result<Task>>>),
}

impl Iterator for InputTasks<'_> {
    type Item = Result<Task>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.options.cancelled.load(Ordering::Relaxed) {
            return Some(Err(Error::Cancelled));
        }
        let skip = self.options.on_error != OnError::Fail;
        loop {
            let next = match &mut self.current {
                None => None,
                Some(CurrentInput::Other(tasks)) => tasks.next(),
                Some(CurrentInput::Csv { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| csv_task(chunk, schema)),
                Some(CurrentInput::Json { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| json_task(chunk, schema, skip)),
            };
            if let Some(task) = next {
                return Some(task.map(|task| {
                    with_path_columns(Task { input: self.number, ..task }, &self.current_columns)
                }));
            }
            let turn = self.inputs.next()?;
            self.number = turn.number;
            self.consumed = turn.consumed;
            self.current_columns = self.path_columns.get(turn.number).cloned().unwrap_or_default();
            match turn.opened.and_then(|opened| self.open(opened)) {
                Ok(current) => self.current = Some(current),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn csv_task(chunk: Result<CsvChunk>, schema: &Arc<CsvSchema>) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    // A row that is longer than a chunk makes a longer chunk.
    let (bytes, weight) =
        (chunk.text.len() as u64, TASK_BYTES.max(chunk.text.len().saturating_mul(4)));
    if !schema.skip_bad_rows {
        let task = Task::new(weight, move || Ok(csv::parse_chunk(&schema, &chunk)?.into()));
        return Ok(Task { bytes, ..task });
    }
    let task = Task::new(weight, move || {
        let chunk = Arc::new(chunk);
        let (batch, rejects) = csv::parse_good_rows(&schema, &chunk)?;
        let reparse = move |table: &Schema| {
            let (batch, rejects) =
                csv::parse_good_rows(&Arc::new(schema.starting_from(table)), &chunk)?;
            Ok(Parsed { rejects, ..batch.into() })
        };
        Ok(Parsed { rejects, reparse: Some(Box::new(reparse)), ..batch.into() })
    });
    Ok(Task { bytes, ..task })
}

fn json_task(
    chunk: Result<JsonChunk>,
    schema: &Arc<JsonSchema>,
    skip_bad_rows: bool,
) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    let (bytes, weight) =
        (chunk.text.len() as u64, TASK_BYTES.max(chunk.text.len().saturating_mul(4)));
    if !skip_bad_rows {
        let task = Task::new(weight, move || Ok(json::parse_chunk(&schema, &chunk)?.into()));
        return Ok(Task { bytes, ..task });
    }
    let task = Task::new(weight, move || {
        let json::ParsedRows { batch, bad } = json::parse_rows(&schema, &chunk)?;
        let file: Arc<Path> = Arc::from(schema.file());
        let reject = move |bad: json::BadRow| Reject {
            file: Arc::clone(&file),
            line: bad.line,
            column: Arc::from(bad.column.unwrap_or_default()),
            reason: bad.reason,
            raw: String::from_utf8_lossy(&bad.text).into_owned(),
        };
        let rejects = Rejects::new(bad.len(), bad.into_iter().map(reject));
        Ok(Parsed { rejects, ..batch.into() })
    });
    Ok(Task { bytes, ..task })
}

/// The task with the path columns added to its batches.
fn with_path_columns(task: Task, added: &Arc<PathColumns>) -> Task {
    if added.names().next().is_none() {
        return task;
    }
    let (Task { weight, bytes, input, starts_piece, work }, added) = (task, added.clone());
    Task {
        weight,
        bytes,
        input,
        starts_piece,
        work: Box::new(move || add_path_columns(work()?, added)),
    }
}

fn add_path_columns(parsed: Parsed, added: Arc<PathColumns>) -> Result<Parsed> {
    let batches =
        parsed.batches.into_iter().map(|batch| added.add_to(batch)).collect::<Result<_>>()?;
    let reparse = parsed.reparse.map(|reparse| -> Reparse {
        Box::new(move |table| add_path_columns(reparse(table)?, added))
    });
    Ok(Parsed { batches, reparse, ..parsed })
}

/// A single empty batch, for the columns of an input without rows.
fn no_rows(schema: SchemaRef, checks: BatchChecks) -> CurrentInput {
    let work = move || Ok(checks.checked(RecordBatch::new_empty(schema))?.into());
    let task = Task::new(0, work);
    CurrentInput::Other(Box::new(std::iter::once(Ok(task))))
}

impl<'a> InputTasks<'a> {
    /// Tasks for these inputs and a table of this schema. Where a piece can be divided, no task
    /// weighs more than `max_task_bytes`. The first `skip` pieces of each input are left out.
    pub(super) fn new(
        inputs: Vec<Input>,
        schema: &Schema,
        options: &'a LoadOptions,
        pool: Arc<ThreadPool>,
        max_task_bytes: usize,
        skip: Vec<u64>,
        warnings: &'a mut LoadWarnings,
    ) -> Result<Self> {
        let columns = schema.columns().iter();
        let prior: Vec<_> =
            columns.map(|column| (column.name.to_string(), column.data_type.clone())).collect();
        let filename = options.filename_column.as_deref();
        let path_columns = path_columns(
            &inputs,
            options.partition_columns,
            filename,
            &options.csv.schema,
            &prior,
        )?;
        Ok(InputTasks {
            inputs: Inputs::new(inputs),
            skip,
            number: 0,
            path_columns: path_columns.into_iter().map(Arc::new).collect(),
            current: None,
            current_columns: Arc::default(),
            options,
            pool,
            prior,
            warnings,
            consumed: Arc::default(),
            max_task_bytes,
        })
    }

    /// How many pieces of the current input to leave out.
    fn pieces_to_skip(&self) -> u64 {
        self.skip.get(self.number).copied().unwrap_or(0)
    }

    fn open(&mut self, opened: Opened) -> Result<CurrentInput> {
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

    /// Small row groups are decoded by one task each, large ones batch by batch on demand.
    #[cfg(feature = "parquet")]
    fn open_parquet(&mut self, opened: Opened) -> Result<CurrentInput> {
        let name = opened.name.clone();
        let (skip_unsupported, memory) = (self.options.skip_unsupported, self.options.memory());
        let (source, skipped) =
            ParquetSource::open(Spooled::new(opened)?, skip_unsupported, memory)?;
        let checks = self.checks(&name, &*source.schema()?)?;
        self.warnings.skipped.extend(skipped);
        let in_place = source.bytes_in_place()?;
        if let Some(size) = in_place {
            // The bytes between row groups are counted at once.
            let groups = (0..source.groups())
                .map(|group| source.stored_bytes(group))
                .fold(0, u64::saturating_add);
            self.consumed.store(size.saturating_sub(groups), Ordering::Relaxed);
        }
        if source.rows() == 0 {
            return Ok(no_rows(source.schema()?, checks));
        }
        let (consumed, max_task_bytes, pool) =
            (self.consumed.clone(), self.max_task_bytes, Arc::clone(&self.pool));
        let threads = pool.current_num_threads();
        let skip = usize::try_from(self.pieces_to_skip()).unwrap_or(usize::MAX);
        let tasks = (skip.min(source.groups())..source.groups()).flat_map(move |group| {
            if in_place.is_some() {
                consumed.fetch_add(source.stored_bytes(group), Ordering::Relaxed);
            }
            let (bytes, weight) = (source.plain_bytes(group), source.memory_bytes(group));
            let tasks: Box<dyn Iterator<Item = Result<Task>>> = if weight <= max_task_bytes {
                let (source, checks) = (source.clone(), checks.clone());
                let work = move || {
                    let batches = source.read(group, threads)?.read_all()?;
                    let checked = batches.into_iter().map(|batch| checks.checked(batch));
                    checked.collect::<Result<Vec<_>>>().map(Parsed::from)
                };
                Box::new(std::iter::once(Ok(Task { bytes, ..Task::new(weight, work) })))
            } else {
                let (pool, checks) = (Arc::clone(&pool), checks.clone());
                match source.read(group, threads) {
                    Ok(mut rows) => Box::new(
                        std::iter::from_fn(move || pool.install(|| rows.next_batch()).transpose())
                            .enumerate()
                            .map(move |(number, batch)| {
                                let batch = checks.checked(batch?)?;
                                let task = Task::new(batch.get_array_memory_size(), move || {
                                    Ok(batch.into())
                                });
                                let starts_piece = number == 0;
                                Ok(Task {
                                    starts_piece,
                                    bytes: if starts_piece { bytes } else { 0 },
                                    ..task
                                })
                            }),
                    ),
                    Err(error) => Box::new(std::iter::once(Err(error))),
                }
            };
            tasks
        });
        Ok(CurrentInput::Other(Box::new(tasks)))
    }

    fn open_csv(&mut self, opened: Opened) -> Result<CurrentInput> {
        let mut options = self.options.csv.clone();
        options.delimiter = options.delimiter.or(CsvOptions::for_format(opened.format).delimiter);
        options.prior.clone_from(&self.prior);
        options.skip_bad_rows = self.options.on_error != OnError::Fail;
        options.external_columns.extend(self.current_columns.names().map(str::to_owned));
        let row_limit = limits::row_bytes(self.options.memory());
        let chunks = CsvChunks::new(&opened.name, opened.bytes, &options);
        let mut chunks = chunks.with_row_limit(row_limit);
        let first = chunks.next().transpose()?;
        if first.is_none() && !options.prior.is_empty() {
            // An empty input adds nothing where the columns are known.
            return Ok(CurrentInput::Other(Box::new(std::iter::empty())));
        }
        let schema = Arc::new(csv::infer(&opened.name, &options, first.as_ref())?);
        for guess in &schema.guesses {
            if self.warnings.guesses.iter().all(|(_, known)| known != guess) {
                self.warnings.guesses.push((opened.name.clone(), guess.clone()));
            }
        }
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        let first = skip_chunks(self.pieces_to_skip(), first, &mut chunks)?;
        Ok(CurrentInput::Csv { first, chunks, schema })
    }

    fn open_json(&mut self, opened: Opened) -> Result<CurrentInput> {
        let mut options = JsonOptions::from(&self.options.csv);
        options.prior.clone_from(&self.prior);
        options.external_columns.extend(self.current_columns.names().map(str::to_owned));
        let row_limit = limits::row_bytes(self.options.memory());
        let chunks = JsonChunks::new(&opened.name, opened.bytes);
        let mut chunks = chunks.with_row_limit(row_limit);
        let first = chunks.next().transpose()?;
        if first.is_none() && !options.prior.is_empty() {
            return Ok(CurrentInput::Other(Box::new(std::iter::empty())));
        }
        let schema = Arc::new(json::infer(&opened.name, &options, first.as_ref())?);
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        let first = skip_chunks(self.pieces_to_skip(), first, &mut chunks)?;
        Ok(CurrentInput::Json { first, chunks: Box::new(chunks), schema })
    }

    /// Decodes batches on the caller's thread while workers encode.
    fn open_arrow(&mut self, opened: Opened) -> Result<CurrentInput> {
        let (skip_unsupported, memory) = (self.options.skip_unsupported, self.options.memory());
        let path = opened.path.as_deref();
        let (batches, skipped) =
            ArrowBatches::open(&opened.name, opened.bytes, path, skip_unsupported, memory)?;
        self.warnings.skipped.extend(skipped);
        let schema = batches.columns()?;
        let checks = self.checks(&opened.name, &schema)?;
        let mut batches = batches.peekable();
        if batches.peek().is_none() {
            return Ok(no_rows(schema, checks));
        }
        let skip = usize::try_from(self.pieces_to_skip()).unwrap_or(usize::MAX);
        Ok(CurrentInput::Other(Box::new(batches.skip(skip).map(move |batch| {
            let batch = batch?;
            // All columns share one allocation, so the array sizes would count it several times.
            let bytes: usize = batch.columns().iter().map(value_bytes).sum();
            let checks = checks.clone();
            let work = move || checks.checked(batch).map(Parsed::from);
            Ok(Task { bytes: bytes as u64, ..Task::new(bytes, work) })
        }))))
    }

    /// The checks for batches of the current input, which has these columns.
    fn checks(&self, name: &Path, columns: &ArrowSchema) -> Result<BatchChecks> {
        let mut types = Vec::new();
        for (column, data_type) in &self.options.csv.schema {
            if columns.field_with_name(column).is_ok() {
                types.push((column.as_str(), data_type.clone()));
            } else if self.current_columns.names().all(|known| known != column) {
                let names = columns.fields().iter().map(|field| field.name().as_str());
                return Err(no_such_column(name, column, names));
            }
        }
        Ok(BatchChecks {
            file: Arc::from(name),
            has_path_columns: self.current_columns.names().next().is_some(),
            types: Schema::from_names(types)?.columns().into(),
        })
    }

    /// Records the types of an input's columns for the inputs after it.
    fn note_types<'c>(&mut self, columns: impl Iterator<Item = (&'c str, &'c DataType)>) {
        let places: HashMap<String, usize> =
            self.prior.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        for (name, data_type) in columns {
            match places.get(name).and_then(|at| self.prior.get_mut(*at)) {
                Some((_, known)) => {
                    *known = known.join(data_type).unwrap_or_else(|| data_type.clone())
                }
                None => self.prior.push((name.to_owned(), data_type.clone())),
            }
        }
    }
}
