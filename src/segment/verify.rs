//! Verifies a segment: its checksums, and what is said of its values, which checksums do not cover,
//! in case a writer was faulty or malicious.
//!
//! A column is read block by block and a few vectors at a time, and nothing of it is kept, so that
//! as many columns are checked at once as there are threads. A check goes on after what it finds.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};

use super::dictionary;
use super::reader::Column;
use super::tally::{CodeTally, Tally, contradictions};
use super::{DamageKind, Segment};
use crate::block::{Stats, Stream};
use crate::error::{Error, Result};
use crate::limits::VECTOR;
use crate::model::{ColumnId, DataType, Scalar};

/// Rows decoded at a time; repetitive text is much larger decoded than stored.
const SLICE_ROWS: usize = 8 * VECTOR;

/// Something wrong with a column of a segment.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The rows concerned, counted from the segment's first.
    pub(crate) rows: Range<u64>,
    /// Whether values of these rows cannot be read, or what is said of them is false.
    pub(crate) kind: DamageKind,
    /// What is wrong, with the file and the byte in it.
    pub(crate) error: Error,
}

/// A column that was checked.
#[derive(Debug, Default)]
pub(crate) struct CheckedColumn {
    /// The type that its record says; `None` without a readable record.
    pub(crate) data_type: Option<DataType>,
    /// What its values are, unless some cannot be read.
    pub(crate) truth: Option<Stats>,
    /// Everything that is wrong.
    pub(crate) faults: Vec<Fault>,
}

impl Segment {
    /// Verifies every checksum, decodes every value, and checks that values are in the range of
    /// their type, that statistics are true, and that dictionaries have the properties that readers
    /// rely on. Returns the bytes read, or the first thing that is wrong.
    pub fn verify(&self) -> Result<u64> {
        self.prefetch_all();
        for entry in &self.footer().columns {
            if let Some(fault) = self.check_column(entry.column, None).faults.into_iter().next() {
                return Err(fault.error);
            }
        }
        self.check_length()?;
        Ok(self.stored_bytes())
    }

    /// Checks a column. `also` is what a manifest says of it: distinct values are counted if their
    /// number there does not follow from what the segment says.
    pub(crate) fn check_column(&self, id: ColumnId, also: Option<&Stats>) -> CheckedColumn {
        let mut checked = CheckedColumn::default();
        let column = match self.load_column(id) {
            Ok(Some(column)) => column,
            Ok(None) => return checked,
            Err(error) => {
                let kind = DamageKind::Unreadable;
                checked.faults.push(Fault { rows: 0..self.rows(), kind, error });
                return checked;
            }
        };
        checked.data_type = Some(column.data_type().clone());
        let check = ColumnCheck { segment: self, column: &column, id, faults: Vec::new() };
        (checked.truth, checked.faults) = check.run(also);
        checked
    }
}

/// A column that is being checked.
struct ColumnCheck<'a> {
    segment: &'a Segment,
    column: &'a Column,
    id: ColumnId,
    faults: Vec<Fault>,
}

impl ColumnCheck<'_> {
    fn run(mut self, also: Option<&Stats>) -> (Option<Stats>, Vec<Fault>) {
        let truth = match self.column.record().dictionary {
            Some(_) => self.coded(),
            None => self.plain(also),
        };
        if let Some(truth) = &truth {
            self.compare(self.column.stats(), truth, None);
        }
        (truth, self.faults)
    }

    fn all_rows(&self) -> Range<u64> {
        0..self.segment.rows()
    }

    fn unreadable(&mut self, rows: Range<u64>, error: Error) {
        self.faults.push(Fault { rows, kind: DamageKind::Unreadable, error });
    }

    /// Something false that stands at `offset` of the segment, and that values tell.
    fn lie(&mut self, rows: Range<u64>, offset: u64, what: impl Into<String>) {
        self.wrong(DamageKind::Derived, rows, offset, what);
    }

    fn wrong(&mut self, kind: DamageKind, rows: Range<u64>, offset: u64, what: impl Into<String>) {
        let error = self.column.locate(Error::corrupt(0, what), offset);
        self.faults.push(Fault { rows, kind, error });
    }

    /// Names what statistics of a block, or of the segment, say that is not so.
    fn compare(&mut self, claimed: &Stats, truth: &Stats, block: Option<usize>) {
        let wrong = contradictions(claimed, truth, self.column.data_type());
        let footer = self.segment.footer().columns.iter().find(|entry| entry.column == self.id);
        let offset = footer.map_or(0, |entry| entry.offset);
        let (rows, of) = match block {
            Some(b) => (self.segment.block_range(b), format!("block {b}")),
            None => (self.all_rows(), "the segment".to_owned()),
        };
        for what in wrong {
            self.lie(rows.clone(), offset, format!("statistics of {of} are false: {what}"));
        }
    }

    /// Checks a column without a dictionary; returns what its values are if all can be read.
    fn plain(&mut self, also: Option<&Stats>) -> Option<Stats> {
        let mut whole = Some(Tally::new(to_count(self.column, also)));
        for b in 0..self.column.blocks() {
            let claimed = self.column.block_stats(b)?;
            let mut tally = Tally::new(claims_fewer(claimed).then_some(claimed.distinct).flatten());
            let mut slices = |values: &ArrayRef| {
                if let Some(whole) = &mut whole {
                    whole.count(values, self.column.data_type())?;
                }
                tally.add(values, self.column.data_type())
            };
            if let Err(error) = each_slice(self.column, b, &mut slices) {
                whole = None;
                self.unreadable(self.segment.block_range(b), error);
                continue;
            }
            if let Some(whole) = &mut whole
                && let Err(error) = whole.append(&tally, self.column.data_type())
            {
                self.unreadable(self.segment.block_range(b), error);
            }
            let truth = tally.finish();
            self.check_range(&truth, b);
            if self.column.blocks() > 1 {
                self.compare(&claimed.clone(), &truth, Some(b));
            }
        }
        whole.map(Tally::finish)
    }

    /// Names values outside the bounds of their type.
    fn check_range(&mut self, truth: &Stats, b: usize) {
        let Some((least, greatest)) = self.column.data_type().bounds() else { return };
        let bounds = [&truth.min, &truth.max].into_iter().flatten();
        let outside = bounds.filter_map(|bound| match bound.value {
            Scalar::Int(value) if !(least..=greatest).contains(&value) => Some(value),
            _ => None,
        });
        if let Some(value) = outside.max() {
            let what = format!("{value} is not a value of type {}", self.column.data_type());
            let offset = self.column.record().blocks.get(b).map_or(0, |place| place.offset);
            self.wrong(DamageKind::Other, self.segment.block_range(b), offset, what);
        }
    }

    /// Checks a column with a dictionary by its codes; returns what its values are if all can be
    /// read.
    fn coded(&mut self) -> Option<Stats> {
        let described = self.column.record().dictionary?;
        let values = match self.column.dictionary() {
            Ok(values) => values.map(|all| all.slice(1, described.values as usize)),
            Err(error) => {
                self.unreadable(self.all_rows(), error);
                None
            }
        };
        let sound = values.as_ref().is_some_and(|values| self.check_dictionary(values));
        let mut whole = Some(CodeTally::new(described.values as usize));
        for b in 0..self.column.blocks() {
            let mut tally = CodeTally::new(described.values as usize);
            let mut first = None;
            let mut codes = |codes: &[u32]| {
                first = first.or(codes.first().copied());
                match tally.add(codes) {
                    None => Ok(()),
                    Some(code) => Err(Error::corrupt(0, format!("code {code} has no value"))),
                }
            };
            if let Err(error) = each_codes(self.column, b, &mut codes) {
                whole = None;
                self.unreadable(self.segment.block_range(b), error);
                continue;
            }
            if let Some(whole) = &mut whole {
                whole.merge(&tally, first);
            }
            // What is measured by codes is right only if these are in the order of the values.
            let (Some(values), Some(claimed)) =
                (values.as_ref().filter(|_| sound), self.column.block_stats(b))
            else {
                continue;
            };
            match tally.stats(values, self.column.data_type()) {
                Ok(truth) if self.column.blocks() > 1 => {
                    self.compare(&claimed.clone(), &truth, Some(b));
                }
                Ok(_) => {}
                Err(error) => self.unreadable(self.segment.block_range(b), error),
            }
        }
        let whole = whole?;
        if !whole.all_used() {
            let what = "a dictionary has a value that does not occur in any row";
            self.lie(self.all_rows(), described.place.offset, what);
        }
        let values = values.filter(|_| sound)?;
        let truth = whole.stats(&values, self.column.data_type()).ok()?;
        if self.column.stats().distinct.is_some_and(|says| Some(says) != truth.distinct) {
            let what = "the number of distinct values is not that of the dictionary";
            self.lie(self.all_rows(), described.place.offset, what);
        }
        Some(truth)
    }

    /// Readers rely on two properties: codes sort in the order of values, and equal hashes mean
    /// equal dictionaries. Returns whether values are sorted.
    fn check_dictionary(&mut self, values: &ArrayRef) -> bool {
        let Some(described) = self.column.record().dictionary else { return false };
        let (offset, data_type) = (described.place.offset, self.column.data_type().clone());
        let sorted = dictionary::is_sorted(values, &data_type);
        let hash = dictionary::hash(values, &data_type);
        match (&sorted, &hash) {
            (Ok(false), _) => {
                self.lie(self.all_rows(), offset, "values of a dictionary are not ascending");
            }
            (Ok(true), Ok(Some(hash))) if *hash != described.hash => {
                let what = "the hash of a dictionary does not match its values";
                self.lie(self.all_rows(), offset, what);
            }
            (Err(error), _) | (_, Err(error)) => {
                let what = error.to_string();
                self.wrong(DamageKind::Other, self.all_rows(), offset, what);
            }
            _ => {}
        }
        let mut tally = Tally::new(None);
        if tally.add(values, &data_type).is_ok() {
            let Some((least, greatest)) = data_type.bounds() else {
                return sorted.unwrap_or(false);
            };
            let truth = tally.finish();
            for bound in [&truth.min, &truth.max].into_iter().flatten() {
                if let Scalar::Int(value) = bound.value
                    && !(least..=greatest).contains(&value)
                {
                    let what = format!("{value} is not a value of type {data_type}");
                    self.wrong(DamageKind::Other, self.all_rows(), offset, what);
                }
            }
        }
        sorted.unwrap_or(false)
    }
}

/// Whether a claimed number of distinct values is less than what follows from the other numbers.
fn claims_fewer(claimed: &Stats) -> bool {
    let Some(distinct) = claimed.distinct else { return false };
    let range = match (&claimed.min, &claimed.max) {
        (Some(min), Some(max)) => match (&min.value, &max.value) {
            (Scalar::Int(min), Scalar::Int(max)) => max.checked_sub(*min),
            _ => None,
        },
        _ => None,
    };
    let implied = range.and_then(|range| u64::try_from(range).ok()?.checked_add(1));
    distinct < claimed.rows.saturating_sub(claimed.nulls).min(implied.unwrap_or(u64::MAX))
}

/// Up to how many distinct values of a segment are counted, where a claim does not follow from
/// those of its blocks.
fn to_count(column: &Column, also: Option<&Stats>) -> Option<u64> {
    let mut blocks = (0..column.blocks()).map(|b| column.block_stats(b)?.distinct);
    let summed = blocks.try_fold(0u64, |sum, distinct| Some(sum.saturating_add(distinct?)));
    let summed = summed.filter(|_| column.blocks() > 1);
    let claims = [Some(column.stats()), also].into_iter().flatten();
    let open = claims.filter(|claimed| {
        let follows = summed.is_some_and(|sum| claimed.distinct.is_some_and(|says| says >= sum));
        claims_fewer(claimed) && !follows
    });
    open.filter_map(|claimed| claimed.distinct).min()
}

/// Calls `each` with all values of a block, a few vectors at a time.
fn each_slice(
    column: &Column,
    b: usize,
    each: &mut dyn FnMut(&ArrayRef) -> Result<()>,
) -> Result<()> {
    let (mut block, rows) = (column.block(b)?, column.rows_of_block(b));
    let (mut start, mut step, mut opened) = (0, SLICE_ROWS, 0);
    while start < rows {
        let slice = start..rows.min(start + step);
        let values = match block.decode(slice.clone()) {
            Err(Error::LimitExceeded(_)) if slice.len() > VECTOR => {
                step = (slice.len() / 2).next_multiple_of(VECTOR);
                continue;
            }
            // The block keeps what it has unpacked for the slices before.
            Err(Error::LimitExceeded(_)) if start > opened => {
                drop(block);
                (block, opened, step) = (column.block(b)?, start, SLICE_ROWS);
                continue;
            }
            decoded => decoded?,
        };
        each(&values).map_err(|error| column.locate(error, block.offset()))?;
        start = slice.end;
    }
    Ok(())
}

/// Calls `each` with all codes of a block, a few vectors at a time.
fn each_codes(column: &Column, b: usize, each: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
    let (block, rows) = (column.block(b)?, column.rows_of_block(b));
    let Stream::Codes(ints) = block.reader().stream() else { return Ok(()) };
    let mut codes: Vec<u32> = Vec::new();
    for start in (0..rows).step_by(SLICE_ROWS) {
        codes.clear();
        let decoded = ints.decode(start..rows.min(start + SLICE_ROWS), &mut codes);
        let checked = decoded.and_then(|()| each(&codes));
        checked.map_err(|error| column.locate(error, block.offset()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BinaryViewArray, Decimal128Array, Float64Array, Int32Array, Time32SecondArray,
    };

    use super::super::footer::{DirectoryEntry, Footer, MAGIC};
    use super::super::reader::{DICTIONARY, RECORD};
    use super::super::record::{BlockPlace, ColumnRecord, DictionaryPlace};
    use super::*;
    use crate::block::{self, EncodedBlock, Piece, placed_crc};
    use crate::disk::Mapped;
    use crate::encoding::{Options, Profile, buffer::ALIGN};
    use crate::model::ColumnId;

    /// The result of `verify` for a segment with correct checksums: a column of these values or,
    /// with a hash, of one code for each value of a dictionary of them.
    fn verdict(data_type: &str, values: ArrayRef, hash: Option<u128>) -> String {
        let codes: Vec<u32> = (1..=values.len() as u32).collect();
        verdict_of_codes(data_type, values, hash, &codes)
    }

    fn verdict_of_codes(
        data_type: &str,
        values: ArrayRef,
        hash: Option<u128>,
        codes: &[u32],
    ) -> String {
        let data_type: DataType = data_type.parse().unwrap();
        let options = Options::new(Profile::Balanced);
        let gathered =
            block::gather(&data_type, &[Piece { array: &values, start: 0, len: values.len() }])
                .unwrap();
        let values = block::encode(&gathered, data_type.physical(), &options).unwrap();
        let mut bytes = MAGIC.to_vec();
        let mut place = |block: EncodedBlock, number: u32| {
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
            let head_crc = placed_crc(block.head_crc, &[7; 16], 0, number);
            let (offset, len) = (bytes.len() as u64, block.len() as u64);
            bytes.extend(block.bytes());
            BlockPlace { offset, len, head_len: block.head_len, head_crc }
        };
        let rows = if hash.is_some() { codes.len() } else { gathered.rows };
        let (dictionary, block) = match hash {
            Some(hash) => {
                let place = place(values, DICTIONARY);
                (
                    Some(DictionaryPlace { values: gathered.rows as u32, hash, place }),
                    block::encode_codes(codes, &options),
                )
            }
            None => (None, values),
        };
        let nulls = match hash {
            Some(_) => codes.iter().filter(|code| **code == 0).count(),
            None => gathered.nulls(),
        };
        let stats = Stats { rows: rows as u64, nulls: nulls as u64, ..Stats::default() };
        let blocks = vec![place(block, 0)];
        let record = ColumnRecord {
            data_type,
            stats: stats.clone(),
            dictionary,
            blocks,
            block_stats: vec![stats],
        }
        .encode();
        let crc = placed_crc(crc32fast::hash(&record), &[7; 16], 0, RECORD);
        let (offset, len) = (bytes.len() as u64, record.len() as u32);
        let columns = vec![DirectoryEntry { column: ColumnId(0), offset, len, crc }];
        let footer =
            Footer { uuid: [7; 16], rows: rows as u64, block_rows: 1024, columns }.encode();
        let bytes = [bytes, record, footer.clone(), Footer::tail(&footer)].concat();
        let segment =
            Segment::open(Arc::new(Mapped::from_bytes(&bytes)), "x.sty", 0, bytes.len() as u64)
                .unwrap();
        segment.verify().map_or_else(|error| error.to_string(), |_| "sound".into())
    }

    #[test]
    fn values_outside_the_range_of_their_type_are_found() {
        let time = |v: [Option<i32>; 3]| {
            verdict("time(s)", Arc::new(Time32SecondArray::from(v.to_vec())), None)
        };
        assert_eq!(time([Some(0), None, Some(86_399)]), "sound");
        assert!(
            time([Some(0), None, Some(86_400)]).contains("86400 is not a value of type time(s)")
        );
        assert!(time([Some(0), Some(1), Some(-1)]).contains("-1 is not a value"));
        let decimal = |v: i128| {
            let values = Decimal128Array::from(vec![1, v]).with_precision_and_scale(5, 2).unwrap();
            verdict("decimal(5,2)", Arc::new(values), None)
        };
        assert_eq!(decimal(-99_999), "sound");
        assert!(decimal(100_000).contains("100000 is not a value of type decimal(5,2)"));
    }

    #[test]
    fn sorted_dictionaries_with_the_right_hash_are_sound() {
        let check = |data_type: &str, values: ArrayRef| {
            let hash = dictionary::hash(&values, &data_type.parse().unwrap()).unwrap().unwrap();
            assert!(
                verdict(data_type, values.clone(), Some(hash ^ 1))
                    .contains("the hash of a dictionary")
            );
            verdict(data_type, values, Some(hash))
        };
        let text = |v: &[&str]| check("binary", Arc::new(BinaryViewArray::from_iter_values(v)));
        assert_eq!(text(&["", "a", "ab", "b"]), "sound");
    }

    #[test]
    fn values_that_no_row_has_are_found() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 5, 9]));
        let hash = dictionary::hash(&values, &"int32".parse().unwrap()).unwrap();
        let verdict = |codes: &[u32]| verdict_of_codes("int32", Arc::clone(&values), hash, codes);
        assert_eq!(verdict(&[3, 0, 1, 2, 2]), "sound");
        assert!(verdict(&[3, 0, 1]).contains("a value that does not occur in any row"));
    }

    #[test]
    fn unsorted_dictionaries_are_found() {
        let unsorted = |data_type: &str, values: ArrayRef| {
            let what = verdict(data_type, values, Some(0));
            assert!(
                what.contains("values of a dictionary are not ascending"),
                "{data_type}: {what}"
            );
        };
        unsorted("binary", Arc::new(BinaryViewArray::from_iter_values(["a", "c", "b"])));
        unsorted("binary", Arc::new(BinaryViewArray::from_iter_values(["a", "a"])));
        unsorted("int32", Arc::new(Int32Array::from(vec![1, -1])));
        unsorted("float64", Arc::new(Float64Array::from(vec![0.0, -0.0])));
    }
}
