//! CSV, TSV and JSON files, and the standard input, as tables: the reader and the inference of
//! ingest, so that a query over a file and over the table made from it see the same columns, types
//! and values.
//!
//! A plan needs its types before the first row is read. Of files up to [`WHOLE_FILE_BYTES`] (a
//! sixteenth of it where compressed) the whole is parsed for its types, as ingest would; of larger
//! ones and of the standard input the first rows decide, and a later value that does not fit is an
//! error that names it. So is a key of JSON that comes later, where all columns are asked for.

mod exec;
mod formats;
mod inputs;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use self::exec::TextExec;
use self::formats::{Columns, TextSchema, is_packed, join, sample};
use self::inputs::{Source, TextInput};
use crate::error::{Error, Result};
use crate::ingest::sources::Input;

/// Up to this size a file is parsed once for its types alone.
const WHOLE_FILE_BYTES: u64 = 64 << 20;

/// One or more inputs, whose columns are found by name; one that an input lacks is null there.
pub(crate) struct TextTable {
    inputs: Vec<TextInput>,
    schema: SchemaRef,
}

impl TextTable {
    /// Opens files that exist, or with `None` the standard input, and finds their types. What is
    /// taken for granted is noted.
    pub(crate) fn open(
        paths: Option<&[PathBuf]>,
        threads: usize,
        note: &mut (dyn FnMut(String) + Send),
    ) -> Result<TextTable> {
        let mut columns = Columns::new();
        let mut inputs = Vec::new();
        match paths {
            None => {
                if let Some((chunks, mut schema)) = sample(Input::stdin(), &columns)? {
                    chunks.first().map_or(Ok(()), |first| schema.widen_by(first))?;
                    add_columns(&mut columns, &schema)?;
                    tell("standard input", &schema, note);
                    inputs.push((Source::Stdin(Arc::new(Mutex::new(Some(chunks)))), schema));
                }
            }
            Some(paths) => {
                for path in paths {
                    let Some((chunks, mut schema)) = sample(Input::path(path), &columns)? else {
                        continue;
                    };
                    if is_small(path)? {
                        schema.widen_over(chunks, threads)?;
                    } else {
                        chunks.first().map_or(Ok(()), |first| schema.widen_by(first))?;
                    }
                    add_columns(&mut columns, &schema)?;
                    tell(&path.display().to_string(), &schema, note);
                    inputs.push((Source::File(path.clone()), schema));
                }
            }
        }
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, data_type)| Field::new(&**name, data_type.to_arrow(), true))
            .collect();
        let inputs = inputs
            .into_iter()
            .map(|(source, schema)| TextInput::new(source, schema, &columns))
            .collect();
        Ok(TextTable { schema: Arc::new(Schema::new(fields)), inputs })
    }
}

/// Adds what an input has to the columns of the table: new names behind, types joined.
fn add_columns(columns: &mut Columns, schema: &TextSchema) -> Result<()> {
    for (name, found) in schema.columns() {
        match columns.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = join(known, &found, &name)?,
            None => columns.push((name, found)),
        }
    }
    Ok(())
}

/// Notes what was taken for granted about an input; how to say otherwise is a matter of ingest.
fn tell(name: &str, schema: &TextSchema, note: &mut (dyn FnMut(String) + Send)) {
    for guess in schema.guesses() {
        note(format!("{name}: {}", guess.replace("say --", "ingest it with --")));
    }
}

fn is_small(path: &Path) -> Result<bool> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::io(path, error))?;
    let most = if is_packed(path) { WHOLE_FILE_BYTES / 16 } else { WHOLE_FILE_BYTES };
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
        // Whoever wants the first rows alone does not want to hear of an error behind them.
        let partitions =
            if limit.is_some() { 1 } else { state.config().target_partitions().max(1) };
        let complete = (0..all).all(|at| columns.contains(&at));
        Ok(Arc::new(TextExec::new(self.inputs.clone(), columns, complete, schema, partitions)))
    }
}
