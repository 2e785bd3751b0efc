//! ALP-RD, for real doubles: the sign, exponent and first mantissa bits of measurements repeat; the
//! other bits are noise.
//!
//! ```text
//! encoding 7 (u8) │ right bits u8 │ n u8 │ n × left (u16) │ codes (stream of u8)
//!                 │ rights (stream of words) │ exceptions (left bits, u16)
//! ```
//!
//! A value's bits are `left << right_bits | right`. The left part, at most 16 bits, is one of at
//! most eight in a dictionary, or an exception.

use std::ops::Range;

use super::exceptions::{self, Exceptions};
use super::float::Float;
use super::ints::{self, Ints};
use super::{Encoding, Options, Sink, Source, Word, bits, floats};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// Sampled values from which the cut is chosen.
const SAMPLE: usize = 512;
/// The most left bits.
pub(super) const MAX_LEFT: u32 = 16;
/// The most entries of the dictionary.
const MAX_ENTRIES: usize = 8;
/// Rows decoded at a time, so that they are still cached in the second pass.
const PIECE: usize = 4 * VECTOR;

/// Where to split the bits, and the left parts that have a code.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    right_bits: u32,
    lefts: Vec<u16>,
}

/// The cheapest cut for a sample of `values`.
pub(super) fn fit<F: Float>(values: &[F]) -> Cut {
    let mut sample: Vec<u64> =
        floats::scattered(values, SAMPLE).iter().map(|v| v.to_word().to_u64()).collect();
    sample.sort_unstable();
    let mut best = (u64::MAX, Cut { right_bits: F::Bits::BITS - MAX_LEFT, lefts: vec![0] });
    for right_bits in F::Bits::BITS - MAX_LEFT..F::Bits::BITS {
        let counts = frequencies(&sample, right_bits);
        for code_bits in 0..=MAX_ENTRIES.ilog2() {
            let lefts = &counts[..counts.len().min(1 << code_bits)];
            let exceptions = sample.len() - lefts.iter().map(|&(n, _)| n).sum::<usize>();
            let cost =
                sample.len() as u64 * u64::from(right_bits + code_bits) + exceptions as u64 * 32;
            if cost < best.0 && !lefts.is_empty() {
                best = (
                    cost,
                    Cut { right_bits, lefts: lefts.iter().map(|&(_, left)| left).collect() },
                );
            }
        }
    }
    best.1
}

/// The left parts of a sorted sample and how often each occurs, the most frequent first.
fn frequencies(sorted: &[u64], right_bits: u32) -> Vec<(usize, u16)> {
    let groups = sorted.chunk_by(|a, b| a >> right_bits == b >> right_bits);
    let mut counts: Vec<_> =
        groups.map(|group| (group.len(), (group[0] >> right_bits) as u16)).collect();
    counts.sort_unstable_by_key(|&(n, left)| (std::cmp::Reverse(n), left));
    counts
}

/// Appends `values` under `cut`.
pub(super) fn encode<F: Float>(values: &[F], cut: &Cut, child: &Options, sink: &mut Sink) {
    let mask = mask(cut.right_bits);
    // A left part has at most 16 bits, so one look-up finds its code.
    let mut code_of = vec![u8::MAX; 1 << MAX_LEFT];
    for (&left, code) in cut.lefts.iter().zip(0..) {
        code_of[usize::from(left)] = code;
    }
    let (mut codes, mut rights) =
        (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
    let (mut positions, mut lefts) = (Vec::new(), Vec::new());
    for (row, v) in values.iter().enumerate() {
        let word = v.to_word().to_u64();
        let left = (word >> cut.right_bits) as u16;
        let mut code = code_of[usize::from(left)];
        if code == u8::MAX {
            positions.push(row as u32);
            lefts.push(left);
            code = 0;
        }
        codes.push(code);
        rights.push(F::Bits::from_u64(word & mask));
    }
    let head = sink.head();
    head.u8(Encoding::AlpRd as u8);
    head.u8(cut.right_bits as u8);
    head.u8(cut.lefts.len() as u8);
    cut.lefts.iter().for_each(|&left| head.u16(left));
    ints::encode::<u8>(&codes, false, child, sink);
    ints::encode(&rights, false, child, sink);
    exceptions::encode(&positions, &lefts, child, sink);
}

fn mask(right_bits: u32) -> u64 {
    u64::MAX >> (64 - right_bits)
}

/// Floats split into left and right bits.
#[derive(Debug)]
pub struct AlpRd<'a, F: Float> {
    right_bits: u32,
    /// Left parts, shifted into place to be joined with the right ones; unused entries are 0.
    lefts: [F::Bits; MAX_ENTRIES],
    codes: Ints<'a, u8>,
    pub(crate) rights: Ints<'a, F::Bits>,
    exceptions: Exceptions<'a, u16>,
}

impl<'a, F: Float> AlpRd<'a, F> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let right_bits = u32::from(source.cursor.u8()?);
        let entries = usize::from(source.cursor.u8()?);
        if !(F::Bits::BITS - MAX_LEFT..F::Bits::BITS).contains(&right_bits) || entries > MAX_ENTRIES
        {
            return Err(source
                .cursor
                .corrupt(format!("ALP-RD with {right_bits} right bits, {entries} entries")));
        }
        let mut lefts = [F::Bits::default(); MAX_ENTRIES];
        for left in lefts.iter_mut().take(entries) {
            *left = F::Bits::from_u64(u64::from(source.cursor.u16()?) << right_bits);
        }
        let codes = source.child(|s| Ints::parse(s, rows))?;
        let rights = source.child(|s| Ints::parse(s, rows))?;
        let exceptions = Exceptions::parse(source, rows)?;
        Ok(AlpRd { right_bits, lefts, codes, rights, exceptions })
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<F>) -> Result<()> {
        let base = out.len();
        let mut codes = Vec::with_capacity(PIECE.min(rows.len()));
        let mut seen = F::Bits::default();
        for start in rows.clone().step_by(PIECE) {
            let from = out.len();
            let piece = start..rows.end.min(start + PIECE);
            codes.clear();
            self.codes.decode(piece.clone(), &mut codes)?;
            bits::decode_words(&self.rights, piece, out)?;
            for (slot, &code) in out[from..].iter_mut().zip(&codes) {
                let right = slot.to_word();
                seen = seen | right;
                *slot = F::from_word(right.add(self.lefts[usize::from(code) % MAX_ENTRIES]));
            }
        }
        self.check_rights(seen)?;
        self.exceptions.apply(&rows, |at, left| {
            if let Some(slot) = out.get_mut(base + at) {
                *slot = self.join(left, slot.to_word());
            }
        })
    }

    pub(super) fn get(&self, row: usize) -> Result<F> {
        let right = self.rights.get(row)?;
        self.check_rights(right)?;
        match self.exceptions.get(row)? {
            Some(left) => Ok(self.join(left, right)),
            None => Ok(F::from_word(
                right.add(self.lefts[usize::from(self.codes.get(row)?) % MAX_ENTRIES]),
            )),
        }
    }

    /// Refuses right parts that overlap the left ones; `rights` is their bitwise or.
    fn check_rights(&self, rights: F::Bits) -> Result<()> {
        match rights.to_u64() <= mask(self.right_bits) {
            true => Ok(()),
            false => Err(Error::corrupt(
                0,
                format!("a right part of ALP-RD is wider than {} bits", self.right_bits),
            )),
        }
    }

    /// The value of a left part and the right bits of `word`.
    fn join(&self, left: u16, word: F::Bits) -> F {
        F::from_word(F::Bits::from_u64(
            word.to_u64() & mask(self.right_bits) | u64::from(left) << self.right_bits,
        ))
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("alp-rd(");
        self.codes.describe(out);
        out.push_str(", ");
        self.rights.describe(out);
        out.push_str(&format!(", {} exceptions)", self.exceptions.len()));
    }
}
