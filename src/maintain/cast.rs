//! Gives a column another type, and converts its values: a column of numbers that became text,
//! because missing values were written `NA`, say.
//!
//! Every segment that has the column is written anew, block by block, and one commit puts all of
//! them in force. The column gets a new id, so that no segment of the old type is ever read as one
//! of the new. Values are converted exactly, by the rules of INSERT; one that cannot be is an
//! error, which changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema};

use crate::error::{ArrowResult, Error, Result};
use crate::ingest::accounting::RowAccounting;
use crate::ingest::arrange::Arrange;
use crate::ingest::assign::assign;
use crate::ingest::load::{LoadOptions, pipeline_options, store_segment, thread_pool};
use crate::ingest::pipeline::{self, Parsed, Task};
use crate::ingest::rewrite;
use crate::model::{Arrangement, Column, DataType, Schema};
use crate::segment::Segment;
use crate::store::{Changes, Commit, Edit, NewSegment, Table};

/// A column and the type that it is to have.
#[derive(Clone, Debug)]
pub struct Cast {
    /// Column name.
    pub column: String,
    /// Its new type.
    pub data_type: DataType,
    /// Texts that mean null.
    pub nulls: Vec<String>,
}

/// What to do it with.
#[derive(Clone, Debug, Default)]
pub struct CastOptions {
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to stop; nothing is changed then.
    pub cancelled: Arc<AtomicBool>,
    /// Progress: rows of the table that are done.
    pub done: Arc<AtomicU64>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CastReport {
    /// Rows of the table.
    pub rows: u64,
    /// Segments written anew.
    pub rewritten: u64,
    /// Bytes of new segments.
    pub bytes_written: u64,
}

impl Cast {
    /// The column as it is and as it will be.
    fn columns(&self, before: &Schema, arrangement: &Arrangement) -> Result<[Column; 2]> {
        let position = before.expect(&self.column)?;
        let old = before.columns().get(position).cloned().ok_or_else(gone)?;
        if arrangement.uses(old.id) {
            return Err(Error::InvalidInput(format!(
                "column '{}' cannot get another type: the table is partitioned or sorted by it; \
                 CREATE TABLE … AS makes a table of another arrangement",
                self.column
            )));
        }
        let new = self.schema(before)?.columns().get(position).cloned().ok_or_else(gone)?;
        Ok([old, new])
    }

    fn schema(&self, before: &Schema) -> Result<Schema> {
        let mut after = before.clone();
        after.replace_type(before.expect(&self.column)?, self.data_type.clone())?;
        Ok(after)
    }
}

/// The columns that [`cast`] would make. Every value is converted to see whether it can be.
pub fn would_cast(table: &Table, cast: &Cast, options: &CastOptions) -> Result<Schema> {
    let snapshot = table.snapshot()?;
    table.check_writable()?;
    let schema = snapshot.schema();
    let [old, new] = cast.columns(schema, &snapshot.root().arrangement)?;
    for entry in snapshot.segments()?.iter() {
        let segment = snapshot.open_segment(entry)?;
        let stored = rewrite::stored_columns(&segment, schema);
        let stored: Vec<Column> = stored.into_iter().filter(|one| one.id == old.id).collect();
        let count = |rows| options.done.fetch_add(rows, Ordering::Relaxed);
        if stored.is_empty() {
            count(entry.rows);
        }
        for block in 0..if stored.is_empty() { 0 } else { segment.blocks() } {
            if options.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let rows = rewrite::block_rows(&segment, block);
            let batch = rewrite::decode_coded(&segment, block, 0..rows, &stored)?;
            converted(&batch, &new, &cast.nulls)?;
            count(rows as u64);
        }
    }
    cast.schema(schema)
}

/// Converts a column in one commit.
pub fn cast(table: &Table, cast: &Cast, options: &CastOptions) -> Result<(Commit, CastReport)> {
    let mut writer = table.writer(None)?;
    let before = writer.schema().clone();
    let [old, new] = cast.columns(&before, &writer.arrangement())?;
    let after = cast.schema(&before)?;
    let pool = thread_pool(options.threads.max(1))?;
    let load = LoadOptions {
        threads: options.threads.max(1),
        memory_limit: options.memory_limit,
        ..LoadOptions::default()
    };
    let pipeline = pipeline_options(writer.options(), &load);
    let arrange = Arrange { table: Some(Arrangement::default()), ..Arrange::default() };
    let (mut report, mut edits) = (CastReport::default(), Vec::new());
    for (at, entry) in writer.segments()?.into_iter().enumerate() {
        if options.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        report.rows += entry.rows;
        let segment = writer.open_segment(&entry)?;
        let stored = rewrite::stored_columns(&segment, &before);
        if !stored.iter().any(|column| column.id == old.id) {
            // Its rows are null there, whatever the type.
            options.done.fetch_add(entry.rows, Ordering::Relaxed);
            continue;
        }
        let files = writer.data_files();
        let mut edit: Edit<NewSegment> = Edit { at, remove: 1, insert: Vec::new() };
        let mut sink = |_: Arc<str>, segment| {
            edit.insert.push(store_segment(&files, &entry.partition, segment)?);
            Ok(())
        };
        let tasks = tasks(segment, stored, new.clone(), cast, &options.done)?;
        let mut accounting = RowAccounting::default();
        let mut schema = after.clone();
        pipeline::run(&pool, tasks, &mut schema, &arrange, &pipeline, &mut accounting, &mut sink)?;
        report.rewritten += 1;
        report.bytes_written += edit.insert.iter().map(|new| new.length).sum::<u64>();
        edits.push(edit);
    }
    let changes = Changes { edits, schema: after, ..writer.changes() };
    Ok((writer.commit_changes(changes)?, report))
}

/// Tasks that give a segment's rows with the column in its new type, block by block.
fn tasks(
    segment: Arc<Segment>,
    stored: Vec<Column>,
    new: Column,
    cast: &Cast,
    done: &Arc<AtomicU64>,
) -> Result<impl Iterator<Item = Result<Task>>> {
    let row_bytes = rewrite::row_bytes(&segment, &stored)?;
    let shared = Arc::new((segment, stored, new, cast.nulls.clone(), Arc::clone(done)));
    Ok((0..shared.0.blocks()).map(move |block| {
        let shared = Arc::clone(&shared);
        let rows = rewrite::block_rows(&shared.0, block);
        Ok(Task::new(rows.saturating_mul(2 * row_bytes), move || {
            let (segment, stored, new, nulls, done) = &*shared;
            let batch = rewrite::decode_coded(segment, block, 0..rows, stored)?;
            let batch = converted(&batch, new, nulls)?;
            done.fetch_add(rows as u64, Ordering::Relaxed);
            Ok(Parsed::from_stored(batch))
        }))
    }))
}

/// Rows with one column in its new type.
fn converted(batch: &RecordBatch, new: &Column, nulls: &[String]) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    if let Ok(at) = schema.index_of(&new.name)
        && let Some((field, array)) = fields.get_mut(at).zip(columns.get_mut(at))
    {
        *array = assign(new, &without(array, nulls)?).map_err(with_hint)?;
        *field = Arc::new(Field::new(&*new.name, array.data_type().clone(), true));
    }
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns).or_invalid()
}

/// The values, with null for texts that mean it.
fn without(array: &ArrayRef, nulls: &[String]) -> Result<ArrayRef> {
    let is_text = |of: &ArrowType| DataType::from_arrow(of) == Some(DataType::Utf8);
    let is_coded = matches!(array.data_type(), ArrowType::Dictionary(_, of) if is_text(of));
    if nulls.is_empty() || !is_coded && !is_text(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let texts = arrow_cast::cast(array, &ArrowType::Utf8).or_invalid()?;
    let kept = |text: &&str| !nulls.iter().any(|null| null == text);
    let texts = texts.as_string::<i32>().iter().map(|text| text.filter(kept));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

fn with_hint(error: Error) -> Error {
    match error {
        Error::InvalidInput(what) => Error::InvalidInput(format!(
            "{what}; nothing was changed; --null TEXT makes a text null, and a new table by CREATE \
             TABLE … AS can convert in any way"
        )),
        other => other,
    }
}

#[cold]
fn gone() -> Error {
    Error::InvalidInput("the column is not there".into())
}
