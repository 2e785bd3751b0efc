//! Codes of expressions over a column, once for each integer that stands for a double and not for
//! each row: distances to a hundredth are few thousand numbers, whatever is computed of them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::DataType as ArrowType;

use super::codes::{as_floats, words_of};
use crate::block::Stream;
use crate::encoding::scaled::{Scaled, Scaling, StoredInts};
use crate::encoding::{Ints, Word};
use crate::error::Result;
use crate::expr::Expression;
use crate::query::open::{OpenBlock, PerBlock, PerSegment, Survivors};
use crate::query::slice::Slice;

/// The code of an expression for each integer that stands for a double in a block or segment, from
/// the least one on, or for each code of a dictionary.
#[derive(Debug)]
struct CodeMap {
    /// What the integers stand for; `None` of a dictionary.
    scaling: Option<Scaling>,
    least: u64,
    codes: Arc<[u32]>,
}

/// The maps of a key: each is made once for a segment, and found once for a block.
#[derive(Debug)]
pub(super) struct CodeMaps {
    of_segments: PerSegment<Mutex<Vec<Arc<CodeMap>>>>,
    of_blocks: PerBlock<Option<Arc<CodeMap>>>,
}

impl CodeMaps {
    pub(super) fn new(survivors: &Survivors) -> Self {
        CodeMaps { of_segments: PerSegment::new(survivors), of_blocks: PerBlock::new(survivors) }
    }

    /// Appends the codes (words less `bias`) of all rows of a slice to `out`; false, with nothing
    /// appended, where the block does not store few integers.
    pub(super) fn write<T: Word>(
        &self,
        key: &Expression,
        at: usize,
        bias: i64,
        slice: &Slice<'_, '_>,
        out: &mut Vec<T>,
    ) -> Result<bool> {
        let Some(block) = slice.block.column(at)? else { return Ok(false) };
        let reader = block.reader();
        if let Stream::Codes(ints) = reader.stream() {
            let make = || of_dictionary(key, at, bias, slice.block);
            let Some(map) = self.of_block(None, slice.block, make) else { return Ok(false) };
            map.look_up(ints, slice.range.clone(), out)?;
        } else {
            let Some(scaled) = reader.scaled() else { return Ok(false) };
            let make = || of_doubles(key, at, bias, scaled.scaling, slice.block);
            let map = self.of_block(Some(scaled.scaling), slice.block, make);
            let Some(map) = map else { return Ok(false) };
            match scaled.ints {
                StoredInts::Singles(ints) => map.look_up(ints, slice.range.clone(), out)?,
                StoredInts::Doubles(ints) => map.look_up(ints, slice.range.clone(), out)?,
            }
            let data_type = slice.block.table_type(at)?.to_arrow();
            exceptions((key, &data_type), bias, &scaled, slice.range.clone(), out)?;
        }
        reader.validity().blank(out, slice.range.clone())?;
        Ok(true)
    }

    /// The codes of the dictionary of a block's segment, null's first; `None` if there is none, or
    /// it is too large.
    pub(super) fn of_dictionary(
        &self,
        key: &Expression,
        at: usize,
        bias: i64,
        block: &OpenBlock<'_>,
    ) -> Result<Option<Arc<[u32]>>> {
        let stream = block.column(at)?.map(|column| column.reader().stream());
        let Some(Stream::Codes(_)) = stream else { return Ok(None) };
        let map = self.of_block(None, block, || of_dictionary(key, at, bias, block));
        Ok(map.map(|map| Arc::clone(&map.codes)))
    }

    fn of_block(
        &self,
        scaling: Option<Scaling>,
        block: &OpenBlock<'_>,
        make: impl FnOnce() -> Option<CodeMap>,
    ) -> Option<Arc<CodeMap>> {
        let found = || self.of_segment(scaling, block.at.segment, make);
        self.of_blocks.get_or_init(block.at, found)?.clone()
    }

    /// The map of a segment, made if it is not there.
    fn of_segment(
        &self,
        scaling: Option<Scaling>,
        segment: usize,
        make: impl FnOnce() -> Option<CodeMap>,
    ) -> Option<Arc<CodeMap>> {
        let slot = self.of_segments.get_or_init(segment, Mutex::default)?;
        let known = || slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = known().iter().find(|map| map.scaling == scaling) {
            return Some(Arc::clone(map));
        }
        let map = Arc::new(make()?);
        known().push(Arc::clone(&map));
        Some(map)
    }
}

/// Codes of values that are stored as they are; the key's input is of a type.
fn exceptions<T: Word>(
    (key, data_type): (&Expression, &ArrowType),
    bias: i64,
    scaled: &Scaled<'_, '_>,
    rows: Range<usize>,
    out: &mut [T],
) -> Result<()> {
    let (mut places, mut values) = (Vec::new(), Vec::new());
    scaled.each_exception(&rows, |row, value| {
        places.push(row);
        values.push(value);
    })?;
    if places.is_empty() {
        return Ok(());
    }
    let results = evaluate(key, as_floats(Float64Array::from(values), data_type)?, bias)?;
    for (row, word) in places.into_iter().zip(results) {
        if let Some(code) = out.get_mut(row) {
            *code = T::from_u64(word.wrapping_sub(bias) as u64);
        }
    }
    Ok(())
}

impl CodeMap {
    fn look_up<W: Word, T: Word>(
        &self,
        ints: &Ints<'_, W>,
        rows: Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<()> {
        if self.codes.len() <= 1 << u16::BITS {
            self.look_up_in::<W, T, u16>(ints, rows, out)
        } else {
            self.look_up_in::<W, T, u32>(ints, rows, out)
        }
    }

    fn look_up_in<W: Word, T: Word, P: Word>(
        &self,
        ints: &Ints<'_, W>,
        rows: Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let mut places: Vec<P> = Vec::with_capacity(rows.len());
        ints.decode_narrow(rows, self.least, self.scaling.is_some(), &mut places)?;
        // What null rows hold may lie anywhere.
        let code = |place: &P| self.codes.get(Word::to_u64(*place) as usize).copied().unwrap_or(0);
        out.extend(places.iter().map(|place| T::from_u64(u64::from(code(place)))));
        Ok(())
    }
}

/// Null is `bias`, so that its code is 0.
fn evaluate(key: &Expression, values: ArrayRef, bias: i64) -> Result<Vec<i64>> {
    let rows = values.len();
    let results = key.evaluate(&[values], rows)?;
    let word = |(at, word): (usize, &i64)| if results.is_null(at) { bias } else { *word };
    Ok(words_of(&results)
        .map(|words| words.iter().enumerate().map(word).collect())
        .unwrap_or_default())
}

/// Words as codes, unless one is too large.
fn codes(words: &[i64], bias: i64) -> Option<Arc<[u32]>> {
    words.iter().map(|word| u32::try_from(word.wrapping_sub(bias)).ok()).collect()
}

/// `None` if the segment has more integers than are worth it, or the expression fails for one of
/// them.
fn of_doubles(
    key: &Expression,
    at: usize,
    bias: i64,
    scaling: Scaling,
    block: &OpenBlock<'_>,
) -> Option<CodeMap> {
    let stored = block.stored(at)?;
    let (min, max) = stored.stats().doubles()?;
    let bounds = scaling.bounds(min, max)?;
    let (least, most) = (*bounds.start(), (block.rows / 2).min(usize::from(u16::MAX)) as u64);
    if bounds.end().abs_diff(least) >= most {
        return None;
    }
    let values: Vec<f64> = bounds.map(|int| scaling.value(int)).collect();
    let data_type = block.table_type(at).ok()?.to_arrow();
    let values = as_floats(Float64Array::from(values), &data_type).ok()?;
    let words = evaluate(key, values, bias).ok()?;
    let codes = codes(&words, bias)?;
    Some(CodeMap { scaling: Some(scaling), least: least as u64, codes })
}

/// `None` if the dictionary is large, or the expression fails for one of its values.
fn of_dictionary(key: &Expression, at: usize, bias: i64, block: &OpenBlock<'_>) -> Option<CodeMap> {
    let dictionary = block.stored(at)?.dictionary().ok()??;
    if dictionary.len() as u64 > block.segment.segment.rows() / 2 {
        return None;
    }
    let values = arrow_cast::cast(&dictionary, &block.table_type(at).ok()?.to_arrow()).ok()?;
    let mut words = evaluate(key, values, bias).ok()?;
    // Null is code 0 on both sides.
    *words.first_mut()? = bias;
    Some(CodeMap { scaling: None, least: 0, codes: codes(&words, bias)? })
}
