//! ALP (Afroozeh, Kuffo, Boncz: "ALP: Adaptive Lossless floating-Point Compression", 2023): floats that were
//! decimals, such as money, as whole numbers.
//!
//! ```text
//! encoding 6 (u8) │ exponent u8 │ factor u8 │ ints (stream of signed words) │ exceptions (bits of floats)
//! ```
//!
//! A value is `int · 10^factor · 10^-exponent`, two multiplications in f64 in this order (for f32, then rounded
//! to f32). `exponent - factor` is the number of decimals; the multiplication by an inexact power is bit-exact for
//! almost all values under a well chosen exponent, and far faster than a division. Whatever does not come
//! back bit for bit (NaN, infinities, −0.0, more decimals) is an exception; its slot repeats a neighbour.

use std::ops::Range;

use super::exceptions::{self, Exceptions};
use super::float::Float;
use super::ints::{self, Ints};
use super::{Encoding, Options, Sink, Source, Word, bits};
use crate::error::Result;
use crate::limits::VECTOR;

/// Values that are looked at to find the exponent.
const SAMPLE: usize = 512;
/// Rows decoded at a time, so that the second pass finds them in the cache.
const PIECE: usize = 4 * VECTOR;

const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const INVERSES: [f64; 19] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16,
    1e-17, 1e-18,
];

/// An exponent and a factor with their powers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    exponent: u8,
    factor: u8,
    up: [f64; 2],
    down: [f64; 2],
}

impl Scale {
    /// Refuses an exponent beyond the table and a factor above the exponent.
    fn new(exponent: u8, factor: u8) -> Option<Self> {
        let (e, f) = (usize::from(exponent), usize::from(factor));
        (e < POWERS.len() && f <= e).then(|| Scale {
            exponent,
            factor,
            up: [POWERS[e], INVERSES[f]],
            down: [POWERS[f], INVERSES[e]],
        })
    }

    /// The nearest whole number, within the range that decodes.
    #[inline(always)]
    fn encode<F: Float>(&self, v: F) -> F::Bits {
        F::round((v.to_f64() * self.up[0] * self.up[1]).max(-F::MAX_INT).min(F::MAX_INT))
    }

    #[inline(always)]
    fn decode<F: Float>(&self, int: F::Bits) -> F {
        F::from_f64(F::widen(int) * self.down[0] * self.down[1])
    }

    /// Whether `v` comes back bit for bit.
    #[inline(always)]
    fn holds<F: Float>(&self, v: F) -> bool {
        self.decode::<F>(self.encode(v)).to_word() == v.to_word()
    }
}

/// Exponent and factor for `values` by a sample of them, if ALP could make them any smaller.
pub(super) fn fit<F: Float>(values: &[F]) -> Option<Scale> {
    let sample: Vec<F> = values.iter().step_by(values.len().div_ceil(SAMPLE).max(1)).copied().collect();
    let digits: Vec<Option<u8>> = sample.iter().map(|&v| decimals(v)).collect();
    let places = (0..=F::MAX_DECIMALS).filter(|&p| digits.contains(&Some(p)));
    let (cost, places) = places.map(|p| (cost(&sample, &digits, p), p)).min()?;
    if cost >= sample.len() as u64 * u64::from(F::Bits::BITS) {
        return None;
    }
    let exponents = if F::Bits::BITS == 32 { places..=places } else { places..=F::MAX_DECIMALS };
    let scales = exponents.filter_map(|e| Scale::new(e, e - places));
    scales.min_by_key(|scale| sample.iter().filter(|&&v| !scale.holds(v)).count())
}

/// The fewest decimals that express `v` exactly, if it is a decimal at all.
fn decimals<F: Float>(v: F) -> Option<u8> {
    let wide = v.to_f64();
    for (power, places) in POWERS.iter().zip(0..=F::MAX_DECIMALS) {
        let scaled = wide * power;
        if scaled.is_nan() || scaled.abs() > F::MAX_INT {
            return None;
        }
        if F::from_f64(F::widen(F::round(scaled)) / power).to_word() == v.to_word() {
            return Some(places);
        }
    }
    None
}

/// Bits that the sample would take with so many decimals: every slot as wide as the range, and the exceptions.
fn cost<F: Float>(sample: &[F], digits: &[Option<u8>], places: u8) -> u64 {
    let power = POWERS[usize::from(places)];
    let (mut low, mut high, mut good) = (f64::INFINITY, f64::NEG_INFINITY, 0u64);
    for (v, digits) in sample.iter().zip(digits) {
        let scaled = v.to_f64() * power;
        if digits.is_some_and(|d| d <= places) && scaled.abs() <= F::MAX_INT {
            (low, high, good) = (low.min(scaled), high.max(scaled), good + 1);
        }
    }
    let width = u64::from(64 - ((high - low) as u64).leading_zeros());
    let all = sample.len() as u64;
    all * width + (all - good) * u64::from(F::Bits::BITS + 16)
}

/// Appends `values` under `scale`, or where nothing fits (a forced encoding), mostly as exceptions.
pub(super) fn encode<F: Float>(values: &[F], scale: Option<Scale>, child: &Options, sink: &mut Sink) {
    let Some(scale) = scale.or_else(|| Scale::new(0, 0)) else { return };
    let mut ints: Vec<F::Bits> = Vec::with_capacity(values.len());
    let mut positions: Vec<u32> = Vec::new();
    for piece in values.chunks(VECTOR) {
        let base = ints.len();
        ints.extend(piece.iter().map(|&v| scale.encode(v)));
        let differs = |(v, &int): (&F, &F::Bits)| scale.decode::<F>(int).to_word() != v.to_word();
        // Counted first because the loop over all vectorises, and few vectors have any.
        let wrong: u64 = piece.iter().zip(&ints[base..]).map(|pair| u64::from(differs(pair))).sum();
        if wrong > 0 {
            let at = piece.iter().zip(&ints[base..]).enumerate().filter(|(_, pair)| differs(*pair));
            positions.extend(at.map(|(i, _)| (base + i) as u32));
        }
    }
    fill(&mut ints, &positions);
    let words: Vec<F::Bits> = positions.iter().map(|&at| values[at as usize].to_word()).collect();
    sink.head().u8(Encoding::Alp as u8);
    sink.head().u8(scale.exponent);
    sink.head().u8(scale.factor);
    ints::encode(&ints, true, child, sink);
    exceptions::encode(&positions, &words, child, sink);
}

/// Makes the slots at `positions` repeat what stands before them, or at the start, behind them.
fn fill<W: Word>(ints: &mut [W], positions: &[u32]) {
    let leading = positions.iter().enumerate().take_while(|&(i, &at)| i == at as usize).count();
    let first = ints.get(leading).copied().unwrap_or_default();
    ints[..leading].fill(first);
    for &at in &positions[leading..] {
        ints[at as usize] = ints[at as usize - 1];
    }
}

/// Floats as whole numbers.
#[derive(Debug)]
pub struct Alp<'a, F: Float> {
    /// Values are `ints · 10^factor · 10^-exponent`.
    pub(crate) exponent: u8,
    /// At most the exponent.
    pub(crate) factor: u8,
    /// Signed, within ±[`Float::MAX_INT`]; at exceptions, a neighbour's.
    pub(crate) ints: Ints<'a, F::Bits>,
    /// Rows that have a value of their own, by its bits.
    pub(crate) exceptions: Exceptions<'a, F::Bits>,
    scale: Scale,
}

impl<'a, F: Float> Alp<'a, F> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let (exponent, factor) = (source.cursor.u8()?, source.cursor.u8()?);
        let Some(scale) = Scale::new(exponent, factor) else {
            return Err(source.cursor.corrupt(format!("ALP exponent {exponent} with factor {factor}")));
        };
        let ints = source.child(|s| Ints::parse(s, rows))?;
        let exceptions = Exceptions::parse(source, rows)?;
        Ok(Alp { exponent, factor, ints, exceptions, scale })
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<F>) -> Result<()> {
        let base = out.len();
        for start in rows.clone().step_by(PIECE) {
            let from = out.len();
            bits::decode_words(&self.ints, start..rows.end.min(start + PIECE), out)?;
            for slot in &mut out[from..] {
                *slot = self.scale.decode(slot.to_word());
            }
        }
        self.exceptions.apply(&rows, |at, word| {
            if let Some(slot) = out.get_mut(base + at) {
                *slot = F::from_word(word);
            }
        })
    }

    pub(super) fn get(&self, row: usize) -> Result<F> {
        match self.exceptions.get(row)? {
            Some(word) => Ok(F::from_word(word)),
            None => Ok(self.scale.decode(self.ints.get(row)?)),
        }
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str(&format!("alp {} decimals(", self.exponent - self.factor));
        self.ints.describe(out);
        out.push_str(&format!(", {} exceptions)", self.exceptions.len()));
    }
}
