//! Columns of doubles as keys that are stored as integers: amounts, distances, rates, coordinates.
//! What a block stores as a scaled integer, or a dictionary holds as one, needs no hash: its
//! distance from the least is a small number.

use std::ops::RangeInclusive;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType as ArrowType;

use super::codes::out_of_bounds_error;
use crate::block::{Stats, Validity};
use crate::encoding::Word;
use crate::encoding::scaled::Scaling;
use crate::error::Result;
use crate::expr::{Expression, Function, Traits};
use crate::model::{Column, DataType};
use crate::query::open::Survivors;
use crate::query::open::prefetch::{BlockQueue, Prefetch};
use crate::query::slice::Slice;
use crate::segment;

/// Keys of more different values are left to hash tables.
const MOST: u64 = 1 << 24;

/// A column with a block that has more exceptions is left to hash tables.
const ROWS_AN_EXCEPTION: usize = 16;

/// A column whose values are all integers under one scaling.
#[derive(Debug)]
pub(super) struct ScaledColumn {
    /// The integer of a value.
    pub(super) int: Expression,
    pub(super) scaling: Scaling,
    pub(super) low: i64,
    /// How many codes there are, null's included.
    pub(super) domain: u64,
}

#[derive(Debug)]
struct ToInt(Scaling);

impl Function for ToInt {
    fn evaluate(&self, inputs: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
        // What has no integer lies outside of all bounds, and is refused.
        let int = |values: &ArrayRef| -> Int64Array {
            values.as_primitive::<Float64Type>().unary(|v| self.0.int(v).unwrap_or(i64::MAX))
        };
        Ok(std::sync::Arc::new(
            inputs.iter().map(int).next().unwrap_or_else(|| Int64Array::from(Vec::<i64>::new())),
        ))
    }
}

impl ScaledColumn {
    /// `None` if some block may hold anything else. All blocks of the column are looked at, which
    /// is worth it where their rows are needed anyway.
    pub(super) fn new(at: usize, column: &Column, survivors: &Survivors) -> Result<Option<Self>> {
        if column.data_type != DataType::Float64 {
            return Ok(None);
        }
        let mut scalings = Scalings::default();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let prefetch = Prefetch::new(&[], std::iter::once(at));
        let queue = BlockQueue::new(&survivors.blocks, survivors, prefetch);
        while let Some(block) = queue.take() {
            let Some(segment) = survivors.segments.get(block.segment) else { return Ok(None) };
            let Some(stored) = segment.columns.get(at).and_then(Option::as_deref) else { continue };
            if !scalings.add_block(stored, block.block)? {
                return Ok(None);
            }
            if let Some((min, max)) = bounds(stored.stats()) {
                (low, high) = (low.min(min), high.max(max));
            }
        }
        let Some(scaling) = scalings.common else { return Ok(None) };
        let few = scaling.bounds(low, high).filter(is_few);
        let same = few.filter(|ints| scalings.agree_over(ints));
        let Some((low, high)) = same.map(RangeInclusive::into_inner) else { return Ok(None) };
        let traits = Traits { monotone: true, ..Traits::default() };
        let function: std::sync::Arc<dyn Function> = std::sync::Arc::new(ToInt(scaling));
        let text = column.name.as_ref().into();
        let (function, data_type) = (Some(function), ArrowType::Int64);
        let int = Expression { inputs: vec![at], function, data_type, traits, choice: None, text };
        Ok(Some(ScaledColumn { int, scaling, low, domain: (high - low) as u64 + 2 }))
    }
}

/// Appends the codes (integers less `bias`) of all rows of a slice to `out`; false, with nothing
/// appended, where the block does not store integers.
pub(super) fn write<T: Word>(
    scaling: Scaling,
    at: usize,
    bias: i64,
    slice: &Slice<'_, '_>,
    out: &mut Vec<T>,
) -> Result<bool> {
    let Some(block) = slice.block.column(at)? else { return Ok(false) };
    let Some(stored) = block.reader().scaled() else { return Ok(false) };
    let Some(factor) = scaling.factor(stored.scaling) else { return Ok(false) };
    if factor == 1 {
        stored.decode(slice.range.clone(), bias, out)?;
    } else {
        stored.decode(slice.range.clone(), 0, out)?;
        let (factor, bias) = (T::from_u64(factor), T::from_u64(bias as u64));
        out.iter_mut().for_each(|code| *code = Word::sub(Word::mul(*code, factor), bias));
    }
    let mut unknown = Vec::new();
    stored.each_exception(&slice.range, |row, value| {
        let Some(code) = out.get_mut(row) else { return };
        let int = scaling.int(value);
        *code = int.map_or(T::from_u64(1), |int| T::from_u64(int.wrapping_sub(bias) as u64));
        unknown.extend(int.is_none().then_some(row));
    })?;
    block.reader().validity().blank(out, slice.range.clone())?;
    // Null is 0, and may hold any value.
    if unknown.iter().any(|row| out.get(*row).is_some_and(|code| *code != T::default())) {
        return Err(out_of_bounds_error());
    }
    Ok(true)
}

/// The scalings of the blocks of a column.
#[derive(Default)]
struct Scalings {
    /// One for all; `None` as long as there is no value.
    common: Option<Scaling>,
    /// Each, with the integers that blocks may have under it.
    each: Vec<(Scaling, RangeInclusive<i64>)>,
}

impl Scalings {
    /// Adds that of a block; false if it has none that goes with the others.
    fn add_block(&mut self, stored: &segment::Column, block: usize) -> Result<bool> {
        if *stored.data_type() != DataType::Float64 {
            return Ok(false);
        }
        if stored.record().dictionary.is_some() {
            let all = stored.scaled_dictionary()?.map(|all| Scaling::quotients(all.exponent));
            return Ok(all.is_some_and(|all| self.add(all, 0..=0)));
        }
        let block = stored.block(block)?;
        let reader = block.reader();
        if matches!(reader.validity(), Validity::AllNull) {
            return Ok(true);
        }
        let scaled =
            reader.scaled().filter(|all| all.exceptions() * ROWS_AN_EXCEPTION <= reader.rows());
        let (Some(scaled), Some((min, max))) = (scaled, bounds(stored.stats())) else {
            return Ok(false);
        };
        let few = scaled.scaling.bounds(min, max).filter(is_few);
        let mut exact = few.is_some_and(|ints| self.add(scaled.scaling, ints));
        scaled.each_exception(&(0..reader.rows()), |_, value| {
            let with = scaled.scaling.with(value).filter(|_| exact);
            exact = with.is_some_and(|with| with == scaled.scaling || self.add(with, 0..=0));
        })?;
        Ok(exact)
    }

    fn add(&mut self, scaling: Scaling, ints: RangeInclusive<i64>) -> bool {
        match self.each.iter_mut().find(|(known, _)| *known == scaling) {
            Some((_, all)) => *all = *all.start().min(ints.start())..=*all.end().max(ints.end()),
            None => self.each.push((scaling, ints)),
        }
        self.common = self.common.unwrap_or(scaling).common(scaling);
        self.common.is_some()
    }

    /// Whether an integer, one of `ints` under the common scaling, is the same value in all blocks.
    fn agree_over(&self, ints: &RangeInclusive<i64>) -> bool {
        let nearest =
            |scaling: Scaling, ints: &RangeInclusive<i64>| scaling.is_nearest(ints.clone());
        let common = self.common.is_some_and(|common| nearest(common, ints));
        self.each.len() == 1 || (common && self.each.iter().all(|(one, ints)| nearest(*one, ints)))
    }
}

/// Whether there are few integers in a range.
fn is_few(ints: &RangeInclusive<i64>) -> bool {
    ints.end().abs_diff(*ints.start()) < MOST
}

fn bounds(stats: &Stats) -> Option<(f64, f64)> {
    stats.doubles().filter(|(min, max)| !min.is_nan() && !max.is_nan())
}
