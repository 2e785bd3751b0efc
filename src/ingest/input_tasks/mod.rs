//! The parsing tasks of all inputs, in order: opens each input, infers its columns from its first
//! rows, and cuts it into pieces for the workers.

pub(super) mod selected;
mod text;
mod typed;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::Field;
use rayon::ThreadPool;

use self::selected::{Selected, no_rows, selected};
use self::text::{csv_task, json_task, skip_chunks, with_path_columns};
use super::batch_checks::lacks_column;
use super::misguesses::GuessCheck;
use super::options::LoadOptions;
use super::origin::{Again, Origin};
use super::rejected::{PieceRows, Reading, RejectedPiece, RejectedPieces};
use super::rejects::OnError;
use super::sources::csv::{self, CsvChunk, CsvChunks, CsvOptions, CsvSchema, Guess};
use super::sources::json::{self, JsonChunk, JsonChunks, JsonOptions, JsonSchema, needed_type};
use super::sources::{Format, Input, Inputs, Opened, PathColumns, TextEncoding, path_columns};
use super::task::{Parsed, Task};
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
    /// The columns of the current input as far as its first rows tell, with those of its path.
    columns: Vec<Field>,
    origin: Option<Arc<Origin>>,
    /// The selection over the rows of all inputs, once all of their columns are known.
    selected: Option<Arc<Selected>>,
    options: &'a LoadOptions,
    /// Decodes row groups that are too large for one task.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only Parquet needs it"))]
    pool: Arc<ThreadPool>,
    /// Types of the table's columns and of the columns of earlier inputs.
    prior: Vec<(String, DataType)>,
    /// Columns of earlier inputs whose types are guesses.
    guessed: HashSet<String>,
    guess_check: Arc<GuessCheck>,
    /// The table's columns that are NOT NULL.
    required: Vec<String>,
    encodings: Vec<Option<TextEncoding>>,
    /// Inputs that a stopped load has read before, from which nothing is known yet.
    read_before: Vec<Input>,
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

/// Whether the dates of some column may have the day or the month first.
fn is_order_in_doubt(inferred: &Result<CsvSchema>) -> bool {
    let is_doubt = |guess: &Guess| matches!(guess, Guess::DayOrMonth(_) | Guess::Order(..));
    match inferred {
        Ok(schema) => schema.guesses.iter().any(is_doubt),
        Err(error) => matches!(error, Error::InvalidInput(_)),
    }
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
                    .map(|chunk| csv_task(chunk, schema, self.is_live, Some(&self.guess_check)))
                    .map(|task| Ok(Task { waits: chunks.is_paused(), ..task? })),
                Some(CurrentInput::Json { first, chunks, schema }) => first
                    .take()
                    .map(Ok)
                    .or_else(|| chunks.next())
                    .map(|chunk| json_task(chunk, schema, skip, Some(&self.guess_check)))
                    .map(|task| Ok(Task { waits: chunks.is_paused(), ..task? })),
            };
            if let Some(task) = next {
                let starts_piece = self.within_piece != Some(true);
                self.within_piece = self.within_piece.map(|_| true);
                return Some(task.map(|task| {
                    let starts_piece = starts_piece && task.starts_piece;
                    let origin = self.origin.clone();
                    let task = Task { input: self.number, origin, starts_piece, ..task };
                    let task = with_path_columns(task, &self.current_columns);
                    match &self.selected {
                        Some(selection) => selected(task, selection),
                        None => task,
                    }
                }));
            }
            match self.open_next(Self::open_selected)? {
                Ok(current) => self.current = Some(current),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Opens the next input in this way.
    fn open_next(
        &mut self,
        open: impl FnOnce(&mut Self, Opened) -> Result<CurrentInput>,
    ) -> Option<Result<CurrentInput>> {
        let turn = self.inputs.next()?;
        if self.options.cancelled.load(Ordering::Relaxed) {
            return Some(Err(Error::Cancelled));
        }
        self.number = turn.number;
        self.is_live = false;
        self.consumed = turn.consumed;
        self.current_columns = self.path_columns.get(turn.number).cloned().unwrap_or_default();
        self.columns.clear();
        Some(turn.opened.and_then(|opened| open(self, opened)))
    }
}

impl<'a> InputTasks<'a> {
    /// Tasks for these inputs and a table of this schema. Where a piece can be divided, no task
    /// weighs more than `max_task_bytes`. The first `skip` pieces of each input are left out. What
    /// the inputs `read_before` say of day and month holds for these, too.
    #[expect(clippy::too_many_arguments, reason = "one caller, which has them all")]
    pub(super) fn new(
        inputs: Vec<Input>,
        schema: &Schema,
        options: &'a LoadOptions,
        pool: Arc<ThreadPool>,
        max_task_bytes: usize,
        skip: Vec<u64>,
        read_before: Vec<Input>,
        selected: Option<Arc<Selected>>,
        warnings: &'a mut LoadWarnings,
    ) -> Result<Self> {
        // The columns of the table are not those of inputs that rows are selected from.
        let no_columns = Schema::default();
        let schema = if options.select.is_some() { &no_columns } else { schema };
        let columns = schema.columns().iter();
        let mut prior: Vec<_> =
            columns.map(|column| (column.name.to_string(), column.data_type.clone())).collect();
        let known: HashSet<_> = schema.columns().iter().map(|column| &*column.name).collect();
        let found = options.misguesses.known().iter();
        prior.extend(found.filter(|(name, _)| !known.contains(name.as_str())).cloned());
        selected.iter().for_each(|selected| prior = selected.types().collect());
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
            columns: Vec::new(),
            origin: None,
            selected,
            options,
            pool,
            prior,
            guessed: HashSet::new(),
            guess_check: Arc::new(GuessCheck::new(&options.misguesses, schema)),
            required,
            encodings,
            read_before,
            date_orders: BTreeMap::new(),
            warnings,
            consumed: Arc::default(),
            is_live: false,
            max_task_bytes,
        })
    }

    /// Goes on with the next input.
    pub(super) fn leave_input(&mut self) {
        self.current = None;
    }

    /// Whether inputs are to be ended, and the current one cannot end with what has come.
    fn is_to_stop(&self) -> bool {
        !self.is_live && self.options.end_input.load(Ordering::Relaxed)
    }

    /// Whether the current input is live and was ended.
    fn is_ended(&self) -> bool {
        self.is_live && self.options.end_input.load(Ordering::Relaxed)
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
        let has_own_columns = self.options.from_rejects || self.options.select.is_some();
        let is_file = opened.name.is_file() && !has_own_columns;
        self.origin = Some(Arc::new(Origin {
            name: opened.name.clone(),
            again: is_file.then(|| Again::new(encoding, self.options)),
            misfits: Vec::new(),
            is_selected: self.options.select.is_some(),
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
        if first.is_none() && (!options.prior.is_empty() || self.is_ended()) {
            // An empty input adds nothing where the columns are known, and neither does one that a
            // signal has ended before its first row.
            return Ok(self.nothing());
        }
        let sample = header.as_ref().or(first.as_ref());
        // Bad rows before those that were added are no matter of this load.
        let skip_bad_rows = options.skip_bad_rows || header.is_some();
        let mut sampling = CsvOptions { skip_bad_rows, ..options.clone() };
        let mut inferred = csv::infer(&opened.name, &sampling, sample);
        if !self.read_before.is_empty() && is_order_in_doubt(&inferred) {
            self.learn_date_orders(&options);
            options.prior_orders = self.date_orders.clone().into_iter().collect();
            sampling.prior_orders.clone_from(&options.prior_orders);
            inferred = csv::infer(&opened.name, &sampling, sample);
        }
        let mut schema = inferred?;
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
        if let Some(first) = &first
            && let Some(name) =
                self.required_in_rows().find(|name| schema.names().all(|known| known != *name))
            && schema.has_rows(first)?
        {
            return Err(lacks_column(&opened.name, name));
        }
        let columns = schema.columns.iter();
        let fields = columns.clone().map(|one| one.data_type.to_field(&one.name, true));
        self.set_columns(fields.clone());
        if first.is_none() && header.is_none() {
            return Ok(no_rows(fields.collect()));
        }
        if let Some(first) = &first {
            self.note_misfits(|name, other| csv::find_in_chunk(&schema, first, name, other));
        }
        let columns = columns.map(|column| (&*column.name, &column.data_type, column.is_guess()));
        self.note_types(columns, |_, _| None);
        let first = skip_chunks(self.pieces_to_skip(), first, &mut chunks)?;
        Ok(CurrentInput::Csv { first, chunks: Box::new(chunks), schema })
    }

    /// Finds out the order of day and month in the inputs that were read before. Whatever is wrong
    /// with them is no matter of this load.
    #[cold]
    fn learn_date_orders(&mut self, options: &CsvOptions) {
        for input in std::mem::take(&mut self.read_before) {
            let Ok(opened) = input.open() else { continue };
            if !matches!(opened.format, Format::Csv | Format::Tsv) {
                continue;
            }
            let mut options = options.clone();
            options.delimiter = CsvOptions::for_format(opened.format).delimiter;
            options.delimiter = self.options.csv.delimiter.or(options.delimiter);
            options.prior_orders = self.date_orders.clone().into_iter().collect();
            let chunks = CsvChunks::new(&opened.name, opened.bytes, &options);
            let row_limit = limits::row_bytes(self.options.memory());
            let first = chunks.with_row_limit(row_limit).next().transpose();
            let schema = first.and_then(|first| csv::infer(&opened.name, &options, first.as_ref()));
            let Ok(schema) = schema else { continue };
            let orders = schema.date_orders().map(|(name, order)| (name.to_owned(), order));
            self.date_orders.extend(orders);
        }
    }

    fn open_json(&mut self, opened: Opened) -> Result<CurrentInput> {
        let mut options = JsonOptions::from(&self.options.csv);
        options.flatten = self.options.flatten;
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
        if first.is_none() && (!options.prior.is_empty() || self.is_ended()) {
            return Ok(self.nothing());
        }
        let required: Vec<String> = self.required_in_rows().cloned().collect();
        let schema = json::infer(&opened.name, &options, first.as_ref())?;
        let schema = Arc::new(schema.requiring(&required));
        let columns = schema.columns.iter();
        let fields = columns.clone().map(|one| one.data_type.to_field(&one.name, true));
        self.set_columns(fields.clone());
        if first.is_none() {
            return Ok(no_rows(fields.collect()));
        }
        if let Some(first) = &first {
            self.note_misfits(|name, other| json::find_in_chunk(&schema, first, name, other));
        }
        let columns = columns.map(|column| (&*column.name, &column.data_type, false));
        self.note_types(columns, needed_type);
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
                    let task = csv_task(Ok(chunk), &schema, false, None)?;
                    let work = task.work;
                    // Empty lines stand for the rows between those that were rejected.
                    let work = move || Ok(Parsed { blank_lines: 0, ..work()? });
                    Task { work: Box::new(work), ..task }
                }
                PieceRows::Json(chunk, schema) => {
                    json_task(Ok(chunk), &schema, skip_bad_rows, None)?
                }
            };
            Ok(with_path_columns(task, &path_columns))
        });
        Ok(CurrentInput::Other(Box::new(tasks)))
    }

    /// The table's columns that are NOT NULL and do not come from the path of the current input.
    fn required_in_rows(&self) -> impl Iterator<Item = &String> {
        let from_path = |name: &String| self.current_columns.names().any(|known| known == name);
        self.required.iter().filter(move |name| !from_path(name))
    }

    /// Records the types of an input's columns for the inputs after it, and whether they are
    /// guesses: one that another input shows to be wrong is noted.
    fn note_types<'c>(
        &mut self,
        columns: impl Iterator<Item = (&'c str, &'c DataType, bool)>,
        needed: fn(&DataType, &DataType) -> Option<DataType>,
    ) {
        let places: HashMap<String, usize> =
            self.prior.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        for (name, data_type, is_guess) in columns {
            let is_guess = if is_guess {
                self.guessed.insert(name.to_owned());
                true
            } else {
                self.guessed.contains(name)
            };
            match places.get(name).and_then(|at| self.prior.get_mut(*at)) {
                Some((_, known)) => {
                    let joined = known.join(data_type);
                    let text = is_guess.then_some(DataType::Utf8);
                    if joined.is_none()
                        && let Some(needed) = text.or_else(|| needed(known, data_type))
                    {
                        self.guess_check.note(name, needed);
                    }
                    *known = joined.unwrap_or_else(|| data_type.clone());
                }
                None => self.prior.push((name.to_owned(), data_type.clone())),
            }
        }
    }
}
