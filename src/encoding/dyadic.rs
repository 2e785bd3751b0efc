//! Dyadic: doubles some of which were decimals and the others widened f32 values, such as
//! coordinates from several devices. ALP would store the latter as exceptions. Words sort in the
//! order of the values.
//!
//! ```text
//! encoding 15 (u8) │ exponent u8 │ head bits u8 │ k u8 │ ints (stream of signed words)
//!                  │ exceptions (bits of floats)
//! ```
//!
//! The upper bits of a word are an integer `int`; the lowest bit says what it stands for: 0, the
//! decimal `int · 10^-exponent`, computed as ALP does; 1, the multiple of 2^-k between that decimal
//! and the next one. Since 2^-k is at least 10^-exponent, there is at most one. A value that does
//! not round-trip bit for bit is an exception.

use std::ops::Range;

use super::alp::{self, Scale};
use super::exceptions::{self, Corrected};
use super::float::{Float, MAGIC};
use super::ints;
use super::kernels::dispatch::simd;
use super::{Encoding, Options, Sink, Source, Word, floats};
use crate::error::Result;
use crate::limits::VECTOR;

/// Sampled values from which the parameters are chosen.
const SAMPLE: usize = 512;
/// The finest multiples are of 2^-40; finer ones leave too little range for decimals.
const MAX_FRACTION: u8 = 40;
/// Added to a signed word to make it positive for a logical shift.
const BIAS: u64 = 1 << 62;

/// Decimals of one exponent, and multiples of 2^-fraction between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    scale: Scale,
    fraction: u8,
    power: f64,
    /// 2^-fraction, exact.
    unit: f64,
}

impl Grid {
    fn new(scale: Scale, fraction: u8) -> Option<Self> {
        (fraction <= MAX_FRACTION).then(|| {
            let power = (1u64 << fraction) as f64;
            Grid { scale, fraction, power, unit: 1.0 / power }
        })
    }

    /// The number of decimals of values whose words have lowest bit 0.
    pub(super) fn exponent(&self) -> u8 {
        self.scale.exponent()
    }

    /// The value of a word.
    #[inline(always)]
    pub(super) fn decode<F: Float>(&self, word: F::Bits) -> F {
        let word = Word::to_i64(word) as u64;
        let int = (word.wrapping_add(BIAS) >> 1).wrapping_sub(BIAS >> 1);
        let decimal: F = self.scale.decode(Word::from_u64(int));
        let multiple = self.multiple_above(decimal);
        if word & 1 == 0 { decimal } else { multiple }
    }

    /// The word of a value, and whether the value round-trips. It has no branches, because whether
    /// a value is a decimal is unpredictable.
    #[inline(always)]
    fn encode<F: Float>(&self, value: F) -> (F::Bits, bool) {
        let near = self.scale.encode(value);
        // The neighbouring decimals are in the range that decodes.
        let in_range = F::widen(near).abs() < F::MAX_INT / 2.0 - 1.0;
        let decimal = |int: i64| -> F { self.scale.decode(Word::from_u64(int as u64)) };
        let (near, nearest) = (Word::to_i64(near), self.scale.decode::<F>(near));
        let is_decimal = nearest.to_word() == value.to_word();
        let below = near.wrapping_sub(i64::from(nearest >= value));
        let (low, high) = (decimal(below), decimal(below.wrapping_add(1)));
        let multiple = self.multiple_above(low).to_word() == value.to_word();
        let is_multiple = (low < value) & (value < high) & multiple;
        let word = if is_decimal { near << 1 } else { below << 1 | 1 };
        (F::Bits::from_u64(word as u64), in_range & (is_decimal | is_multiple))
    }

    /// The multiple of the unit above a decimal.
    #[inline(always)]
    fn multiple_above<F: Float>(&self, decimal: F) -> F {
        let above = (decimal.to_f64() * self.power + 0.5 + MAGIC) - MAGIC;
        F::from_f64(above * self.unit)
    }
}

/// The grid for values some of which fit `decimals`, if most of the others are multiples of a power
/// of two.
pub(super) fn fit<F: Float>(values: &[F], decimals: Scale) -> Option<Grid> {
    let sample = floats::scattered(values, SAMPLE);
    let others: Vec<F> = sample.iter().copied().filter(|v| !decimals.round_trips(*v)).collect();
    if others.len() < sample.len() / 16 {
        return None;
    }
    let mut fractions: Vec<u8> = others.iter().filter_map(|v| fraction(v.to_f64())).collect();
    if fractions.is_empty() || fractions.len() * 2 < others.len() {
        return None;
    }
    fractions.sort_unstable();
    let fraction = *fractions.get(fractions.len() - 1 - fractions.len() / 64)?;
    let least = (f64::from(fraction) * std::f64::consts::LOG10_2).ceil() as u8;
    Grid::new(alp::best_scale(&sample, decimals.exponent().max(least))?, fraction)
}

/// A grid for any values, mostly as exceptions, where the encoding is forced.
pub(super) fn fit_any<F: Float>(values: &[F]) -> Option<Grid> {
    let decimals = alp::fit(values).or_else(|| alp::best_scale::<F>(&[], 0))?;
    fit(values, decimals).or_else(|| Grid::new(decimals, 0))
}

/// The least k such that the number is a multiple of 2^-k.
fn fraction(v: f64) -> Option<u8> {
    let exponent = (v.to_bits() >> 52 & 0x7ff) as i64 - 1075;
    let zeros = (v.to_bits() & ((1 << 52) - 1) | 1 << 52).trailing_zeros();
    u8::try_from((-exponent - i64::from(zeros)).max(0))
        .ok()
        .filter(|k| *k <= MAX_FRACTION && v.is_finite())
}

/// Appends `values` on a grid.
pub(super) fn encode<F: Float>(values: &[F], grid: Grid, child: &Options, sink: &mut Sink) {
    let mut ints: Vec<F::Bits> = Vec::with_capacity(values.len());
    let mut positions: Vec<u32> = Vec::new();
    let mut fits = [false; VECTOR];
    for piece in values.chunks(VECTOR) {
        let base = ints.len();
        ints.resize(base + piece.len(), F::Bits::default());
        let fits = &mut fits[..piece.len()];
        simd(
            #[inline(always)]
            || {
                for ((value, int), fits) in piece.iter().zip(&mut ints[base..]).zip(&mut *fits) {
                    (*int, *fits) = grid.encode(*value);
                }
            },
        );
        if fits.contains(&false) {
            positions.extend(
                fits.iter()
                    .enumerate()
                    .filter(|(_, fits)| !**fits)
                    .map(|(at, _)| (base + at) as u32),
            );
        }
    }
    alp::fill_exceptions(&mut ints, &positions);
    let words: Vec<F::Bits> = positions.iter().map(|&at| values[at as usize].to_word()).collect();
    sink.head().u8(Encoding::Dyadic as u8);
    grid.scale.write(sink);
    sink.head().u8(grid.fraction);
    ints::encode(&ints, true, child, sink);
    exceptions::encode(&positions, &words, child, sink);
}

/// Floats on a grid of decimals and multiples of a power of two.
#[derive(Debug)]
pub struct Dyadic<'a, F: Float> {
    /// Signed words that sort in the order of the values.
    pub(super) stored: Corrected<'a, F>,
    pub(super) grid: Grid,
}

impl<'a, F: Float> Dyadic<'a, F> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let scale = Scale::parse(source)?;
        let fraction = source.cursor.u8()?;
        let Some(grid) = Grid::new(scale, fraction) else {
            return Err(source.cursor.corrupt(format!("multiples of 2^-{fraction}")));
        };
        let stored = Corrected::parse(source, rows)?;
        Ok(Dyadic { stored, grid })
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<F>) -> Result<()> {
        self.stored.decode(rows, |word| self.grid.decode(word), out)
    }

    pub(super) fn gather(&self, rows: &[u32], out: &mut Vec<F>) -> Result<()> {
        self.stored.gather(rows, |word| self.grid.decode(word), out)
    }

    pub(super) fn get(&self, row: usize) -> Result<F> {
        self.stored.get(row, |word| self.grid.decode(word))
    }

    pub(super) fn describe(&self, out: &mut String) {
        let Grid { scale, fraction, .. } = &self.grid;
        out.push_str(&format!("dyadic {} decimals {fraction} bits(", scale.exponent()));
        self.stored.describe(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Profile;

    /// Coordinates; every other one is a widened f32.
    fn coordinates(rows: i32) -> Vec<f64> {
        let degrees = |i: i32| f64::from(i * 7919 % 1_600_003) / 1e6 - 73.9;
        (0..rows)
            .map(|i| {
                if i % 2 == 0 {
                    (degrees(i) * 1e6).round() / 1e6
                } else {
                    f64::from(degrees(i) as f32)
                }
            })
            .collect()
    }

    #[test]
    fn mixed_coordinates_have_no_exceptions_and_sort_by_their_words() {
        let mut values = coordinates(5000);
        let mut sink = Sink::new();
        floats::encode(&values, &Options::new(Profile::Balanced), &mut sink);
        let (head, payload) = sink.into_parts();
        let floats::Floats::Dyadic(dyadic) =
            floats::Floats::<f64>::parse(&mut Source::new(&head, &payload), values.len()).unwrap()
        else {
            panic!("another encoding was chosen")
        };
        assert_eq!(dyadic.stored.exceptions.len(), 0);
        let grid = dyadic.grid;
        values.sort_by(f64::total_cmp);
        values.dedup();
        let words: Vec<i64> = values.iter().map(|v| grid.encode(*v).0 as i64).collect();
        assert!(words.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn fractions_of_powers_of_two() {
        assert_eq!(
            [0.5, 3.0, 1.25, 0.0, f64::NAN].map(fraction),
            [Some(1), Some(0), Some(2), None, None]
        );
        assert_eq!(fraction(f64::from(f32::from_bits(40f32.to_bits() | 1))), Some(18));
        assert_eq!(fraction(0.1), None);
    }
}
