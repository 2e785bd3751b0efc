//! Columns of decimal floats as keys: amounts, distances, rates. What a block stores as a scaled
//! integer, or a dictionary holds as one, needs no hash: its distance from the least is a small
//! number.

use std::ops::RangeInclusive;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
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

/// A column whose values are all nearest to decimals.
#[derive(Debug)]
pub(super) struct DecimalColumn {
    /// The integer of a value.
    pub(super) int: Expression,
    pub(super) scaling: Scaling,
    pub(super) low: i64,
    /// How many codes there are, null's included.
    pub(super) domain: u64,
}

#[derive(Debug)]
struct ToInt(f64);

impl Function for ToInt {
    fn evaluate(&self, inputs: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
        let nearest = |value: f64| (value * self.0).round() as i64;
        let int = |values: &ArrayRef| -> Int64Array {
            match values.as_primitive_opt::<Float32Type>() {
                Some(singles) => singles.unary(|value| nearest(value.into())),
                None => values.as_primitive::<Float64Type>().unary(nearest),
            }
        };
        Ok(std::sync::Arc::new(
            inputs.iter().map(int).next().unwrap_or_else(|| Int64Array::from(Vec::<i64>::new())),
        ))
    }
}

impl DecimalColumn {
    /// `None` if some block may hold anything else. All blocks of the column are looked at, which
    /// is worth it where their rows are needed anyway.
    pub(super) fn new(at: usize, column: &Column, survivors: &Survivors) -> Result<Option<Self>> {
        let single = match column.data_type {
            DataType::Float32 => true,
            DataType::Float64 => false,
            _ => return Ok(None),
        };
        let mut exponent = 0;
        let mut known = Vec::new();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let prefetch = Prefetch::new(&[], std::iter::once(at));
        let queue = BlockQueue::new(&survivors.blocks, survivors, prefetch);
        while let Some(block) = queue.take() {
            let Some(segment) = survivors.segments.get(block.segment) else { return Ok(None) };
            let Some(stored) = segment.columns.get(at).and_then(Option::as_deref) else { continue };
            if *stored.data_type() != column.data_type {
                return Ok(None);
            }
            let Some(decimals) = exponent_of(stored, block.block, &mut known)? else {
                return Ok(None);
            };
            exponent = exponent.max(decimals);
            if let Some((min, max)) = bounds(stored.stats()) {
                (low, high) = (low.min(min), high.max(max));
            }
        }
        let scaling = Scaling::quotients(exponent, single);
        let few = scaling.bounds(low, high).filter(is_few);
        let Some((low, high)) = few.map(RangeInclusive::into_inner) else { return Ok(None) };
        let traits = Traits { monotone: true, ..Traits::default() };
        let function: std::sync::Arc<dyn Function> =
            std::sync::Arc::new(ToInt(10f64.powi(exponent.into())));
        let text = column.name.as_ref().into();
        let (function, data_type) = (Some(function), ArrowType::Int64);
        let int = Expression { inputs: vec![at], function, data_type, traits, choice: None, text };
        Ok(Some(DecimalColumn { int, scaling, low, domain: (high - low) as u64 + 2 }))
    }
}

/// Appends the codes (integers less `bias`) of all rows of a slice to `out`; false, with nothing
/// appended, where the block does not store decimals.
pub(super) fn write<T: Word>(
    scaling: Scaling,
    at: usize,
    bias: i64,
    slice: &Slice<'_, '_>,
    out: &mut Vec<T>,
) -> Result<bool> {
    let Some(block) = slice.block.column(at)? else { return Ok(false) };
    let Some(stored) = block.reader().scaled() else { return Ok(false) };
    let (Some(most), Some(exponent)) = (scaling.exponent(), stored.scaling.exponent()) else {
        return Ok(false);
    };
    let Some(more) = most.checked_sub(exponent) else { return Ok(false) };
    if more == 0 {
        stored.decode(slice.range.clone(), bias, out)?;
    } else {
        stored.decode(slice.range.clone(), 0, out)?;
        let (factor, bias) = (10u64.wrapping_pow(more.into()), T::from_u64(bias as u64));
        let factor = T::from_u64(factor);
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

/// As many decimals as all values of a block have; `None` if some may have more.
fn exponent_of(
    stored: &segment::Column,
    block: usize,
    known: &mut Vec<(Scaling, RangeInclusive<i64>)>,
) -> Result<Option<u8>> {
    if stored.record().dictionary.is_some() {
        return Ok(stored.scaled_dictionary()?.map(|all| all.exponent));
    }
    let block = stored.block(block)?;
    let reader = block.reader();
    if matches!(reader.validity(), Validity::AllNull) {
        return Ok(Some(0));
    }
    let scaled =
        reader.scaled().filter(|all| all.exceptions() * ROWS_AN_EXCEPTION <= reader.rows());
    let (Some(scaled), Some((min, max))) = (scaled, bounds(stored.stats())) else {
        return Ok(None);
    };
    let few = scaled.scaling.bounds(min, max).filter(is_few);
    if !few.is_some_and(|ints| is_nearest(scaled.scaling, &ints, known)) {
        return Ok(None);
    }
    let mut exponent = scaled.scaling.exponent();
    scaled.each_exception(&(0..reader.rows()), |_, value| {
        exponent = exponent
            .and_then(|exponent| Scaling::decimals_of(value, exponent, scaled.scaling.is_single()));
    })?;
    Ok(exponent)
}

/// Whether there are few integers in a range.
fn is_few(ints: &RangeInclusive<i64>) -> bool {
    ints.end().abs_diff(*ints.start()) < MOST
}

/// Whether all integers of a range stand for the doubles nearest to their decimals; `known` are
/// ranges that do.
fn is_nearest(
    scaling: Scaling,
    ints: &RangeInclusive<i64>,
    known: &mut Vec<(Scaling, RangeInclusive<i64>)>,
) -> bool {
    let covers = |(other, all): &(Scaling, RangeInclusive<i64>)| {
        *other == scaling && all.start() <= ints.start() && all.end() >= ints.end()
    };
    if known.iter().any(covers) {
        return true;
    }
    let nearest = scaling.is_nearest(ints.clone());
    known.extend(nearest.then(|| (scaling, ints.clone())));
    nearest
}

fn bounds(stats: &Stats) -> Option<(f64, f64)> {
    stats.doubles().filter(|(min, max)| !min.is_nan() && !max.is_nan())
}
