//! A mapped segment: footer, records on demand, blocks verified at their first touch.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

use arrow_array::ArrayRef;
use arrow_cast::CastOptions;
use arrow_schema::DataType as ArrowType;

use super::dictionary;
use super::footer::{DirectoryEntry, Footer};
use super::record::{BlockPlace, ColumnRecord};
use super::scaled::ScaledDictionary;
use crate::block::{self, Dictionary, Stats, Validity, placed_crc};
use crate::bytes::checksum_holds;
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{ColumnId, DataType};

/// The block number under which a column record's checksum is placed.
pub(super) const RECORD: u32 = u32::MAX;
/// The block number under which a dictionary's checksum is placed.
pub(super) const DICTIONARY: u32 = u32::MAX - 1;

/// Bytes between two blocks that are read with them rather than asking twice.
const GAP: usize = 1 << 14;
/// Footer and records of a table of some dozen columns.
const END: usize = 1 << 16;
/// For so many seconds, what was asked for is thought to be in the page cache still.
const FRESH: u32 = 1;

/// Seconds since long before the first call.
fn seconds() -> u32 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    (START.elapsed().as_secs() as u32).saturating_add(10)
}

/// The bytes of a segment and where they come from.
#[derive(Debug)]
struct Bytes {
    mapped: Arc<Mapped>,
    path: PathBuf,
    offset: usize,
    len: usize,
    uuid: [u8; 16],
}

impl Bytes {
    fn all(&self) -> Result<&[u8]> {
        self.mapped.as_slice().get(self.offset..self.offset + self.len).ok_or_else(|| {
            Error::corrupt(self.offset as u64, "the file is shorter than its manifest says")
                .at(&self.path, 0)
        })
    }

    /// Names the file in an error of something that starts at `offset` of the segment.
    fn locate(&self, error: Error, offset: u64) -> Error {
        error.at(&self.path, self.offset as u64 + offset)
    }

    /// Asks the disk for a range of the segment.
    fn ask(&self, range: Range<usize>) {
        self.mapped.will_need(self.offset.saturating_add(range.start), range.len());
    }
}

/// An open segment. Cheap to open (one footer); columns are parsed when first asked for and kept.
#[derive(Debug)]
pub struct Segment {
    bytes: Arc<Bytes>,
    footer: Footer,
    columns: Vec<OnceLock<Arc<Column>>>,
}

/// One column of a segment.
#[derive(Debug)]
pub struct Column {
    bytes: Arc<Bytes>,
    id: ColumnId,
    rows: u64,
    block_rows: u32,
    record: ColumnRecord,
    verified: Vec<AtomicBool>,
    /// When each block was asked for, as [`seconds`] has it.
    asked: Vec<AtomicU32>,
    dictionary: OnceLock<Dictionary>,
    scaled_dictionary: OnceLock<Option<ScaledDictionary>>,
}

impl Segment {
    /// Asks the disk for what opening the segment at `offset..offset + length` of a mapped file
    /// reads first, without waiting for it.
    pub fn ask(mapped: &Mapped, offset: u64, length: u64) {
        let end = length.min(END as u64);
        if let (Ok(start), Ok(len)) =
            (usize::try_from(offset.saturating_add(length - end)), usize::try_from(end))
        {
            mapped.will_need(start, len);
        }
    }

    /// Opens the segment at `offset..offset + length` of a mapped file named `path` (for messages).
    pub fn open(
        mapped: Arc<Mapped>,
        path: impl Into<PathBuf>,
        offset: u64,
        length: u64,
    ) -> Result<Segment> {
        let path = path.into();
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let (offset, len) = range
            .filter(|(offset, len)| {
                offset.checked_add(*len).is_some_and(|end| end <= mapped.as_slice().len())
            })
            .ok_or_else(|| {
                Error::corrupt(offset, format!("a segment of {length} bytes ends behind the file"))
                    .at(&path, 0)
            })?;
        Segment::ask(&mapped, offset as u64, length);
        let mut bytes = Bytes { mapped, path, offset, len, uuid: [0; 16] };
        let footer = Footer::parse(bytes.all()?).map_err(|e| bytes.locate(e, 0))?;
        bytes.uuid = footer.uuid;
        let columns = footer.columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Segment { bytes: Arc::new(bytes), footer, columns })
    }

    /// Asks the disk for all of it, without waiting.
    pub(super) fn ask_all(&self) {
        self.bytes.ask(0..self.bytes.len);
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// Rows of every block but the last.
    pub fn block_rows(&self) -> u64 {
        u64::from(self.footer.block_rows)
    }

    /// Blocks of every column.
    pub fn blocks(&self) -> usize {
        self.rows().div_ceil(self.block_rows()) as usize
    }

    /// Bytes of the segment.
    pub fn stored_bytes(&self) -> u64 {
        self.bytes.len as u64
    }

    /// The rows of block `b`, counted from the segment's first.
    pub fn block_range(&self, b: usize) -> Range<u64> {
        block_range(b, self.rows(), self.block_rows())
    }

    /// A column, or `None` if the segment was written before the column existed.
    pub fn column(&self, id: ColumnId) -> Result<Option<Arc<Column>>> {
        let Ok(at) = self.footer.columns.binary_search_by_key(&id, |entry| entry.column) else {
            return Ok(None);
        };
        let (slot, entry) = (&self.columns[at], &self.footer.columns[at]);
        if let Some(column) = slot.get() {
            return Ok(Some(column.clone()));
        }
        let column = Arc::new(self.load(entry).map_err(|e| self.bytes.locate(e, entry.offset))?);
        Ok(Some(slot.get_or_init(|| column).clone()))
    }

    fn load(&self, entry: &DirectoryEntry) -> Result<Column> {
        let all = self.bytes.all()?;
        if (entry.offset as usize).saturating_add(END) < all.len() {
            self.bytes.ask(
                entry.offset as usize..(entry.offset as usize).saturating_add(entry.len as usize),
            );
        }
        let record = all
            .get(entry.offset as usize..)
            .and_then(|rest| rest.get(..entry.len as usize))
            .ok_or_else(|| Error::corrupt(0, "a column record lies outside its segment"))?;
        let crc = placed_crc(crc32fast::hash(record), &self.footer.uuid, entry.column.0, RECORD);
        if !checksum_holds(crc, entry.crc) {
            return Err(Error::corrupt(
                0,
                format!("checksum of the record of column {}", entry.column.0),
            ));
        }
        let record =
            ColumnRecord::decode(record, all.len() as u64, self.rows(), self.footer.block_rows)?;
        Ok(Column {
            bytes: self.bytes.clone(),
            id: entry.column,
            rows: self.rows(),
            block_rows: self.footer.block_rows,
            asked: record.blocks.iter().map(|_| AtomicU32::new(0)).collect(),
            verified: record.blocks.iter().map(|_| AtomicBool::new(false)).collect(),
            record,
            dictionary: OnceLock::new(),
            scaled_dictionary: OnceLock::new(),
        })
    }
}

fn block_range(b: usize, rows: u64, block_rows: u64) -> Range<u64> {
    let start = (b as u64).saturating_mul(block_rows).min(rows);
    start..start.saturating_add(block_rows).min(rows)
}

impl Column {
    /// The stored type; the table's may be wider.
    pub fn data_type(&self) -> &DataType {
        &self.record.data_type
    }

    /// Statistics of the whole segment.
    pub fn stats(&self) -> &Stats {
        &self.record.stats
    }

    /// The record as stored.
    pub fn record(&self) -> &ColumnRecord {
        &self.record
    }

    /// Blocks.
    pub fn blocks(&self) -> usize {
        self.record.blocks.len()
    }

    /// The zone map of block `b`.
    pub fn block_stats(&self, b: usize) -> Option<&Stats> {
        self.record.block_stats.get(b)
    }

    /// Stored bytes of block `b`.
    pub fn block_bytes(&self, b: usize) -> u64 {
        self.record.blocks.get(b).map_or(0, |place| place.len)
    }

    /// Stored bytes of the column: blocks and dictionary.
    pub fn stored_bytes(&self) -> u64 {
        let dictionary = self.record.dictionary.map_or(0, |d| d.place.len);
        self.record.blocks.iter().map(|place| place.len).sum::<u64>() + dictionary
    }

    /// Stored bytes of the dictionary if it has been decoded, 0 else.
    pub fn decoded_dictionary_bytes(&self) -> u64 {
        let dictionary = self.record.dictionary.filter(|_| self.dictionary.get().is_some());
        dictionary.map_or(0, |dictionary| dictionary.place.len)
    }

    /// Rows of block `b`.
    pub(super) fn block_rows_of(&self, b: usize) -> usize {
        let range = block_range(b, self.rows, u64::from(self.block_rows));
        (range.end - range.start) as usize
    }

    /// Names the file in an error of something that starts at `offset` of the segment.
    pub(super) fn locate(&self, error: Error, offset: u64) -> Error {
        self.bytes.locate(error, offset)
    }

    /// Asks the disk for blocks, but those that were asked for just now, without waiting for them.
    pub fn ask(&self, blocks: impl Iterator<Item = usize>) {
        let now = seconds();
        let places = blocks.filter_map(|b| {
            let (place, asked) = self.record.blocks.get(b).zip(self.asked.get(b))?;
            let is_due = now.saturating_sub(asked.load(Ordering::Relaxed)) > FRESH;
            is_due.then(|| asked.store(now, Ordering::Relaxed)).map(|()| place.range())
        });
        let mut open: Option<Range<usize>> = None;
        for place in places {
            open = match open {
                Some(before) if (before.end..=before.end + GAP).contains(&place.start) => {
                    Some(before.start..place.end)
                }
                before => {
                    before.into_iter().for_each(|range| self.bytes.ask(range));
                    Some(place)
                }
            };
        }
        open.into_iter().for_each(|range| self.bytes.ask(range));
    }

    /// As [`Column::ask`], for the dictionary, unless it is decoded already.
    pub fn ask_dictionary(&self) {
        if let Some(described) = self.record.dictionary.filter(|_| self.dictionary.get().is_none())
        {
            self.bytes.ask(described.place.range());
        }
    }

    /// Opens block `b`, which the disk is asked for as a whole; its checksums are compared the
    /// first time.
    pub fn block(&self, b: usize) -> Result<Block<'_>> {
        self.ask(std::iter::once(b));
        let place = self.record.blocks.get(b).ok_or_else(|| {
            Error::InvalidInput(format!(
                "block {b} of a column with {} blocks",
                self.record.blocks.len()
            ))
        })?;
        let fresh = !self.verified[b].load(Ordering::Relaxed);
        let reader = self.parse(place, b as u32, self.block_rows_of(b), fresh)?;
        self.verified[b].store(true, Ordering::Relaxed);
        Ok(Block { column: self, place: *place, reader })
    }

    fn parse(
        &self,
        place: &BlockPlace,
        number: u32,
        rows: usize,
        verify: bool,
    ) -> Result<block::Reader<'_>> {
        let locate = |e: Error| self.bytes.locate(e, place.offset);
        let bytes = self
            .bytes
            .all()?
            .get(place.range())
            .ok_or_else(|| locate(Error::corrupt(0, "a block lies outside its segment")))?;
        if verify {
            let head = &bytes[..(place.head_len as usize).min(bytes.len())];
            let crc = placed_crc(crc32fast::hash(head), &self.bytes.uuid, self.id.0, number);
            if !checksum_holds(crc, place.head_crc) {
                let what =
                    format!("checksum of block {number} of column {} does not match", self.id.0);
                return Err(locate(Error::corrupt(0, what)));
            }
        }
        let reader =
            block::Reader::parse(bytes, place.head_len as usize, rows, self.data_type(), verify);
        reader.and_then(|reader| self.check_kind(number, reader)).map_err(locate)
    }

    /// Dictionary or not holds for all blocks of a column, so that whoever works on codes meets no
    /// mixture.
    fn check_kind<'a>(&self, number: u32, reader: block::Reader<'a>) -> Result<block::Reader<'a>> {
        let good = match (reader.validity(), number) {
            (Validity::All, DICTIONARY) => true,
            (_, DICTIONARY) => false,
            (validity, _) => {
                matches!(validity, Validity::ByCode) == self.record.dictionary.is_some()
            }
        };
        if good {
            Ok(reader)
        } else {
            Err(Error::corrupt(0, "codes and dictionary do not go together"))
        }
    }

    /// The dictionary as an array with null at 0, decoded once; `None` for a column without one.
    pub fn dictionary(&self) -> Result<Option<&Dictionary>> {
        let Some(described) = self.record.dictionary else { return Ok(None) };
        if let Some(dictionary) = self.dictionary.get() {
            return Ok(Some(dictionary));
        }
        let place = described.place;
        let values = self
            .parse(&place, DICTIONARY, described.values as usize, true)?
            .with_most_bytes(limits::MAX_DICTIONARY_BYTES)
            .decode(0..described.values as usize, self.data_type(), None)
            .and_then(|values| dictionary::with_null(&values))
            .map_err(|e| self.bytes.locate(e, place.offset))?;
        Ok(Some(self.dictionary.get_or_init(|| values)))
    }

    /// The dictionary as scaled integers, made once; `None` for a column without a dictionary, or
    /// one with values that are no decimals.
    pub fn scaled_dictionary(&self) -> Result<Option<&ScaledDictionary>> {
        let Some(dictionary) = self.dictionary()? else { return Ok(None) };
        Ok(self.scaled_dictionary.get_or_init(|| ScaledDictionary::new(dictionary)).as_ref())
    }
}

/// An open block of a column.
#[derive(Debug)]
pub struct Block<'a> {
    column: &'a Column,
    place: BlockPlace,
    reader: block::Reader<'a>,
}

impl Block<'_> {
    /// Where the block starts in its segment.
    pub(super) fn offset(&self) -> u64 {
        self.place.offset
    }

    /// The encoded form, for executors and `sty inspect`.
    pub fn reader(&self) -> &block::Reader<'_> {
        &self.reader
    }

    /// The rows `rows` (starting at a multiple of 1,024) in the stored type.
    pub fn decode(&self, rows: Range<usize>) -> Result<ArrayRef> {
        let dictionary = self.column.dictionary()?;
        self.reader
            .decode(rows, self.column.data_type(), dictionary)
            .map_err(|e| self.column.bytes.locate(e, self.place.offset))
    }

    /// The same, widened to the table's type.
    pub fn decode_as(&self, rows: Range<usize>, target: &DataType) -> Result<ArrayRef> {
        widen(&self.decode(rows)?, &target.to_arrow())
    }

    /// Single rows, in the table's type.
    pub fn gather(&self, rows: &[u32], target: &DataType) -> Result<ArrayRef> {
        let dictionary = self.column.dictionary()?;
        let gathered = self
            .reader
            .gather(rows, self.column.data_type(), dictionary)
            .map_err(|e| self.column.bytes.locate(e, self.place.offset))?;
        widen(&gathered, &target.to_arrow())
    }

    /// The column that this is a block of.
    pub fn column(&self) -> &Column {
        self.column
    }
}

/// Casts a stored array to the table's wider type; the lattice makes this lossless.
fn widen(array: &ArrayRef, target: &ArrowType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    // Not "safe", which would make nulls of what does not fit.
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    arrow_cast::cast_with_options(array, target, &strict)
        .map_err(|e| Error::corrupt(0, format!("stored values do not widen: {e}")))
}

#[cfg(test)]
mod tests {
    use arrow_array::Date32Array;
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn what_does_not_widen_is_an_error_not_a_null() {
        let nanoseconds = ArrowType::Timestamp(TimeUnit::Nanosecond, None);
        let dates = |day: i32| -> ArrayRef { Arc::new(Date32Array::from(vec![day])) };
        assert!(widen(&dates(17_000), &nanoseconds).is_ok());
        assert!(widen(&dates(i32::MAX), &nanoseconds).is_err());
    }
}
