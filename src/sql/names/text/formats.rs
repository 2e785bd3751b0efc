//! CSV and JSON behind one interface: an input is cut into chunks, the first ones tell the columns,
//! and any thread parses a chunk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;

use super::options::TextOptions;
use crate::error::{Error, Result};
use crate::ingest::sources::json::{
    self, JsonChunk, JsonChunks, JsonColumn, JsonOptions, JsonSchema,
};
use crate::ingest::sources::{
    CsvChunk, CsvChunks, CsvOptions, CsvSchema, Format, Input, Opened, infer, parse_chunk,
    parse_columns,
};
use crate::ingest::text::layout::DateOrder;
use crate::model::DataType;
use crate::sql::names::lock;

/// Names and types of columns, in order.
pub(super) type Columns = Vec<(Arc<str>, DataType)>;

/// What the inputs before one say about its columns.
#[derive(Default)]
pub(super) struct Before {
    pub(super) columns: Columns,
    /// The order of day and month in dates, by column.
    pub(super) date_orders: BTreeMap<String, DateOrder>,
    /// Columns that are read as text, since no other type holds the values of all inputs.
    pub(super) texts: Vec<Arc<str>>,
}

impl Before {
    fn types(&self) -> Vec<(String, DataType)> {
        let texts = self.texts.iter().map(|name| (name.to_string(), DataType::Utf8));
        let is_text = |name: &Arc<str>| self.texts.contains(name);
        let columns = self.columns.iter().filter(|(name, _)| !is_text(name));
        texts.chain(columns.map(|(name, known)| (name.to_string(), known.clone()))).collect()
    }
}

/// Whole rows of text.
pub(super) enum Chunk {
    Csv(CsvChunk),
    Json(JsonChunk),
}

impl Chunk {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Chunk::Csv(chunk) => chunk.text.len(),
            Chunk::Json(chunk) => chunk.text.len(),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Chunk::Csv(chunk) => chunk.number,
            Chunk::Json(chunk) => chunk.number,
        }
    }
}

/// The chunks of an input, in order. The first ones may have been read already.
pub(super) struct Chunks {
    ready: VecDeque<Chunk>,
    unread: Reader,
}

enum Reader {
    Csv(Box<CsvChunks>),
    Json(Box<JsonChunks>),
}

impl Chunks {
    /// Peeks at a chunk by its number among those to come.
    fn peek(&mut self, at: usize) -> Result<Option<&Chunk>> {
        while self.ready.len() <= at {
            let Some(next) = self.unread.next().transpose()? else { return Ok(None) };
            self.ready.push_back(next);
        }
        Ok(self.ready.get(at))
    }
}

impl Iterator for Chunks {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ready.pop_front().map(Ok).or_else(|| self.unread.next())
    }
}

impl Iterator for Reader {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Reader::Csv(unread) => Some(unread.next()?.map(Chunk::Csv)),
            Reader::Json(unread) => Some(unread.next()?.map(Chunk::Json)),
        }
    }
}

/// The chunks of an input, in which no row may be longer than `row_limit`.
pub(super) fn chunks(input: Input, options: &TextOptions, row_limit: usize) -> Result<Chunks> {
    Ok(start(open_input(input, options)?, options, &Before::default(), row_limit)?.0)
}

/// Opens an input, which has the format that the options say if its bytes may be text.
pub(crate) fn open_input(input: Input, options: &TextOptions) -> Result<Opened> {
    let input = match options.encoding {
        Some(encoding) => input.encoded(encoding),
        None => input,
    };
    let mut opened = input.open()?;
    opened.format = match (options.format, opened.format) {
        (Some(Format::Csv), Format::Tsv) | (None, _) => opened.format,
        // Their bytes are no text.
        (Some(_), Format::Arrow | Format::Parquet) => opened.format,
        (Some(format), _) => format,
    };
    Ok(opened)
}

/// All that is needed to parse the chunks of an input.
#[derive(Clone)]
pub(super) enum TextSchema {
    Csv(CsvSchema),
    Json(JsonSchema),
}

/// The chunks of an input, and the options to parse them with, given what the inputs before it
/// say.
fn start(
    opened: Opened,
    options: &TextOptions,
    before: &Before,
    row_limit: usize,
) -> Result<(Chunks, CsvOptions)> {
    let mut options = options.csv.clone();
    options.delimiter = options.delimiter.or(CsvOptions::for_format(opened.format).delimiter);
    options.prior.splice(0..0, before.types());
    options.prior_orders = before.date_orders.clone().into_iter().collect();
    let unread = match opened.format {
        Format::Csv | Format::Tsv => {
            let chunks = CsvChunks::new(&opened.name, opened.bytes, &options);
            Reader::Csv(Box::new(chunks.with_row_limit(row_limit)))
        }
        Format::Json => {
            let chunks = JsonChunks::new(&opened.name, opened.bytes);
            Reader::Json(Box::new(chunks.with_row_limit(row_limit)))
        }
        Format::Arrow | Format::Parquet => {
            let name = opened.name.display();
            return Err(Error::Unsupported(format!(
                "{name} is neither CSV, TSV nor JSON; give it the extension of its format \
                 (.arrow, .parquet), or ingest it first"
            )));
        }
    };
    Ok((Chunks { ready: VecDeque::new(), unread }, options))
}

/// The chunks of an input, and the names and types of columns by its first chunk; `None` for an
/// input without rows if there are columns already.
pub(super) fn sample(
    opened: Opened,
    options: &TextOptions,
    before: &Before,
    row_limit: usize,
) -> Result<Option<(Chunks, TextSchema)>> {
    let name = opened.name.clone();
    let (mut chunks, options) = start(opened, options, before, row_limit)?;
    let first = chunks.next().transpose()?;
    if first.is_none() && !before.columns.is_empty() {
        return Ok(None);
    }
    let schema = match (&first, &chunks.unread) {
        (Some(Chunk::Json(first)), _) => {
            TextSchema::Json(json::infer(&name, &JsonOptions::from(&options), Some(first))?)
        }
        (Some(Chunk::Csv(first)), _) => TextSchema::Csv(infer(&name, &options, Some(first))?),
        (None, Reader::Json(_)) => {
            TextSchema::Json(json::infer(&name, &JsonOptions::from(&options), None)?)
        }
        (None, Reader::Csv(_)) => TextSchema::Csv(infer(&name, &options, None)?),
    };
    chunks.ready.extend(first);
    Ok(Some((chunks, schema)))
}

impl TextSchema {
    pub(super) fn columns(&self) -> Columns {
        match self {
            TextSchema::Csv(csv) => {
                csv.columns.iter().map(|c| (Arc::clone(&c.name), c.data_type.clone())).collect()
            }
            TextSchema::Json(json) => {
                json.columns.iter().map(|c| (Arc::clone(&c.name), c.data_type.clone())).collect()
            }
        }
    }

    /// Fixes the type of the values of a column, by its position.
    pub(super) fn set_type(&mut self, at: usize, data_type: &DataType) {
        let place = match self {
            TextSchema::Csv(csv) => csv.columns.get_mut(at).map(|column| &mut column.data_type),
            TextSchema::Json(json) => json.columns.get_mut(at).map(|column| &mut column.data_type),
        };
        if let Some(place) = place {
            place.clone_from(data_type);
        }
    }

    /// The order of day and month in dates, by column.
    pub(super) fn date_orders(&self) -> Vec<(String, DateOrder)> {
        match self {
            TextSchema::Csv(csv) => {
                csv.date_orders().map(|(name, order)| (name.to_owned(), order)).collect()
            }
            TextSchema::Json(_) => Vec::new(),
        }
    }

    /// What was guessed.
    pub(super) fn guesses(&self) -> Vec<String> {
        match self {
            TextSchema::Csv(csv) => csv.guesses.iter().map(ToString::to_string).collect(),
            TextSchema::Json(_) => Vec::new(),
        }
    }

    /// Parses the columns of a chunk at these positions. If they are to be `complete`, the chunk
    /// may have no others.
    pub(super) fn parse(
        &self,
        chunk: &Chunk,
        positions: &[usize],
        complete: bool,
    ) -> Result<RecordBatch> {
        match (self, chunk) {
            (TextSchema::Csv(schema), Chunk::Csv(chunk)) => parse_columns(schema, chunk, positions),
            (TextSchema::Json(schema), Chunk::Json(chunk)) => {
                json::parse_columns(schema, chunk, positions, complete)
            }
            _ => Err(changed()),
        }
    }

    fn parse_all(&self, chunk: &Chunk) -> Result<RecordBatch> {
        match (self, chunk) {
            (TextSchema::Csv(schema), Chunk::Csv(chunk)) => parse_chunk(schema, chunk),
            (TextSchema::Json(schema), Chunk::Json(chunk)) => json::parse_chunk(schema, chunk),
            _ => Err(changed()),
        }
    }

    /// The error that names the value which does not have the type of the first rows. Parsing with
    /// that type fixed finds it.
    pub(super) fn misfit(&self, chunk: &Chunk, position: usize) -> Error {
        let mut strict = self.clone();
        strict.fix(position);
        let line = match chunk {
            Chunk::Csv(chunk) => chunk.line,
            Chunk::Json(chunk) => chunk.line,
        };
        let hint =
            "; its first rows decided the type, while an ingest into a table would use all of them";
        match strict.parse(chunk, &[position], false) {
            Err(Error::InvalidInput(what)) => {
                // What follows names options of ingest.
                let ends = ["; if it means null", "; to read the column", "; --schema"];
                let end = ends.iter().filter_map(|end| what.find(end)).min();
                let what = what.get(..end.unwrap_or(what.len())).unwrap_or_default();
                Error::InvalidInput(format!("{what}{hint}"))
            }
            Err(other) => other,
            Ok(_) => {
                let columns = self.columns();
                let name = columns.get(position).map_or("", |(name, _)| &**name);
                let what =
                    format!("column '{name}' has values of a wider type from line {line} on{hint}");
                Error::InvalidInput(what)
            }
        }
    }

    /// Makes values of another type in a column an error.
    fn fix(&mut self, position: usize) {
        let fixed = match self {
            TextSchema::Csv(csv) => csv.columns.get_mut(position).map(|column| &mut column.fixed),
            TextSchema::Json(json) => {
                json.columns.get_mut(position).map(|column| &mut column.fixed)
            }
        };
        if let Some(fixed) = fixed {
            *fixed = true;
        }
    }

    /// Parses chunks on all threads, and gives each column the type that fits all its values. JSON
    /// keys that first appear later become columns, in the order of their appearance.
    pub(super) fn widen_over(
        &mut self,
        chunks: impl Iterator<Item = Result<Chunk>> + Send,
        threads: usize,
    ) -> Result<()> {
        let chunks = Mutex::new(chunks);
        let worker = || -> Result<FoundTypes> {
            let mut found = FoundTypes { types: self.types(), late: HashMap::new() };
            loop {
                let Some(chunk) = lock(&chunks).next().transpose()? else { return Ok(found) };
                found.add(&self.parse_all(&chunk)?, chunk.number())?;
            }
        };
        let found: Vec<Result<FoundTypes>> = std::thread::scope(|scope| {
            // As many as the system starts.
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, worker).ok();
            let workers: Vec<_> = (1..threads.max(1)).filter_map(start).collect();
            let own = worker();
            let others = workers
                .into_iter()
                .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(own).chain(others).collect()
        });
        let mut all = FoundTypes { types: self.types(), late: HashMap::new() };
        for found in found {
            all.join(found?, &self.columns())?;
        }
        self.apply(all);
        Ok(())
    }

    /// Widens the types by the first chunk with rows: one before it may have only the names of the
    /// columns, where the first row is long.
    pub(super) fn widen_by_first(&mut self, chunks: &mut Chunks) -> Result<()> {
        let mut at = 0;
        while let Some(chunk) = chunks.peek(at)? {
            let mut found = FoundTypes { types: self.types(), late: HashMap::new() };
            let rows = self.parse_all(chunk)?;
            found.add(&rows, chunk.number())?;
            self.apply(found);
            if rows.num_rows() > 0 {
                break;
            }
            at += 1;
        }
        Ok(())
    }

    fn types(&self) -> Vec<DataType> {
        self.columns().into_iter().map(|(_, data_type)| data_type).collect()
    }

    fn apply(&mut self, all: FoundTypes) {
        for (at, data_type) in all.types.iter().enumerate() {
            self.set_type(at, data_type);
        }
        let mut late: Vec<_> = all.late.into_iter().collect();
        late.sort_by_key(|(_, (place, _))| *place);
        for (name, (_, data_type)) in late {
            if let TextSchema::Json(json) = self {
                json.columns.push(JsonColumn { name, data_type, fixed: false });
            }
        }
    }
}

/// The types that were found in some chunks.
struct FoundTypes {
    /// The types of the known columns.
    types: Vec<DataType>,
    /// New columns, each with the chunk in which it appears first and its place there.
    late: HashMap<Arc<str>, ((u64, usize), DataType)>,
}

impl FoundTypes {
    fn add(&mut self, batch: &RecordBatch, chunk: u64) -> Result<()> {
        for (at, field) in batch.schema_ref().fields().iter().enumerate() {
            let parsed = DataType::from_field(field).unwrap_or(DataType::Null);
            match self.types.get_mut(at) {
                // Arrow's type of UUIDs is that of texts.
                Some(DataType::Uuid) if parsed.is_text() => {}
                Some(known) => *known = join(known, &parsed, field.name())?,
                None => self.add_late(Arc::from(field.name().as_str()), (chunk, at), parsed)?,
            }
        }
        Ok(())
    }

    fn add_late(&mut self, name: Arc<str>, place: (u64, usize), data_type: DataType) -> Result<()> {
        let known = self.late.entry(Arc::clone(&name)).or_insert((place, DataType::Null));
        *known = (known.0.min(place), join(&known.1, &data_type, &name)?);
        Ok(())
    }

    fn join(&mut self, other: FoundTypes, columns: &Columns) -> Result<()> {
        for ((known, found), (name, _)) in self.types.iter_mut().zip(&other.types).zip(columns) {
            *known = join(known, found, name)?;
        }
        other
            .late
            .into_iter()
            .try_for_each(|(name, (place, data_type))| self.add_late(name, place, data_type))
    }
}

/// The type that can hold the values of both.
pub(super) fn join(a: &DataType, b: &DataType, name: &str) -> Result<DataType> {
    a.join(b).ok_or_else(|| {
        Error::InvalidInput(format!(
            "column '{name}' is {a} in one part of the input and {b} in another"
        ))
    })
}

/// Whether a file is compressed, by its extension.
pub(super) fn is_compressed(path: &Path) -> bool {
    let endings = ["gz", "gzip", "zst", "zstd", "bz2", "lz4"];
    path.extension().is_some_and(|end| endings.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

#[cold]
fn changed() -> Error {
    Error::InvalidInput("the kind of an input file has changed while it was read".into())
}
