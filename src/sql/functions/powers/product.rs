//! `product(x)`: the product of values with 192 bits and an exponent of its own, so that it
//! overflows only where the whole product does.
//!
//! What has more bits is cut off: a product that a double can hold is exact, and for another to
//! depend on the order of the rows it would have to be within one part in 2^180 of the middle of
//! two doubles.

use super::exact_sum::{BITS, take_word};
use super::moments::{parts, scaled};

const WORDS: usize = 3;

/// The product of values.
#[derive(Clone, Debug)]
pub(super) struct Product {
    count: u64,
    is_negative: bool,
    has_zero: bool,
    has_infinity: bool,
    has_nan: bool,
    /// The leading bits of the product of all finite values but zero, least word first. The highest
    /// bit is set.
    bits: [u64; WORDS],
    /// The exponent of the last of these bits.
    exponent: i64,
}

/// The bits of 1.
const ONE: ([u64; WORDS], i64) = ([0, 0, 1 << 63], 1 - WORDS as i64 * BITS);

impl Default for Product {
    fn default() -> Product {
        Product {
            count: 0,
            is_negative: false,
            has_zero: false,
            has_infinity: false,
            has_nan: false,
            bits: ONE.0,
            exponent: ONE.1,
        }
    }
}

impl Product {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.is_negative ^= value.is_sign_negative() && !value.is_nan();
        self.has_nan |= value.is_nan();
        self.has_infinity |= value.is_infinite();
        self.has_zero |= value == 0.0;
        if let Some((odd, exponent)) = parts(value).filter(|_| value.is_finite()) {
            let zeros = odd.leading_zeros();
            let first = exponent - i64::from(zeros) - (WORDS as i64 - 1) * BITS;
            self.multiply([0, 0, odd << zeros], first);
        }
    }

    pub(super) fn merge(&mut self, other: &Product) {
        self.count += other.count;
        self.is_negative ^= other.is_negative;
        self.has_nan |= other.has_nan;
        self.has_infinity |= other.has_infinity;
        self.has_zero |= other.has_zero;
        self.multiply(other.bits, other.exponent);
    }

    fn multiply(&mut self, by: [u64; WORDS], exponent: i64) {
        let mut product = [0_u64; 2 * WORDS];
        for (at, a) in self.bits.iter().enumerate() {
            let mut carry = 0;
            for (b, to) in by.iter().chain([&0]).zip(product.iter_mut().skip(at)) {
                let wide = u128::from(*a) * u128::from(*b) + u128::from(*to) + carry;
                (*to, carry) = (wide as u64, wide >> BITS);
            }
        }
        let [_, _, below, low, middle, high] = product;
        // The first bit is in the first or second place.
        let is_short = high >> (BITS - 1) == 0;
        let joined = |word: u64, below: u64| match is_short {
            true => word << 1 | below >> (BITS - 1),
            false => word,
        };
        self.bits = [joined(low, below), joined(middle, low), joined(high, middle)];
        self.exponent += exponent + WORDS as i64 * BITS - i64::from(is_short);
    }

    /// The product; `None` of no values.
    pub(super) fn answer(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let magnitude = match (self.has_nan, self.has_infinity, self.has_zero) {
            (true, ..) | (_, true, true) => return Some(f64::NAN),
            (_, true, _) => f64::INFINITY,
            (_, _, true) => 0.0,
            _ => {
                let [low, middle, high] = self.bits;
                // Bits that are left out decide where the others are in the middle of two doubles.
                let first = high | u64::from(low > 0 || middle > 0);
                scaled(first as f64, self.exponent + (WORDS as i64 - 1) * BITS)
            }
        };
        Some(if self.is_negative { -magnitude } else { magnitude })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let flags = [self.is_negative, self.has_zero, self.has_infinity, self.has_nan];
        let flags = flags.iter().fold(0, |all, flag| all << 1 | u64::from(*flag));
        let words = [self.count, flags, self.exponent as u64].into_iter().chain(self.bits);
        words.for_each(|word| out.extend(word.to_le_bytes()));
    }

    /// Reads what [`Product::write`] has written.
    pub(super) fn read(mut from: &[u8]) -> Option<Product> {
        let (count, flags) = (take_word(&mut from)?, take_word(&mut from)?);
        let exponent = take_word(&mut from)? as i64;
        let mut bits = [0; WORDS];
        for word in &mut bits {
            *word = take_word(&mut from)?;
        }
        let flag = |at: u32| flags >> at & 1 > 0;
        Some(Product {
            count,
            is_negative: flag(3),
            has_zero: flag(2),
            has_infinity: flag(1),
            has_nan: flag(0),
            bits,
            exponent,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn of(values: &[f64]) -> Option<f64> {
        let mut product = Product::default();
        values.iter().for_each(|value| product.add(*value));
        product.answer()
    }

    #[test]
    fn products_are_those_of_the_whole() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[-2.5]), Some(-2.5));
        assert_eq!(of(&[3.0, -4.0, 0.5]), Some(-6.0));
        let factorial: Vec<f64> = (1..=22).map(f64::from).collect();
        assert_eq!(of(&factorial), Some(1_124_000_727_777_607_680_000.0));
        let (large, small) = (2f64.powi(700), 2f64.powi(-1000));
        assert_eq!(of(&[large, large, small]), Some(2f64.powi(400)));
        assert_eq!(of(&[small, small, large, large]), Some(2f64.powi(-600)));
        assert_eq!(of(&[1e200, -1e200]), Some(f64::NEG_INFINITY));
        assert_eq!(of(&[1e-200, 1e-200]), Some(0.0));
        assert_eq!(of(&[5e-324, 1.0]), Some(5e-324));
        assert_eq!(of(&[f64::MAX, 1.0]), Some(f64::MAX));
        assert_eq!(of(&[0.0, -3.0]).map(f64::to_bits), Some((-0.0_f64).to_bits()));
        assert_eq!(of(&[f64::INFINITY, -3.0]), Some(f64::NEG_INFINITY));
        assert!(of(&[f64::INFINITY, 0.0]).unwrap().is_nan() && of(&[f64::NAN]).unwrap().is_nan());
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let values: Vec<f64> =
            (1..4000).map(|i| (f64::from(i * 7919 % 10_007) / 5000.0).sin() * 2.0 + 1e-9).collect();
        let whole = of(&values);
        let mut turned = values.clone();
        turned.reverse();
        assert_eq!(of(&turned), whole);
        let mut merged = Product::default();
        for part in turned.chunks(77) {
            let mut product = Product::default();
            part.iter().for_each(|value| product.add(*value));
            let mut bytes = Vec::new();
            product.write(&mut bytes);
            merged.merge(&Product::read(&bytes).unwrap());
        }
        assert_eq!(merged.answer(), whole);
    }
}
