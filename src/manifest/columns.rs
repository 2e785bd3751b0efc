//! The section of one column in a chunk: its statistics, segment by segment, in fixed-width arrays.
//!
//! ```text
//! arrays u32 · types u32 · type… · zeros to a multiple of 8 · flags u32[n] · arrays
//! ```
//!
//! Arrays that would be all zero are omitted; the bits of `arrays` say which are present, in this
//! order: nulls u64, NaNs u64, min u64, max u64 (see `fixed.rs`), sum i128, distinct u64. `flags`
//! is zero for a segment that lacks the column.

use std::collections::BTreeMap;

use super::fixed::{Side, from_word, to_word};
use crate::block::{Bound, Order, Stats};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::DataType;
use crate::model::stored::{read_type, write_type};

const HAS_COLUMN: u32 = 1;
const HAS_MIN: u32 = 1 << 1;
const HAS_MAX: u32 = 1 << 2;
const MIN_EXACT: u32 = 1 << 3;
const MAX_EXACT: u32 = 1 << 4;
const HAS_SUM: u32 = 1 << 5;
const HAS_DISTINCT: u32 = 1 << 6;
const ASCENDING: u32 = 1 << 7;
const DESCENDING: u32 = 1 << 8;
const STRICT: u32 = 1 << 9;
/// The upper half of the flags is the index of the stored type.
const TYPE_SHIFT: u32 = 16;

/// The statistics of a column in a segment, as a manifest stores them.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStats {
    /// The type in which the segment stores the column, which may be narrower than the table's;
    /// statistics are in this type.
    pub data_type: DataType,
    /// The statistics; bounds are inexact where they were truncated to fixed width.
    pub stats: Stats,
}

/// The entry of one segment in a column section.
#[derive(Clone, Copy, Default)]
struct FixedStats {
    flags: u32,
    words: [u64; 4],
    sum: i128,
    distinct: u64,
}

impl FixedStats {
    fn from_stats(known: &ColumnStats, type_index: usize) -> FixedStats {
        let stats = &known.stats;
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let word = |bound: &Option<Bound>, side| {
            bound.as_ref().and_then(|b| to_word(b, &known.data_type, side))
        };
        let (min, max) = (word(&stats.min, Side::Min), word(&stats.max, Side::Max));
        let flags = HAS_COLUMN
            | flag(min.is_some(), HAS_MIN)
            | flag(max.is_some(), HAS_MAX)
            | flag(min.is_some_and(|(_, exact)| exact), MIN_EXACT)
            | flag(max.is_some_and(|(_, exact)| exact), MAX_EXACT)
            | flag(stats.sum.is_some(), HAS_SUM)
            | flag(stats.distinct.is_some(), HAS_DISTINCT)
            | flag(stats.order.ascending, ASCENDING)
            | flag(stats.order.descending, DESCENDING)
            | flag(stats.order.strict, STRICT)
            | (type_index as u32) << TYPE_SHIFT;
        let bound = |found: Option<(u64, bool)>| found.map_or(0, |(word, _)| word);
        FixedStats {
            flags,
            words: [stats.nulls, stats.nans, bound(min), bound(max)],
            sum: stats.sum.unwrap_or(0),
            distinct: stats.distinct.unwrap_or(0),
        }
    }

    fn stats(&self, rows: u64, types: &[DataType]) -> Option<Result<ColumnStats>> {
        let has = |bit: u32| self.flags & bit != 0;
        if !has(HAS_COLUMN) {
            return None;
        }
        let Some(data_type) = types.get((self.flags >> TYPE_SHIFT) as usize) else {
            return Some(Err(Error::corrupt(0, "a statistic names a type that is not listed")));
        };
        let [nulls, nans, min, max] = self.words;
        if nulls.checked_add(nans).is_none_or(|n| n > rows) {
            return Some(Err(Error::corrupt(
                0,
                format!("{nulls} nulls and {nans} NaN in {rows} rows"),
            )));
        }
        let bound = |word: u64, there: u32, exact: u32| {
            let value = has(there).then(|| from_word(word, data_type)).flatten()?;
            Some(Bound { value, exact: has(exact) })
        };
        let stats = Stats {
            rows,
            nulls,
            nans,
            min: bound(min, HAS_MIN, MIN_EXACT),
            max: bound(max, HAS_MAX, MAX_EXACT),
            sum: has(HAS_SUM).then_some(self.sum),
            distinct: has(HAS_DISTINCT).then_some(self.distinct),
            order: Order {
                ascending: has(ASCENDING),
                descending: has(DESCENDING),
                strict: has(STRICT),
            },
        };
        Some(Ok(ColumnStats { data_type: data_type.clone(), stats }))
    }
}

/// The stored form, for a chunk of `segments` segments.
pub(super) fn encode_column(segments: usize, known: &BTreeMap<usize, ColumnStats>) -> Writer {
    let mut types: Vec<&DataType> = Vec::new();
    let mut rows = vec![FixedStats::default(); segments];
    for (at, stats) in known {
        let found = types.iter().position(|known| **known == stats.data_type);
        let index = found.unwrap_or_else(|| {
            types.push(&stats.data_type);
            types.len() - 1
        });
        if let Some(row) = rows.get_mut(*at) {
            *row = FixedStats::from_stats(stats, index);
        }
    }
    let present = |bit: u32, there: bool| if there { 1 << bit } else { 0 };
    let arrays: u32 =
        (0..4).map(|a| present(a, rows.iter().any(|row| row.words[a as usize] != 0))).sum::<u32>()
            + present(4, rows.iter().any(|row| row.sum != 0))
            + present(5, rows.iter().any(|row| row.distinct != 0));
    let mut out = Writer::new();
    out.u32(arrays);
    out.count(types.len());
    for data_type in types {
        write_type(data_type, &mut out);
    }
    out.align(8);
    rows.iter().for_each(|row| out.u32(row.flags));
    for a in (0..4).filter(|a| arrays & (1 << a) != 0) {
        rows.iter().for_each(|row| out.u64(row.words[a]));
    }
    if arrays & (1 << 4) != 0 {
        rows.iter().for_each(|row| out.i128(row.sum));
    }
    if arrays & (1 << 5) != 0 {
        rows.iter().for_each(|row| out.u64(row.distinct));
    }
    out
}

/// Reads the stored form; `segments` has the number of rows of each segment.
pub(super) fn parse_column(payload: &[u8], segments: &[u64]) -> Result<Vec<Option<ColumnStats>>> {
    let mut cursor = Cursor::new(payload);
    let arrays = cursor.u32()?;
    if arrays >> 6 != 0 {
        return Err(Error::Unsupported(format!(
            "statistics arrays {arrays:#x}; a newer build is needed"
        )));
    }
    let count = cursor.count(1, limits::MAX_CHUNK_SEGMENTS)?;
    let types = (0..count).map(|_| read_type(&mut cursor)).collect::<Result<Vec<_>>>()?;
    cursor.take(cursor.position().next_multiple_of(8) - cursor.position())?;
    // The number of segments was bounded when they were parsed.
    let mut rows = vec![FixedStats::default(); segments.len()];
    for row in &mut rows {
        row.flags = cursor.u32()?;
    }
    for a in (0..4).filter(|a| arrays & (1 << a) != 0) {
        for row in &mut rows {
            row.words[a] = cursor.u64()?;
        }
    }
    if arrays & (1 << 4) != 0 {
        for row in &mut rows {
            row.sum = cursor.i128()?;
        }
    }
    if arrays & (1 << 5) != 0 {
        for row in &mut rows {
            row.distinct = cursor.u64()?;
        }
    }
    cursor.finish()?;
    rows.iter().zip(segments).map(|(row, count)| row.stats(*count, &types).transpose()).collect()
}
