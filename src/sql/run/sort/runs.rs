//! Rows in memory, and the order in which they are sorted.
//!
//! Keys are compared as bytes (`arrow-row`), sixteen of them at once: those after the bytes with
//! which all keys begin, as `http://` or the high bytes of numbers that are small.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Schema};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};

use crate::bytes::{KeyHead, key_head};

/// How much of a run is put together, written and read at once, at most. A row may be longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkSize {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// How keys are made of rows.
pub(super) struct Keys {
    expressions: Vec<PhysicalSortExpr>,
    converter: RowConverter,
}

impl Keys {
    /// Whether all keys of an order can be compared as bytes.
    pub(super) fn are_known(order: &LexOrdering, schema: &Schema) -> bool {
        fields(order, schema).is_ok_and(|fields| RowConverter::supports_fields(&fields))
    }

    pub(super) fn new(order: &LexOrdering, schema: &Schema) -> DataFusionResult<Keys> {
        let converter = RowConverter::new(fields(order, schema)?)?;
        Ok(Keys { expressions: order.iter().cloned().collect(), converter })
    }

    /// The keys of all rows of a batch.
    pub(super) fn of(&self, batch: &RecordBatch) -> DataFusionResult<Rows> {
        let column = |key: &PhysicalSortExpr| {
            key.expr.evaluate(batch).and_then(|column| column.into_array(batch.num_rows()))
        };
        let columns = self.expressions.iter().map(column).collect::<DataFusionResult<Vec<_>>>()?;
        Ok(self.converter.convert_columns(&columns)?)
    }
}

fn fields(order: &LexOrdering, schema: &Schema) -> DataFusionResult<Vec<SortField>> {
    let field = |key: &PhysicalSortExpr| {
        Ok(SortField::new_with_options(key.expr.data_type(schema)?, key.options))
    };
    order.iter().map(field).collect()
}

/// A run in memory: the batches as they came, and the order of their rows.
pub(super) struct MemoryRun {
    pub(super) batches: Vec<Arc<Held>>,
    order: Vec<Place>,
    /// How many bytes all keys have in common before those that the places hold, if these are at
    /// the same place in all keys.
    common: Option<usize>,
    /// Given back with the rows.
    _memory: Option<MemoryReservation>,
}

/// A batch with its keys.
pub(super) struct Held {
    pub(super) batch: RecordBatch,
    keys: Rows,
    /// The mean bytes of a row, beside the texts of `views`.
    fixed_bytes: usize,
    /// The views of texts that may be long.
    views: Vec<ScalarBuffer<u128>>,
}

impl Held {
    pub(super) fn new(batch: RecordBatch, keys: Rows) -> Self {
        let (mut bytes, mut views) = (0, Vec::new());
        let mut fixed_bytes = 0;
        for column in batch.columns() {
            let texts = match column.data_type() {
                DataType::Utf8View => column.as_string_view().views(),
                DataType::BinaryView => column.as_binary_view().views(),
                _ => {
                    bytes += column.to_data().get_slice_memory_size().unwrap_or_default();
                    continue;
                }
            };
            let longest = texts.iter().map(text_bytes).max().unwrap_or_default();
            fixed_bytes += size_of::<u128>();
            match longest {
                ..=SHORT_TEXT => fixed_bytes += longest,
                _ => views.push(texts.clone()),
            }
        }
        fixed_bytes += bytes / batch.num_rows().max(1);
        Held { batch, keys, fixed_bytes, views }
    }

    /// About how many bytes a row takes by itself.
    pub(super) fn row_bytes(&self, row: usize) -> usize {
        let texts = self.views.iter().map(|views| text_bytes(&views[row]));
        self.fixed_bytes + texts.sum::<usize>()
    }

    pub(super) fn key(&self, row: usize) -> &[u8] {
        self.keys.row(row).data()
    }
}

/// Where no text of a batch is longer, all are taken to be as long as the longest, rather than
/// looked at one by one.
const SHORT_TEXT: usize = 64;

/// The length of a text, which is in the lower half of its view.
fn text_bytes(view: &u128) -> usize {
    *view as u32 as usize
}

/// A row of a run, with bytes of its key.
#[derive(Clone, Copy)]
pub(super) struct Place {
    head: KeyHead,
    batch: u32,
    row: u32,
}

impl MemoryRun {
    /// Sorts the rows of batches. Equal ones stay in their order.
    pub(super) async fn sorted(batches: Vec<Held>, memory: Option<MemoryReservation>) -> MemoryRun {
        let batches: Vec<Arc<Held>> = batches.into_iter().map(Arc::new).collect();
        let rows = batches.iter().map(|held| held.batch.num_rows()).sum();
        let mut order = Vec::with_capacity(rows);
        for (batch, held) in batches.iter().enumerate() {
            let place = |row| Place { head: [0; 2], batch: batch as u32, row: row as u32 };
            order.extend((0..held.batch.num_rows()).map(place));
        }
        let key = |place: &Place| batches[place.batch as usize].key(place.row as usize);
        let common = sort(&mut order, key).await;
        MemoryRun { batches, order, common, _memory: memory }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The batch and the row of the n-th row.
    pub(super) fn place(&self, n: usize) -> (usize, usize) {
        let place = self.order[n];
        (place.batch as usize, place.row as usize)
    }

    /// The key of the n-th row.
    pub(super) fn key(&self, n: usize) -> &[u8] {
        let (batch, row) = self.place(n);
        self.batches[batch].key(row)
    }

    /// The bytes that all keys begin with, if the places hold those after them.
    pub(super) fn common(&self) -> Option<&[u8]> {
        match self.order.is_empty() {
            true => None,
            false => self.key(0).get(..self.common?),
        }
    }

    /// Bytes of the keys of some rows, after those that are [`common`](Self::common).
    pub(super) fn heads(&self, rows: Range<usize>) -> impl Iterator<Item = KeyHead> {
        self.order[rows].iter().map(|place| place.head)
    }

    /// The first of some rows whose key is not before a bound.
    pub(super) fn lower_bound(
        &self,
        rows: Range<usize>,
        is_before: impl Fn(&[u8]) -> bool,
    ) -> usize {
        let key = |place: &Place| self.batches[place.batch as usize].key(place.row as usize);
        rows.start + self.order[rows].partition_point(|place| is_before(key(place)))
    }
}

/// Fewer rows are compared by their whole keys.
const FEW: usize = 16;

/// Sorts rows by some bytes of their keys, then those that have these in common by the bytes
/// after all that they have in common, and so on: a key is looked up once for each such step, not
/// once for each comparison (Ng and Kakehi, Cache Efficient Radix Sort for String Sorting, 2007).
///
/// It can be stopped between two steps. Returns how many bytes all keys have in common before the
/// ones that places then hold, if a single step was enough.
async fn sort<'a>(order: &mut [Place], key: impl Fn(&Place) -> &'a [u8]) -> Option<usize> {
    let compare = |part: &mut [Place], skipped: usize| {
        part.sort_by(|a, b| key(a)[skipped..].cmp(&key(b)[skipped..]));
    };
    let (mut open, mut sorted) = (vec![(0..order.len(), 0)], 0);
    let (mut steps, mut common, mut copies) = (0, None, Vec::new());
    while let Some((range, skipped)) = open.pop() {
        sorted += range.len();
        if sorted >= ROWS_AT_ONCE {
            sorted = 0;
            tokio::task::yield_now().await;
        }
        let start = range.start;
        let part = &mut order[range];
        if part.len() <= FEW {
            compare(part, skipped);
            continue;
        }
        let skipped = look_up_heads(part, skipped, &key);
        steps += 1;
        common = Some(skipped).filter(|_| steps == 1);
        sort_by_heads(part, &mut copies);
        let mut first = start;
        for equal in part.chunk_by_mut(|a, b| a.head == b.head) {
            let range = first..first + equal.len();
            first = range.end;
            // No key begins with another one, so those that end here are equal.
            if equal.len() == 1 || key(&equal[0]).len() <= skipped + HEAD_BYTES {
                continue;
            }
            match equal.len() {
                ..=FEW => compare(equal, skipped + HEAD_BYTES),
                _ => open.push((range, skipped + HEAD_BYTES)),
            }
        }
    }
    common
}

/// Sorts rows by the bytes of their keys that are noted. Many are first moved to where those with
/// the same high bits go, so that what is left to sort fits into the caches.
fn sort_by_heads(part: &mut [Place], copies: &mut Vec<Place>) {
    let high = |place: &Place| place.head[0];
    let bounds = (part.iter().map(high).min(), part.iter().map(high).max());
    let (Some(least), Some(greatest), true) = (bounds.0, bounds.1, part.len() >= MANY) else {
        part.sort_by_key(|place| place.head);
        return;
    };
    let bits = u64::BITS - (greatest - least).leading_zeros();
    let shift = bits.saturating_sub(BUCKET_BITS);
    let bucket = |place: &Place| ((high(place) - least) >> shift) as usize;
    let mut ends = vec![0; 1 << BUCKET_BITS];
    for place in &*part {
        ends[bucket(place)] += 1;
    }
    let mut before = 0;
    for end in &mut ends {
        before += std::mem::replace(end, before);
    }
    copies.clear();
    copies.extend_from_slice(part);
    for place in &*copies {
        let end = &mut ends[bucket(place)];
        part[*end] = *place;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        part[start..end].sort_by_key(|place| place.head);
        start = end;
    }
}

/// From how many rows on they are moved to buckets first, and how many bits tell buckets apart.
const MANY: usize = 1 << 13;
const BUCKET_BITS: u32 = 11;

/// Notes the bytes of keys after all that they have in common. Returns where these begin.
///
/// Each key is a wait for memory. What some of them have in common, most often all have, and then
/// they are looked up once.
fn look_up_heads<'a>(
    part: &mut [Place],
    skipped: usize,
    key: impl Fn(&Place) -> &'a [u8],
) -> usize {
    let some = part.iter().step_by(part.len().div_ceil(SAMPLES)).chain(part.last());
    let common = some.map(|place| &key(place)[skipped..]);
    let expected = common.reduce(common_of).unwrap_or_default();
    for place in &mut *part {
        match key(place)[skipped..].strip_prefix(expected) {
            Some(rest) => place.head = key_head(rest),
            None => {
                let skipped =
                    skipped + common_bytes(part.iter().map(|place| &key(place)[skipped..]));
                part.iter_mut().for_each(|place| place.head = key_head(&key(place)[skipped..]));
                return skipped;
            }
        }
    }
    skipped + expected.len()
}

/// How many keys are looked at for what all have in common.
const SAMPLES: usize = 16;

/// How many rows are sorted before others may have the thread.
const ROWS_AT_ONCE: usize = 1 << 16;

/// The bytes of a key that are compared at once.
const HEAD_BYTES: usize = size_of::<KeyHead>();

/// The number of bytes with which all keys begin alike.
pub(super) fn common_bytes<'a>(keys: impl Iterator<Item = &'a [u8]>) -> usize {
    keys.reduce(common_of).map_or(0, <[u8]>::len)
}

/// The bytes with which two keys begin alike.
fn common_of<'a>(one: &'a [u8], other: &'a [u8]) -> &'a [u8] {
    if other.starts_with(one) {
        return one;
    }
    let alike = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    &one[..alike]
}
