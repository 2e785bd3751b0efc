//! Rows → the bytes of a segment: columns are encoded in parallel, then compared in size, then
//! placed.
//!
//! Entropy coding costs decoding time in every query that reads the column, so under the balanced
//! profile a column gets it only if that shrinks the *whole segment* noticeably: small columns of a
//! wide table stay light, while those of a narrow table are compressed.

use arrow_array::{Array, ArrayRef};
use rayon::prelude::*;
use twox_hash::XxHash3_128;

use super::dictionary::{self, CodedColumn};
use super::footer::{DirectoryEntry, Footer, MAGIC};
use super::reader::{DICTIONARY, RECORD};
use super::record::{BlockPlace, ColumnRecord, DictionaryPlace};
use crate::block::{self, EncodedBlock, Piece, Stats, placed_crc};
use crate::encoding::{Options, Profile, buffer::ALIGN};
use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType, Scalar};

/// A column gets entropy coding when it saves this share of the segment …
const HEAVY_SEGMENT_SHARE: f64 = 0.015;
/// … and this share of itself.
const HEAVY_COLUMN_SHARE: f64 = 0.04;

/// The values of a dictionary get it where that saves this share of the segment.
const HEAVY_DICTIONARY_SHARE: f64 = 0.03;

/// One column of the rows to be written.
#[derive(Debug)]
pub struct InputColumn {
    /// Permanent id.
    pub id: ColumnId,
    /// The type to store, which may be narrower than the table's.
    pub data_type: DataType,
    /// The values in row order, each in a layout that `block::canonical` accepts for the type.
    pub arrays: Vec<ArrayRef>,
}

/// The rows of one segment.
#[derive(Debug)]
pub struct SegmentInput {
    /// Rows.
    pub rows: usize,
    /// Rows of a block: a multiple of 1,024.
    pub block_rows: usize,
    /// The columns, in ascending order of their ids.
    pub columns: Vec<InputColumn>,
}

/// A segment as bytes.
#[derive(Debug)]
pub struct EncodedSegment {
    /// Identity: a hash of the contents.
    pub uuid: [u8; 16],
    /// Rows.
    pub rows: u64,
    /// The bytes in order, as pieces to be concatenated.
    pub parts: Vec<Vec<u8>>,
    /// Their total length.
    pub len: u64,
    /// CRC32 of the footer.
    pub footer_crc: u32,
    /// Statistics of every column.
    pub stats: Vec<(ColumnId, DataType, Stats)>,
}

/// A column's encoded blocks, before they are placed.
struct EncodedColumn {
    id: ColumnId,
    data_type: DataType,
    stats: Stats,
    block_stats: Vec<Stats>,
    blocks: Vec<EncodedBlock>,
    dictionary: Option<(EncodedBlock, u32, u128)>,
}

impl EncodedColumn {
    fn len(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, |(block, ..)| block.len());
        self.blocks.iter().map(EncodedBlock::len).sum::<usize>() + dictionary
    }
}

/// Encodes a segment, in parallel on the current rayon pool. The same rows and options give the
/// same bytes.
pub fn encode(input: &SegmentInput, options: &Options) -> Result<EncodedSegment> {
    let mut columns = input
        .columns
        .par_iter()
        .map(|column| ColumnEncoder::new(column, input, options)?.encode(options))
        .collect::<Result<Vec<_>>>()?;
    if options.profile == Profile::Balanced && !options.heavy {
        let total: usize = columns.iter().map(|(_, encoded)| encoded.len()).sum();
        columns.par_iter_mut().try_for_each(|(encoder, encoded)| {
            try_heavy_dictionary(encoder, encoded, options, total)?;
            try_heavy(encoder, encoded, options, total)
        })?;
    }
    Ok(place(columns.into_iter().map(|(_, encoded)| encoded).collect(), input))
}

/// A column's rows cut into blocks, and its dictionary if it gets one.
struct ColumnEncoder<'a> {
    column: &'a InputColumn,
    blocks: Vec<Vec<Piece<'a>>>,
    coded: Option<CodedColumn>,
    block_rows: usize,
}

impl<'a> ColumnEncoder<'a> {
    fn new(column: &'a InputColumn, input: &SegmentInput, options: &Options) -> Result<Self> {
        let blocks = cut(&column.arrays, input.block_rows);
        let coded = dictionary::try_dictionary(&column.data_type, &blocks, input.rows, options)?;
        Ok(ColumnEncoder { column, blocks, coded, block_rows: input.block_rows })
    }

    fn encode_block(&self, b: usize, options: &Options) -> Result<(EncodedBlock, Stats)> {
        let (data_type, physical) = (&self.column.data_type, self.column.data_type.physical());
        let Some(coded) = &self.coded else {
            let gathered = block::gather(data_type, &self.blocks[b])?;
            return Ok((
                block::encode(&gathered, physical, options)?,
                block::measure(&gathered, physical),
            ));
        };
        let start = b * self.block_rows;
        let codes = &coded.codes[start..(start + self.block_rows).min(coded.codes.len())];
        let stats = match coded.measure_bytes(codes) {
            Some(stats) => stats,
            None => block::measure(&block::gather(data_type, &self.blocks[b])?, physical),
        };
        Ok((block::encode_codes(codes, &options.child()), stats))
    }

    fn encode(self, options: &Options) -> Result<(Self, EncodedColumn)> {
        let encoded = (0..self.blocks.len())
            .into_par_iter()
            .map(|b| self.encode_block(b, options))
            .collect::<Result<Vec<_>>>()?;
        let (blocks, block_stats): (Vec<_>, Vec<_>) = encoded.into_iter().unzip();
        let mut stats =
            block_stats.iter().fold(Stats::default(), |sum: Stats, block| sum.followed_by(block));
        check_bounds(&self.column.data_type, &stats)?;
        let dictionary = match &self.coded {
            Some(coded) => {
                let distinct = coded.distinct() as u32;
                stats.distinct = Some(u64::from(distinct));
                let physical = self.column.data_type.physical();
                Some((
                    block::encode(&coded.values(physical), physical, &options.child())?,
                    distinct,
                    coded.hash,
                ))
            }
            None => None,
        };
        stats.distinct = stats.distinct.map(|d| d.min(stats.rows - stats.nulls));
        let column = EncodedColumn {
            id: self.column.id,
            data_type: self.column.data_type.clone(),
            stats,
            block_stats,
            blocks,
            dictionary,
        };
        Ok((self, column))
    }
}

/// Refuses values outside the range of their type.
fn check_bounds(data_type: &DataType, stats: &Stats) -> Result<()> {
    let Some((least, greatest)) = data_type.bounds() else { return Ok(()) };
    for bound in [&stats.min, &stats.max].into_iter().flatten() {
        if let Scalar::Int(value) = bound.value
            && !(least..=greatest).contains(&value)
        {
            return Err(Error::InvalidInput(format!(
                "{value} is not a value of type {data_type}, which ranges from {least} to \
                 {greatest}"
            )));
        }
    }
    Ok(())
}

/// Encodes a column again with entropy coding if a sample shows that this shrinks the segment
/// noticeably.
fn try_heavy(
    encoder: &mut ColumnEncoder<'_>,
    encoded: &mut EncodedColumn,
    options: &Options,
    total: usize,
) -> Result<()> {
    let heavy = Options { heavy: true, ..*options };
    let light: usize = encoded.blocks.iter().map(EncodedBlock::len).sum();
    let pays = |saved: f64| {
        saved >= total as f64 * HEAVY_SEGMENT_SHARE && saved >= light as f64 * HEAVY_COLUMN_SHARE
    };
    // Stop if even saving three quarters of the column would not matter.
    if light == 0 || !pays(light as f64 * 0.75) {
        return Ok(());
    }
    let middle = encoded.blocks.len() / 2;
    let (sample, _) = encoder.encode_block(middle, &heavy)?;
    let ratio = sample.len() as f64 / encoded.blocks[middle].len().max(1) as f64;
    if !pays(light as f64 * (1.0 - ratio)) {
        return Ok(());
    }
    let blocks = (0..encoder.blocks.len())
        .into_par_iter()
        .map(|b| encoder.encode_block(b, &heavy).map(|(block, _)| block))
        .collect::<Result<Vec<_>>>()?;
    if pays(light as f64 - blocks.iter().map(EncodedBlock::len).sum::<usize>() as f64) {
        encoded.blocks = blocks;
    }
    Ok(())
}

/// The same for the values of its dictionary, which are decoded whole, so that it must pay more.
fn try_heavy_dictionary(
    encoder: &ColumnEncoder<'_>,
    encoded: &mut EncodedColumn,
    options: &Options,
    total: usize,
) -> Result<()> {
    let (Some(coded), Some((light, ..))) = (&encoder.coded, &mut encoded.dictionary) else {
        return Ok(());
    };
    let least = total as f64 * HEAVY_DICTIONARY_SHARE;
    // Stop if even saving three quarters of it would not matter.
    if (light.len() as f64) * 0.75 < least {
        return Ok(());
    }
    let (physical, heavy) =
        (encoder.column.data_type.physical(), Options { heavy: true, ..*options });
    let smaller = block::encode(&coded.values(physical), physical, &heavy.child())?;
    if smaller.len() as f64 + least <= light.len() as f64 {
        *light = smaller;
    }
    Ok(())
}

/// Cuts the arrays of a column into runs of `block_rows` rows.
fn cut(arrays: &[ArrayRef], block_rows: usize) -> Vec<Vec<Piece<'_>>> {
    let mut blocks = Vec::new();
    let (mut block, mut missing) = (Vec::new(), block_rows);
    for array in arrays {
        let mut start = 0;
        while start < array.len() {
            let len = missing.min(array.len() - start);
            block.push(Piece { array, start, len });
            (start, missing) = (start + len, missing - len);
            if missing == 0 {
                blocks.push(std::mem::take(&mut block));
                missing = block_rows;
            }
        }
    }
    if !block.is_empty() {
        blocks.push(block);
    }
    blocks
}

/// Lays out blocks, records and the footer, and computes their final checksums.
fn place(columns: Vec<EncodedColumn>, input: &SegmentInput) -> EncodedSegment {
    let mut parts = vec![MAGIC.to_vec()];
    let mut at = MAGIC.len() as u64;
    let mut put = |bytes: Vec<u8>, parts: &mut Vec<Vec<u8>>, align: usize| -> u64 {
        let pad = (at.next_multiple_of(align as u64) - at) as usize;
        if pad > 0 {
            parts.push(vec![0; pad]);
        }
        let offset = at + pad as u64;
        at = offset + bytes.len() as u64;
        parts.push(bytes);
        offset
    };
    let mut records: Vec<(ColumnId, ColumnRecord)> = Vec::with_capacity(columns.len());
    for column in columns {
        let mut place_block = |block: EncodedBlock| {
            let (len, head_len, head_crc) = (block.len() as u64, block.head_len, block.head_crc);
            let offset = put(block.head, &mut parts, ALIGN);
            put(block.payload, &mut parts, 1);
            BlockPlace { offset, len, head_len, head_crc }
        };
        let dictionary = column.dictionary.map(|(block, values, hash)| DictionaryPlace {
            values,
            hash,
            place: place_block(block),
        });
        let blocks = column.blocks.into_iter().map(&mut place_block).collect();
        let record = ColumnRecord {
            data_type: column.data_type,
            stats: column.stats,
            dictionary,
            blocks,
            block_stats: column.block_stats,
        };
        records.push((column.id, record));
    }
    let uuid = identity(&records);
    let mut directory = Vec::with_capacity(records.len());
    let mut stats = Vec::with_capacity(records.len());
    for (id, mut record) in records {
        place_checksums(&mut record, &uuid, id);
        let bytes = record.encode();
        let crc = placed_crc(crc32fast::hash(&bytes), &uuid, id.0, RECORD);
        let len = bytes.len() as u32;
        directory.push(DirectoryEntry { column: id, offset: put(bytes, &mut parts, 1), len, crc });
        stats.push((id, record.data_type, record.stats));
    }
    let footer = Footer {
        uuid,
        rows: input.rows as u64,
        block_rows: input.block_rows as u32,
        columns: directory,
    };
    let footer = footer.encode();
    let footer_crc = crc32fast::hash(&footer);
    let tail = Footer::tail(&footer);
    put(footer, &mut parts, 1);
    put(tail, &mut parts, 1);
    EncodedSegment { uuid, rows: input.rows as u64, parts, len: at, footer_crc, stats }
}

/// The segment's identity: a hash of all records, which contain the checksums of everything else,
/// before the identity is mixed into these.
fn identity(records: &[(ColumnId, ColumnRecord)]) -> [u8; 16] {
    let mut all = Vec::new();
    for (id, record) in records {
        all.extend_from_slice(&id.0.to_le_bytes());
        all.extend_from_slice(&record.encode());
    }
    XxHash3_128::oneshot(&all).to_le_bytes()
}

/// Mixes the identity of each block into its checksum.
fn place_checksums(record: &mut ColumnRecord, uuid: &[u8; 16], id: ColumnId) {
    for (b, place) in record.blocks.iter_mut().enumerate() {
        place.head_crc = placed_crc(place.head_crc, uuid, id.0, b as u32);
    }
    if let Some(dictionary) = &mut record.dictionary {
        dictionary.place.head_crc = placed_crc(dictionary.place.head_crc, uuid, id.0, DICTIONARY);
    }
}
