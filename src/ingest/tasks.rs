//! The parsing tasks of all inputs, in order: an input is opened, its first rows say what its
//! columns are, and pieces of it are handed to whoever has time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::SchemaRef;
use rayon::ThreadPool;

use super::columns::value_bytes;
use super::load::{LoadOptions, TASK_BYTES};
use super::pipeline::{Again, Parsed, Task};
use super::rejects::{OnError, Reject, Rejects};
use super::sources::arrow::ArrowBatches;
use super::sources::csv::{self, CsvChunk, CsvChunks, CsvOptions, CsvSchema, Guess};
use super::sources::json::{self, JsonChunk, JsonChunks, JsonOptions, JsonSchema};
#[cfg(feature = "parquet")]
use super::sources::parquet::{ParquetSource, Spooled};
use super::sources::{Constants, Format, Input, Inputs, Opened, constants};
use crate::error::{Error, Result};
use crate::model::{DataType, Schema};

/// What is to be said about inputs when all is done.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// Columns left out because of their type.
    pub(super) skipped: Vec<String>,
    /// What was taken for granted, once each, with the input that it was first said of.
    pub(super) guesses: Vec<(PathBuf, Guess)>,
}

/// See above.
pub(super) struct Tasks<'a> {
    inputs: Inputs,
    /// Of each input: how many pieces a load before this has read.
    skip: Vec<u64>,
    /// Number of the input at hand.
    at: usize,
    /// The columns that each input's path tells.
    constants: Vec<Arc<Constants>>,
    current: Option<Current>,
    /// Those of the input at hand.
    added: Arc<Constants>,
    options: &'a LoadOptions,
    /// Decodes what is too large for one task.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    pool: Arc<ThreadPool>,
    /// Types of the table's columns, and of those that earlier inputs had.
    prior: Vec<(String, DataType)>,
    remarks: &'a mut Remarks,
    /// Bytes read from the input at hand.
    consumed: Arc<AtomicU64>,
    /// The heaviest task to make, where there is a choice.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    most: usize,
}

/// The first chunk that is not to be left out.
fn after<T>(
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
        let skip = self.options.on_error != OnError::Fail;
        loop {
            let next = match &mut self.current {
                None => None,
                Some(Current::Other(tasks)) => tasks.next(),
                Some(Current::Csv { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| csv_task(chunk, schema)),
                Some(Current::Json { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| json_task(chunk, schema, skip)),
            };
            if let Some(task) = next {
                return Some(
                    task.map(|task| with_constants(Task { input: self.at, ..task }, &self.added)),
                );
            }
            let turn = self.inputs.next()?;
            self.at = turn.number;
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
    let (bytes, weight) =
        (chunk.text.len() as u64, TASK_BYTES.max(chunk.text.len().saturating_mul(4)));
    if !schema.skip_bad_rows {
        let task = Task::new(weight, move || Ok(csv::parse_chunk(&schema, &chunk)?.into()));
        return Ok(Task { bytes, ..task });
    }
    let task = Task::new(weight, move || {
        let chunk = Arc::new(chunk);
        let (batch, rejects) = csv::parse_good_rows(&schema, &chunk)?;
        let again = move |table: &Schema| {
            let (batch, rejects) =
                csv::parse_good_rows(&Arc::new(schema.starting_from(table)), &chunk)?;
            Ok(Parsed { rejects, ..batch.into() })
        };
        Ok(Parsed { rejects, again: Some(Box::new(again)), ..batch.into() })
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
        let json::Parsed { batch, bad } = json::parse_rows(&schema, &chunk)?;
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

/// The task, with the columns that its input's path tells.
fn with_constants(task: Task, added: &Arc<Constants>) -> Task {
    if added.names().next().is_none() {
        return task;
    }
    let (Task { weight, bytes, input, begins, work }, added) = (task, added.clone());
    Task { weight, bytes, input, begins, work: Box::new(move || add_constants(work()?, added)) }
}

fn add_constants(parsed: Parsed, added: Arc<Constants>) -> Result<Parsed> {
    let batches =
        parsed.batches.into_iter().map(|batch| added.add_to(batch)).collect::<Result<_>>()?;
    let again = parsed
        .again
        .map(|again| -> Again { Box::new(move |table| add_constants(again(table)?, added)) });
    Ok(Parsed { batches, again, ..parsed })
}

/// The columns of an input without rows.
fn no_rows(schema: SchemaRef) -> Current {
    let task = Task::new(0, move || Ok(RecordBatch::new_empty(schema).into()));
    Current::Other(Box::new(std::iter::once(Ok(task))))
}

/// What is looked at while the file that it comes from is known: Parquet and Arrow hold some that a
/// table cannot.
#[derive(Clone)]
struct Checks {
    file: Arc<Path>,
    /// Whether there are columns from elsewhere, too.
    has_more: bool,
}

impl Checks {
    /// Refuses rows without columns, and times of no day.
    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let file = self.file.display();
        if batch.num_columns() == 0 && batch.num_rows() > 0 && !self.has_more {
            return Err(Error::InvalidInput(format!(
                "{file}: has rows and no columns, which a table cannot hold"
            )));
        }
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let Some(data_type @ DataType::Time { .. }) = DataType::from_arrow(array.data_type())
            else {
                continue;
            };
            let (Some((least, greatest)), Ok(ticks)) =
                (data_type.bounds(), arrow_cast::cast(array, &arrow_schema::DataType::Int64))
            else {
                continue;
            };
            let ticks = ticks.as_primitive::<Int64Type>().iter().flatten();
            if let Some(value) =
                ticks.into_iter().find(|value| !(least..=greatest).contains(&i128::from(*value)))
            {
                return Err(Error::InvalidInput(format!(
                    "{file}: column '{}': {value} is not a value of type {data_type}, which ranges from {least} to {greatest}",
                    field.name()
                )));
            }
        }
        Ok(())
    }
}

impl<'a> Tasks<'a> {
    /// Of these inputs, for a table of this schema. No task weighs more than `most`, where there is
    /// a choice; of each input, `skip` pieces are left out.
    pub(super) fn new(
        inputs: Vec<Input>,
        schema: &Schema,
        options: &'a LoadOptions,
        pool: Arc<ThreadPool>,
        most: usize,
        skip: Vec<u64>,
        remarks: &'a mut Remarks,
    ) -> Result<Self> {
        let columns = schema.columns().iter();
        let prior: Vec<_> =
            columns.map(|column| (column.name.to_string(), column.data_type.clone())).collect();
        let filename = options.filename_column.as_deref();
        let constants =
            constants(&inputs, options.partition_columns, filename, &options.csv.schema, &prior)?;
        Ok(Tasks {
            inputs: Inputs::new(inputs),
            skip,
            at: 0,
            constants: constants.into_iter().map(Arc::new).collect(),
            current: None,
            added: Arc::default(),
            options,
            pool,
            prior,
            remarks,
            consumed: Arc::default(),
            most,
        })
    }

    /// How many pieces of the input at hand to leave out.
    fn skip_now(&self) -> u64 {
        self.skip.get(self.at).copied().unwrap_or(0)
    }

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

    /// Small row groups are decoded by one task each, large ones batch by batch as they are asked
    /// for.
    #[cfg(feature = "parquet")]
    fn open_parquet(&mut self, opened: Opened) -> Result<Current> {
        let checks = self.checks(&opened.name);
        let (source, skipped) =
            ParquetSource::open(Spooled::of(opened)?, self.options.skip_unsupported)?;
        self.remarks.skipped.extend(skipped);
        let in_place = source.bytes_in_place()?;
        if let Some(size) = in_place {
            // What is between the row groups counts at once.
            let groups: u64 = (0..source.groups()).map(|group| source.stored_bytes(group)).sum();
            self.consumed.store(size.saturating_sub(groups), Ordering::Relaxed);
        }
        if source.rows() == 0 {
            return Ok(no_rows(source.schema()?));
        }
        let (consumed, most, pool) = (self.consumed.clone(), self.most, Arc::clone(&self.pool));
        let threads = pool.current_num_threads();
        let skip = usize::try_from(self.skip_now()).unwrap_or(usize::MAX);
        let tasks = (skip.min(source.groups())..source.groups()).flat_map(move |group| {
            if in_place.is_some() {
                consumed.fetch_add(source.stored_bytes(group), Ordering::Relaxed);
            }
            let (bytes, weight) = (source.plain_bytes(group), source.memory_bytes(group));
            let tasks: Box<dyn Iterator<Item = Result<Task>>> = if weight <= most {
                let (source, checks) = (source.clone(), checks.clone());
                let work = move || {
                    let batches = source.read(group, threads)?.read_all()?;
                    batches
                        .iter()
                        .try_for_each(|batch| checks.check(batch))
                        .map(|()| batches.into())
                };
                Box::new(std::iter::once(Ok(Task { bytes, ..Task::new(weight, work) })))
            } else {
                let (pool, checks) = (Arc::clone(&pool), checks.clone());
                match source.read(group, threads) {
                    Ok(mut rows) => Box::new(
                        std::iter::from_fn(move || pool.install(|| rows.next_batch()).transpose())
                            .enumerate()
                            .map(move |(number, batch)| {
                                let batch = batch?;
                                checks.check(&batch)?;
                                let task = Task::new(batch.get_array_memory_size(), move || {
                                    Ok(batch.into())
                                });
                                let begins = number == 0;
                                Ok(Task { begins, bytes: if begins { bytes } else { 0 }, ..task })
                            }),
                    ),
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
        options.skip_bad_rows = self.options.on_error != OnError::Fail;
        options.elsewhere.extend(self.added.names().map(str::to_owned));
        let mut chunks = CsvChunks::new(&opened.name, opened.bytes, &options);
        let first = chunks.next().transpose()?;
        if first.is_none() && !options.prior.is_empty() {
            // Not a byte: nothing to add where the columns are known.
            return Ok(Current::Other(Box::new(std::iter::empty())));
        }
        let schema = Arc::new(csv::infer(&opened.name, &options, first.as_ref())?);
        for guess in &schema.guesses {
            if self.remarks.guesses.iter().all(|(_, known)| known != guess) {
                self.remarks.guesses.push((opened.name.clone(), guess.clone()));
            }
        }
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        let first = after(self.skip_now(), first, &mut chunks)?;
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
        let first = after(self.skip_now(), first, &mut chunks)?;
        Ok(Current::Json { first, chunks: Box::new(chunks), schema })
    }

    /// Batches are decoded on the caller's thread while workers encode.
    fn open_arrow(&mut self, opened: Opened) -> Result<Current> {
        let checks = self.checks(&opened.name);
        let (batches, skipped) =
            ArrowBatches::open(&opened.name, opened.bytes, self.options.skip_unsupported)?;
        self.remarks.skipped.extend(skipped);
        let schema = batches.columns()?;
        let mut batches = batches.peekable();
        if batches.peek().is_none() {
            return Ok(no_rows(schema));
        }
        let skip = usize::try_from(self.skip_now()).unwrap_or(usize::MAX);
        Ok(Current::Other(Box::new(batches.skip(skip).map(move |batch| {
            let batch = batch?;
            // Columns are parts of one allocation, which is not to be counted for each of them.
            let bytes: usize = batch.columns().iter().map(value_bytes).sum();
            let checks = checks.clone();
            let work = move || checks.check(&batch).map(|()| batch.into());
            Ok(Task { bytes: bytes as u64, ..Task::new(bytes, work) })
        }))))
    }

    /// For batches of the input at hand.
    fn checks(&self, name: &Path) -> Checks {
        Checks { file: Arc::from(name), has_more: self.added.names().next().is_some() }
    }

    /// Notes the types of an input's columns, for the inputs after it.
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
