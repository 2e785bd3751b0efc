//! A stored column under codes: dictionaries united, or distances from the least value.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType as ArrowType;

use super::codes::{CodesOfBlock, check_domain, domain, from_codes, narrow, unknown_code_error};
use crate::block::{Stream, Validity};
use crate::encoding::bools::Bools;
use crate::encoding::{Ints, Word};
use crate::error::{ArrowResult, Error, Result};
use crate::model::{Column, DataType, Physical};
use crate::query::group::interner::Interner;
use crate::query::open::{OpenBlock, Survivors};
use crate::query::slice::{Slice, take};
use crate::query::words::{from_words, has_negative_zero, is_words, to_words};
use crate::segment;

/// Dictionaries are united up to this many values in all.
const MAX_UNITED: u64 = 1 << 20;
/// Several dictionaries are united where there are this many rows for each value, or few values.
/// With fewer rows, it is quicker to number only the values that rows have.
const ROWS_A_VALUE: u64 = 8;
const FEW_UNITED: u64 = 1 << 12;

/// A stored column under codes.
#[derive(Debug)]
pub(crate) struct CodedKeyColumn {
    pub(super) at: usize,
    data_type: ArrowType,
    /// Whether code 0 is null.
    nulls: bool,
    pub(super) domain: u64,
    code_values: CodeValues,
    /// Whether rows hold negative zeros, for which the codes' values have zeros.
    pub(super) loses_sign: bool,
    /// For each segment with a dictionary: the code of each of its codes.
    maps: Vec<Option<CodeMap>>,
}

/// The code of each code of a segment's dictionary.
#[derive(Clone, Debug)]
struct CodeMap {
    codes: Arc<[u32]>,
    /// Whether each is mapped to itself.
    is_same: bool,
}

impl CodeMap {
    fn new(codes: impl Into<Arc<[u32]>>) -> Self {
        let codes = codes.into();
        let is_same = codes.iter().enumerate().all(|(at, code)| at == *code as usize);
        CodeMap { codes, is_same }
    }
}

#[derive(Debug)]
enum CodeValues {
    /// The least value, sign-extended; the codes count up from it.
    From(i64),
    /// The value of each code.
    Values(ArrayRef),
}

impl CodedKeyColumn {
    pub(super) fn new(at: usize, column: &Column, survivors: &Survivors) -> Result<Option<Self>> {
        let stored: Vec<Option<&segment::Column>> = survivors
            .segments
            .iter()
            .map(|s| s.columns.get(at).and_then(Option::as_deref))
            .collect();
        let decimals = matches!(column.data_type, DataType::Decimal { .. });
        if decimals || is_words(&column.data_type.to_arrow()) {
            return Self::from_bounds(at, column, &stored, survivors.rows());
        }
        Self::from_dictionaries(at, column, &stored, survivors.rows())
    }

    fn from_bounds(
        at: usize,
        column: &Column,
        stored: &[Option<&segment::Column>],
        rows: u64,
    ) -> Result<Option<Self>> {
        let data_type = column.data_type.to_arrow();
        let Some((range, nulls)) = bounds(&column.data_type, stored) else { return Ok(None) };
        let Some(domain) = domain(&range, nulls) else { return Ok(None) };
        // Dictionaries are translated to codes of 32 bits.
        if u32::try_from(domain).is_err()
            && stored.iter().flatten().any(|c| c.record().dictionary.is_some())
        {
            return Self::from_dictionaries(at, column, stored, rows);
        }
        let mut maps = Vec::with_capacity(stored.len());
        for column in stored {
            let dictionary = match column {
                Some(column) => column.dictionary()?,
                None => None,
            };
            maps.push(match dictionary {
                None => None,
                Some(dictionary) => {
                    let Some(words) = to_words(&dictionary) else { return Ok(None) };
                    let bias = range.start.wrapping_sub(i64::from(nulls));
                    let code = |w: &i64| u32::try_from(w.wrapping_sub(bias)).unwrap_or(u32::MAX);
                    // Entry 0 is null.
                    let codes = std::iter::once(0).chain(words.iter().skip(1).map(code));
                    Some(CodeMap::new(codes.collect::<Vec<u32>>()))
                }
            });
        }
        let code_values = CodeValues::From(range.start);
        Ok(Some(CodedKeyColumn {
            at,
            data_type,
            nulls,
            domain,
            code_values,
            loses_sign: false,
            maps,
        }))
    }

    /// `rows` are those of the segments that survive.
    fn from_dictionaries(
        at: usize,
        column: &Column,
        stored: &[Option<&segment::Column>],
        rows: u64,
    ) -> Result<Option<Self>> {
        let data_type = column.data_type.to_arrow();
        let has_values = |c: &&segment::Column| c.stats().nulls < c.stats().rows;
        let described: Option<Vec<_>> = stored
            .iter()
            .flatten()
            .copied()
            .filter(has_values)
            .map(|c| c.record().dictionary)
            .collect();
        let Some(described) = described else { return Ok(None) };
        let different: HashMap<u128, u64> =
            described.iter().map(|d| (d.hash, u64::from(d.values))).collect();
        let most = MAX_UNITED.min((rows / ROWS_A_VALUE).max(FEW_UNITED));
        if different.len() > 1 && different.values().sum::<u64>() > most {
            return Ok(None);
        }
        // Each dictionary once, in the order of the segments. Those of other types may have the
        // same hash.
        let (mut dictionaries, mut places) = (Vec::new(), HashMap::new());
        for column in stored.iter().flatten() {
            let Some(dictionary) = column.record().dictionary else { continue };
            let key = (dictionary.hash, column.data_type());
            if let Entry::Vacant(place) = places.entry(key) {
                let Some(values) = column.dictionary()? else { return Ok(None) };
                place.insert(dictionaries.len());
                dictionaries.push(arrow_cast::cast(&values, &data_type).or_corrupt()?);
            }
        }
        let loses_sign = dictionaries.iter().any(has_negative_zero);
        let (values, of_dictionaries) = match dictionaries.as_slice() {
            // Its values are all different, and the first is null.
            [only] if !loses_sign => {
                let same = CodeMap::new((0..only.len() as u32).collect::<Vec<u32>>());
                (Arc::clone(only), vec![same])
            }
            _ => {
                let mut union = Interner::new(&data_type)?;
                // Null is code 0 whether it occurs or not.
                union.intern(&new_null_array(&data_type, 1))?;
                let maps =
                    dictionaries.iter().map(|values| Ok(CodeMap::new(union.intern(values)?)));
                let maps = maps.collect::<Result<Vec<CodeMap>>>()?;
                (union.values()?, maps)
            }
        };
        let map = |column: &Option<&segment::Column>| {
            let column = column.as_ref()?;
            let place = places.get(&(column.record().dictionary?.hash, column.data_type()))?;
            of_dictionaries.get(*place).cloned()
        };
        let domain = values.len() as u64;
        let code_values = CodeValues::Values(values);
        let maps = stored.iter().map(map).collect();
        Ok(Some(CodedKeyColumn {
            at,
            data_type,
            nulls: true,
            domain,
            code_values,
            loses_sign,
            maps,
        }))
    }

    /// Whether code 0 is null.
    pub(super) fn has_null(&self) -> bool {
        self.nulls
    }

    pub(super) fn values(&self, codes: &[u64]) -> Result<ArrayRef> {
        match &self.code_values {
            CodeValues::Values(values) => take(values, &narrow(codes)),
            CodeValues::From(low) => {
                let null = self.nulls && codes.contains(&0);
                let nulls = null.then(|| NullBuffer::from_iter(codes.iter().map(|c| *c != 0)));
                from_words(from_codes(codes, *low, self.nulls), nulls, &self.data_type)
            }
        }
    }

    /// The code of all rows of a block that is stored as one value.
    pub(super) fn constant(&self, block: &OpenBlock<'_>) -> Result<Option<u64>> {
        let reader = match block.column(self.at)? {
            Some(column) if !matches!(column.reader().validity(), Validity::AllNull) => {
                column.reader()
            }
            _ => return Ok(Some(0)),
        };
        if matches!(reader.validity(), Validity::Stream(_)) {
            return Ok(None);
        }
        let bias = self.bias();
        let signed = block.stored(self.at).is_some_and(|c| is_signed(c.data_type()));
        fn value<W: Word>(ints: &Ints<'_, W>, signed: bool) -> Option<u64> {
            let Ints::Constant(constant) = ints else { return None };
            let value = constant.value();
            Some(if signed { Word::to_i64(value) as u64 } else { Word::to_u64(value) })
        }
        Ok(match reader.stream() {
            Stream::Bool(Bools::Constant { value, .. }) => {
                Some(u64::from(*value).wrapping_sub(bias))
            }
            Stream::W8(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::W16(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::W32(ints) => value(ints, signed).map(|v| v.wrapping_sub(bias)),
            Stream::W64(_) | Stream::Wide(_) => {
                let value = reader.longs().and_then(|ints| value(ints, true));
                value.map(|v| v.wrapping_sub(bias))
            }
            Stream::Codes(ints) => match value(ints, false) {
                Some(code) => Some(u64::from(self.translated(code, block.at.segment)?)),
                None => None,
            },
            _ => None,
        })
    }

    /// The codes that rows of a block may have, null's aside, by the dictionary or the zone map.
    pub(super) fn possible(&self, block: &OpenBlock<'_>) -> Option<CodesOfBlock> {
        if let Some(map) = self.maps.get(block.at.segment)? {
            return Some(CodesOfBlock::Dictionary(Arc::clone(&map.codes)));
        }
        let stats = block.stored(self.at)?.block_stats(block.at.block)?;
        let (CodeValues::From(_), Some((min, max))) = (&self.code_values, stats.integers()) else {
            return None;
        };
        let code = |value: i64| (value as u64).wrapping_sub(self.bias());
        Some(CodesOfBlock::Range(code(min), code(max)))
    }

    /// What is taken from a stored whole number to make it a code.
    pub(super) fn bias(&self) -> u64 {
        let low = if let CodeValues::From(low) = &self.code_values { *low } else { 0 };
        low.wrapping_sub(i64::from(self.nulls)) as u64
    }

    fn code_map(&self, segment: usize) -> Result<&CodeMap> {
        self.maps.get(segment).and_then(Option::as_ref).ok_or_else(unknown_code_error)
    }

    pub(super) fn map(&self, segment: usize) -> Result<&[u32]> {
        self.code_map(segment).map(|map| &*map.codes)
    }

    /// The code of each dictionary code of a block, if it has such.
    pub(super) fn map_of(&self, block: &OpenBlock<'_>) -> Result<Option<&[u32]>> {
        match block.column(self.at)?.map(|column| column.reader().stream()) {
            Some(Stream::Codes(_)) => self.map(block.at.segment).map(Some),
            _ => Ok(None),
        }
    }

    /// The code of a code of a segment's dictionary.
    pub(super) fn translated(&self, code: u64, segment: usize) -> Result<u32> {
        let map = self.map(segment)?;
        usize::try_from(code)
            .ok()
            .and_then(|code| map.get(code))
            .copied()
            .ok_or_else(unknown_code_error)
    }

    /// Appends the codes of rows of a block.
    pub(super) fn write<T: Word>(
        &self,
        block: &OpenBlock<'_>,
        rows: Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let len = rows.len();
        let reader = match block.column(self.at)? {
            Some(column) if !matches!(column.reader().validity(), Validity::AllNull) => {
                column.reader()
            }
            _ => {
                out.resize(len, T::default());
                return Ok(());
            }
        };
        let bias = self.bias();
        let signed = block.stored(self.at).is_some_and(|c| is_signed(c.data_type()));
        match reader.stream() {
            Stream::Null => out.resize(len, T::default()),
            Stream::Bool(bools) => {
                let values = bools.decode(rows.clone())?;
                out.extend(values.iter().map(|v| T::from_u64((u64::from(v)).wrapping_sub(bias))));
            }
            Stream::W8(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::W16(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::W32(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
            Stream::W64(_) | Stream::Wide(_) => match reader.longs() {
                Some(ints) => ints.decode_narrow(rows.clone(), bias, signed, out)?,
                None => return Err(Error::corrupt(0, "decimals of more bits than their bounds")),
            },
            Stream::Codes(ints) => self.translate(ints, block.at.segment, rows.clone(), out)?,
            _ => return Err(Error::corrupt(0, "a coded column without codes")),
        }
        reader.validity().blank(out, rows)?;
        check_domain(out, self.domain)
    }

    /// Appends the dictionary codes of a slice's rows, or the column's codes where the segment has
    /// no dictionary.
    pub(super) fn write_raw(&self, slice: &Slice<'_, '_>, out: &mut Vec<u8>) -> Result<()> {
        let block = slice.block;
        match block.column(self.at)?.map(|column| column.reader().stream()) {
            Some(Stream::Codes(ints)) => {
                ints.decode_narrow(slice.range.clone(), 0, false, out)?;
                check_domain(out, self.map(block.at.segment)?.len() as u64)
            }
            _ => self.write(block, slice.range.clone(), out),
        }
    }

    pub(super) fn translate<T: Word>(
        &self,
        codes: &Ints<'_, u32>,
        segment: usize,
        rows: Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let CodeMap { codes: map, is_same } = self.code_map(segment)?;
        if map.len() as u64 - 1 <= u64::MAX >> (64 - T::BITS) {
            codes.decode_narrow(rows, 0, false, out)?;
            check_domain(out, map.len() as u64)?;
            if !is_same {
                for code in out.iter_mut() {
                    *code = T::from_u64(u64::from(map[Word::to_u64(*code) as usize]));
                }
            }
            return Ok(());
        }
        let mut raw: Vec<u32> = Vec::with_capacity(rows.len());
        codes.decode(rows, &mut raw)?;
        for code in raw {
            out.push(T::from_u64(u64::from(self.translated(u64::from(code), segment)?)));
        }
        Ok(())
    }
}

fn is_signed(data_type: &DataType) -> bool {
    matches!(data_type.physical(), Physical::Word { signed: true, .. })
}

/// Least and greatest value (inclusive, as signed words) of a column over segments, and whether
/// there are nulls; `None` where bounds are unknown or the segments do not store the table's values
/// as they are.
fn bounds(table: &DataType, stored: &[Option<&segment::Column>]) -> Option<(Range<i64>, bool)> {
    let (mut low, mut high, mut nulls) = (i64::MAX, i64::MIN, false);
    for column in stored {
        let Some(column) = column else {
            nulls = true;
            continue;
        };
        let stats = column.stats();
        nulls |= stats.nulls > 0;
        if stats.nulls == stats.rows {
            continue;
        }
        let same =
            column.data_type() == table || (column.data_type().is_integer() && table.is_integer());
        let (min, max) = stats.integers()?;
        if !same {
            return None;
        }
        (low, high) = (low.min(min), high.max(max));
    }
    if low > high {
        // Nothing but nulls.
        return Some((0..0, true));
    }
    Some((low..high, nulls))
}
