//! Measures the statistics of a block's values while they are in cache.

use std::cmp::Ordering;

use arrow_buffer::BooleanBuffer;

use super::stats::{Bound, Order, Stats, lower_bound, upper_bound};
use super::values::{Gathered, Values, to_number};
use crate::encoding::Word;
use crate::encoding::kernels::dispatch::simd;
use crate::model::{Physical, Scalar};

/// Statistics of gathered values of this physical type.
pub(crate) fn measure(gathered: &Gathered<'_>, physical: Physical) -> Stats {
    let nulls = gathered.nulls();
    let mut stats = Stats { rows: gathered.rows as u64, nulls: nulls as u64, ..Stats::default() };
    if nulls == gathered.rows {
        return stats;
    }
    let signed = matches!(physical, Physical::Word { signed: true, .. });
    let valid = gathered.validity.as_ref();
    match &gathered.values {
        Values::Null => {}
        Values::Bool(bits) => bools(bits, gathered, &mut stats),
        Values::W8(v) => words(v, signed, valid, &mut stats),
        Values::W16(v) => words(v, signed, valid, &mut stats),
        Values::W32(v) => words(v, signed, valid, &mut stats),
        Values::W64(v) => words(v, signed, valid, &mut stats),
        Values::F32(v) => floats(v, |v| f64::from(*v), valid, &mut stats),
        Values::F64(v) => floats(v, |v| *v, valid, &mut stats),
        Values::Wide(v) => {
            measure_order(v, Ord::cmp, &mut stats);
            numbers(v.iter().copied(), Scalar::Int, &mut stats);
            stats.sum = only_valid(v, valid).try_fold(0i128, |sum, &v| sum.checked_add(v));
        }
        Values::Bytes(v) => bytes(v, &mut stats),
    }
    stats
}

fn only_valid<'v, T>(
    values: &'v [T],
    valid: Option<&'v BooleanBuffer>,
) -> impl Iterator<Item = &'v T> {
    values
        .iter()
        .enumerate()
        .filter(move |(i, _)| valid.is_none_or(|v| v.value(*i)))
        .map(|(_, v)| v)
}

fn exact(value: Scalar) -> Option<Bound> {
    Some(Bound { value, exact: true })
}

fn bools(bits: &BooleanBuffer, gathered: &Gathered<'_>, stats: &mut Stats) {
    let values = stats.rows - stats.nulls;
    let set = match &gathered.validity {
        Some(valid) => (bits & valid).count_set_bits(),
        None => bits.count_set_bits(),
    } as u64;
    stats.min = exact(Scalar::Int(i128::from(set == values)));
    stats.max = exact(Scalar::Int(i128::from(set > 0)));
    stats.distinct = Some(if set == 0 || set == values { 1 } else { 2 });
}

/// Null slots repeat a valid value, so minimum and maximum may include every slot.
fn numbers<T: Copy + Ord>(
    values: impl Iterator<Item = T> + Clone,
    scalar: impl Fn(T) -> Scalar,
    stats: &mut Stats,
) {
    stats.min = values.clone().min().and_then(|v| exact(scalar(v)));
    stats.max = values.max().and_then(|v| exact(scalar(v)));
}

fn words<W: Word>(values: &[W], signed: bool, valid: Option<&BooleanBuffer>, stats: &mut Stats) {
    // Flipping the sign bit turns signed order into unsigned order.
    let flip = if signed { W::from_u64(1 << (W::BITS - 1)) } else { W::default() };
    let (min, max, order) = simd(
        #[inline(always)]
        || bounds(values, |value| Word::add(*value, flip), W::from_u64(u64::MAX), W::default()),
    );
    let number = |flipped: W| to_number(Word::add(flipped, flip), signed);
    stats.min = exact(Scalar::Int(number(min)));
    stats.max = exact(Scalar::Int(number(max)));
    if stats.nulls == 0 {
        stats.order = order;
    }
    let masks: Option<Vec<u64>> = valid.map(|valid| valid.bit_chunks().iter_padded().collect());
    stats.sum = Some(simd(
        #[inline(always)]
        || match &masks {
            None => sum_words(values, signed, std::iter::repeat(u64::MAX)),
            Some(masks) => sum_words(values, signed, masks.iter().copied()),
        },
    ));
    let range = number(max) - number(min);
    stats.distinct = Some(((range + 1).min(i128::from(stats.rows - stats.nulls))) as u64);
}

/// The least and the greatest key of values, and their order, in loops that can be vectorised.
#[inline(always)]
fn bounds<T, K: Copy + Ord>(
    values: &[T],
    key: impl Fn(&T) -> K,
    greatest: K,
    least: K,
) -> (K, K, Order) {
    let (mut min, mut max) = (greatest, least);
    for value in values {
        min = min.min(key(value));
        max = max.max(key(value));
    }
    let (mut rises, mut falls, mut repeats) = (false, false, false);
    for (before, value) in values.iter().zip(&values[1..]) {
        let (before, value) = (key(before), key(value));
        rises |= value > before;
        falls |= value < before;
        repeats |= value == before;
    }
    (min, max, Order { ascending: !falls, descending: !rises, strict: !repeats })
}

/// Sums the values whose bit is set in `masks`, 64 values to a mask: the low and the high 32 bits
/// separately in 64 bits, so that the loop can be vectorised.
#[inline(always)]
fn sum_words<W: Word>(values: &[W], signed: bool, masks: impl Iterator<Item = u64>) -> i128 {
    let mut total = 0i128;
    for (piece, mask) in values.chunks(64).zip(masks) {
        let (mut low, mut high) = (0u64, 0i64);
        for (at, &value) in piece.iter().enumerate() {
            let bits = if signed { value.to_i64() as u64 } else { value.to_u64() };
            let kept = bits & 0u64.wrapping_sub(mask >> at & 1);
            low += kept & 0xFFFF_FFFF;
            high += if signed { kept as i64 >> 32 } else { (kept >> 32) as i64 };
        }
        total += i128::from(low) + (i128::from(high) << 32);
    }
    total
}

fn floats<T>(
    values: &[T],
    widen: impl Fn(&T) -> f64,
    valid: Option<&BooleanBuffer>,
    stats: &mut Stats,
) {
    // The integer that orders floats as IEEE 754 totalOrder does.
    let key = |v: &T| {
        let bits = widen(v).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    };
    let from_key = |key: i64| f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64);
    let (min, max, order, nans) = simd(
        #[inline(always)]
        || {
            let (min, max, order) = bounds(values, key, i64::MAX, i64::MIN);
            let nans: u64 = values.iter().map(|v| u64::from(widen(v).is_nan())).sum();
            (min, max, order, nans)
        },
    );
    stats.min = exact(Scalar::Float(from_key(min)));
    stats.max = exact(Scalar::Float(from_key(max)));
    if stats.nulls == 0 {
        stats.order = order;
    }
    stats.nans = match valid.filter(|_| nans > 0) {
        None => nans,
        // Null slots repeat a valid value.
        Some(_) => only_valid(values, valid).filter(|v| widen(v).is_nan()).count() as u64,
    };
}

fn measure_order<T>(values: &[T], compare: impl Fn(&T, &T) -> Ordering, stats: &mut Stats) {
    if stats.nulls > 0 {
        return;
    }
    let (mut rises, mut falls, mut equal) = (false, false, false);
    for pair in values.windows(2) {
        match compare(&pair[0], &pair[1]) {
            Ordering::Less => rises = true,
            Ordering::Greater => falls = true,
            Ordering::Equal => equal = true,
        }
    }
    stats.order = Order { ascending: !falls, descending: !rises, strict: !equal };
}

fn bytes(values: &[&[u8]], stats: &mut Stats) {
    let (mut min, mut max) = (values[0], values[0]);
    let (mut rises, mut falls, mut equal) = (false, false, false);
    let mut last = values[0];
    for &value in &values[1..] {
        match value.cmp(last) {
            // An ascent can only raise the maximum, a descent only lower the minimum.
            Ordering::Equal => equal = true,
            Ordering::Less => {
                falls = true;
                min = min.min(value);
            }
            Ordering::Greater => {
                rises = true;
                max = max.max(value);
            }
        }
        last = value;
    }
    stats.min = Some(lower_bound(min));
    stats.max = upper_bound(max);
    if stats.nulls == 0 {
        stats.order = Order { ascending: !falls, descending: !rises, strict: !equal };
    }
}
