//! A mapped segment: the footer, column records read on demand, blocks verified at their first use.

mod dictionaries;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::footer::{DirectoryEntry, Footer};
use super::record::{BlockPlace, ColumnRecord};
use super::scaled::ScaledDictionary;
use crate::block::{self, Dictionary, Stats, Validity, placed_crc};
use crate::budget::{Budget, Charge, Reclaim};
use crate::bytes::checksum_holds;
use crate::disk::Mapped;
use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType};

/// The block number in the identity of a column record; see [`placed_crc`].
pub(crate) const RECORD: u32 = u32::MAX;
/// The block number in the identity of a dictionary's block; see [`placed_crc`].
pub(super) const DICTIONARY: u32 = u32::MAX - 1;

/// Two blocks this close together are prefetched by one request.
const MAX_GAP: usize = 1 << 14;
/// Bytes prefetched from the end of a segment: footer and records of some dozen columns.
const END_BYTES: usize = 1 << 16;
/// For this many seconds, a prefetched block is assumed to be still in the page cache.
const FRESH_SECONDS: u32 = 1;

/// A monotonic clock in seconds, which starts well above 0, the value of blocks never prefetched.
fn clock_seconds() -> u32 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    (START.elapsed().as_secs() as u32).saturating_add(10)
}

/// The bytes of a segment, and the file that they come from.
#[derive(Debug)]
struct Bytes {
    mapped: Arc<Mapped>,
    path: PathBuf,
    offset: usize,
    len: usize,
    uuid: [u8; 16],
    /// What is decoded is charged to it.
    budget: Budget,
}

impl Bytes {
    /// A range of the segment; `what` is the name of its bytes.
    fn range(&self, range: Range<usize>, what: &str) -> Result<&[u8]> {
        if range.start > range.end || range.end > self.len {
            let what = format!("{what} lies outside its segment");
            return Err(self.locate(Error::corrupt(0, what), range.start as u64));
        }
        let range = self.offset + range.start..self.offset + range.end;
        self.mapped.bytes(range, &self.budget).map_err(|error| error.in_file(&self.path, 0))
    }

    /// Refuses what was read if the file was cut or could not be read in the meantime.
    fn check(&self) -> Result<()> {
        self.mapped.check().map_err(|error| error.in_file(&self.path, 0))
    }

    /// What was made of the bytes, unless they were not all there.
    fn checked<T>(&self, made: Result<T>) -> Result<T> {
        self.check().and(made)
    }

    /// Adds the file to the error of a structure that starts at `offset` of the segment.
    fn locate(&self, error: Error, offset: u64) -> Error {
        error.in_file(&self.path, self.offset as u64 + offset)
    }

    /// Prefetches a range of the segment.
    fn prefetch(&self, range: Range<usize>) {
        self.mapped.prefetch(self.offset.saturating_add(range.start), range.len());
    }
}

/// An open segment. Opening it parses only the footer; columns are parsed at their first use and
/// kept.
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
    /// When each block was last prefetched, by [`clock_seconds`].
    prefetched: Vec<AtomicU32>,
    dictionary: Arc<KeptDictionary>,
    /// How many values of the dictionary were read by themselves.
    fetched: AtomicUsize,
    /// The bytes of each text of the dictionary.
    lengths: OnceLock<(Option<Vec<u32>>, Charge)>,
    scaled_dictionary: OnceLock<(Option<ScaledDictionary>, Charge)>,
}

/// A decoded dictionary, as long as the budget has room for it.
#[derive(Debug, Default)]
struct KeptDictionary {
    decoded: Mutex<Option<(Dictionary, Charge)>>,
    /// Whether it has been let go before.
    was_let_go: AtomicBool,
}

impl KeptDictionary {
    fn lock(&self) -> MutexGuard<'_, Option<(Dictionary, Charge)>> {
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for KeptDictionary {
    fn reclaim(&self) {
        let taken = self.lock().take();
        self.was_let_go.store(true, Ordering::Relaxed);
        drop(taken);
    }
}

impl Segment {
    /// Prefetches the footer and the last records of the segment at `offset..offset + length` of a
    /// mapped file, without waiting.
    pub fn prefetch(mapped: &Mapped, offset: u64, length: u64) {
        let end = length.min(END_BYTES as u64);
        if let (Ok(start), Ok(len)) =
            (usize::try_from(offset.saturating_add(length - end)), usize::try_from(end))
        {
            mapped.prefetch(start, len);
        }
    }

    /// Opens the segment at `offset..offset + length` of a mapped file named `path` (for messages).
    pub fn open(
        mapped: Arc<Mapped>,
        path: impl Into<PathBuf>,
        offset: u64,
        length: u64,
    ) -> Result<Segment> {
        Segment::open_within(mapped, path, offset, length, Budget::default())
    }

    /// [`Segment::open`], but what is decoded is charged to a budget.
    pub(crate) fn open_within(
        mapped: Arc<Mapped>,
        path: impl Into<PathBuf>,
        offset: u64,
        length: u64,
        budget: Budget,
    ) -> Result<Segment> {
        let path = path.into();
        let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
        let (offset, len) = range
            .filter(|(offset, len)| offset.checked_add(*len).is_some_and(|end| end <= mapped.len()))
            .ok_or_else(|| {
                Error::corrupt(offset, format!("a segment of {length} bytes ends behind the file"))
                    .in_file(&path, 0)
            })?;
        Segment::prefetch(&mapped, offset as u64, length);
        let mut bytes = Bytes { mapped, path, offset, len, uuid: [0; 16], budget };
        let footer = Footer::read(bytes.len, |range| bytes.range(range, "the footer"))
            .map_err(|e| bytes.locate(e, 0));
        let footer = bytes.checked(footer)?;
        bytes.uuid = footer.uuid;
        let columns = footer.columns.iter().map(|_| OnceLock::new()).collect();
        Ok(Segment { bytes: Arc::new(bytes), footer, columns })
    }

    /// Refuses what was made of the segment's bytes if the file was cut in the meantime, or could
    /// not be read: an atomic load, for who works on encoded values.
    pub(crate) fn check(&self) -> Result<()> {
        self.bytes.check()
    }

    /// [`Segment::check`], and refuses a file that has become shorter.
    pub(crate) fn check_length(&self) -> Result<()> {
        self.bytes.mapped.check_length().map_err(|error| error.in_file(&self.bytes.path, 0))
    }

    /// Adds the file to an error that names none.
    pub(crate) fn in_file(&self, error: Error) -> Error {
        self.bytes.locate(error, 0)
    }

    /// What decoding is charged to.
    pub(crate) fn budget(&self) -> &Budget {
        &self.bytes.budget
    }

    /// Prefetches the whole segment, without waiting.
    pub(crate) fn prefetch_all(&self) {
        self.bytes.prefetch(0..self.bytes.len);
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

    /// The number of blocks, which is the same for every column.
    pub fn blocks(&self) -> usize {
        self.rows().div_ceil(self.block_rows()) as usize
    }

    /// Bytes of the segment.
    pub fn stored_bytes(&self) -> u64 {
        self.bytes.len as u64
    }

    /// The rows of block `b`, counted from the segment's first row.
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
        let column = Arc::new(self.bytes.checked(self.load(entry))?);
        Ok(Some(slot.get_or_init(|| column).clone()))
    }

    /// A column that is not kept, and nor is its dictionary once it is dropped.
    pub(super) fn load_column(&self, id: ColumnId) -> Result<Option<Column>> {
        let found = self.footer.columns.iter().find(|entry| entry.column == id);
        found.map(|entry| self.load(entry)).transpose()
    }

    fn load(&self, entry: &DirectoryEntry) -> Result<Column> {
        self.parse_record(entry).map_err(|error| self.bytes.locate(error, entry.offset))
    }

    fn parse_record(&self, entry: &DirectoryEntry) -> Result<Column> {
        let start = usize::try_from(entry.offset).unwrap_or(usize::MAX);
        let range = start..start.saturating_add(entry.len as usize);
        if start.saturating_add(END_BYTES) < self.bytes.len {
            self.bytes.prefetch(range.clone());
        }
        let record = self.bytes.range(range, "a column record")?;
        let crc = placed_crc(crc32fast::hash(record), &self.footer.uuid, entry.column.0, RECORD);
        if !checksum_holds(crc, entry.crc) {
            return Err(Error::corrupt(
                0,
                format!("checksum of the record of column {}", entry.column.0),
            ));
        }
        let record =
            ColumnRecord::decode(record, self.stored_bytes(), self.rows(), self.footer.block_rows)?;
        Ok(Column {
            bytes: self.bytes.clone(),
            id: entry.column,
            rows: self.rows(),
            block_rows: self.footer.block_rows,
            prefetched: record.blocks.iter().map(|_| AtomicU32::new(0)).collect(),
            verified: record.blocks.iter().map(|_| AtomicBool::new(false)).collect(),
            record,
            dictionary: Arc::default(),
            fetched: AtomicUsize::new(0),
            lengths: OnceLock::new(),
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

    /// The number of blocks.
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

    /// Stored bytes of the dictionary if it has been decoded, else 0.
    pub fn decoded_dictionary_bytes(&self) -> u64 {
        let dictionary = self.record.dictionary.filter(|_| self.dictionary.lock().is_some());
        dictionary.map_or(0, |dictionary| dictionary.place.len)
    }

    /// Rows of block `b`.
    pub(super) fn rows_of_block(&self, b: usize) -> usize {
        let range = block_range(b, self.rows, u64::from(self.block_rows));
        (range.end - range.start) as usize
    }

    /// What was made of the segment's bytes, unless they were not all there.
    pub(super) fn checked<T>(&self, made: Result<T>) -> Result<T> {
        self.bytes.checked(made)
    }

    /// Adds the file to the error of a structure that starts at `offset` of the segment.
    pub(super) fn locate(&self, error: Error, offset: u64) -> Error {
        self.bytes.locate(error, offset)
    }

    /// Prefetches blocks, except those prefetched just before, without waiting.
    pub fn prefetch(&self, blocks: impl Iterator<Item = usize>) {
        let now = clock_seconds();
        let places = blocks.filter_map(|b| {
            let (place, last) = self.record.blocks.get(b).zip(self.prefetched.get(b))?;
            let is_due = now.saturating_sub(last.load(Ordering::Relaxed)) > FRESH_SECONDS;
            is_due.then(|| last.store(now, Ordering::Relaxed)).map(|()| place.range())
        });
        let mut open: Option<Range<usize>> = None;
        for place in places {
            open = match open {
                Some(before) if (before.end..=before.end + MAX_GAP).contains(&place.start) => {
                    Some(before.start..place.end)
                }
                before => {
                    before.into_iter().for_each(|range| self.bytes.prefetch(range));
                    Some(place)
                }
            };
        }
        open.into_iter().for_each(|range| self.bytes.prefetch(range));
    }

    /// Prefetches the dictionary unless it is decoded already, without waiting.
    pub fn prefetch_dictionary(&self) {
        let described = self.record.dictionary.filter(|_| self.dictionary.lock().is_none());
        if let Some(described) = described {
            self.bytes.prefetch(described.place.range());
        }
    }

    /// Opens block `b` and prefetches all of it; its checksums are verified at the first use.
    pub(super) fn open(&self, b: usize) -> Result<(BlockPlace, block::Reader<'_>)> {
        self.prefetch(std::iter::once(b));
        let place = self.record.blocks.get(b).ok_or_else(|| {
            Error::InvalidInput(format!(
                "block {b} of a column with {} blocks",
                self.record.blocks.len()
            ))
        })?;
        let verify = !self.verified[b].load(Ordering::Relaxed);
        let reader = self.parse(place, b as u32, self.rows_of_block(b), verify);
        let reader = self.bytes.checked(reader)?;
        self.verified[b].store(true, Ordering::Relaxed);
        Ok((*place, reader))
    }

    fn charge(&self, bytes: usize) -> Result<Charge> {
        self.bytes.budget.charge(bytes)
    }

    fn parse(
        &self,
        place: &BlockPlace,
        number: u32,
        rows: usize,
        verify: bool,
    ) -> Result<block::Reader<'_>> {
        let locate = |e: Error| self.bytes.locate(e, place.offset);
        let bytes = self.bytes.range(place.range(), "a block")?;
        if verify {
            let head = &bytes[..(place.head_len as usize).min(bytes.len())];
            let crc = placed_crc(crc32fast::hash(head), &self.bytes.uuid, self.id.0, number);
            if !checksum_holds(crc, place.head_crc) {
                let what =
                    format!("checksum of block {number} of column {} does not match", self.id.0);
                return Err(locate(Error::corrupt(0, what)));
            }
        }
        let reader = block::Reader::parse_within(
            bytes,
            place.head_len as usize,
            rows,
            self.data_type(),
            verify,
            &self.bytes.budget,
        );
        reader.and_then(|reader| self.check_kind(number, reader)).map_err(locate)
    }

    /// Checks that blocks have codes exactly if the column has a dictionary, so that operators on
    /// codes never see a mixture.
    fn check_kind<'a>(&self, number: u32, reader: block::Reader<'a>) -> Result<block::Reader<'a>> {
        let good = match (reader.validity(), number) {
            (Validity::AllValid, DICTIONARY) => true,
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
}
