//! The parsing tasks of all inputs, in order: opens each input, infers its columns from its first
//! rows, and cuts it into pieces for the workers.

mod typed;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::ThreadPool;

use super::options::{LoadOptions, TASK_BYTES};
use super::origin::Origin;
use super::rejected::{PieceRows, Reading, RejectedPiece, RejectedPieces};
use super::rejects::{OnError, Reject, Rejects};
use super::sources::csv::{self, CsvChunk, CsvChunks, CsvOptions, CsvSchema, Guess};
use super::sources::json::{self, JsonChunk, JsonChunks, JsonOptions, JsonSchema};
use super::sources::{Format, Input, Inputs, Opened, PathColumns, TextEncoding, path_columns};
use super::task::{Parsed, Reparse, Task};
use super::text::layout::DateOrder;
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
    /// Whether the current input's rows are one piece that has begun.
    within_piece: Option<bool>,
    current_columns: Arc<PathColumns>,
    origin: Option<Arc<Origin>>,
    options: &'a LoadOptions,
    /// Decodes row groups that are too large for one task.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    pool: Arc<ThreadPool>,
    /// Types of the table's columns and of the columns of earlier inputs.
    prior: Vec<(String, DataType)>,
    /// The table's columns that are NOT NULL.
    required: Vec<String>,
    encodings: Vec<Option<TextEncoding>>,
    /// The order of day and month in columns of earlier inputs.
    date_orders: BTreeMap<String, DateOrder>,
    warnings: &'a mut LoadWarnings,
    /// Bytes read from the current input.
    consumed: Arc<AtomicU64>,
    /// Whether the current input may never end.
    is_live: bool,
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
    Csv { first: Option<CsvChunk>, chunks: Box<CsvChunks>, schema: Arc<CsvSchema> },
    Json { first: Option<JsonChunk>, chunks: Box<JsonChunks>, schema: Arc<JsonSchema> },
    Other(Box<dyn Iterator<Item = Result<Task>>>),
}

impl Iterator for InputTasks<'_> {
    type Item = Result<Task>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.options.cancelled.load(Ordering::Relaxed) || self.is_to_stop() {
            return Some(Err(Error::Cancelled));
        }
        match self.next_task() {
            Some(Err(_)) if self.is_to_stop() => Some(Err(Error::Cancelled)),
            next => next,
        }
    }
}

impl InputTasks<'_> {
    fn next_task(&mut self) -> Option<Result<Task>> {
        let skip = self.options.on_error != OnError::Fail;
        loop {
            let next = match &mut self.current {
                None => None,
                Some(CurrentInput::Other(tasks)) => tasks.next(),
                Some(CurrentInput::Csv { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| csv_task(chunk, schema, self.is_live))
                    .map(|task| Ok(Task { waits: chunks.is_paused(), ..task? })),
                Some(CurrentInput::Json { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| json_task(chunk, schema, skip))
                    .map(|task| Ok(Task { waits: chunks.is_paused(), ..task? })),
            };
            if let Some(task) = next {
                let starts_piece = self.within_piece != Some(true);
                self.within_piece = self.within_piece.map(|_| true);
                return Some(task.map(|task| {
                    let starts_piece = starts_piece && task.starts_piece;
                    let origin = self.origin.clone();
                    let task = Task { input: self.number, origin, starts_piece, ..task };
                    with_path_columns(task, &self.current_columns)
                }));
            }
            let turn = self.inputs.next()?;
            self.number = turn.number;
            self.is_live = false;
            self.consumed = turn.consumed;
            self.current_columns = self.path_columns.get(turn.number).cloned().unwrap_or_default();
            match turn.opened.and_then(|opened| self.open(opened)) {
                Ok(current) => self.current = Some(current),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// With `reparses`, a chunk that does not fit the table's types is parsed as these: the first rows
/// of a live input say little.
fn csv_task(chunk: Result<CsvChunk>, schema: &Arc<CsvSchema>, reparses: bool) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    if chunk.text.is_empty() {
        return Ok(Task::new(0, || Ok(Parsed::default())));
    }
    // A row that is longer than a chunk makes a longer chunk.
    let (bytes, weight) =
        (chunk.text.len() as u64, TASK_BYTES.max(chunk.text.len().saturating_mul(4)));
    let task = Task::new(weight, move || {
        let chunk = Arc::new(chunk);
        let csv::ParsedRows { batch, rejects, blank_lines } = csv::parse_rows(&schema, &chunk)?;
        let reparse = (schema.skip_bad_rows || reparses).then(|| -> Reparse {
            Box::new(move |table| {
                let schema = Arc::new(schema.starting_from(table));
                let csv::ParsedRows { batch, rejects, .. } = csv::parse_rows(&schema, &chunk)?;
                Ok(Parsed { rejects, blank_lines, ..batch.into() })
            })
        });
        Ok(Parsed { rejects, reparse, blank_lines, ..batch.into() })
    });
    Ok(Task { bytes, ..task })
}

fn json_task(
    chunk: Result<JsonChunk>,
    schema: &Arc<JsonSchema>,
    skip_bad_rows: bool,
) -> Result<Task> {
    let (chunk, schema) = (chunk?, schema.clone());
    if chunk.text.is_empty() {
        return Ok(Task::new(0, || Ok(Parsed::default())));
    }
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
            line: bad.first_line,
            column: Arc::from(bad.column.unwrap_or_default()),
            reason: bad.reason,
            raw: bad.text,
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
    let (Task { weight, bytes, input, origin, waits, starts_piece, work }, added) =
        (task, added.clone());
    Task {
        weight,
        bytes,
        input,
        origin,
        waits,
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
        let required = schema.columns().iter().filter(|column| !column.nullable);
        let required = required.map(|column| column.name.to_string()).collect();
        let encodings = inputs.iter().map(Input::encoding).collect();
        // Rejected rows have those of the input that they come from.
        let own_path = !options.from_rejects;
        let filename = options.filename_column.as_deref().filter(|_| own_path);
        let path_columns = path_columns(
            &inputs,
            options.partition_columns && own_path,
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
            within_piece: None,
            current_columns: Arc::default(),
            origin: None,
            options,
            pool,
            prior,
            required,
            encodings,
            date_orders: BTreeMap::new(),
            warnings,
            consumed: Arc::default(),
            is_live: false,
            max_task_bytes,
        })
    }

    /// Whether inputs are to be ended, and the current one cannot end with what has come.
    fn is_to_stop(&self) -> bool {
        !self.is_live && self.options.end_input.load(Ordering::Relaxed)
    }

    /// The first chunk that has rows: a live input may have none for long.
    fn first_rows<T>(
        &self,
        chunks: &mut impl Iterator<Item = Result<T>>,
        is_empty: impl Fn(&T) -> bool,
    ) -> Result<Option<T>> {
        loop {
            match chunks.next().transpose()? {
                Some(chunk) if is_empty(&chunk) => {
                    if self.options.cancelled.load(Ordering::Relaxed) {
                        return Err(Error::Cancelled);
                    }
                }
                first => return Ok(first),
            }
        }
    }

    /// How many pieces of the current input to leave out.
    fn pieces_to_skip(&self) -> u64 {
        self.skip.get(self.number).copied().unwrap_or(0)
    }

    fn open(&mut self, opened: Opened) -> Result<CurrentInput> {
        let encoding = self.encodings.get(self.number).copied().flatten();
        let is_file = opened.name.is_file() && !self.options.from_rejects;
        self.origin = Some(Arc::new(Origin {
            name: opened.name.clone(),
            again: is_file.then(|| (encoding, self.options.csv.clone())),
        }));
        self.within_piece = opened.before.is_some().then_some(false);
        match opened.format {
            _ if self.options.from_rejects => self.open_rejected(opened),
            Format::Csv | Format::Tsv => self.open_csv(opened),
            Format::Json => self.open_json(opened),
            Format::Arrow => self.open_arrow(opened),
            #[cfg(feature = "parquet")]
            Format::Parquet => self.open_parquet(opened),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => Err(Error::Unsupported("this build does not read Parquet".into())),
        }
    }

    fn open_csv(&mut self, opened: Opened) -> Result<CurrentInput> {
        let mut options = self.options.csv.clone();
        options.delimiter = options.delimiter.or(CsvOptions::for_format(opened.format).delimiter);
        options.prior.clone_from(&self.prior);
        options.prior_orders = self.date_orders.clone().into_iter().collect();
        options.skip_bad_rows = self.options.on_error != OnError::Fail;
        options.external_columns.extend(self.current_columns.names().map(str::to_owned));
        let row_limit = limits::row_bytes(self.options.memory());
        let (bytes, added) = match opened.before {
            Some(before) => (before, Some(opened.bytes)),
            None => (opened.bytes, None),
        };
        let chunks = CsvChunks::new(&opened.name, bytes, &options);
        self.is_live = opened.live.is_some();
        let mut chunks = chunks.with_row_limit(row_limit).live(opened.live);
        let mut first = self.first_rows(&mut chunks, |chunk| chunk.text.is_empty())?;
        let mut header = None;
        if let Some(added) = added {
            header = first;
            chunks.go_on(header.clone(), added)?;
            first = chunks.next().transpose()?;
        }
        if first.is_none() && !options.prior.is_empty() {
            // An empty input adds nothing where the columns are known.
            return Ok(CurrentInput::Other(Box::new(std::iter::empty())));
        }
        let sample = header.as_ref().or(first.as_ref());
        // Bad rows before those that were added are no matter of this load.
        let skip_bad_rows = options.skip_bad_rows || header.is_some();
        let sampling = CsvOptions { skip_bad_rows, ..options.clone() };
        let mut schema = csv::infer(&opened.name, &sampling, sample)?;
        schema.skip_bad_rows = options.skip_bad_rows;
        if let (Some(_), Some(first)) = (&header, &first) {
            schema = csv::infer_types(schema, &options, first)?;
        }
        let schema = Arc::new(schema.requiring(&self.required));
        for guess in &schema.guesses {
            if self.warnings.guesses.iter().all(|(_, known)| known != guess) {
                self.warnings.guesses.push((opened.name.clone(), guess.clone()));
            }
        }
        self.date_orders.extend(schema.date_orders().map(|(name, order)| (name.to_owned(), order)));
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        let first = skip_chunks(self.pieces_to_skip(), first, &mut chunks)?;
        Ok(CurrentInput::Csv { first, chunks: Box::new(chunks), schema })
    }

    fn open_json(&mut self, opened: Opened) -> Result<CurrentInput> {
        let mut options = JsonOptions::from(&self.options.csv);
        options.prior.clone_from(&self.prior);
        options.external_columns.extend(self.current_columns.names().map(str::to_owned));
        options.skip_bad_rows = self.options.on_error != OnError::Fail;
        let row_limit = limits::row_bytes(self.options.memory());
        let (bytes, added) = match opened.before {
            Some(before) => (before, Some(opened.bytes)),
            None => (opened.bytes, None),
        };
        self.is_live = opened.live.is_some();
        let chunks = JsonChunks::new(&opened.name, bytes).with_row_limit(row_limit);
        let mut chunks = chunks.live(opened.live);
        if let Some(added) = added {
            chunks.go_on(added)?;
        }
        let first = self.first_rows(&mut chunks, |chunk| chunk.text.is_empty())?;
        if first.is_none() && !options.prior.is_empty() {
            return Ok(CurrentInput::Other(Box::new(std::iter::empty())));
        }
        let required = self.required.iter().filter(|name| !options.external_columns.contains(name));
        let required: Vec<String> = required.cloned().collect();
        let schema = json::infer(&opened.name, &options, first.as_ref())?;
        let schema = Arc::new(schema.requiring(&required));
        self.note_types(schema.columns.iter().map(|column| (&*column.name, &column.data_type)));
        let first = skip_chunks(self.pieces_to_skip(), first, &mut chunks)?;
        Ok(CurrentInput::Json { first, chunks: Box::new(chunks), schema })
    }

    /// Rows that an earlier load rejected, as rows of the inputs that they come from.
    fn open_rejected(&mut self, opened: Opened) -> Result<CurrentInput> {
        let reading = Reading {
            options: self.options.clone(),
            prior: self.prior.clone(),
            required: self.required.clone(),
            encoding: self.encodings.get(self.number).copied().flatten(),
        };
        let skip_bad_rows = self.options.on_error != OnError::Fail;
        let tasks = RejectedPieces::new(opened, reading).map(move |piece| {
            let RejectedPiece { rows, path_columns } = piece?;
            let task = match rows {
                PieceRows::Csv(chunk, schema) => {
                    let task = csv_task(Ok(chunk), &schema, false)?;
                    let work = task.work;
                    // Empty lines stand for the rows between those that were rejected.
                    let work = move || Ok(Parsed { blank_lines: 0, ..work()? });
                    Task { work: Box::new(work), ..task }
                }
                PieceRows::Json(chunk, schema) => json_task(Ok(chunk), &schema, skip_bad_rows)?,
            };
            Ok(with_path_columns(task, &path_columns))
        });
        Ok(CurrentInput::Other(Box::new(tasks)))
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
