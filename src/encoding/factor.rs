//! The common factor of a stream, and exact division by it without a division instruction.
//!
//! Every distance from the minimum is a multiple of the factor, so shifting out the factor's power
//! of two and multiplying by the inverse of its odd part modulo 2^BITS gives the quotient.

use super::Word;
use super::choose::Facts;

/// The greatest common divisor; zero is neutral.
pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A factor prepared for exact division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor<W> {
    value: W,
    inverse: W,
    shift: u32,
    /// The largest quotient.
    limit: W,
}

impl<W: Word> Factor<W> {
    /// Prepares a factor; zero counts as one.
    fn new(value: u64) -> Self {
        let value = value.max(1);
        let shift = value.trailing_zeros();
        let odd = value >> shift;
        // Newton's iteration doubles the correct low bits: 3, 6, 12, 24, 48, 96.
        let inverse =
            (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
        let limit = Word::to_u64(W::max_value()) / value;
        Factor {
            value: W::from_u64(value),
            inverse: W::from_u64(inverse),
            shift,
            limit: W::from_u64(limit),
        }
    }

    /// The greatest common divisor of all distances from the minimum; `sample` has some of them.
    pub(super) fn find(values: &[W], facts: &Facts<W>, sample: &[W]) -> Self {
        let range = Word::to_u64(Word::sub(facts.max, facts.min));
        let mut g = range;
        for &offset in sample {
            if g == 1 {
                return Self::new(1);
            }
            g = gcd(g, Word::to_u64(offset));
        }
        let mut factor = Self::new(g);
        for chunk in values.chunks(256) {
            if chunk.iter().all(|&v| factor.divides(Word::sub(v, facts.min))) {
                continue;
            }
            g = chunk.iter().fold(g, |g, &v| gcd(g, Word::to_u64(Word::sub(v, facts.min))));
            factor = Self::new(g);
            if g == 1 {
                break;
            }
        }
        factor
    }

    fn divides(&self, offset: W) -> bool {
        // Multiplying by the inverse permutes all words; only multiples become valid quotients.
        let low = offset & Word::sub(W::one() << self.shift as usize, W::one());
        low == W::default() && self.divide(offset) <= self.limit
    }

    /// The factor itself.
    pub(super) fn value(&self) -> W {
        self.value
    }

    /// `offset / factor`, for a multiple of it.
    #[inline(always)]
    pub(super) fn divide(&self, offset: W) -> W {
        Word::mul(offset >> self.shift as usize, self.inverse)
    }
}
