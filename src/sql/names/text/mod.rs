//! CSV, TSV and JSON files, and the standard input, as tables. They use the reader and the type
//! inference of ingest, so that a query over a file and one over the table made from it see the
//! same columns, types and values.
//!
//! A plan needs its types before the first row is read. Files up to [`WHOLE_FILE_BYTES`] (a
//! sixteenth of it if compressed) are parsed as a whole to infer their types, as ingest would. For
//! larger files and the standard input the first rows decide, and a later value that does not fit
//! is an error that names it. So is a JSON key that first appears later, if all columns are read.

mod exec;
mod formats;
mod inputs;
mod options;

use std::fmt;
use std::sync::{Arc, Mutex};

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use self::exec::TextExec;
pub(super) use self::formats::open_input;
use self::formats::{Before, TextSchema, is_compressed, join, sample};
pub(super) use self::inputs::TextFile;
use self::inputs::{TextInput, TextSource};
pub(crate) use self::options::TextOptions;
use self::options::named_as_in_sql;
use crate::error::{Error, IoResult, Result};
use crate::ingest::sources::{Input, Opened, PathColumns, path_columns};
use crate::limits;
use crate::model::DataType;

/// Files up to this size are parsed once for their types alone.
const WHOLE_FILE_BYTES: u64 = 64 << 20;

/// One or more inputs, whose columns are matched by name. A column that an input lacks is null
/// there.
pub(crate) struct TextTable {
    inputs: Vec<TextInput>,
    schema: SchemaRef,
}

/// An input whose columns have been found.
struct Found {
    source: TextSource,
    schema: TextSchema,
    of_path: PathColumns,
    options: TextOptions,
}

impl TextTable {
    /// Opens files and infers their types, within a limit of memory. Guesses are noted. Where no
    /// type of its values holds a column of all files, it is text in all, as in a load.
    pub(crate) fn open(
        files: &[TextFile],
        options: TextOptions,
        threads: usize,
        memory: u64,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<TextTable> {
        let mut texts = Vec::new();
        loop {
            let mut misfit = None;
            let found = (&texts[..], &mut misfit);
            let opened = TextTable::open_once(files, &options, threads, memory, note, found);
            let is_guess = |name: &Arc<str>| {
                !texts.contains(name)
                    && options.csv.schema.iter().all(|(named, _)| **named != **name)
            };
            match misfit.filter(is_guess) {
                Some(name) => {
                    note(format!(
                        "column '{name}' is read as text, since no other type holds it in all files"
                    ));
                    texts.push(name);
                }
                None => return opened,
            }
        }
    }

    /// The same, with some columns as texts; if it fails for another, that is found.
    fn open_once(
        files: &[TextFile],
        options: &TextOptions,
        threads: usize,
        memory: u64,
        note: &mut (dyn FnMut(String) + Send),
        (texts, misfit): (&[Arc<str>], &mut Option<Arc<str>>),
    ) -> Result<TextTable> {
        let row_limit = limits::row_bytes(memory);
        let mut before = Before { texts: texts.to_vec(), ..Before::default() };
        let all: Vec<Input> = files.iter().map(TextFile::input).collect();
        let (fixed, prior) = (&options.csv.schema, &options.csv.prior);
        let (with_keys, filename) =
            (!options.without_path_columns, options.filename_column.as_deref());
        let of_paths = path_columns(&all, with_keys, filename, fixed, prior).map_err(in_sql)?;
        let mut inputs = Vec::new();
        for (file, of_path) in files.iter().zip(of_paths) {
            let mut options = options.clone();
            options.csv.external_columns.extend(of_path.names().map(str::to_owned));
            let opened = open_input(file.input(), &options)?;
            let sampled = sample(opened, &options, &before, row_limit).map_err(in_sql)?;
            let Some((mut chunks, mut schema)) = sampled else { continue };
            if is_small(file)? {
                schema.widen_over(chunks, threads).map_err(in_sql)?;
            } else {
                schema.widen_by_first(&mut chunks).map_err(in_sql)?;
            }
            add_columns(&mut before, &schema, misfit)?;
            note_guesses(&file.path.display().to_string(), &schema, note);
            inputs.push(Found { source: TextSource::File(file.clone()), schema, of_path, options });
        }
        TextTable::new(inputs, before, row_limit)
    }

    /// A table over the standard input, which has been opened.
    pub(crate) fn of_stdin(
        opened: Opened,
        options: TextOptions,
        memory: u64,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<TextTable> {
        let row_limit = limits::row_bytes(memory);
        let (mut before, mut inputs) = (Before::default(), Vec::new());
        let sampled = sample(opened, &options, &before, row_limit).map_err(in_sql)?;
        if let Some((mut chunks, mut schema)) = sampled {
            schema.widen_by_first(&mut chunks).map_err(in_sql)?;
            add_columns(&mut before, &schema, &mut None)?;
            note_guesses("standard input", &schema, note);
            let source = TextSource::Stdin(Arc::new(Mutex::new(Some(chunks))));
            inputs.push(Found { source, schema, of_path: PathColumns::default(), options });
        }
        TextTable::new(inputs, before, row_limit)
    }

    fn new(inputs: Vec<Found>, before: Before, row_limit: usize) -> Result<TextTable> {
        let mut columns = before.columns;
        for Found { schema, of_path, .. } in &inputs {
            let own = schema.columns();
            let is_own = |field: &Field| own.iter().any(|(name, _)| **name == **field.name());
            for field in of_path.fields().filter(|field| !is_own(field)) {
                let data_type = DataType::from_field(field).unwrap_or(DataType::Utf8);
                match columns.iter_mut().find(|(name, _)| **name == **field.name()) {
                    Some((name, known)) => *known = join(known, &data_type, name)?,
                    None => columns.push((Arc::from(field.name().as_str()), data_type)),
                }
            }
        }
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, data_type)| Field::new(&**name, data_type.to_arrow(), true))
            .collect();
        let inputs = inputs
            .into_iter()
            .map(|Found { source, schema, of_path, options }| {
                TextInput::new(source, schema, &of_path, &columns, Arc::new(options), row_limit)
            })
            .collect();
        Ok(TextTable { schema: Arc::new(Schema::new(fields)), inputs })
    }
}

/// An error of the reader, with the options as they are called in statements.
fn in_sql(error: Error) -> Error {
    match error {
        Error::InvalidInput(what) => Error::InvalidInput(named_as_in_sql(&what)),
        Error::NotFound(what) => Error::NotFound(named_as_in_sql(&what)),
        other => other,
    }
}

/// Adds the columns of an input to those of the table: new names at the end, types joined. The
/// first that cannot be is `misfit`.
fn add_columns(
    before: &mut Before,
    schema: &TextSchema,
    misfit: &mut Option<Arc<str>>,
) -> Result<()> {
    before.date_orders.extend(schema.date_orders());
    for (name, found) in schema.columns() {
        match before.columns.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => match join(known, &found, &name) {
                Ok(joined) => *known = joined,
                Err(error) => {
                    *misfit = matches!(schema, TextSchema::Csv(_)).then_some(name);
                    return Err(error);
                }
            },
            None => before.columns.push((name, found)),
        }
    }
    Ok(())
}

/// Notes what was guessed about an input.
fn note_guesses(name: &str, schema: &TextSchema, note: &mut (dyn FnMut(String) + Send)) {
    for guess in schema.guesses() {
        let guess = named_as_in_sql(&guess.replace("say --", "in read_csv, say --"));
        note(format!("{name}: {guess}"));
    }
}

fn is_small(file: &TextFile) -> Result<bool> {
    if let Some(member) = &file.member {
        return Ok(member.size() <= WHOLE_FILE_BYTES / 16);
    }
    let metadata = std::fs::metadata(&file.path).with_path(&file.path)?;
    let is_compressed = is_compressed(&file.path);
    let most = if is_compressed { WHOLE_FILE_BYTES / 16 } else { WHOLE_FILE_BYTES };
    Ok(metadata.is_file() && metadata.len() <= most)
}

impl fmt::Debug for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.inputs.iter().map(|input| input.source.to_string())).finish()
    }
}

#[async_trait]
impl TableProvider for TextTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let all = self.schema.fields().len();
        let columns = projection.cloned().unwrap_or_else(|| (0..all).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        // With one partition, a reader of only the first rows sees no error from rows after them.
        let partitions =
            if limit.is_some() { 1 } else { state.config().target_partitions().max(1) };
        let complete = (0..all).all(|at| columns.contains(&at));
        Ok(Arc::new(TextExec::new(self.inputs.clone(), columns, complete, schema, partitions)))
    }
}
