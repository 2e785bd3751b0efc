//! Sorted segments read as one sorted sequence, range by range of their keys.
//!
//! Every 1,024th key of each segment is kept as bytes that compare as rows do. Quantiles of all of them cut the keys into ranges
//! of about equal size; where a range begins in a segment is found by binary search, first among the kept keys and then in the
//! 1,024 rows between two of them. A range is decoded, sorted and handed on by one worker.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_row::{OwnedRow, RowConverter, Rows, SortField};
use arrow_schema::SortOptions;

use crate::block::nothing;
use crate::error::{Error, Result};
use crate::ingest::columns::{SegmentBuilder, SegmentLimits, match_columns};
use crate::ingest::pipeline::Task;
use crate::ingest::rewrite;
use crate::ingest::sort::sorted;
use crate::limits::VECTOR;
use crate::model::{Column, Schema, SortKey};
use crate::segment::Segment;

/// Rows of a range, about, where memory allows.
const RANGE_ROWS: usize = 1 << 17;
/// The fewest rows that a range takes from a segment on average: less would decode much more than it needs.
const SLICE_ROWS: usize = 4 * VECTOR;
/// How often a row is in memory while it is sorted: decoded, joined and taken.
const COPIES: usize = 3;

/// A segment whose rows are in order.
#[derive(Debug)]
pub(super) struct SortedRun {
    segment: Arc<Segment>,
    keys: Arc<Keys>,
    /// The key of every [`VECTOR`]th row, from the first on.
    samples: Vec<OwnedRow>,
    /// Of a decoded row, about.
    row_bytes: usize,
}

/// How keys become bytes.
#[derive(Debug)]
struct Keys {
    columns: Vec<Column>,
    converter: RowConverter,
}

impl Keys {
    fn new(schema: &Schema, keys: &[SortKey]) -> Result<Keys> {
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for key in keys {
            let Some(column) = schema.columns().iter().find(|column| column.id == key.column) else { continue };
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            fields.push(SortField::new_with_options(column.data_type.to_arrow(), options));
            columns.push(column.clone());
        }
        Ok(Keys { columns, converter: RowConverter::new(fields).map_err(failed)? })
    }

    /// The keys of some rows of a segment, within one block.
    fn of(&self, segment: &Segment, block: usize, rows: std::ops::Range<usize>) -> Result<Rows> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            arrays.push(match segment.column(column.id)? {
                Some(stored) => stored.block(block)?.decode_as(rows.clone(), &column.data_type)?,
                None => nothing(rows.len(), &column.data_type),
            });
        }
        self.converter.convert_columns(&arrays).map_err(failed)
    }
}

impl SortedRun {
    /// Reads the keys of a segment; `None` if its rows are not in order.
    pub(super) fn open(segment: Arc<Segment>, schema: &Schema, keys: &[SortKey]) -> Result<Option<SortedRun>> {
        let keys = Arc::new(Keys::new(schema, keys)?);
        let (mut samples, mut before) = (Vec::new(), None::<OwnedRow>);
        for block in 0..segment.blocks() {
            let range = segment.block_range(block);
            let rows = keys.of(&segment, block, 0..(range.end - range.start) as usize)?;
            let count = rows.num_rows();
            let first_in_order = before.as_ref().is_none_or(|before| count == 0 || before.row() <= rows.row(0));
            if !first_in_order || (1..count).any(|row| rows.row(row - 1) > rows.row(row)) {
                return Ok(None);
            }
            // Blocks begin at multiples of a vector.
            samples.extend((0..count).step_by(VECTOR).map(|row| rows.row(row).owned()));
            before = count.checked_sub(1).map(|last| rows.row(last).owned()).or(before);
        }
        let row_bytes = rewrite::row_bytes(&segment, &rewrite::stored_columns(&segment, schema))?;
        Ok(Some(SortedRun { segment, keys, samples, row_bytes }))
    }

    /// How many rows come before `key`.
    fn rows_before(&self, key: &OwnedRow) -> Result<usize> {
        // Rows before the last sample below the key are below it, too.
        let below = self.samples.partition_point(|sample| sample.row() < key.row());
        let Some(start) = below.checked_sub(1).map(|at| at * VECTOR) else { return Ok(0) };
        let block_rows = (self.segment.block_rows() as usize).max(1);
        let block = start / block_rows;
        let range = self.segment.block_range(block);
        let within = start - block * block_rows;
        let end = (within + VECTOR).min((range.end - range.start) as usize);
        let rows = self.keys.of(&self.segment, block, within..end)?;
        let mut at = 0;
        while at < rows.num_rows() && rows.row(at) < key.row() {
            at += 1;
        }
        Ok(start + at)
    }
}

/// Tasks that give all rows of sorted runs in order, a range of keys each. Equal keys come in the order of the runs. The rows of
/// a range take about `bytes` at most, and are about `most`.
pub(super) fn ranges(
    runs: &[SortedRun],
    schema: &Schema,
    keys: &[SortKey],
    bytes: usize,
    most: usize,
) -> Result<impl Iterator<Item = Result<Task>> + use<>> {
    let rows: usize = runs.iter().map(|run| run.segment.rows() as usize).sum();
    let decoded: usize = runs.iter().map(|run| run.row_bytes.saturating_mul(run.segment.rows() as usize)).sum();
    let decoded = decoded / rows.max(1);
    let row_bytes = (COPIES * decoded + 2 * size_of::<OwnedRow>()).max(1);
    let wanted = RANGE_ROWS.max(runs.len().saturating_mul(SLICE_ROWS)).min(most).min(bytes / row_bytes).max(VECTOR);
    let mut samples: Vec<&OwnedRow> = runs.iter().flat_map(|run| &run.samples).collect();
    samples.sort_unstable();
    let step = wanted.div_ceil(VECTOR);
    let mut splitters: Vec<&OwnedRow> = samples.iter().skip(step).step_by(step).copied().collect();
    splitters.dedup();
    // Where each range begins and ends in each run.
    let mut starts: Vec<usize> = vec![0; runs.len()];
    let mut parts: Vec<Vec<(Arc<Segment>, std::ops::Range<usize>)>> = Vec::with_capacity(splitters.len() + 1);
    for splitter in splitters.into_iter().map(Some).chain([None]) {
        let mut part = Vec::new();
        for (run, start) in runs.iter().zip(&mut starts) {
            let end = match splitter {
                Some(splitter) => run.rows_before(splitter)?.max(*start),
                None => run.segment.rows() as usize,
            };
            if end > *start {
                part.push((Arc::clone(&run.segment), *start..end));
                *start = end;
            }
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    debug_assert_eq!(parts.iter().flatten().map(|(_, range)| range.len()).sum::<usize>(), rows);
    let (schema, keys): (Arc<Schema>, Arc<[SortKey]>) = (Arc::new(schema.clone()), keys.into());
    Ok(parts.into_iter().map(move |part| {
        let rows: usize = part.iter().map(|(_, range)| range.len()).sum();
        let (schema, keys) = (Arc::clone(&schema), Arc::clone(&keys));
        // Whole vectors are decoded, of one segment at a time.
        let weight = rows.saturating_mul(row_bytes) + 2 * VECTOR * decoded;
        Ok(Task::new(weight, move || Ok(read(&part, &schema, &keys)?.into())))
    }))
}

/// Rows of several segments, sorted.
fn read(part: &[(Arc<Segment>, std::ops::Range<usize>)], schema: &Schema, keys: &[SortKey]) -> Result<RecordBatch> {
    let limits = SegmentLimits { rows: usize::MAX, bytes: usize::MAX, block_rows: VECTOR };
    let (mut builder, mut known) = (SegmentBuilder::new(limits), schema.clone());
    for (segment, range) in part {
        let present = rewrite::stored_columns(segment, schema);
        let block_rows = (segment.block_rows() as usize).max(1);
        for block in range.start / block_rows..range.end.div_ceil(block_rows) {
            let first = block * block_rows;
            let rows = range.start.max(first) - first..range.end.min(first + block_rows) - first;
            // Blocks are decoded from multiples of a vector on.
            let aligned = rows.start / VECTOR * VECTOR;
            let batch = rewrite::decode(segment, block, aligned..rows.end, &present)?;
            let batch = copied(&batch, rows.start - aligned, rows.len())?;
            let ids = match_columns(&mut known, &batch)?;
            let _ = builder.push(&batch, &ids)?;
        }
    }
    let input = sorted(builder.finish()?, keys)?;
    rewrite::to_batch(input, schema)
}

/// Some rows of a batch, without holding on to the others if these are the smaller part.
fn copied(batch: &RecordBatch, start: usize, rows: usize) -> Result<RecordBatch> {
    if rows > batch.num_rows() / 2 {
        return Ok(batch.slice(start, rows));
    }
    let wanted = UInt32Array::from_iter_values((start as u32)..(start + rows) as u32);
    let copy = |array: &ArrayRef| -> Result<ArrayRef> {
        if let Some(views) = array.as_string_view_opt() {
            return Ok(Arc::new(views.slice(start, rows).gc()));
        }
        if let Some(views) = array.as_binary_view_opt() {
            return Ok(Arc::new(views.slice(start, rows).gc()));
        }
        arrow_select::take::take(array, &wanted, None).map_err(failed)
    };
    let columns = batch.columns().iter().map(copy).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(failed)
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::InvalidInput(format!("keys could not be compared: {error}"))
}
