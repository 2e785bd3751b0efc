//! An exact sum of numbers with a binary exponent: a whole number of as many words as it needs,
//! and the place of its point.
//!
//! Nothing is ever rounded, so that neither the order of the rows nor how they were spread over
//! threads shows.

use num_bigint::BigInt;

/// The bits of a word.
pub(super) const BITS: i64 = u64::BITS as i64;

/// A sum, in two's complement.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactSum {
    /// From the least; empty for a sum of nothing.
    words: Vec<u64>,
    /// The exponent of the least word, in words.
    base: i64,
}

impl ExactSum {
    /// Adds ± `magnitude` · 2^`exponent`, where `magnitude` has its least word first.
    pub(super) fn add(&mut self, magnitude: &[u64], exponent: i64, is_negative: bool) {
        let (first, shift) = (exponent.div_euclid(BITS), exponent.rem_euclid(BITS));
        // A word for the shift, and one for 2^63 carries and the sign.
        self.cover(first, first + magnitude.len() as i64 + 2);
        let start = usize::try_from(first - self.base).unwrap_or_default();
        let (mut carry, mut rest) = (is_negative, 0);
        for (at, word) in self.words.iter_mut().skip(start).enumerate() {
            let wide = u128::from(magnitude.get(at).copied().unwrap_or_default()) << shift;
            let shifted = wide as u64 | rest;
            rest = (wide >> BITS) as u64;
            if at > magnitude.len() && carry == is_negative {
                break;
            }
            let (sum, over) = word.overflowing_add(if is_negative { !shifted } else { shifted });
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over || over_again);
        }
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &ExactSum) {
        self.cover(other.base, other.base + other.words.len() as i64);
        let start = usize::try_from(other.base - self.base).unwrap_or_default();
        let (mut carry, sign) = (false, other.sign());
        for (at, word) in self.words.iter_mut().skip(start).enumerate() {
            let (sum, over) = word.overflowing_add(other.words.get(at).copied().unwrap_or(sign));
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            (*word, carry) = (sum, over || over_again);
        }
    }

    /// Has words from exponent `first` to before `end`.
    fn cover(&mut self, first: i64, end: i64) {
        if self.words.is_empty() {
            self.base = first;
        }
        if first < self.base {
            let more = usize::try_from(self.base - first).unwrap_or_default();
            self.words.splice(0..0, std::iter::repeat_n(0, more));
            self.base = first;
        }
        let needed = usize::try_from(end - self.base).unwrap_or_default();
        if needed > self.words.len() {
            let sign = self.sign();
            self.words.resize(needed, sign);
        }
    }

    /// The word that would come next.
    fn sign(&self) -> u64 {
        self.words.last().map_or(0, |last| ((*last as i64) >> (BITS - 1)) as u64)
    }

    /// The least exponent of its bits; `None` of a sum of nothing.
    pub(super) fn exponent(&self) -> Option<i64> {
        (!self.words.is_empty()).then_some(self.base * BITS)
    }

    /// The sum as a multiple of 2^`exponent`, which is not above its own.
    pub(super) fn in_units_of(&self, exponent: i64) -> BigInt {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let shift = self.exponent().map_or(0, |own| own - exponent);
        BigInt::from_signed_bytes_le(&bytes) << usize::try_from(shift).unwrap_or_default()
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Writes the sum for [`ExactSum::read`].
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.words.len() as u64).to_le_bytes());
        out.extend(self.base.to_le_bytes());
        self.words.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }

    /// Reads a sum, whose bytes it takes away; `None` if they are none.
    pub(super) fn read(from: &mut &[u8]) -> Option<ExactSum> {
        let words = usize::try_from(take_word(from)?).ok()?;
        let base = take_word(from)? as i64;
        if words > from.len() / size_of::<u64>() {
            return None;
        }
        let words = (0..words).map(|_| take_word(from)).collect::<Option<_>>()?;
        Some(ExactSum { words, base })
    }
}

/// The next word of bytes, which it takes away.
pub(super) fn take_word(from: &mut &[u8]) -> Option<u64> {
    let (word, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Random numbers that are the same each time.
    fn numbers() -> impl Iterator<Item = u64> {
        let mut state = 88_172_645_463_325_252_u64;
        std::iter::from_fn(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Some(state)
        })
    }

    #[test]
    fn sums_are_those_of_whole_numbers() {
        let mut numbers = numbers();
        let mut next = || numbers.next().unwrap();
        for _ in 0..200 {
            let (mut whole, mut expected) = (ExactSum::default(), BigInt::ZERO);
            let mut parts = [const { ExactSum { words: Vec::new(), base: 0 } }; 3];
            for _ in 0..next() % 40 {
                let words: Vec<u64> = (0..next() % 4 + 1)
                    .map(|_| if next() % 3 == 0 { u64::MAX } else { next() })
                    .collect();
                let (exponent, is_negative) = ((next() % 900) as i64 - 450, next() % 2 == 0);
                whole.add(&words, exponent, is_negative);
                parts[(next() % 3) as usize].add(&words, exponent, is_negative);
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let magnitude = num_bigint::BigUint::from_bytes_le(&bytes);
                let value = BigInt::from(magnitude) << (exponent + 450);
                expected += if is_negative { -value } else { value };
            }
            assert_eq!(whole.in_units_of(-512) >> 62, expected);
            let mut merged = ExactSum::default();
            for part in &parts {
                let mut bytes = Vec::new();
                part.write(&mut bytes);
                merged.merge(&ExactSum::read(&mut bytes.as_slice()).unwrap());
            }
            assert_eq!(merged.in_units_of(-512) >> 62, expected);
        }
    }

    #[test]
    fn what_is_no_sum_is_not_read() {
        assert!(ExactSum::read(&mut [1, 2, 3].as_slice()).is_none());
        let mut bytes = Vec::from(u64::MAX.to_le_bytes());
        bytes.extend([0; 64]);
        assert!(ExactSum::read(&mut bytes.as_slice()).is_none());
    }
}
