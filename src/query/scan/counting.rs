//! What of the open blocks was read and decoded, once a block, for [`Counters`].
//!
//! A block may be looked at more than once in a run: the first rows of an order come back for their
//! other columns. Flags in the open segment see to it that nothing counts twice.

use std::sync::atomic::Ordering;

use arrow_array::{Array, ArrayRef};

use super::{OpenBlock, OpenSegment};
use crate::query::stats::{Counters, Pruned, Statistic};
use crate::segment;

/// What became arrays of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decoded {
    values: u64,
    fetched: u64,
    bytes: u64,
}

impl OpenSegment {
    /// Whether this is the first time that something is counted.
    fn is_new(&self, at: usize) -> bool {
        self.counted.get(at).is_some_and(|counted| !counted.swap(true, Ordering::Relaxed))
    }

    /// Stored bytes of a block's columns.
    fn block_bytes(&self, b: usize) -> u64 {
        self.columns.iter().flatten().map(|column| column.block_bytes(b)).sum()
    }
}

impl OpenBlock<'_> {
    /// Counts an array made of a column, of `values` decoded by slice or `fetched` one by one.
    pub(super) fn count_decoded(&self, at: usize, array: &ArrayRef, values: usize, fetched: usize) {
        // Texts of a dictionary are views of it.
        let is_view = array.data_type().primitive_width().is_none()
            && self.stored(at).is_some_and(|column| column.record().dictionary.is_some());
        let bytes =
            if is_view { array.len() * size_of::<u128>() } else { array.get_buffer_memory_size() };
        let mut decoded = self.decoded.get();
        decoded.values += values as u64;
        decoded.fetched += fetched as u64;
        decoded.bytes += bytes as u64;
        self.decoded.set(decoded);
    }

    /// Counts a block of which the rows were looked at.
    pub(crate) fn count_read(&self, counters: &mut Counters) {
        counters.blocks_read += 1;
        counters.scan.rows_out += self.rows as u64;
        counters.segments_read += u64::from(self.segment.is_new(0));
        self.count_opened(counters);
    }

    /// Counts a block of which no row needed a look.
    pub(crate) fn count_pruned(
        &self,
        statistic: Statistic,
        condition: Option<usize>,
        counters: &mut Counters,
    ) {
        let opened = counters.bytes_read;
        self.count_opened(counters);
        let bytes =
            self.segment.block_bytes(self.work.block).saturating_sub(counters.bytes_read - opened);
        counters.prune(
            statistic,
            condition,
            Pruned { segments: 0, blocks: 1, rows: self.rows as u64, bytes },
        );
    }

    /// Counts the columns that were opened since, each once in a run, and what was decoded of them.
    pub(crate) fn count_opened(&self, counters: &mut Counters) {
        let columns = self.columns.len();
        for (at, slot) in self.columns.iter().enumerate() {
            let place = 1 + columns * (self.work.block + 1) + at;
            if let Some(Some(_)) = slot.get()
                && self.segment.is_new(place)
            {
                counters.bytes_read +=
                    self.stored(at).map_or(0, |column| column.block_bytes(self.work.block));
            }
            let dictionary = self.stored(at).map_or(0, segment::Column::decoded_dictionary_bytes);
            if dictionary > 0 && self.segment.is_new(1 + at) {
                counters.dictionary_bytes += dictionary;
            }
        }
        let decoded = self.decoded.take();
        counters.values_decoded += decoded.values;
        counters.values_fetched += decoded.fetched;
        counters.bytes_decoded += decoded.bytes;
    }
}
