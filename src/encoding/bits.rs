//! Bits: the bits of floats as integers. For constants, runs and few distinct values, for doubles
//! that were widened from f32 (frame of reference with the common factor 2^29), and for values that
//! no other encoding fits.
//!
//! ```text
//! encoding 14 (u8) │ bits (stream of words)
//! ```

use std::ops::Range;

use super::float::Float;
use super::ints::{self, Ints};
use super::{Encoding, Options, Sink, Source};
use crate::error::Result;

/// Floats as their bits.
#[derive(Debug)]
pub struct Bits<'a, F: Float> {
    pub(crate) words: Ints<'a, F::Bits>,
}

/// Appends `values`; the options are those of the child, forced or not.
pub(super) fn encode<F: Float>(values: &[F], child: &Options, sink: &mut Sink) {
    sink.head().u8(Encoding::Bits as u8);
    ints::encode::<F::Bits>(bytemuck::cast_slice(values), false, child, sink);
}

/// Appends the words of `rows` to `out`, reinterpreted as floats without a copy.
pub(super) fn decode_words<F: Float>(
    words: &Ints<'_, F::Bits>,
    rows: Range<usize>,
    out: &mut Vec<F>,
) -> Result<()> {
    let mut decoded: Vec<F::Bits> = bytemuck::cast_vec(std::mem::take(out));
    let result = words.decode(rows, &mut decoded);
    *out = bytemuck::cast_vec(decoded);
    result
}

/// Appends the words of single rows, in ascending order, reinterpreted as floats.
pub(super) fn gather_words<F: Float>(
    words: &Ints<'_, F::Bits>,
    rows: &[u32],
    out: &mut Vec<F>,
) -> Result<()> {
    let mut gathered: Vec<F::Bits> = bytemuck::cast_vec(std::mem::take(out));
    let result = words.gather(rows, &mut gathered);
    *out = bytemuck::cast_vec(gathered);
    result
}

impl<'a, F: Float> Bits<'a, F> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        Ok(Bits { words: source.child(|s| Ints::parse(s, rows))? })
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<F>) -> Result<()> {
        decode_words(&self.words, rows, out)
    }

    pub(super) fn get(&self, row: usize) -> Result<F> {
        self.words.get(row).map(F::from_word)
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("bits(");
        self.words.describe(out);
        out.push(')');
    }
}
