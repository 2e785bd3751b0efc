//! Columns of decimal doubles as keys: amounts, distances, rates. What a block stores as a whole
//! number, or a dictionary holds as one, needs no hash: its distance from the least is a small
//! number.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType as ArrowType;

use super::codes::blank_unset;
use crate::block::{Bound, Stream, Validity};
use crate::encoding::Word;
use crate::encoding::floats::{Alp, Floats};
use crate::error::Result;
use crate::expr::{Expression, Function, Traits};
use crate::model::{Column, DataType, Scalar};
use crate::query::open::Survivors;
use crate::query::open::prefetch::{BlockQueue, Prefetch};
use crate::query::slice::Slice;
use crate::segment;

/// Keys of more different values are left to hash tables.
const MOST: i64 = 1 << 24;

/// A column with a block that has more exceptions is left to hash tables.
const ROWS_AN_EXCEPTION: usize = 16;
/// So is one with an exception of more decimals.
const MOST_PLACES: u8 = 6;

/// A column whose values are all whole numbers by a power of ten.
#[derive(Debug)]
pub(super) struct DecimalColumn {
    /// The whole number of a value.
    pub(super) int: Expression,
    /// The power's logarithm.
    pub(super) places: u8,
    pub(super) low: i64,
    /// How many codes there are, null's included.
    pub(super) domain: u64,
}

#[derive(Debug)]
struct Scaled(f64);

impl Function for Scaled {
    fn evaluate(&self, inputs: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
        let int = |values: &ArrayRef| -> Int64Array {
            values.as_primitive::<Float64Type>().unary(|value| (value * self.0).round() as i64)
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
        if column.data_type != DataType::Float64 {
            return Ok(None);
        }
        let mut exponent = 0;
        let mut known = HashSet::new();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let prefetch = Prefetch::new(&[], std::iter::once(at));
        let queue = BlockQueue::new(&survivors.blocks, survivors, prefetch);
        while let Some(block) = queue.take() {
            let Some(segment) = survivors.segments.get(block.segment) else { return Ok(None) };
            let Some(stored) = segment.columns.get(at).and_then(Option::as_deref) else { continue };
            let Some(places) = exponent_of(stored, block.block, &mut known)? else {
                return Ok(None);
            };
            exponent = exponent.max(places);
            if let Some((min, max)) = bounds(&stored.stats().min, &stored.stats().max) {
                (low, high) = (low.min(min), high.max(max));
            }
        }
        let power = 10f64.powi(i32::from(exponent));
        if low > high
            || (high - low) * power >= MOST as f64
            || low.abs().max(high.abs()) * power > 1e15
        {
            return Ok(None);
        }
        let (low, high) = ((low * power).round() as i64, (high * power).round() as i64);
        let traits = Traits { monotone: true, ..Traits::default() };
        let function: std::sync::Arc<dyn Function> = std::sync::Arc::new(Scaled(power));
        let text = column.name.as_ref().into();
        let (function, data_type) = (Some(function), ArrowType::Int64);
        let int = Expression { inputs: vec![at], function, data_type, traits, choice: None, text };
        Ok(Some(DecimalColumn { int, places: exponent, low, domain: (high - low) as u64 + 2 }))
    }
}

/// Appends the codes (whole numbers less `bias`) of all rows of a slice to `out`; false, with
/// nothing appended, where the block does not store the whole numbers of its decimals.
pub(super) fn write<T: Word>(
    places: u8,
    at: usize,
    bias: i64,
    slice: &Slice<'_, '_>,
    out: &mut Vec<T>,
) -> Result<bool> {
    let Some(block) = slice.block.column(at)? else { return Ok(false) };
    let Stream::F64(Floats::Alp(alp)) = block.reader().stream() else { return Ok(false) };
    let more = match places.checked_sub(alp.exponent) {
        Some(more) => u32::from(more),
        None => return Ok(false),
    };
    if more == 0 {
        alp.stored.ints.decode_narrow(slice.range.clone(), bias as u64, true, out)?;
    } else {
        alp.stored.ints.decode_narrow(slice.range.clone(), 0, true, out)?;
        let (factor, bias) = (T::from_u64(10u64.wrapping_pow(more)), T::from_u64(bias as u64));
        out.iter_mut().for_each(|code| *code = Word::sub(Word::mul(*code, factor), bias));
    }
    let power = 10f64.powi(i32::from(places));
    alp.stored.exceptions.apply(&slice.range, |row, word| {
        if let Some(code) = out.get_mut(row) {
            let int = (f64::from_bits(word) * power).round() as i64;
            *code = T::from_u64(int.wrapping_sub(bias) as u64);
        }
    })?;
    if let Validity::Stream(valid) = block.reader().validity() {
        blank_unset(out, valid, slice.range.clone())?;
    }
    Ok(true)
}

/// As many decimals as all values of a block have; `None` if some may have more.
fn exponent_of(
    stored: &segment::Column,
    block: usize,
    known: &mut HashSet<(u8, u8, i64, i64)>,
) -> Result<Option<u8>> {
    if *stored.data_type() != DataType::Float64 {
        return Ok(None);
    }
    if stored.record().dictionary.is_some() {
        return Ok(stored.scaled_dictionary()?.map(|scaled| scaled.exponent));
    }
    let block = stored.block(block)?;
    let reader = block.reader();
    if matches!(reader.validity(), Validity::AllNull) {
        return Ok(Some(0));
    }
    match reader.stream() {
        Stream::Null => Ok(Some(0)),
        Stream::F64(Floats::Alp(alp))
            if alp.stored.exceptions.len() * ROWS_AN_EXCEPTION <= reader.rows() =>
        {
            let Some((min, max)) = bounds(&stored.stats().min, &stored.stats().max) else {
                return Ok(None);
            };
            if !is_exact(alp, min, max, known) {
                return Ok(None);
            }
            let mut places = Some(alp.exponent);
            alp.stored.exceptions.apply(&(0..reader.rows()), |_, word| {
                places =
                    places.and_then(|places| Some(places.max(places_of(f64::from_bits(word))?)));
            })?;
            Ok(places)
        }
        _ => Ok(None),
    }
}

/// As many decimals as a value has, if it is nearest to a decimal of few.
fn places_of(value: f64) -> Option<u8> {
    let is_near = |places: &u8| {
        let power = 10f64.powi(i32::from(*places));
        let int = (value * power).round();
        int.abs() < 1e15 && (int as i64 as f64 / power).to_bits() == value.to_bits()
    };
    (0..=MOST_PLACES).find(is_near)
}

/// Whether all whole numbers from that of `min` to that of `max` stand for the doubles nearest to
/// their decimals.
fn is_exact(
    alp: &Alp<'_, f64>,
    min: f64,
    max: f64,
    known: &mut HashSet<(u8, u8, i64, i64)>,
) -> bool {
    let power = 10f64.powi(i32::from(alp.exponent));
    if (max - min) * power >= MOST as f64 || min.abs().max(max.abs()) * power > 1e15 {
        return false;
    }
    let (least, greatest) = ((min * power).round() as i64, (max * power).round() as i64);
    let (exponent, head) = (alp.exponent, alp.head_bits());
    let covers = |&(e, h, low, high): &(u8, u8, i64, i64)| {
        e == exponent && h == head && low <= least && high >= greatest
    };
    if known.iter().any(covers) {
        return true;
    }
    let exact = |int: i64| alp.value(int as u64).to_bits() == (int as f64 / power).to_bits();
    let all = (least..=greatest).all(exact);
    known.extend(all.then_some((exponent, head, least, greatest)));
    all
}

fn bounds(min: &Option<Bound>, max: &Option<Bound>) -> Option<(f64, f64)> {
    match (&min.as_ref()?.value, &max.as_ref()?.value) {
        (Scalar::Float(min), Scalar::Float(max)) if !min.is_nan() && !max.is_nan() => {
            Some((*min, *max))
        }
        _ => None,
    }
}
