//! Sorted runs: segments in key order, and the position of a key in each.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;

use crate::block::null_array;
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::rewrite;
use crate::limits::VECTOR;
use crate::model::{Column, Schema, SortKey};
use crate::segment::Segment;

/// The fewest rows on average that a range takes from a segment when memory is short.
pub(super) const LEAST_SLICE_ROWS: usize = VECTOR / 4;
/// How many copies of a row are in memory while it is sorted: decoded, joined and taken.
const COPIES: usize = 3;
/// Approximate limit on the number of sample keys.
const SAMPLES: usize = 1 << 16;
/// Approximate limit on the bytes of sample keys.
const SAMPLE_BYTES: usize = 16 << 20;
/// Approximate bytes of keys read at a time.
const KEY_BYTES: usize = 4 << 20;
/// What an error of Arrow says about keys.
pub(super) const INCOMPARABLE: &str = "keys could not be compared";

/// A key as bytes that compare like rows. No key is a prefix of another.
pub(super) type Key = Arc<[u8]>;

/// The sort order of a table, with an encoder for its keys.
#[derive(Debug)]
pub(super) struct KeyOrder {
    pub(super) schema: Schema,
    pub(super) keys: Vec<SortKey>,
    pub(super) columns: Vec<Column>,
    pub(super) converter: RowConverter,
    /// Distance between sample keys, in rows.
    pub(super) interval: usize,
    /// How many keys are read at a time, in whole vectors.
    pub(super) step: usize,
}

impl KeyOrder {
    /// The order of the rows of some segments.
    pub(super) fn new(
        schema: &Schema,
        keys: &[SortKey],
        segments: &[Arc<Segment>],
    ) -> Result<Arc<KeyOrder>> {
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
        let converter = RowConverter::new(fields).or_invalid_with(INCOMPARABLE)?;
        let (mut rows, mut bytes) = (0, 0);
        for segment in segments {
            let count = segment.rows() as usize;
            rows += count;
            bytes += rewrite::row_bytes(segment, &columns)?.saturating_mul(count);
        }
        let key_bytes = bytes / rows.max(1) + size_of::<Key>();
        let interval = (rows / SAMPLES.min(SAMPLE_BYTES / key_bytes).max(1)).max(1);
        let step = (KEY_BYTES / key_bytes / VECTOR).max(1) * VECTOR;
        Ok(Arc::new(KeyOrder {
            schema: schema.clone(),
            keys: keys.to_vec(),
            columns,
            converter,
            interval,
            step,
        }))
    }

    /// The keys of rows within one block, starting at a multiple of a vector.
    fn keys(&self, segment: &Segment, block: usize, rows: std::ops::Range<usize>) -> Result<Rows> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            arrays.push(match segment.column(column.id)? {
                Some(stored) => stored.block(block)?.decode_as(rows.clone(), &column.data_type)?,
                None => null_array(rows.len(), &column.data_type),
            });
        }
        self.converter.convert_columns(&arrays).or_invalid_with(INCOMPARABLE)
    }
}

/// A segment whose rows are in order.
#[derive(Debug)]
pub(super) struct SortedRun {
    pub(super) segment: Arc<Segment>,
    pub(super) order: Arc<KeyOrder>,
    pub(super) first: Key,
    last: Key,
    /// Row number of the first sample. It differs from run to run: samples at the same rows of
    /// similar runs would be similar too, and cluster.
    phase: usize,
    pub(super) samples: Vec<Key>,
    /// Approximate bytes of a decoded row.
    row_bytes: usize,
}

impl SortedRun {
    /// Reads the keys of a non-empty segment; `None` if they are not in order. `number` is the
    /// number of the run.
    pub(super) fn open(
        segment: Arc<Segment>,
        order: &Arc<KeyOrder>,
        number: usize,
    ) -> Result<Option<SortedRun>> {
        // Multiples of the golden ratio are spread evenly, however many there are.
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
            let rows = order.keys(&segment, block, part)?;
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

    pub(super) fn rows(&self) -> usize {
        self.segment.rows() as usize
    }

    /// How many rows come before `key`.
    pub(super) fn rows_before(&self, key: &[u8]) -> Result<usize> {
        if *key <= *self.first {
            return Ok(0);
        }
        if *key > *self.last {
            return Ok(self.rows());
        }
        // All rows up to the last sample below the key are below it, too.
        let below = self.samples.partition_point(|sample| **sample < *key);
        let interval = self.order.interval;
        let mut start = below.checked_sub(1).map_or(0, |at| self.phase + at * interval);
        let end = self.rows().min(self.phase + below * interval);
        let block_rows = (self.segment.block_rows() as usize).max(1);
        // Searches the vectors up to the next sample, one after the other.
        while start < end {
            let block = start / block_rows;
            let vector = (start - block * block_rows) / VECTOR * VECTOR;
            let first = block * block_rows + vector;
            let here = VECTOR.min(block_rows - vector).min(self.rows() - first);
            let rows = self.order.keys(&self.segment, block, vector..vector + here)?;
            let before = (start - first..here).find(|row| rows.row(*row).as_ref() >= key);
            if let Some(row) = before {
                return Ok(first + row);
            }
            start = first + here;
        }
        Ok(start)
    }
}

/// How many runs can be merged at a time in about `bytes` bytes.
pub(super) fn fan_in(runs: &[SortedRun], bytes: usize) -> usize {
    (bytes / row_bytes(runs) / LEAST_SLICE_ROWS).max(2)
}

/// Bytes of a row while it is sorted.
pub(super) fn row_bytes(runs: &[SortedRun]) -> usize {
    COPIES * decoded_bytes(runs) + 2 * size_of::<Key>()
}

/// Average bytes of a decoded row.
pub(super) fn decoded_bytes(runs: &[SortedRun]) -> usize {
    let rows: usize = runs.iter().map(SortedRun::rows).sum();
    let bytes: usize = runs.iter().map(|run| run.row_bytes.saturating_mul(run.rows())).sum();
    bytes / rows.max(1)
}

/// Whether each run comes after the previous one.
pub(super) fn in_order(runs: &[SortedRun]) -> bool {
    runs.windows(2).all(|pair| matches!(pair, [before, after] if before.last <= after.first))
}

/// Groups neighbouring runs so that at most about `max_overlaps` of a group overlap. A single group
/// ends the merging.
pub(super) fn merge_groups(runs: Vec<SortedRun>, max_overlaps: usize) -> Vec<Vec<SortedRun>> {
    let mut groups: Vec<Vec<SortedRun>> = Vec::new();
    // The last keys of chains of runs that do not overlap.
    let mut chains: Vec<Key> = Vec::new();
    for run in runs {
        let last = run.last.clone();
        if let Some(before) = chains.iter_mut().find(|before| **before <= run.first) {
            *before = last;
        } else if chains.len() < max_overlaps && !groups.is_empty() {
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
