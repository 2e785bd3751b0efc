//! What a load would read, and which columns its table would have: nothing is stored.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};

use super::arrange::Arrange;
use super::columns::{match_columns, typed};
use super::input_tasks::selected::select_for;
use super::input_tasks::{InputTasks, LoadWarnings};
use super::load::live;
use super::options::{LoadOptions, pipeline_options, thread_pool};
use super::resume::{self, ChangedInput};
use super::sources::Input;
use super::sources::csv::Guess;
use crate::error::Result;
use crate::manifest::LoadedSource;
use crate::model::{Column, ColumnId, Schema};
use crate::store::writer::missing_value;
use crate::store::{Snapshot, TableOptions};

/// What a load would do.
#[derive(Clone, Debug, Default)]
pub struct LoadForecast {
    /// The inputs that would be read, with their bytes before decompression; `None` of a pipe.
    pub inputs: Vec<(PathBuf, Option<u64>)>,
    /// Inputs that would be left out because they were loaded before.
    pub loaded_before: Vec<String>,
    /// Inputs that would be left out although they have changed since.
    pub changed: Vec<ChangedInput>,
    /// The columns of the table, as far as the first rows of each input tell.
    pub schema: Schema,
    /// Columns that would be left out because of their type.
    pub skipped: Vec<String>,
    /// Guesses about the inputs, once each, with the input.
    pub guesses: Vec<(PathBuf, Guess)>,
}

/// What [`super::load::load`] would do to a table: to this generation of it, or to a new one. Only
/// the first rows of each input are parsed, and inputs learn from each other as those of a load do.
pub fn would_load(
    table: Option<&Snapshot>,
    inputs: Vec<Input>,
    options: &LoadOptions,
) -> Result<LoadForecast> {
    let sources = table.map_or(Ok(Vec::new()), Snapshot::sources)?;
    let mut plan = resume::plan_load(inputs, &sources, options.if_loaded)?;
    let table_options = table.map_or_else(TableOptions::default, Snapshot::options);
    let most = pipeline_options(table_options, options).in_flight_bytes;
    let pool = Arc::new(thread_pool(options.threads)?);
    let selected = select_for(&mut plan, options, &pool, most)?;
    let mut schema = table.map_or_else(Schema::default, |table| table.schema().clone());
    // A table without columns has no arrangement yet.
    let told = table.filter(|table| !table.schema().columns().is_empty());
    let told = told.map(|table| table.root().arrangement.clone());
    let mut arrange = Some(Arrange { table: told, ..options.arrange.clone() });
    let mut warnings = LoadWarnings::default();
    let size = |input: &Input| Some(input.size()?.saturating_sub(input.loaded_bytes()));
    let read = plan.inputs.iter().map(|input| (input.name().to_path_buf(), size(input))).collect();
    let pieces = |source: &Option<LoadedSource>| source.as_ref().map_or(0, |source| source.pieces);
    let mut tasks = InputTasks::new(
        plan.inputs.into_iter().map(|input| live(input, options)).collect(),
        &schema.clone(),
        options,
        pool,
        most,
        plan.sources.iter().map(pieces).collect(),
        plan.done,
        selected,
        &mut warnings,
    )?;
    while let Some(task) = tasks.next().transpose()? {
        for batch in (task.work)()?.batches {
            let batch = typed(&schema, batch, false)?;
            let ids = match_columns(&mut schema, &batch)?;
            check_required(&schema, &ids, &batch)?;
            if let Some(arrange) = arrange.take() {
                arrange.resolve(&schema)?;
            }
        }
        tasks.leave_input();
    }
    drop(tasks);
    Ok(LoadForecast {
        inputs: read,
        loaded_before: plan.skipped,
        changed: plan.changed,
        schema,
        skipped: warnings.skipped,
        guesses: warnings.guesses,
    })
}

/// Refuses nulls in NOT NULL columns, also those that a selection leaves out, as the commit would.
fn check_required(schema: &Schema, ids: &[ColumnId], batch: &RecordBatch) -> Result<()> {
    let complete: HashSet<ColumnId> = ids
        .iter()
        .zip(batch.columns())
        .filter(|(_, values)| values.logical_null_count() == 0)
        .map(|(id, _)| *id)
        .collect();
    let lacks = |column: &&Column| !column.nullable && !complete.contains(&column.id);
    match schema.columns().iter().find(lacks).filter(|_| batch.num_rows() > 0) {
        Some(column) => Err(missing_value(&column.name)),
        None => Ok(()),
    }
}
