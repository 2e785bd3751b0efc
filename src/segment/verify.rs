//! Verifies a segment: its checksums, and properties of its values that checksums do not cover, in
//! case a writer was faulty or malicious.

use arrow_array::{Array, ArrayRef};

use super::Segment;
use super::dictionary;
use super::reader::Column;
use crate::block::{self, Piece, Stream, Values};
use crate::error::{Error, Result};
use crate::limits::VECTOR;
use crate::model::DataType;

/// Rows decoded at a time; repetitive text is much larger decoded than stored.
const SLICE_ROWS: usize = 8 * VECTOR;

impl Segment {
    /// Verifies every checksum, decodes every value, and checks that values are in the range of
    /// their type and that dictionaries have the properties that readers rely on. Returns the bytes
    /// read.
    pub fn verify(&self) -> Result<u64> {
        self.prefetch_all();
        for entry in &self.footer().columns {
            let Some(column) = self.column(entry.column)? else { continue };
            check_dictionary(&column)?;
            for b in 0..column.blocks() {
                check_block(&column, b)?;
            }
            check_all_used(&column)?;
        }
        self.check_length()?;
        Ok(self.stored_bytes())
    }
}

fn check_block(column: &Column, b: usize) -> Result<()> {
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
        check_values(&values, column.data_type()).map_err(|e| column.locate(e, block.offset()))?;
        start = slice.end;
    }
    Ok(())
}

/// Refuses values outside the bounds of their type.
fn check_values(values: &ArrayRef, data_type: &DataType) -> Result<()> {
    let Some((least, greatest)) = data_type.bounds() else { return Ok(()) };
    let gathered =
        block::gather(data_type, &[Piece { array: values, start: 0, len: values.len() }])?;
    if gathered.nulls() == gathered.rows {
        return Ok(());
    }
    let outside = |value: &i128| !(least..=greatest).contains(value);
    let found = match &gathered.values {
        Values::W32(v) => v.iter().map(|&v| i128::from(v as i32)).find(outside),
        Values::W64(v) => v.iter().map(|&v| i128::from(v as i64)).find(outside),
        Values::Wide(v) => v.iter().copied().find(outside),
        _ => None,
    };
    match found {
        Some(value) => {
            Err(Error::corrupt(0, format!("{value} is not a value of type {data_type}")))
        }
        None => Ok(()),
    }
}

/// Readers rely on two properties: codes sort in the order of values, and equal hashes mean equal
/// dictionaries.
fn check_dictionary(column: &Column) -> Result<()> {
    let Some((described, values)) = column.record().dictionary.zip(column.dictionary()?) else {
        return Ok(());
    };
    let values: ArrayRef = values.slice(1, described.values as usize);
    let sorted = dictionary::is_sorted(&values, column.data_type())?;
    let what = match dictionary::hash(&values, column.data_type())? {
        _ if !sorted => "values of a dictionary are not ascending",
        Some(hash) if hash != described.hash => {
            "the hash of a dictionary does not match its values"
        }
        _ => {
            return check_values(&values, column.data_type())
                .map_err(|e| column.locate(e, described.place.offset));
        }
    };
    Err(column.locate(Error::corrupt(0, what), described.place.offset))
}

/// Readers count distinct values in the dictionary, so every value must occur in some row.
fn check_all_used(column: &Column) -> Result<()> {
    let Some(described) = column.record().dictionary else { return Ok(()) };
    let mut used = vec![false; described.values as usize + 1];
    // Null need not occur.
    used[0] = true;
    let mut codes: Vec<u32> = Vec::new();
    for b in 0..column.blocks() {
        let (block, rows) = (column.block(b)?, column.rows_of_block(b));
        let Stream::Codes(ints) = block.reader().stream() else { continue };
        for start in (0..rows).step_by(SLICE_ROWS) {
            codes.clear();
            ints.decode(start..rows.min(start + SLICE_ROWS), &mut codes)?;
            for code in &codes {
                if let Some(used) = used.get_mut(*code as usize) {
                    *used = true;
                }
            }
        }
    }
    if used.iter().all(|used| *used) {
        return Ok(());
    }
    let what = "a dictionary has a value that does not occur in any row";
    Err(column.locate(Error::corrupt(0, what), described.place.offset))
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
    use crate::block::{EncodedBlock, Stats, placed_crc};
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
            let (offset, len) = (bytes.len() as u64, block.bytes.len() as u64);
            bytes.extend(block.bytes);
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
        let stats = Stats { rows: rows as u64, ..Stats::default() };
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
