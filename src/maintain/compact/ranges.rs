//! Reads sorted runs as one sorted sequence, range by range of their keys.
//!
//! Sample keys are kept of each segment at even distances, as bytes that compare like rows.
//! Quantiles of all samples cut the keys into ranges of similar size. The start of a range in a
//! segment is found by binary search, first among the samples and then in the rows between two of
//! them. A range is decoded and sorted by one worker.
//!
//! A range has rows of every segment that it overlaps. The more segments, the fewer rows come from
//! each, and the more is decoded in vain: beyond [`super::runs::fan_in`] segments, they are merged
//! in groups first.
//!
//! **Why ranges and not a merge of cursors.** The work is parallel, memory is bounded by the range,
//! and no cursor holds a block of 51 columns of a hundred segments. How much memory a row takes
//! once decoded is measured on a few vectors of each segment (`ingest::rewrite`), because
//! statistics do not tell how long texts are. The sample of keys starts at a different offset in
//! each segment: segments that are alike would otherwise give it in clusters, and with it a few
//! huge ranges. Where memory is so small that a range would take less than a quarter of a vector
//! from each segment, neighbours are merged to longer runs first. Runs lose their names as soon as
//! they are written, so that a crash leaves only those that were being written. Rows of one key,
//! however many, form ranges that need no sort, in parts of any size.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::runs::{
    INCOMPARABLE, Key, KeyOrder, LEAST_SLICE_ROWS, SortedRun, decoded_bytes, row_bytes,
};
use crate::error::{ArrowResult, Result};
use crate::ingest::columns::{SegmentBuilder, SegmentLimits, match_columns, typed};
use crate::ingest::rewrite;
use crate::ingest::sort::sorted;
use crate::ingest::task::Task;
use crate::limits::VECTOR;
use crate::segment::Segment;

/// Approximate rows of a range, where memory allows.
const RANGE_ROWS: usize = 1 << 17;
/// The fewest rows on average that a range takes from a segment, where memory allows: part of a
/// vector is decoded in vain at either end.
const SLICE_ROWS: usize = 4 * VECTOR;

/// Tasks that return all rows of sorted runs in order, one range of keys each. Rows with equal keys
/// come in the order of the runs. A range takes at most about `bytes` bytes, and has about
/// `max_rows` rows at most.
pub(super) fn range_tasks(
    runs: Vec<SortedRun>,
    order: &Arc<KeyOrder>,
    pool: Arc<ThreadPool>,
    bytes: usize,
    max_rows: usize,
) -> impl Iterator<Item = Result<Task>> + use<> {
    let (order, decoded, row_bytes) = (Arc::clone(order), decoded_bytes(&runs), row_bytes(&runs));
    // Several ranges at a time, unless they are so small that most rows are decoded in vain.
    let share = (bytes / pool.current_num_threads() / row_bytes)
        .max(runs.len().saturating_mul(LEAST_SLICE_ROWS));
    let wanted = RANGE_ROWS
        .max(runs.len().saturating_mul(SLICE_ROWS))
        .min(max_rows)
        .min(share)
        .min(bytes / row_bytes);
    let mut samples: Vec<&Key> = runs.iter().flat_map(|run| &run.samples).collect();
    samples.sort_unstable();
    let step = (wanted / order.interval).max(1);
    let splitters: Vec<Key> = samples.into_iter().skip(step).step_by(step).cloned().collect();
    // Start of the next range in each run.
    let mut starts: Vec<usize> = vec![0; runs.len()];
    boundaries(&splitters).into_iter().flat_map(move |boundary| {
        let next = |(run, start): (&SortedRun, &mut usize)| -> Result<Option<SegmentRows>> {
            let end = match &boundary.before {
                _ if *start == run.rows() => *start,
                Some(key) => run.rows_before(key)?.max(*start),
                None => run.rows(),
            };
            let rows = std::mem::replace(start, end)..end;
            Ok((!rows.is_empty()).then(|| (Arc::clone(&run.segment), rows)))
        };
        let slices =
            pool.install(|| runs.par_iter().zip(&mut starts).map(next).collect::<Result<Vec<_>>>());
        let slices: Vec<SegmentRows> = match slices {
            Ok(slices) => slices.into_iter().flatten().collect(),
            Err(error) => return vec![Err(error)],
        };
        // Rows of a single key need no sort, so a range of them can be split anywhere.
        let parts = if boundary.one_key { split_slices(slices, wanted) } else { vec![slices] };
        let task = |slices: Vec<SegmentRows>| {
            let rows: usize = slices.iter().map(|(_, rows)| rows.len()).sum();
            // Whole vectors are decoded, one segment at a time.
            let weight = rows.saturating_mul(row_bytes) + 2 * VECTOR * decoded;
            let order = Arc::clone(&order);
            Ok(Task::new(weight, move || Ok(read_range(&slices, &order)?.into())))
        };
        parts.into_iter().filter(|slices| !slices.is_empty()).map(task).collect()
    })
}

/// The boundary between a range and the next.
struct Boundary {
    /// The range ends before this key; `None` for the last range.
    before: Option<Key>,
    /// Whether all rows of the range have the same key.
    one_key: bool,
}

/// The boundaries of ranges. A key that is sampled more than once has many rows, which are a range
/// of their own.
fn boundaries(splitters: &[Key]) -> Vec<Boundary> {
    let mut all = Vec::with_capacity(splitters.len() + 1);
    for same in splitters.chunk_by(|a, b| a == b) {
        let Some(key) = same.first() else { continue };
        all.push(Boundary { before: Some(Arc::clone(key)), one_key: false });
        if same.len() > 1 {
            let behind = key.iter().copied().chain([0]).collect();
            all.push(Boundary { before: Some(behind), one_key: true });
        }
    }
    all.push(Boundary { before: None, one_key: false });
    all
}

/// Splits rows into parts of at most `max_rows` rows, in the same order.
fn split_slices(slices: Vec<SegmentRows>, max_rows: usize) -> Vec<Vec<SegmentRows>> {
    let (max_rows, mut parts, mut room) = (max_rows.max(1), Vec::new(), 0);
    for (segment, mut rows) in slices {
        while !rows.is_empty() {
            if room == 0 {
                parts.push(Vec::new());
                room = max_rows;
            }
            let part = rows.start..rows.end.min(rows.start + room);
            rows.start = part.end;
            room -= part.len();
            if let Some(last) = parts.last_mut() {
                last.push((Arc::clone(&segment), part));
            }
        }
    }
    parts
}

/// A range of rows of a segment.
type SegmentRows = (Arc<Segment>, std::ops::Range<usize>);

/// Reads and sorts rows of several segments.
fn read_range(slices: &[SegmentRows], order: &KeyOrder) -> Result<RecordBatch> {
    let schema = &order.schema;
    let limits = SegmentLimits { rows: usize::MAX, bytes: usize::MAX, block_rows: VECTOR };
    let (mut builder, mut known) = (SegmentBuilder::new(limits), schema.clone());
    for (segment, range) in slices {
        let present = rewrite::stored_columns(segment, schema);
        let block_rows = (segment.block_rows() as usize).max(1);
        for block in range.start / block_rows..range.end.div_ceil(block_rows) {
            let first = block * block_rows;
            let rows = range.start.max(first) - first..range.end.min(first + block_rows) - first;
            // Decoding starts at a multiple of a vector.
            let aligned = rows.start / VECTOR * VECTOR;
            let batch = rewrite::decode(segment, block, aligned..rows.end, &present)?;
            let batch = copy_rows(&batch, rows.start - aligned, rows.len())?;
            let batch = typed(&known, batch, true)?;
            let ids = match_columns(&mut known, &batch)?;
            let _ = builder.push(&batch, &ids)?;
        }
    }
    let input = sorted(builder.finish()?, &order.keys)?;
    rewrite::input_batch(input, schema)
}

/// Slices a batch; copies the rows if they are the smaller part, so that the rest is freed.
fn copy_rows(batch: &RecordBatch, start: usize, rows: usize) -> Result<RecordBatch> {
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
        arrow_select::take::take(array, &wanted, None).or_invalid_with(INCOMPARABLE)
    };
    let columns = batch.columns().iter().map(copy).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
        .or_invalid_with(INCOMPARABLE)
}
