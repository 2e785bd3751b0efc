//! A block under work: its columns as they are encoded, or decoded for some rows.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::Range;

use arrow_array::{Array, ArrayRef, new_null_array};

use super::{BlockRef, OpenSegment, Survivors, no_column_error};
use crate::block::Stats;
use crate::error::{Error, Result};
use crate::expr::{Predicate, Sample, SamplePart};
use crate::model::{Column, ColumnId, DataType};
use crate::query::prune::Verdict;
use crate::query::prune::blocks::judge;
use crate::query::stats::{Counters, Pruned, Statistic};
use crate::segment;
use crate::segment::open_block::Block;

/// How much of a block was decoded to arrays: values by slice, values fetched one by one, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Decoded {
    values: u64,
    fetched: u64,
    bytes: u64,
}

/// What a zone map says of a column.
pub(crate) struct ColumnTotals<'a> {
    pub(crate) stats: Cow<'a, Stats>,
    /// Whether its sum and bounds are the table's whole numbers, or those that stand for its
    /// decimals.
    pub(crate) is_number: bool,
}

/// A block under work: each column is opened, and verified, when it is first asked for.
pub(crate) struct OpenBlock<'a> {
    /// Which one it is.
    pub(crate) at: BlockRef,
    pub(crate) segment: &'a OpenSegment,
    pub(crate) rows: usize,
    /// The columns as the table knows them.
    table: &'a [Column],
    columns: Vec<OnceCell<Option<Block<'a>>>>,
    decoded: Cell<Decoded>,
}

impl<'a> OpenBlock<'a> {
    pub(crate) fn new(segment: &'a OpenSegment, table: &'a [Column], at: BlockRef) -> Self {
        let range = segment.segment.block_range(at.block);
        let rows = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let columns = table.iter().map(|_| OnceCell::new()).collect();
        OpenBlock { at, segment, rows, table, columns, decoded: Cell::default() }
    }

    /// Adds the file to an error of who works on encoded values, if it names none.
    pub(crate) fn in_file(&self, error: Error) -> Error {
        self.segment.segment.in_file(error)
    }

    /// How many columns the fragment has.
    pub(crate) fn columns(&self) -> usize {
        self.table.len()
    }

    /// Opens a block of those that survive.
    pub(crate) fn open(
        survivors: &'a Survivors,
        table: &'a [Column],
        at: BlockRef,
    ) -> Result<Self> {
        let segment = survivors.segments.get(at.segment);
        let segment = segment
            .ok_or_else(|| Error::InvalidInput(format!("no open segment {}", at.segment)))?;
        Ok(OpenBlock::new(segment, table, at))
    }

    /// The encoded values of a column; `None` where all are null.
    pub(crate) fn column(&self, at: usize) -> Result<Option<&Block<'a>>> {
        let slot = self.columns.get(at).ok_or_else(|| no_column_error(at))?;
        if slot.get().is_none() {
            let _ =
                slot.set(self.stored(at).map(|column| column.block(self.at.block)).transpose()?);
        }
        Ok(slot.get().and_then(Option::as_ref))
    }

    /// The type of a column in the table.
    pub(crate) fn table_type(&self, at: usize) -> Result<&'a DataType> {
        let column = self.table.get(at).ok_or_else(|| no_column_error(at))?;
        Ok(&column.data_type)
    }

    /// How the segment stores a column; `None` where it lacks it.
    pub(crate) fn stored(&self, at: usize) -> Option<&'a segment::Column> {
        self.segment.columns.get(at).and_then(Option::as_deref)
    }

    /// What a sample has of the block's rows.
    pub(crate) fn part_of(&self, sample: &Sample) -> SamplePart {
        sample.part(self.segment.number, self.segment.segment.block_range(self.at.block))
    }

    /// What zone maps say of a predicate over the fragment's columns.
    pub(crate) fn judge(&self, predicate: &Predicate) -> Verdict {
        let of = |id: ColumnId| {
            let at = self.table.iter().position(|column| column.id == id)?;
            Some(self.stored(at))
        };
        judge(predicate, &self.segment.segment, self.at.block, of)
    }

    /// The least and greatest value of a column of whole numbers, or of decimals as the integers
    /// that they are stored as, if all of them fit 64 bits.
    pub(crate) fn integer_bounds(&self, at: usize) -> Option<(i64, i64)> {
        let (stored, table) = (self.stored(at)?, &self.table.get(at)?.data_type);
        let decimals = matches!(table, DataType::Decimal { .. }) && stored.data_type() == table;
        if decimals {
            self.column(at).ok()??.reader().longs()?;
        } else if !table.is_integer() || !stored.data_type().is_integer() {
            return None;
        }
        stored.block_stats(self.at.block)?.integers()
    }

    /// What the zone map says of a column.
    pub(crate) fn totals(&self, at: usize) -> Option<ColumnTotals<'a>> {
        let table = &self.table.get(at)?.data_type;
        let Some(stored) = self.stored(at) else {
            let rows = self.rows as u64;
            let stats = Cow::Owned(Stats { rows, nulls: rows, ..Stats::default() });
            return Some(ColumnTotals { stats, is_number: false });
        };
        let is_number = match table {
            DataType::Decimal { .. } => stored.data_type() == table,
            _ => table.is_integer() && stored.data_type().is_integer(),
        };
        let stats = Cow::Borrowed(stored.block_stats(self.at.block)?);
        Some(ColumnTotals { stats, is_number })
    }

    /// Some rows of a column in the table's type; `rows` starts at a multiple of 1,024.
    pub(crate) fn decode(&self, at: usize, rows: Range<usize>) -> Result<ArrayRef> {
        self.decode_as(at, rows, self.table_type(at)?)
    }

    /// The same in any type that [`Block::decode_as`] takes.
    pub(crate) fn decode_as(
        &self,
        at: usize,
        rows: Range<usize>,
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        let Some(block) = self.column(at)? else {
            return Ok(new_null_array(&data_type.to_arrow(), rows.len()));
        };
        let array = block.decode_as(rows, data_type)?;
        self.count_decoded(at, &array, array.len(), 0);
        Ok(array)
    }

    /// How many rows of a column are decoded in the time that fetching one takes, about.
    pub(crate) fn rows_per_fetch(&self, at: usize) -> Result<usize> {
        Ok(self.column(at)?.map_or(1, |block| block.reader().rows_per_fetch()))
    }

    /// Single rows of a column in such a type.
    pub(crate) fn gather(&self, at: usize, rows: &[u32], data_type: &DataType) -> Result<ArrayRef> {
        let Some(block) = self.column(at)? else {
            return Ok(new_null_array(&data_type.to_arrow(), rows.len()));
        };
        let array = block.gather(rows, data_type)?;
        self.count_decoded(at, &array, 0, rows.len());
        Ok(array)
    }
}

/// What was read and decoded is counted once a block: the first rows of an order come back for
/// their other columns.
impl OpenBlock<'_> {
    /// Whether the array of a column holds views of its dictionary.
    pub(crate) fn is_view(&self, at: usize, array: &ArrayRef) -> bool {
        array.data_type().primitive_width().is_none()
            && self.stored(at).is_some_and(|column| column.record().dictionary.is_some())
    }

    /// Counts an array made of a column, of `values` decoded by slice or `fetched` one by one.
    fn count_decoded(&self, at: usize, array: &ArrayRef, values: usize, fetched: usize) {
        let bytes = if self.is_view(at, array) {
            array.len() * size_of::<u128>()
        } else {
            array.get_buffer_memory_size()
        };
        let mut decoded = self.decoded.get();
        decoded.values += values as u64;
        decoded.fetched += fetched as u64;
        decoded.bytes += bytes as u64;
        self.decoded.set(decoded);
    }

    /// Counts a block whose rows were looked at.
    pub(crate) fn count_read(&self, counters: &mut Counters) {
        counters.blocks_read += 1;
        counters.scan.rows_out += self.rows as u64;
        counters.segments_read += u64::from(self.segment.is_new(0));
        self.count_opened(counters);
    }

    /// Counts a block no row of which was looked at.
    pub(crate) fn count_pruned(
        &self,
        statistic: Statistic,
        condition: Option<usize>,
        counters: &mut Counters,
    ) {
        let opened = counters.bytes_read;
        self.count_opened(counters);
        let bytes =
            self.segment.block_bytes(self.at.block).saturating_sub(counters.bytes_read - opened);
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
            let place = 1 + columns * (self.at.block + 1) + at;
            if let Some(Some(_)) = slot.get()
                && self.segment.is_new(place)
            {
                counters.bytes_read +=
                    self.stored(at).map_or(0, |column| column.block_bytes(self.at.block));
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
