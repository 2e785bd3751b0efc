//! Rows out, or changed, by a condition.
//!
//! Segments that the manifest rules out are not opened, segments in which no row meets the
//! condition stay as they are, segments in which all do are taken off the list, and the others are
//! written anew. One commit puts all of it in force. Rewriting leaves readers nothing to look up
//! row by row: counts, sums and bounds stay exact, and every query as fast as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema as ArrowSchema};
use arrow_select::filter::{filter, filter_record_batch};
use arrow_select::interleave::interleave;

use crate::block::null_array;
use crate::error::{Error, Result};
use crate::expr::Predicate;
use crate::ingest::accounting::RowAccounting;
use crate::ingest::arrange::Arrange;
use crate::ingest::assign::assign;
use crate::ingest::load::{LoadOptions, pipeline_options, store_segment, thread_pool};
use crate::ingest::partition::{Compile, Compiled};
use crate::ingest::pipeline::{self, Task};
use crate::ingest::rewrite;
use crate::model::{Arrangement, Column, Schema};
use crate::query::matching_segments;
use crate::segment::Segment;
use crate::store::{Changes, Commit, Edit, NewSegment, Table};

/// What to do to which rows. Expressions are compiled for all columns of the table.
#[derive(Clone, Debug)]
pub struct Modification {
    /// The rows; all of them without a condition. Null is no.
    pub condition: Option<Compiled>,
    /// What statistics can tell about it.
    pub predicate: Predicate,
    /// What follows from it for partition keys, as in [`crate::query::Condition::partitions`].
    pub partitions: Predicate,
    /// Columns, by position, and their new values; `None` takes the rows out.
    pub set: Option<Vec<(usize, Compiled)>>,
    /// Makes functions of the expressions that the table is partitioned by.
    pub compile: Option<Arc<dyn Compile>>,
    /// The only generation that the expressions are right for, where they hold what was found in
    /// it.
    pub generation: Option<u64>,
}

/// What to do it with.
#[derive(Clone, Debug, Default)]
pub struct ModifyOptions {
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to stop; nothing is changed then.
    pub cancelled: Arc<AtomicBool>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModifyReport {
    /// Rows that met the condition.
    pub rows: u64,
    /// Segments written anew.
    pub rewritten: u64,
    /// Segments taken off the list whole.
    pub removed: u64,
    /// Bytes of new segments.
    pub bytes_written: u64,
}

/// Modifies a table. Where the schema or the generation is no longer that which the expressions
/// were made for, nothing is done.
pub fn modify(
    table: &Table,
    schema: &Schema,
    modification: &Modification,
    options: &ModifyOptions,
) -> Result<(Option<Commit>, ModifyReport)> {
    let mut writer = table.writer(None)?;
    let is_other = |made_for: u64| writer.base().map(|root| root.generation) != Some(made_for);
    if writer.schema() != schema || modification.generation.is_some_and(is_other) {
        return Err(Error::InvalidInput(format!(
            "table '{}' has changed meanwhile; try again",
            table.name()
        )));
    }
    // The writer's lock is held: this is the generation that the commit will follow.
    let snapshot = table.snapshot()?;
    let entries = snapshot.segments()?;
    let pool = thread_pool(options.threads.max(1))?;
    let load = LoadOptions {
        threads: options.threads.max(1),
        memory_limit: options.memory_limit,
        ..LoadOptions::default()
    };
    let pipeline = pipeline_options(&writer, &load);
    let arrange = arrangement(&writer.arrangement(), schema, modification);
    let mut report = ModifyReport::default();
    let Modification { predicate, partitions, .. } = modification;
    let mut edits: Vec<Edit<NewSegment>> = Vec::new();
    for number in
        matching_segments(predicate, partitions, &snapshot, &entries, &mut Default::default())?
    {
        if options.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let Some(entry) = entries.get(number) else { continue };
        let segment = snapshot.open_segment(entry)?;
        let rows = pool.install(|| matching_rows(&segment, schema, modification))?;
        if rows == 0 {
            continue;
        }
        report.rows += rows;
        let mut edit = Edit { at: number, remove: 1, insert: Vec::new() };
        if rows == entry.rows && modification.set.is_none() {
            report.removed += 1;
        } else {
            report.rewritten += 1;
            let files = writer.data_files();
            let mut sink = |partition: Arc<str>, segment| {
                // Rows that keep their partition are not asked where they belong.
                let partition =
                    if arrange.is_partitioned() { &*partition } else { &*entry.partition };
                edit.insert.push(store_segment(&files, partition, segment)?);
                Ok(())
            };
            let tasks = tasks(&segment, schema, modification)?;
            pipeline::run(
                &pool,
                tasks,
                &mut schema.clone(),
                &arrange,
                &pipeline,
                &mut RowAccounting::default(),
                &mut sink,
            )?;
            report.bytes_written += edit.insert.iter().map(|new| new.length).sum::<u64>();
        }
        edits.push(edit);
    }
    if edits.is_empty() {
        return Ok((None, report));
    }
    // A generation that somebody reads is not freed.
    drop(snapshot);
    let changes = Changes { edits, ..writer.changes() };
    Ok((Some(writer.commit_changes(changes)?), report))
}

/// Where changed rows go: where they were, unless a key changes.
fn arrangement(table: &Arrangement, schema: &Schema, modification: &Modification) -> Arrange {
    let set = modification.set.iter().flatten();
    let changed =
        set.filter_map(|(at, _)| schema.columns().get(*at)).any(|column| table.uses(column.id));
    let arrangement = if changed { table.clone() } else { Arrangement::default() };
    Arrange {
        table: Some(arrangement),
        compile: modification.compile.clone(),
        ..Arrange::default()
    }
}

/// How many rows of a segment meet the condition.
fn matching_rows(segment: &Segment, schema: &Schema, modification: &Modification) -> Result<u64> {
    use rayon::prelude::*;
    let count = |block: usize| {
        let range = segment.block_range(block);
        let rows = (range.end - range.start) as usize;
        let Some(condition) = &modification.condition else { return Ok(rows as u64) };
        let mut columns = Inputs::new(segment, block, rows, schema);
        Ok(mask(condition, &mut columns)?.true_count() as u64)
    };
    (0..segment.blocks()).into_par_iter().map(count).sum::<Result<u64>>()
}

/// Tasks that give a segment's rows as they are to be.
fn tasks<'a>(
    segment: &'a Arc<Segment>,
    schema: &'a Schema,
    modification: &'a Modification,
) -> Result<impl Iterator<Item = Result<Task>> + 'a> {
    let shared = Arc::new((schema.clone(), modification.clone()));
    let row_bytes = rewrite::row_bytes(segment, &rewrite::stored_columns(segment, schema))?;
    Ok((0..segment.blocks()).map(move |block| {
        let (segment, shared) = (Arc::clone(segment), Arc::clone(&shared));
        let range = segment.block_range(block);
        let rows = (range.end - range.start) as usize;
        let weight = rows.saturating_mul(2 * row_bytes);
        Ok(Task::new(weight, move || {
            Ok(modified(&segment, block, rows, &shared.0, &shared.1)?.into())
        }))
    }))
}

/// A block's rows as they are to be.
fn modified(
    segment: &Segment,
    block: usize,
    rows: usize,
    schema: &Schema,
    modification: &Modification,
) -> Result<RecordBatch> {
    let mut inputs = Inputs::new(segment, block, rows, schema);
    let mask = match &modification.condition {
        Some(condition) => mask(condition, &mut inputs)?,
        None => BooleanArray::from(vec![true; rows]),
    };
    let batch =
        rewrite::decode(segment, block, 0..rows, &rewrite::stored_columns(segment, schema))?;
    let Some(set) = &modification.set else {
        let keep = arrow_array::BooleanArray::from_unary(&mask, |chosen| !chosen);
        return filter_record_batch(&batch, &keep).map_err(failed);
    };
    if mask.true_count() == 0 {
        return Ok(batch);
    }
    let fields = batch.schema_ref().fields().iter();
    let mut columns: Vec<(String, ArrayRef)> = fields
        .zip(batch.columns())
        .map(|(field, array)| (field.name().clone(), Arc::clone(array)))
        .collect();
    for (at, expression) in set {
        let Some(column) = schema.columns().get(*at) else { continue };
        let new = chosen_values(expression, &mut inputs, &mask, column)?;
        let old = inputs.column(*at)?;
        let mut next = 0;
        let places: Vec<(usize, usize)> = (0..rows)
            .map(|row| match mask.value(row) {
                true => {
                    next += 1;
                    (1, next - 1)
                }
                false => (0, row),
            })
            .collect();
        let merged = interleave(&[&old, &new], &places).map_err(failed)?;
        match columns.iter_mut().find(|(name, _)| **name == *column.name) {
            Some((_, array)) => *array = merged,
            None => columns.push((column.name.to_string(), merged)),
        }
    }
    let fields =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let fields = fields.collect::<Vec<_>>();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
        .map_err(failed)
}

/// The new values of a column, for the chosen rows alone: an expression may fail for others.
fn chosen_values(
    expression: &Compiled,
    inputs: &mut Inputs<'_>,
    mask: &BooleanArray,
    column: &Column,
) -> Result<ArrayRef> {
    let mut values = Vec::with_capacity(expression.inputs.len());
    for at in &expression.inputs {
        values.push(filter(&inputs.column(*at)?, mask).map_err(failed)?);
    }
    let new = evaluate(expression, &values, mask.true_count())?;
    arrow_cast::cast(&assign(column, &new)?, &column.data_type.to_arrow()).map_err(failed)
}

/// The rows that meet a condition, without nulls.
fn mask(condition: &Compiled, inputs: &mut Inputs<'_>) -> Result<BooleanArray> {
    let values =
        condition.inputs.iter().map(|at| inputs.column(*at)).collect::<Result<Vec<_>>>()?;
    let answer = evaluate(condition, &values, inputs.rows)?;
    if *answer.data_type() == arrow_schema::DataType::Null {
        return Ok(BooleanArray::from(vec![false; inputs.rows]));
    }
    let Some(answer) = answer.as_boolean_opt() else {
        return Err(Error::InvalidInput(format!(
            "a condition is true or false, not {}",
            answer.data_type()
        )));
    };
    Ok(match answer.nulls() {
        Some(nulls) => BooleanArray::new(answer.values() & nulls.inner(), None),
        None => answer.clone(),
    })
}

fn evaluate(expression: &Compiled, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    match (&expression.function, values) {
        (Some(function), _) => function.evaluate(values, rows),
        (None, [only, ..]) => Ok(Arc::clone(only)),
        (None, []) => Err(Error::InvalidInput("an expression without a value".into())),
    }
}

/// Columns of a block in the types of the table, decoded when they are first asked for.
struct Inputs<'a> {
    segment: &'a Segment,
    block: usize,
    rows: usize,
    schema: &'a Schema,
    decoded: Vec<Option<ArrayRef>>,
}

impl<'a> Inputs<'a> {
    fn new(segment: &'a Segment, block: usize, rows: usize, schema: &'a Schema) -> Self {
        Inputs { segment, block, rows, schema, decoded: vec![None; schema.columns().len()] }
    }

    fn column(&mut self, at: usize) -> Result<ArrayRef> {
        let (Some(slot), Some(column)) = (self.decoded.get_mut(at), self.schema.columns().get(at))
        else {
            return Err(Error::InvalidInput(format!("there is no column {at}")));
        };
        if let Some(array) = slot {
            return Ok(Arc::clone(array));
        }
        let array = match self.segment.column(column.id)? {
            Some(stored) => stored.block(self.block)?.decode_as(0..self.rows, &column.data_type)?,
            None => null_array(self.rows, &column.data_type),
        };
        Ok(Arc::clone(slot.insert(array)))
    }
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::InvalidInput(format!("rows could not be changed: {error}"))
}
