//! Deletes or updates the rows that meet a condition.
//!
//! Segments that the manifest rules out are not opened, segments in which no row meets the
//! condition stay as they are, segments in which all do are taken off the list, and the others are
//! written anew. One commit puts all of it in force. Rewriting leaves readers nothing to look up
//! row by row: counts, sums and bounds stay exact, and every query as fast as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Field, Schema as ArrowSchema};
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave;

use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;
use crate::ingest::accounting::RowAccounting;
use crate::ingest::arrange::Arrange;
use crate::ingest::assign::assign;
use crate::ingest::load::{LoadOptions, pipeline_options, store_segment, thread_pool};
use crate::ingest::partition::Compile;
use crate::ingest::pipeline::{self, Parsed, Task};
use crate::ingest::rewrite;
use crate::model::{Arrangement, Column, Schema};
use crate::query::open::{BlockRef, OpenBlock, OpenSegment};
use crate::query::select::{SelectedRows, select};
use crate::query::slice::Slice;
use crate::query::{Condition, Context, GroupLimits, Recorder};
use crate::store::{Changes, Commit, Edit, NewSegment, SegmentEntry, Snapshot, Table, TableWriter};

/// What the message of an error says first.
const NOT_CHANGED: &str = "rows could not be changed";

/// What to do to which rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modification {
    /// The columns that conditions name by position.
    pub columns: Vec<Column>,
    /// The rows: those that meet all conditions.
    pub conditions: Vec<Condition>,
    /// Columns of the table, by position, and their new values, which name all columns of the
    /// table by position; `None` takes the rows out.
    pub set: Option<Vec<(usize, Expression)>>,
    /// Makes functions of the expressions that the table is partitioned by.
    pub compile: Option<Arc<dyn Compile>>,
}

/// What to do it with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModifyOptions {
    /// Worker threads.
    pub threads: usize,
    /// Bound on anonymous memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Set from outside to stop; nothing is changed then.
    pub cancelled: Arc<AtomicBool>,
    /// Counts the rows that are looked at.
    pub recorder: Arc<Recorder>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModifyReport {
    /// Rows that met the condition.
    pub rows: u64,
    /// Segments written anew.
    pub rewritten: u64,
    /// Segments taken off the list whole.
    pub removed: u64,
    /// Bytes of the segments that are written anew, as they were.
    pub bytes_rewritten: u64,
    /// Bytes of new segments.
    pub bytes_written: u64,
}

impl ModifyReport {
    /// Counts a segment that has selected rows. Returns whether it is written anew.
    fn count(&mut self, entry: &SegmentEntry, selected: &SelectedRows, deletes: bool) -> bool {
        self.rows += selected.rows;
        if deletes && selected.rows == entry.rows {
            self.removed += 1;
            return false;
        }
        self.rewritten += 1;
        self.bytes_rewritten += entry.length;
        true
    }
}

/// What [`modify`] would do to a generation, by a look at the rows in question. Nothing is written,
/// and new values are not computed.
pub(crate) fn foresee(
    snapshot: &Snapshot,
    modification: &Modification,
    options: &ModifyOptions,
) -> Result<ModifyReport> {
    let (entries, mut report) = (snapshot.segments()?, ModifyReport::default());
    let deletes = modification.set.is_none();
    let mut count = |number: usize, selected: SelectedRows| {
        if let Some(entry) = entries.get(number) {
            report.count(entry, &selected, deletes);
        }
        if options.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    };
    let pool = thread_pool(options.threads.max(1))?;
    select_rows(modification, snapshot, &pool, options, &mut count)?;
    Ok(report)
}

/// Finds the rows to be changed, segment by segment.
fn select_rows(
    modification: &Modification,
    snapshot: &Snapshot,
    pool: &rayon::ThreadPool,
    options: &ModifyOptions,
    found: &mut dyn FnMut(usize, SelectedRows) -> Result<()>,
) -> Result<()> {
    let context = Context {
        pool,
        cancelled: &|| options.cancelled.load(Ordering::Relaxed),
        // A bit for each row is all that is held.
        reserve: &|_| Ok(()),
        release: &|_| (),
        recorder: &options.recorder,
        timed: false,
        temp_dir: &std::env::temp_dir(),
        limits: GroupLimits::default(),
        known_rows: false,
        states: false,
    };
    let Modification { columns, conditions, .. } = modification;
    select(columns, conditions, snapshot, &context, found)
}

/// Changed rows that are in the table's files, and not committed. They are gone if it is dropped.
#[derive(Debug)]
pub(crate) struct Prepared {
    writer: TableWriter,
    edits: Vec<Edit<NewSegment>>,
    pub(crate) report: ModifyReport,
}

impl Prepared {
    /// Puts the changes in force, if there are any.
    pub(crate) fn commit(mut self) -> Result<(Option<Commit>, ModifyReport)> {
        if self.edits.is_empty() {
            return Ok((None, self.report));
        }
        let changes = Changes { edits: self.edits, ..self.writer.changes() };
        Ok((Some(self.writer.commit_changes(changes)?), self.report))
    }
}

/// Modifies a table, whose writer the caller holds: it has seen that the expressions were made for
/// the schema and the generation in force.
pub(crate) fn modify(
    table: &Table,
    writer: TableWriter,
    modification: &Modification,
    options: &ModifyOptions,
) -> Result<(Option<Commit>, ModifyReport)> {
    prepare(table, writer, modification, options)?.commit()
}

/// The same up to the commit.
pub(crate) fn prepare(
    table: &Table,
    writer: TableWriter,
    modification: &Modification,
    options: &ModifyOptions,
) -> Result<Prepared> {
    let schema = &writer.schema().clone();
    // The writer's lock is held: this is the generation that the commit will follow.
    let snapshot = table.snapshot()?;
    let entries = snapshot.segments()?;
    let pool = thread_pool(options.threads.max(1))?;
    let load = LoadOptions {
        threads: options.threads.max(1),
        memory_limit: options.memory_limit,
        ..LoadOptions::default()
    };
    let pipeline = pipeline_options(writer.options(), &load);
    let arrange = arrangement(&writer.arrangement(), schema, modification);
    let mut report = ModifyReport::default();
    let mut edits: Vec<Edit<NewSegment>> = Vec::new();
    let mut change = |number: usize, selected: SelectedRows| {
        if options.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let Some(entry) = entries.get(number) else { return Ok(()) };
        let mut edit = Edit { at: number, remove: 1, insert: Vec::new() };
        if report.count(entry, &selected, modification.set.is_none()) {
            let files = writer.data_files();
            let mut sink = |partition: Arc<str>, segment| {
                // Rows that keep their partition are not asked where they belong.
                let partition =
                    if arrange.is_partitioned() { &*partition } else { &*entry.partition };
                edit.insert.push(store_segment(&files, partition, segment)?);
                Ok(())
            };
            let set = modification.set.clone();
            let columns = if set.is_some() { schema.columns() } else { &[] };
            let segment = OpenSegment::open(snapshot.open_segment(entry)?, number, columns)?;
            let rewrite = Rewrite { segment, schema: schema.clone(), selected, set };
            pipeline::run(
                &pool,
                tasks(rewrite)?,
                &mut schema.clone(),
                &arrange,
                &pipeline,
                &mut RowAccounting::default(),
                &mut sink,
            )?;
            report.bytes_written += edit.insert.iter().map(|new| new.length).sum::<u64>();
        }
        edits.push(edit);
        Ok(())
    };
    select_rows(modification, &snapshot, &pool, options, &mut change)?;
    // The snapshot ends here: a commit does not free a generation that somebody reads.
    Ok(Prepared { writer, edits, report })
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

/// A segment that is written anew, with some of its rows taken out or changed.
struct Rewrite {
    /// With all columns of the table, where some get new values.
    segment: OpenSegment,
    schema: Schema,
    selected: SelectedRows,
    set: Option<Vec<(usize, Expression)>>,
}

/// Tasks that give a segment's rows as they are to be, block by block.
fn tasks(rewrite: Rewrite) -> Result<impl Iterator<Item = Result<Task>>> {
    let segment = &rewrite.segment.segment;
    let stored = rewrite::stored_columns(segment, &rewrite.schema);
    let row_bytes = rewrite::row_bytes(segment, &stored)?;
    let blocks = segment.blocks();
    let shared = Arc::new((rewrite, stored));
    Ok((0..blocks).map(move |block| {
        let shared = Arc::clone(&shared);
        let rows = rewrite::block_rows(&shared.0.segment.segment, block);
        Ok(Task::new(rows.saturating_mul(2 * row_bytes), move || {
            let (rewrite, stored) = &*shared;
            rewrite.block(block, rows, stored).map(Parsed::from_stored)
        }))
    }))
}

impl Rewrite {
    /// A block's rows as they are to be.
    fn block(&self, block: usize, rows: usize, stored: &[Column]) -> Result<RecordBatch> {
        let batch = rewrite::decode_coded(&self.segment.segment, block, 0..rows, stored)?;
        let Some(selected) = self.selected.of_block(block) else { return Ok(batch) };
        match &self.set {
            None => filter_record_batch(&batch, &BooleanArray::new(!selected, None))
                .or_invalid_with(NOT_CHANGED),
            Some(set) => self.changed(block, &batch, selected, set),
        }
    }

    /// A block's rows with new values in the selected ones.
    fn changed(
        &self,
        block: usize,
        batch: &RecordBatch,
        selected: &BooleanBuffer,
        set: &[(usize, Expression)],
    ) -> Result<RecordBatch> {
        let fields = batch.schema_ref().fields().iter();
        let mut columns: Vec<(String, ArrayRef)> = fields
            .zip(batch.columns())
            .map(|(field, array)| (field.name().clone(), Arc::clone(array)))
            .collect();
        let block =
            OpenBlock::new(&self.segment, self.schema.columns(), BlockRef { segment: 0, block });
        // An expression may fail for the other rows.
        let mut slice = Slice::new(&block, 0..block.rows);
        slice.select(selected.set_indices().map(|row| row as u32).collect());
        let mut next = 0;
        let places: Vec<(usize, usize)> = (0..block.rows)
            .map(|row| match selected.value(row) {
                true => {
                    next += 1;
                    (1, next - 1)
                }
                false => (0, row),
            })
            .collect();
        for (at, expression) in set {
            let Some(column) = self.schema.columns().get(*at) else { continue };
            let new = assign(column, &slice.evaluate(expression)?)?;
            let new = arrow_cast::cast(&new, &column.data_type.to_arrow())
                .or_invalid_with(NOT_CHANGED)?;
            let old = block.decode(*at, 0..block.rows)?;
            let merged = interleave(&[&old, &new], &places).or_invalid_with(NOT_CHANGED)?;
            match columns.iter_mut().find(|(name, _)| **name == *column.name) {
                Some((_, array)) => *array = merged,
                None => columns.push((column.name.to_string(), merged)),
            }
        }
        let fields =
            columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true));
        let fields = fields.collect::<Vec<_>>();
        let options = RecordBatchOptions::new().with_row_count(Some(block.rows));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new_with_options(Arc::new(ArrowSchema::new(fields)), arrays, &options)
            .or_invalid_with(NOT_CHANGED)
    }
}
