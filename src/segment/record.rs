//! The record of a column in a segment: bytes ↔ type, statistics, places of blocks and dictionary.
//! No I/O.

use std::ops::Range;

use crate::block::Stats;
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::DataType;
use crate::model::stored::{read_type, write_type};

const HAS_DICTIONARY: u8 = 1;
/// Bytes of a place.
const PLACE_BYTES: usize = 24;

/// The place of a block, and the checksum of its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockPlace {
    /// Offset from the segment's start.
    pub offset: u64,
    /// Bytes, head and payload.
    pub len: u64,
    /// Bytes of the head.
    pub head_len: u32,
    /// CRC32 of the head in this place.
    pub head_crc: u32,
}

/// The dictionary of a column in a segment: its values are a block of their own, and their codes
/// start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryPlace {
    /// The number of values.
    pub values: u32,
    /// XXH3-128 of the values: dictionaries with equal hashes have the same codes.
    pub hash: u128,
    /// The block of the values.
    pub place: BlockPlace,
}

/// The metadata of a column in a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnRecord {
    /// The stored type; the table's may be wider.
    pub data_type: DataType,
    /// Statistics of the whole segment.
    pub stats: Stats,
    /// Present if the blocks hold codes.
    pub dictionary: Option<DictionaryPlace>,
    /// The blocks, in row order.
    pub blocks: Vec<BlockPlace>,
    /// The zone map of each block.
    pub block_stats: Vec<Stats>,
}

impl BlockPlace {
    fn write(&self, out: &mut Writer) {
        out.u64(self.offset);
        out.u64(self.len);
        out.u32(self.head_len);
        out.u32(self.head_crc);
    }

    fn read(cursor: &mut Cursor<'_>, segment_len: u64) -> Result<BlockPlace> {
        let place = BlockPlace {
            offset: cursor.u64()?,
            len: cursor.u64()?,
            head_len: cursor.u32()?,
            head_crc: cursor.u32()?,
        };
        let inside = place.offset.checked_add(place.len).is_some_and(|end| end <= segment_len);
        if !inside || u64::from(place.head_len) > place.len {
            return Err(cursor.corrupt("a block lies outside its segment"));
        }
        Ok(place)
    }

    /// The range of bytes in the segment.
    pub fn range(&self) -> Range<usize> {
        self.offset as usize..(self.offset + self.len) as usize
    }
}

impl ColumnRecord {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let physical = self.data_type.physical();
        let mut out = Writer::new();
        write_type(&self.data_type, &mut out);
        out.u8(if self.dictionary.is_some() { HAS_DICTIONARY } else { 0 });
        self.stats.write(physical, &mut out);
        if let Some(dictionary) = &self.dictionary {
            out.u32(dictionary.values);
            out.i128(dictionary.hash as i128);
            dictionary.place.write(&mut out);
        }
        out.count(self.blocks.len());
        for place in &self.blocks {
            place.write(&mut out);
        }
        // The zone map of a single block equals the segment's statistics.
        if self.blocks.len() > 1 {
            for stats in &self.block_stats {
                stats.write(physical, &mut out);
            }
        }
        out.into_vec()
    }

    /// Parses a record whose checksum has been verified, of a segment of `segment_len` bytes and
    /// `rows` rows.
    pub fn decode(
        bytes: &[u8],
        segment_len: u64,
        rows: u64,
        block_rows: u32,
    ) -> Result<ColumnRecord> {
        let mut cursor = Cursor::new(bytes);
        let data_type = read_type(&mut cursor)?;
        let physical = data_type.physical();
        let flags = cursor.u8()?;
        if flags & !HAS_DICTIONARY != 0 {
            return Err(Error::Unsupported(format!(
                "column flags {flags:#x}, from a newer version"
            )));
        }
        let stats = Stats::read(physical, &mut cursor)?;
        let dictionary = if flags & HAS_DICTIONARY != 0 {
            let (values, hash) = (cursor.u32()?, cursor.i128()? as u128);
            if values as usize > limits::MAX_DICTIONARY_VALUES {
                return Err(cursor.corrupt(format!("dictionary of {values} values")));
            }
            Some(DictionaryPlace {
                values,
                hash,
                place: BlockPlace::read(&mut cursor, segment_len)?,
            })
        } else {
            None
        };
        let n = cursor.count(PLACE_BYTES, limits::SEGMENT_ROWS)?;
        if n as u64 != rows.div_ceil(u64::from(block_rows)) || stats.rows != rows {
            return Err(cursor.corrupt(format!("{n} blocks for {rows} rows")));
        }
        let blocks = (0..n)
            .map(|_| BlockPlace::read(&mut cursor, segment_len))
            .collect::<Result<Vec<_>>>()?;
        let block_stats = if n == 1 {
            vec![stats.clone()]
        } else {
            (0..n).map(|_| Stats::read(physical, &mut cursor)).collect::<Result<Vec<_>>>()?
        };
        cursor.finish()?;
        let sizes =
            (0..n as u64).map(|b| u64::from(block_rows).min(rows - b * u64::from(block_rows)));
        if !block_stats.iter().map(|stats| stats.rows).eq(sizes) {
            return Err(cursor.corrupt("statistics of a block have the wrong number of rows"));
        }
        Ok(ColumnRecord { data_type, stats, dictionary, blocks, block_stats })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_blocks_count_the_rows_that_the_blocks_have() {
        let stats = |rows: u64| Stats { rows, ..Stats::default() };
        let record = |block_stats: [u64; 2]| ColumnRecord {
            data_type: DataType::Bool,
            stats: stats(1500),
            dictionary: None,
            blocks: vec![BlockPlace::default(); 2],
            block_stats: block_stats.map(stats).to_vec(),
        };
        let decode = |record: &ColumnRecord| ColumnRecord::decode(&record.encode(), 0, 1500, 1024);
        let right = record([1024, 476]);
        assert_eq!(decode(&right).unwrap(), right);
        assert!(decode(&record([476, 1024])).is_err());
        assert!(decode(&record([1024, u64::MAX])).is_err());
    }
}
