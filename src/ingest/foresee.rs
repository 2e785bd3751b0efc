//! What a load would read, and which columns its table would have: nothing is stored.

use std::path::PathBuf;
use std::sync::Arc;

use super::columns::match_columns;
use super::input_tasks::{InputTasks, LoadWarnings};
use super::options::{LoadOptions, pipeline_options, thread_pool};
use super::resume::{self, ChangedInput};
use super::sources::Input;
use super::sources::csv::Guess;
use crate::error::Result;
use crate::model::Schema;
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
/// the first rows of each input are parsed.
pub fn would_load(
    table: Option<&Snapshot>,
    inputs: Vec<Input>,
    options: &LoadOptions,
) -> Result<LoadForecast> {
    let sources = table.map_or(Ok(Vec::new()), Snapshot::sources)?;
    let plan = resume::plan_load(inputs, &sources, options.if_loaded)?;
    let table_options = table.map_or_else(TableOptions::default, Snapshot::options);
    let most = pipeline_options(table_options, options).in_flight_bytes;
    let pool = Arc::new(thread_pool(options.threads)?);
    let mut schema = table.map_or_else(Schema::default, |table| table.schema().clone());
    let (mut warnings, mut read) = (LoadWarnings::default(), Vec::new());
    for (input, source) in plan.inputs.into_iter().zip(plan.sources) {
        let bytes = input.size().map(|bytes| bytes.saturating_sub(input.loaded_bytes()));
        read.push((input.name().to_path_buf(), bytes));
        let skip = vec![source.map_or(0, |source| source.pieces)];
        let mut tasks = InputTasks::new(
            vec![input],
            &schema,
            options,
            Arc::clone(&pool),
            most,
            skip,
            Vec::new(),
            &mut warnings,
        )?;
        let first = tasks.next().transpose()?.map(|task| (task.work)()).transpose()?;
        for batch in first.into_iter().flat_map(|parsed| parsed.batches) {
            match_columns(&mut schema, &batch)?;
        }
    }
    Ok(LoadForecast {
        inputs: read,
        loaded_before: plan.skipped,
        changed: plan.changed,
        schema,
        skipped: warnings.skipped,
        guesses: warnings.guesses,
    })
}
