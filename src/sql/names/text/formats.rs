//! CSV and JSON under one face: an input is cut into chunks, its first ones tell the columns, and
//! any thread parses a chunk.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;

use crate::error::{Error, Result};
use crate::ingest::sources::json::{
    self, JsonChunk, JsonChunks, JsonColumn, JsonOptions, JsonSchema,
};
use crate::ingest::sources::{
    CsvChunk, CsvChunks, CsvOptions, CsvSchema, Format, Input, Opened, infer, parse_chunk,
    parse_columns,
};
use crate::model::DataType;
use crate::sql::names::lock;

/// Names and types of columns, in order.
pub(super) type Columns = Vec<(Arc<str>, DataType)>;

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

/// Chunks in order; the first ones may have been read already.
pub(super) struct Chunks {
    ready: VecDeque<Chunk>,
    rest: Rest,
}

enum Rest {
    Csv(CsvChunks),
    Json(Box<JsonChunks>),
}

impl Chunks {
    /// The first chunk, before it is taken.
    pub(super) fn first(&self) -> Option<&Chunk> {
        self.ready.front()
    }
}

impl Iterator for Chunks {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ready.pop_front().map(Ok).or_else(|| match &mut self.rest {
            Rest::Csv(rest) => Some(rest.next()?.map(Chunk::Csv)),
            Rest::Json(rest) => Some(rest.next()?.map(Chunk::Json)),
        })
    }
}

/// The chunks of an input from its first row on.
pub(super) fn chunks(input: Input) -> Result<Chunks> {
    Ok(start(input.open()?, &[])?.0)
}

/// All that is needed to parse chunks of one input.
#[derive(Clone)]
pub(super) enum TextSchema {
    Csv(CsvSchema),
    Json(JsonSchema),
}

/// The chunks of an input, and how they are to be read in a table that has columns already.
fn start(opened: Opened, prior: &[(Arc<str>, DataType)]) -> Result<(Chunks, CsvOptions)> {
    let mut options = CsvOptions::for_format(opened.format);
    options.prior =
        prior.iter().map(|(name, data_type)| (name.to_string(), data_type.clone())).collect();
    let rest = match opened.format {
        Format::Csv | Format::Tsv => {
            Rest::Csv(CsvChunks::new(&opened.name, opened.bytes, &options))
        }
        Format::Json => Rest::Json(Box::new(JsonChunks::new(&opened.name, opened.bytes))),
        Format::Arrow | Format::Parquet => {
            let name = opened.name.display();
            return Err(Error::Unsupported(format!(
                "{name} is neither CSV, TSV nor JSON; give it the name of what it is (.arrow, .parquet), or ingest it first"
            )));
        }
    };
    Ok((Chunks { ready: VecDeque::new(), rest }, options))
}

/// The chunks of an input, and what the first says of names and types; `None` for an input without
/// a row, where the columns are known.
pub(super) fn sample(input: Input, prior: &Columns) -> Result<Option<(Chunks, TextSchema)>> {
    let opened = input.open()?;
    let name = opened.name.clone();
    let (mut chunks, options) = start(opened, prior)?;
    let first = chunks.next().transpose()?;
    if first.is_none() && !prior.is_empty() {
        return Ok(None);
    }
    let schema = match (&first, &chunks.rest) {
        (Some(Chunk::Json(first)), _) => {
            TextSchema::Json(json::infer(&name, &JsonOptions::from(&options), Some(first))?)
        }
        (Some(Chunk::Csv(first)), _) => TextSchema::Csv(infer(&name, &options, Some(first))?),
        (None, Rest::Json(_)) => {
            TextSchema::Json(json::infer(&name, &JsonOptions::from(&options), None)?)
        }
        (None, Rest::Csv(_)) => TextSchema::Csv(infer(&name, &options, None)?),
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

    /// Sets the type of the column at a position, from which its values may not differ.
    pub(super) fn set_type(&mut self, at: usize, data_type: &DataType) {
        let place = match self {
            TextSchema::Csv(csv) => csv.columns.get_mut(at).map(|column| &mut column.data_type),
            TextSchema::Json(json) => json.columns.get_mut(at).map(|column| &mut column.data_type),
        };
        if let Some(place) = place {
            place.clone_from(data_type);
        }
    }

    /// What was taken for granted.
    pub(super) fn guesses(&self) -> Vec<String> {
        match self {
            TextSchema::Csv(csv) => csv.guesses.iter().map(ToString::to_string).collect(),
            TextSchema::Json(_) => Vec::new(),
        }
    }

    /// The columns of a chunk at these positions. Where they are to be `complete`, there must be no
    /// others.
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

    /// The value that does not have the type which the first rows had, found by insisting on that
    /// type.
    pub(super) fn misfit(&self, chunk: &Chunk, position: usize) -> Error {
        let mut strict = self.clone();
        strict.fix(position);
        let line = match chunk {
            Chunk::Csv(chunk) => chunk.line,
            Chunk::Json(chunk) => chunk.line,
        };
        let hint =
            "; its first rows decided the type, and ingesting it into a table takes in all of them";
        match strict.parse(chunk, &[position], false) {
            Err(Error::InvalidInput(what)) => {
                // A query takes no such option.
                let what = what.split("; --schema").next().unwrap_or_default();
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

    /// Insists on the type of a column.
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

    /// Parses chunks on all threads, and gives each column the type that all its values have in
    /// common. Keys of JSON that come late become columns, in the order in which they come.
    pub(super) fn widen_over(
        &mut self,
        chunks: impl Iterator<Item = Result<Chunk>> + Send,
        threads: usize,
    ) -> Result<()> {
        let chunks = Mutex::new(chunks);
        let worker = || -> Result<Found> {
            let mut found = Found { types: self.types(), late: HashMap::new() };
            loop {
                let Some(chunk) = lock(&chunks).next().transpose()? else { return Ok(found) };
                found.add(&self.parse_all(&chunk)?, chunk.number())?;
            }
        };
        let found: Vec<Result<Found>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(worker)).collect();
            let own = worker();
            let others = workers
                .into_iter()
                .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(own).chain(others).collect()
        });
        let mut all = Found { types: self.types(), late: HashMap::new() };
        for found in found {
            all.join(found?, &self.columns())?;
        }
        self.take_over(all);
        Ok(())
    }

    /// The same with one chunk alone.
    pub(super) fn widen_by(&mut self, chunk: &Chunk) -> Result<()> {
        let mut found = Found { types: self.types(), late: HashMap::new() };
        found.add(&self.parse_all(chunk)?, chunk.number())?;
        self.take_over(found);
        Ok(())
    }

    fn types(&self) -> Vec<DataType> {
        self.columns().into_iter().map(|(_, data_type)| data_type).collect()
    }

    fn take_over(&mut self, all: Found) {
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

/// What the values of some chunks are.
struct Found {
    /// Of the columns that are known.
    types: Vec<DataType>,
    /// Columns that are not, with the chunk that brings them first and their place in it.
    late: HashMap<Arc<str>, ((u64, usize), DataType)>,
}

impl Found {
    fn add(&mut self, batch: &RecordBatch, chunk: u64) -> Result<()> {
        for (at, field) in batch.schema_ref().fields().iter().enumerate() {
            let parsed = DataType::from_arrow(field.data_type()).unwrap_or(DataType::Null);
            match self.types.get_mut(at) {
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

    fn join(&mut self, other: Found, columns: &Columns) -> Result<()> {
        for ((known, found), (name, _)) in self.types.iter_mut().zip(&other.types).zip(columns) {
            *known = join(known, found, name)?;
        }
        other
            .late
            .into_iter()
            .try_for_each(|(name, (place, data_type))| self.add_late(name, place, data_type))
    }
}

/// The type that holds both.
pub(super) fn join(a: &DataType, b: &DataType, name: &str) -> Result<DataType> {
    a.join(b).ok_or_else(|| {
        Error::InvalidInput(format!(
            "column '{name}' is {a} in one part of the input and {b} in another"
        ))
    })
}

/// Whether a file of this path is compressed, by its name.
pub(super) fn is_packed(path: &Path) -> bool {
    let packed = ["gz", "gzip", "zst", "zstd", "bz2", "lz4"];
    path.extension().is_some_and(|end| packed.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

#[cold]
fn changed() -> Error {
    Error::InvalidInput("an input has become another kind of file while it was read".into())
}
