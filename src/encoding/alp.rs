//! ALP (Afroozeh, Kuffo, Boncz: "ALP: Adaptive Lossless floating-Point Compression", 2023): floats
//! that were decimals, such as amounts of money, as integers.
//!
//! ```text
//! encoding 6 (u8) │ exponent u8 │ head bits u8 │ ints (stream of signed words)
//!                 │ exceptions (bits of floats)
//! ```
//!
//! A value is `int · 10^-exponent`, computed in f64 as `int · head + int · tail`, each operation
//! rounded (for f32, the sum is then rounded to f32). `head` is `10^-exponent` truncated to its
//! first `head bits` significant bits, `tail` the f64 nearest to the remainder. While `int · head`
//! is exact, which requires `|int| < 2^(53 - head bits)`, the sum is the correctly rounded quotient
//! but for about one value in 2^(head bits). The paper multiplies by `10^factor`, then by an
//! inexact `10^-exponent`: as fast, but it misses 0.8 % of values with three or more decimals and a
//! fifth of large amounts; a division misses none at a third of the speed. Decoding is monotonic in
//! the int.
//!
//! A value that does not round-trip bit for bit (NaN, infinities, −0.0, more decimals) is an
//! exception; its slot repeats a neighbour.

use std::ops::Range;

use super::exceptions::{self, Corrected};
use super::float::Float;
use super::ints;
use super::{Encoding, Options, Sink, Source, Word, floats};
use crate::error::Result;
use crate::limits::VECTOR;

/// Sampled values from which the scale is chosen.
const SAMPLE: usize = 512;

/// The most bits in the head of the inverse power; exact for ints of up to 29 bits.
const MAX_HEAD_BITS: u8 = 24;
/// Bits that an exception costs besides its own: for its position, and for slower scans.
const EXCEPTION_BITS: u64 = 48;
/// Significant bits of an f64.
const MANTISSA_BITS: u8 = 53;
/// Powers of ten, all exact.
pub(super) const POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];

/// The power of ten between floats and integers, and its inverse in two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    exponent: u8,
    head_bits: u8,
    power: f64,
    head: f64,
    tail: f64,
}

impl Scale {
    /// `None` for parameters that no writer uses.
    fn new(exponent: u8, head_bits: u8) -> Option<Self> {
        let power = *POWERS.get(usize::from(exponent))?;
        if !(1..=MANTISSA_BITS).contains(&head_bits) {
            return None;
        }
        let inverse = 1.0 / power;
        let head = f64::from_bits(inverse.to_bits() & (u64::MAX << (MANTISSA_BITS - head_bits)));
        // The residual of a correctly rounded quotient is exact under a fused multiplication.
        let rest = (-inverse).mul_add(power, 1.0) / power;
        Some(Scale { exponent, head_bits, power, head, tail: (inverse - head) + rest })
    }

    /// The number of decimals that the integers represent.
    pub(super) fn exponent(&self) -> u8 {
        self.exponent
    }

    pub(super) fn write(&self, sink: &mut Sink) {
        sink.head().u8(self.exponent);
        sink.head().u8(self.head_bits);
    }

    pub(super) fn parse(source: &mut Source<'_>) -> Result<Self> {
        let (exponent, head_bits) = (source.cursor.u8()?, source.cursor.u8()?);
        let refused =
            || source.cursor.corrupt(format!("ALP exponent {exponent}, head of {head_bits} bits"));
        Scale::new(exponent, head_bits).ok_or_else(refused)
    }

    /// The nearest integer, clamped to the range that decodes.
    #[inline(always)]
    pub(super) fn encode<F: Float>(&self, v: F) -> F::Bits {
        F::round((v.to_f64() * self.power).max(-F::MAX_INT).min(F::MAX_INT))
    }

    #[inline(always)]
    pub(super) fn decode<F: Float>(&self, int: F::Bits) -> F {
        let int = F::widen(int);
        F::from_f64(int * self.head + int * self.tail)
    }

    /// Whether `v` round-trips bit for bit.
    #[inline(always)]
    pub(super) fn round_trips<F: Float>(&self, v: F) -> bool {
        self.decode::<F>(self.encode(v)).to_word() == v.to_word()
    }
}

/// The scale for `values`, chosen from a sample, if enough of them are decimals.
pub(super) fn fit<F: Float>(values: &[F]) -> Option<Scale> {
    let sample = floats::scattered(values, SAMPLE);
    let digits: Vec<Option<u8>> = sample.iter().map(|&v| decimals(v)).collect();
    let exponents = (0..=F::MAX_DECIMALS).filter(|&e| digits.contains(&Some(e)));
    let (_, exponent) = exponents.map(|e| (cost(&sample, &digits, e), e)).min()?;
    if digits.iter().flatten().filter(|&&d| d <= exponent).count() < sample.len() / 4 {
        return None;
    }
    best_scale(&sample, exponent)
}

/// The scale of an exponent under which most values of a sample round-trip.
pub(super) fn best_scale<F: Float>(sample: &[F], exponent: u8) -> Option<Scale> {
    let scales = (4..=MAX_HEAD_BITS).rev().step_by(2).filter_map(|bits| Scale::new(exponent, bits));
    scales.min_by_key(|scale| sample.iter().filter(|&&v| !scale.round_trips(v)).count())
}

/// The number of decimals of `v`, if it is a decimal.
fn decimals<F: Float>(v: F) -> Option<u8> {
    let wide = v.to_f64();
    for (power, decimals) in POWERS.iter().zip(0..=F::MAX_DECIMALS) {
        let scaled = wide * power;
        if scaled.is_nan() || scaled.abs() > F::MAX_INT {
            return None;
        }
        if F::from_f64(F::widen(F::round(scaled)) / power).to_word() == v.to_word() {
            return Some(decimals);
        }
    }
    None
}

/// Bits that the sample would take under an exponent: every slot as wide as the range, plus the
/// exceptions.
fn cost<F: Float>(sample: &[F], digits: &[Option<u8>], exponent: u8) -> u64 {
    let power = POWERS[usize::from(exponent)];
    let (mut low, mut high, mut good) = (f64::INFINITY, f64::NEG_INFINITY, 0u64);
    for (v, digits) in sample.iter().zip(digits) {
        let scaled = v.to_f64() * power;
        if digits.is_some_and(|d| d <= exponent) && scaled.abs() <= F::MAX_INT {
            (low, high, good) = (low.min(scaled), high.max(scaled), good + 1);
        }
    }
    let width = u64::from(64 - ((high - low) as u64).leading_zeros());
    let all = sample.len() as u64;
    all * width + (all - good) * (u64::from(F::Bits::BITS) + EXCEPTION_BITS)
}

/// Appends `values` under `scale`; without one (a forced encoding), mostly as exceptions.
pub(super) fn encode<F: Float>(
    values: &[F],
    scale: Option<Scale>,
    child: &Options,
    sink: &mut Sink,
) {
    let Some(scale) = scale.or_else(|| Scale::new(0, MAX_HEAD_BITS)) else { return };
    let mut ints: Vec<F::Bits> = Vec::with_capacity(values.len());
    let mut positions: Vec<u32> = Vec::new();
    for piece in values.chunks(VECTOR) {
        let base = ints.len();
        ints.extend(piece.iter().map(|&v| scale.encode(v)));
        let differs = |(v, &int): (&F, &F::Bits)| scale.decode::<F>(int).to_word() != v.to_word();
        // They are counted first because that loop vectorises, and few vectors have any.
        let wrong: u64 = piece.iter().zip(&ints[base..]).map(|pair| u64::from(differs(pair))).sum();
        if wrong > 0 {
            let at = piece.iter().zip(&ints[base..]).enumerate().filter(|(_, pair)| differs(*pair));
            positions.extend(at.map(|(i, _)| (base + i) as u32));
        }
    }
    fill_exceptions(&mut ints, &positions);
    let words: Vec<F::Bits> = positions.iter().map(|&at| values[at as usize].to_word()).collect();
    sink.head().u8(Encoding::Alp as u8);
    scale.write(sink);
    ints::encode(&ints, true, child, sink);
    exceptions::encode(&positions, &words, child, sink);
}

/// Makes the slots at `positions` repeat the slot before them, or at the start, the first one after
/// them.
pub(super) fn fill_exceptions<W: Word>(ints: &mut [W], positions: &[u32]) {
    let leading = positions.iter().enumerate().take_while(|&(i, &at)| i == at as usize).count();
    let first = ints.get(leading).copied().unwrap_or_default();
    ints[..leading].fill(first);
    for &at in &positions[leading..] {
        ints[at as usize] = ints[at as usize - 1];
    }
}

/// Floats as integers.
#[derive(Debug)]
pub struct Alp<'a, F: Float> {
    /// Signed ints, within ±[`Float::MAX_INT`], and exceptions.
    pub(super) stored: Corrected<'a, F>,
    pub(super) scale: Scale,
}

impl<'a, F: Float> Alp<'a, F> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let scale = Scale::parse(source)?;
        let stored = Corrected::parse(source, rows)?;
        Ok(Alp { stored, scale })
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<F>) -> Result<()> {
        self.stored.decode(rows, |word| self.scale.decode(word), out)
    }

    pub(super) fn gather(&self, rows: &[u32], out: &mut Vec<F>) -> Result<()> {
        self.stored.gather(rows, |word| self.scale.decode(word), out)
    }

    pub(super) fn get(&self, row: usize) -> Result<F> {
        self.stored.get(row, |word| self.scale.decode(word))
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str(&format!("alp {} decimals(", self.scale.exponent));
        self.stored.describe(out);
    }
}
