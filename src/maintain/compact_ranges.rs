//! Sorted segments read as one sorted sequence, range by range of their keys.
//!
//! Some keys of each segment, at even distances, are kept as bytes that compare as rows do.
//! Quantiles of all of them cut the keys into ranges of about equal size; where a range begins in a
//! segment is found by binary search, first among the kept keys and then in the rows between two of
//! them. A range is decoded, sorted and handed on by one worker.
//!
//! A range takes some rows from every segment that it overlaps. The more these are, the fewer rows
//! come from each, and the more is decoded for nothing: beyond [`fan_in`] they are merged in groups
//! first.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::block::null_array;
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
/// The fewest rows that a range takes from a segment on average, where memory allows: a fraction of
/// a vector is decoded for nothing at either end.
const SLICE_ROWS: usize = 4 * VECTOR;
/// The same where memory does not allow it.
const LEAST_SLICE_ROWS: usize = VECTOR / 4;
/// How often a row is in memory while it is sorted: decoded, joined and taken.
const COPIES: usize = 3;
/// Keys to be kept, at most and about.
const SAMPLES: usize = 1 << 16;
/// Their bytes, at most and about.
const SAMPLE_BYTES: usize = 16 << 20;
/// Bytes of keys that are read at a time, about.
const KEY_BYTES: usize = 4 << 20;

/// A key as bytes that compare as rows do. None is the beginning of another.
type Key = Arc<[u8]>;

/// The order of rows by some columns of a table.
#[derive(Debug)]
pub(super) struct Order {
    schema: Schema,
    keys: Vec<SortKey>,
    columns: Vec<Column>,
    converter: RowConverter,
    /// Rows from one kept key to the next.
    interval: usize,
    /// How many keys are read at a time: whole vectors.
    step: usize,
}

impl Order {
    /// The order of the rows of some segments.
    pub(super) fn new(
        schema: &Schema,
        keys: &[SortKey],
        segments: &[Arc<Segment>],
    ) -> Result<Arc<Order>> {
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for key in keys {
            let Some(column) = schema.columns().iter().find(|column| column.id == key.column)
            else {
                continue;
            };
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            fields.push(SortField::new_with_options(column.data_type.to_arrow(), options));
            columns.push(column.clone());
        }
        let converter = RowConverter::new(fields).map_err(failed)?;
        let (mut rows, mut bytes) = (0, 0);
        for segment in segments {
            let count = segment.rows() as usize;
            rows += count;
            bytes += rewrite::row_bytes(segment, &columns)?.saturating_mul(count);
        }
        let key_bytes = bytes / rows.max(1) + size_of::<Key>();
        let interval = (rows / SAMPLES.min(SAMPLE_BYTES / key_bytes).max(1)).max(1);
        let step = (KEY_BYTES / key_bytes / VECTOR).max(1) * VECTOR;
        Ok(Arc::new(Order {
            schema: schema.clone(),
            keys: keys.to_vec(),
            columns,
            converter,
            interval,
            step,
        }))
    }

    /// The keys of some rows of a segment, within one block and from a multiple of a vector on.
    fn of(&self, segment: &Segment, block: usize, rows: std::ops::Range<usize>) -> Result<Rows> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            arrays.push(match segment.column(column.id)? {
                Some(stored) => stored.block(block)?.decode_as(rows.clone(), &column.data_type)?,
                None => null_array(rows.len(), &column.data_type),
            });
        }
        self.converter.convert_columns(&arrays).map_err(failed)
    }
}

/// A segment whose rows are in order.
#[derive(Debug)]
pub(super) struct SortedRun {
    segment: Arc<Segment>,
    order: Arc<Order>,
    first: Key,
    last: Key,
    /// Number of the row of the first kept key. It differs from run to run: kept keys at the same
    /// places of runs that are alike would be alike too, and lie in heaps.
    phase: usize,
    /// The kept keys.
    samples: Vec<Key>,
    /// Of a decoded row, about.
    row_bytes: usize,
}

impl SortedRun {
    /// Reads the keys of a segment with rows; `None` if these are not in order. `number` is the
    /// run's among others.
    pub(super) fn open(
        segment: Arc<Segment>,
        order: &Arc<Order>,
        number: usize,
    ) -> Result<Option<SortedRun>> {
        // Multiples of the golden section are spread evenly, however many there are.
        let phase = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let phase = (phase as usize * order.interval) >> 32;
        let (mut samples, mut first, mut last) = (Vec::new(), None, None::<Key>);
        let parts = (0..segment.blocks()).flat_map(|block| {
            let rows = rewrite::block_rows(&segment, block);
            (0..rows)
                .step_by(order.step)
                .map(move |start| (block, start..rows.min(start + order.step)))
        });
        for (block, part) in parts {
            let start = segment.block_range(block).start as usize + part.start;
            let rows = order.of(&segment, block, part)?;
            let count = rows.num_rows();
            let first_in_order =
                last.as_ref().is_none_or(|last| count == 0 || **last <= *rows.row(0).as_ref());
            if !first_in_order || (1..count).any(|row| rows.row(row - 1) > rows.row(row)) {
                return Ok(None);
            }
            let next = phase + start.saturating_sub(phase).next_multiple_of(order.interval);
            samples.extend(
                (next..start + count)
                    .step_by(order.interval)
                    .map(|row| rows.row(row - start).as_ref().into()),
            );
            if count > 0 {
                first.get_or_insert_with(|| rows.row(0).as_ref().into());
                last = Some(rows.row(count - 1).as_ref().into());
            }
        }
        let Some((first, last)) = first.zip(last) else {
            return Err(Error::corrupt(0, "a segment without rows"));
        };
        let row_bytes =
            rewrite::row_bytes(&segment, &rewrite::stored_columns(&segment, &order.schema))?;
        Ok(Some(SortedRun {
            segment,
            order: Arc::clone(order),
            first,
            last,
            phase,
            samples,
            row_bytes,
        }))
    }

    fn rows(&self) -> usize {
        self.segment.rows() as usize
    }

    /// How many rows come before `key`.
    fn rows_before(&self, key: &[u8]) -> Result<usize> {
        if *key <= *self.first {
            return Ok(0);
        }
        if *key > *self.last {
            return Ok(self.rows());
        }
        // Rows before the last kept key below it are below it, too.
        let below = self.samples.partition_point(|sample| **sample < *key);
        let interval = self.order.interval;
        let mut start = below.checked_sub(1).map_or(0, |at| self.phase + at * interval);
        let end = self.rows().min(self.phase + below * interval);
        let block_rows = (self.segment.block_rows() as usize).max(1);
        // The vectors in which the rows up to the next kept key lie, one after the other.
        while start < end {
            let block = start / block_rows;
            let vector = (start - block * block_rows) / VECTOR * VECTOR;
            let first = block * block_rows + vector;
            let here = VECTOR.min(block_rows - vector).min(self.rows() - first);
            let rows = self.order.of(&self.segment, block, vector..vector + here)?;
            let before = (start - first..here).find(|row| rows.row(*row).as_ref() >= key);
            if let Some(row) = before {
                return Ok(first + row);
            }
            start = first + here;
        }
        Ok(start)
    }
}

/// Of how many segments a range may take rows, where it takes about `bytes`.
pub(super) fn fan_in(runs: &[SortedRun], bytes: usize) -> usize {
    (bytes / row_bytes(runs) / LEAST_SLICE_ROWS).max(2)
}

/// What a row takes that is being sorted.
fn row_bytes(runs: &[SortedRun]) -> usize {
    COPIES * decoded_bytes(runs) + 2 * size_of::<Key>()
}

/// What a row takes decoded, on average.
fn decoded_bytes(runs: &[SortedRun]) -> usize {
    let rows: usize = runs.iter().map(SortedRun::rows).sum();
    let bytes: usize = runs.iter().map(|run| run.row_bytes.saturating_mul(run.rows())).sum();
    bytes / rows.max(1)
}

/// Whether each run comes after the one before it.
pub(super) fn in_order(runs: &[SortedRun]) -> bool {
    runs.windows(2).all(|pair| matches!(pair, [before, after] if before.last <= after.first))
}

/// Neighbouring runs in groups, of which each overlaps at most `most` times or so. One group is the
/// end of merging.
pub(super) fn groups(runs: Vec<SortedRun>, most: usize) -> Vec<Vec<SortedRun>> {
    let mut groups: Vec<Vec<SortedRun>> = Vec::new();
    // The last keys of chains in which each run comes after the one before.
    let mut chains: Vec<Key> = Vec::new();
    for run in runs {
        let last = run.last.clone();
        if let Some(before) = chains.iter_mut().find(|before| **before <= run.first) {
            *before = last;
        } else if chains.len() < most && !groups.is_empty() {
            chains.push(last);
        } else {
            chains = vec![last];
            groups.push(Vec::new());
        }
        if let Some(group) = groups.last_mut() {
            group.push(run);
        }
    }
    groups
}

/// Tasks that give all rows of sorted runs in order, a range of keys each. Equal keys come in the
/// order of the runs. The rows of a range take about `bytes` at most, and are about `most`.
pub(super) fn ranges(
    runs: Vec<SortedRun>,
    order: &Arc<Order>,
    pool: Arc<ThreadPool>,
    bytes: usize,
    most: usize,
) -> impl Iterator<Item = Result<Task>> + use<> {
    let (order, decoded, row_bytes) = (Arc::clone(order), decoded_bytes(&runs), row_bytes(&runs));
    // Several at a time, if not so small that most of what is decoded is for nothing.
    let share = (bytes / pool.current_num_threads() / row_bytes)
        .max(runs.len().saturating_mul(LEAST_SLICE_ROWS));
    let wanted = RANGE_ROWS
        .max(runs.len().saturating_mul(SLICE_ROWS))
        .min(most)
        .min(share)
        .min(bytes / row_bytes);
    let mut samples: Vec<&Key> = runs.iter().flat_map(|run| &run.samples).collect();
    samples.sort_unstable();
    let step = (wanted / order.interval).max(1);
    let splitters: Vec<Key> = samples.into_iter().skip(step).step_by(step).cloned().collect();
    // Where the next range begins in each run.
    let mut starts: Vec<usize> = vec![0; runs.len()];
    boundaries(&splitters).into_iter().flat_map(move |boundary| {
        let next = |(run, start): (&SortedRun, &mut usize)| -> Result<Option<Slice>> {
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
        let slices: Vec<Slice> = match slices {
            Ok(slices) => slices.into_iter().flatten().collect(),
            Err(error) => return vec![Err(error)],
        };
        // Rows of one key, however many, are in order as they come.
        let parts = if boundary.one_key { cut(slices, wanted) } else { vec![slices] };
        let task = |slices: Vec<Slice>| {
            let rows: usize = slices.iter().map(|(_, rows)| rows.len()).sum();
            // Whole vectors are decoded, of one segment at a time.
            let weight = rows.saturating_mul(row_bytes) + 2 * VECTOR * decoded;
            let order = Arc::clone(&order);
            Ok(Task::new(weight, move || Ok(read(&slices, &order)?.into())))
        };
        parts.into_iter().filter(|slices| !slices.is_empty()).map(task).collect()
    })
}

/// Where a range ends and the next begins.
struct Boundary {
    /// The range has rows before this key; those to the end if `None`.
    before: Option<Key>,
    /// Whether all rows of the range have the same key.
    one_key: bool,
}

/// Between what keys ranges lie. A key that is there more than once has many rows, which are a
/// range of their own.
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

/// Rows in parts of at most so many, in the same order.
fn cut(slices: Vec<Slice>, most: usize) -> Vec<Vec<Slice>> {
    let (most, mut parts, mut room) = (most.max(1), Vec::new(), 0);
    for (segment, mut rows) in slices {
        while !rows.is_empty() {
            if room == 0 {
                parts.push(Vec::new());
                room = most;
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

/// Some rows of a segment.
type Slice = (Arc<Segment>, std::ops::Range<usize>);

/// Rows of several segments, sorted.
fn read(slices: &[Slice], order: &Order) -> Result<RecordBatch> {
    let schema = &order.schema;
    let limits = SegmentLimits { rows: usize::MAX, bytes: usize::MAX, block_rows: VECTOR };
    let (mut builder, mut known) = (SegmentBuilder::new(limits), schema.clone());
    for (segment, range) in slices {
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
    let input = sorted(builder.finish()?, &order.keys)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Mapped;
    use crate::encoding::{Options, Profile};
    use crate::model::{ColumnId, DataType};
    use crate::segment::writer::{InputColumn, SegmentInput, encode};

    fn order(interval: usize) -> Arc<Order> {
        let schema = Schema::from_names([("k", DataType::Int64)]).unwrap();
        let key = SortKey { column: ColumnId(0), descending: false, nulls_first: false };
        let order = Arc::into_inner(Order::new(&schema, &[key], &[]).unwrap()).unwrap();
        Arc::new(Order { interval, step: VECTOR, ..order })
    }

    fn segment(keys: &[i64]) -> Arc<Segment> {
        let array: ArrayRef = Arc::new(arrow_array::Int64Array::from(keys.to_vec()));
        let column =
            InputColumn { id: ColumnId(0), data_type: DataType::Int64, arrays: vec![array] };
        let input =
            SegmentInput { rows: keys.len(), block_rows: 2 * VECTOR, columns: vec![column] };
        let encoded = encode(&input, &Options::new(Profile::Fast)).unwrap();
        let bytes: Vec<u8> = encoded.parts.concat();
        let length = bytes.len() as u64;
        Arc::new(Segment::open(Arc::new(Mapped::from_bytes(&bytes)), "x", 0, length).unwrap())
    }

    fn run(keys: &[i64], number: usize) -> SortedRun {
        SortedRun::open(segment(keys), &order(15), number).unwrap().unwrap()
    }

    #[test]
    fn a_key_has_its_place() {
        // Three blocks, keys that repeat, and some that are not there.
        let keys: Vec<i64> = (0..5000).map(|row| row / 3 * 2).collect();
        for number in 0..5 {
            let run = run(&keys, number);
            for key in [-1, 0, 1, 2, 3, 700, 1365, 1366, 3331, 3332, 3333] {
                let probe = run_key(key);
                let expected = keys.iter().filter(|known| **known < key).count();
                assert_eq!(run.rows_before(&probe).unwrap(), expected, "{key}");
            }
        }
        assert!(SortedRun::open(segment(&[1, 3, 2]), &order(1), 0).unwrap().is_none());
    }

    fn run_key(key: i64) -> Key {
        run(&[key], 0).first
    }

    #[test]
    fn neighbours_are_grouped_by_how_often_they_overlap() {
        let runs = |bounds: &[(i64, i64)]| {
            bounds.iter().map(|(first, last)| run(&[*first, *last], 0)).collect()
        };
        let sizes = |bounds: &[(i64, i64)], most| {
            groups(runs(bounds), most).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert!(sizes(&[], 2).is_empty());
        // One after the other, if by equal keys.
        assert_eq!(sizes(&[(0, 5), (5, 6), (7, 9), (9, 9)], 2), [4]);
        assert_eq!(sizes(&[(0, 9), (1, 8), (2, 7), (3, 6), (4, 5)], 2), [2, 2, 1]);
        assert_eq!(sizes(&[(0, 9), (1, 3), (4, 8), (5, 7)], 2), [3, 1]);
    }

    #[test]
    fn ranges_of_runs_that_are_alike_are_about_equal() {
        // Each run has the keys of all others: without phases, kept keys would lie in heaps.
        let runs: Vec<SortedRun> = (0..32)
            .map(|number| {
                let keys: Vec<i64> = (0..4096).map(|row| row * 32 + number).collect();
                SortedRun::open(segment(&keys), &order(VECTOR), number as usize).unwrap().unwrap()
            })
            .collect();
        let (order, bytes) = (Arc::clone(&runs[0].order), 8192 * row_bytes(&runs));
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        let tasks = ranges(runs, &order, pool, bytes, usize::MAX);
        let mut all = Vec::new();
        for task in tasks {
            let parsed = (task.unwrap().work)().unwrap();
            let keys = parsed.batches[0].column(0);
            let keys = arrow_cast::cast(keys, &arrow_schema::DataType::Int64).unwrap();
            assert!(keys.len() < 3 * 8192, "{}", keys.len());
            all.extend(
                keys.as_primitive::<arrow_array::types::Int64Type>().values().iter().copied(),
            );
        }
        assert_eq!(all, (0..4096 * 32).collect::<Vec<i64>>());
    }

    #[test]
    fn rows_of_one_key_come_in_parts() {
        // Two keys with most of the rows between some others.
        let keys: Vec<i64> = (0..6000)
            .map(|row| match row {
                0..2000 => 5,
                2000..2010 => row,
                2010..5900 => 7000,
                _ => row + 7000,
            })
            .collect();
        let runs: Vec<SortedRun> = (0..3)
            .map(|number| SortedRun::open(segment(&keys), &order(8), number).unwrap().unwrap())
            .collect();
        let (order, bytes) = (Arc::clone(&runs[0].order), 700 * row_bytes(&runs));
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
        let mut all = Vec::new();
        for task in ranges(runs, &order, pool, bytes, usize::MAX) {
            let parsed = (task.unwrap().work)().unwrap();
            let keys =
                arrow_cast::cast(parsed.batches[0].column(0), &arrow_schema::DataType::Int64)
                    .unwrap();
            assert!((1..=3 * 768).contains(&keys.len()), "{}", keys.len());
            all.extend(
                keys.as_primitive::<arrow_array::types::Int64Type>().values().iter().copied(),
            );
        }
        let mut expected = keys.repeat(3);
        expected.sort_unstable();
        assert_eq!(all, expected);
    }
}
