//! `skewness(x)`, `kurtosis(x)` and `kurtosis_pop(x)`: from the exact sums of the powers of the
//! values to a quotient that is rounded once.

use num_bigint::{BigInt, BigUint, Sign};

use super::exact_sum::{BITS, ExactSum, take_word};

/// What is asked of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// The skewness of a sample.
    Skewness,
    /// The excess kurtosis, of a sample or of the whole.
    Kurtosis { sample: bool },
}

/// The sums of the powers of values.
#[derive(Clone, Debug)]
pub(super) struct PowerSums {
    shape: Shape,
    count: u64,
    /// Whether one of the values is NaN or infinite.
    has_other: bool,
    /// Of the values, their squares, and so on.
    sums: Vec<ExactSum>,
}

impl PowerSums {
    pub(super) fn new(shape: Shape) -> PowerSums {
        let powers = match shape {
            Shape::Skewness => 3,
            Shape::Kurtosis { .. } => 4,
        };
        PowerSums { shape, count: 0, has_other: false, sums: vec![ExactSum::default(); powers] }
    }

    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        if !value.is_finite() {
            self.has_other = true;
            return;
        }
        let Some((odd, exponent)) = parts(value) else { return };
        let (mut power, mut of_power) = ([1, 0, 0, 0], 0);
        for (at, sum) in self.sums.iter_mut().enumerate() {
            power = times(power, odd);
            of_power += exponent;
            let words = power.iter().rposition(|word| *word > 0).map_or(0, |last| last + 1);
            // Odd powers of negative values are negative.
            sum.add(power.get(..words).unwrap_or(&power), of_power, value < 0.0 && at % 2 == 0);
        }
    }

    pub(super) fn merge(&mut self, other: &PowerSums) {
        self.count += other.count;
        self.has_other |= other.has_other;
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, other)| sum.merge(other));
    }

    pub(super) fn memory(&self) -> usize {
        let sums = self.sums.capacity() * size_of::<ExactSum>();
        sums + self.sums.iter().map(ExactSum::memory).sum::<usize>()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.count.to_le_bytes());
        out.extend(u64::from(self.has_other).to_le_bytes());
        self.sums.iter().for_each(|sum| sum.write(out));
    }

    /// Reads what [`PowerSums::write`] has written for the same shape.
    pub(super) fn read(shape: Shape, mut from: &[u8]) -> Option<PowerSums> {
        let mut all = PowerSums::new(shape);
        all.count = take_word(&mut from)?;
        all.has_other = take_word(&mut from)? > 0;
        for sum in &mut all.sums {
            *sum = ExactSum::read(&mut from)?;
        }
        Some(all)
    }

    /// The answer; `None` where there are too few values, or a kurtosis of equal ones.
    pub(super) fn answer(&self) -> Option<f64> {
        let least = match self.shape {
            Shape::Skewness => 3,
            Shape::Kurtosis { sample: true } => 4,
            Shape::Kurtosis { sample: false } => 2,
        };
        if self.count < least {
            return None;
        }
        if self.has_other {
            return Some(f64::NAN);
        }
        // The sums in powers of one unit of the values, which no quotient depends on.
        let units = (1_i64..).zip(&self.sums);
        let unit = units.filter_map(|(power, sum)| Some(sum.exponent()?.div_euclid(power))).min();
        let unit = unit.unwrap_or_default();
        let sums: Vec<BigInt> =
            (1_i64..).zip(&self.sums).map(|(power, sum)| sum.in_units_of(unit * power)).collect();
        let n = BigInt::from(self.count);
        let (one, two, three) = (BigInt::from(1), BigInt::from(2), BigInt::from(3));
        let [s1, s2, s3, rest @ ..] = sums.as_slice() else { return None };
        // n², n³ and n⁴ times the second, third and fourth moment about the mean.
        let second = &n * s2 - s1 * s1;
        match (self.shape, rest) {
            (Shape::Skewness, _) if second.sign() == Sign::NoSign => Some(f64::NAN),
            (Shape::Skewness, _) => {
                let third = &n * &n * s3 - &three * &n * s1 * s2 + &two * s1 * s1 * s1;
                let square = &n * (&n - one) * &third * &third;
                let by = (&n - &two) * (&n - &two) * &second * &second * &second;
                let root = root(square.magnitude(), by.magnitude());
                Some(if third.sign() == Sign::Minus { -root } else { root })
            }
            (Shape::Kurtosis { .. }, _) if second.sign() == Sign::NoSign => None,
            (Shape::Kurtosis { sample }, [s4]) => {
                let fourth = &n * &n * &n * s4 - BigInt::from(4) * &n * &n * s1 * s3
                    + BigInt::from(6) * &n * s1 * s1 * s2
                    - &three * s1 * s1 * s1 * s1;
                let square = &second * &second;
                let (above, below) = match sample {
                    false => (fourth - three * &square, square),
                    true => {
                        let less = &n - &one;
                        let above = &less * ((&n + one) * fourth - &three * &less * &square);
                        (above, (&n - two) * (n - three) * square)
                    }
                };
                let magnitude = quotient(above.magnitude(), below.magnitude());
                Some(if above.sign() == Sign::Minus { -magnitude } else { magnitude })
            }
            _ => None,
        }
    }
}

/// The magnitude of a finite value as an odd number and a power of two; `None` of zero.
pub(super) fn parts(value: f64) -> Option<(u64, i64)> {
    let bits = value.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
    let whole = if exponent > 0 { fraction | 1 << 52 } else { fraction };
    let zeros = whole.trailing_zeros();
    (whole > 0).then(|| (whole >> zeros, exponent.max(1) - 1075 + i64::from(zeros)))
}

/// A product of four words; four powers of 53 bits have room there.
fn times(of: [u64; 4], by: u64) -> [u64; 4] {
    let mut carry = 0;
    of.map(|word| {
        let wide = u128::from(word) * u128::from(by) + carry;
        carry = wide >> BITS;
        wide as u64
    })
}

/// a / b, rounded to the nearest double.
fn quotient(a: &BigUint, b: &BigUint) -> f64 {
    let shift = b.bits() as i64 - a.bits() as i64 + 66;
    let (whole, is_exact) = divided(a, b, shift);
    rounded(&whole, is_exact, -shift)
}

/// The root of a / b, rounded to the nearest double.
fn root(a: &BigUint, b: &BigUint) -> f64 {
    let shift = (b.bits() as i64 - a.bits() as i64 + 132) & !1;
    let (square, is_exact) = divided(a, b, shift);
    let whole = square.sqrt();
    let is_exact = is_exact && &whole * &whole == square;
    rounded(&whole, is_exact, -shift / 2)
}

/// a · 2^shift / b without its fraction, and whether there is none.
fn divided(a: &BigUint, b: &BigUint, shift: i64) -> (BigUint, bool) {
    let by = usize::try_from(shift.unsigned_abs()).unwrap_or_default();
    let (a, b) = if shift < 0 { (a.clone(), b << by) } else { (a << by, b.clone()) };
    let whole = &a / &b;
    let is_exact = &whole * b == a;
    (whole, is_exact)
}

/// A number of 64 bits and a few more, and what is left out of it if it is not exact, times a power
/// of two.
fn rounded(whole: &BigUint, is_exact: bool, exponent: i64) -> f64 {
    let digits = whole.to_u64_digits();
    let digits = digits.iter().rev().fold(0, |all, word| all << BITS | u128::from(*word));
    scaled((digits | u128::from(!is_exact)) as f64, exponent)
}

/// A number times a power of two.
pub(super) fn scaled(mut value: f64, mut exponent: i64) -> f64 {
    while exponent != 0 && value != 0.0 && value.is_finite() {
        let step = exponent.clamp(-1000, 1000);
        value *= 2f64.powi(step as i32);
        exponent -= step;
    }
    value
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SHAPES: [Shape; 3] =
        [Shape::Skewness, Shape::Kurtosis { sample: true }, Shape::Kurtosis { sample: false }];

    fn of(shape: Shape, values: &[f64]) -> Option<f64> {
        let mut sums = PowerSums::new(shape);
        values.iter().for_each(|value| sums.add(*value));
        sums.answer()
    }

    #[test]
    fn small_samples_have_the_shapes_of_the_books() {
        let all = |values: &[f64]| SHAPES.map(|shape| of(shape, values));
        assert_eq!(all(&[]), [None; 3]);
        assert_eq!(all(&[1.0]), [None; 3]);
        assert_eq!(all(&[1.0, 2.0]), [None, None, Some(-2.0)]);
        // Σ(x−x̄)²/3 = 14/9, Σ(x−x̄)³/3 = 20/27; √6 · (20/27) / (14/9)^1.5.
        assert_eq!(all(&[1.0, 2.0, 4.0]), [Some(0.935_219_529_582_824_5), None, Some(-1.5)]);
        assert_eq!(
            all(&[1.0, 2.0, 4.0, 9.0]),
            [Some(1.330_937_732_247_670_3), Some(1.5), Some(-1.0)]
        );
        let [skewness, sample, whole] = all(&[2.5; 9]);
        assert!(skewness.unwrap().is_nan() && sample.is_none() && whole.is_none());
        let [skewness, sample, whole] = all(&[1.0, 2.0, f64::INFINITY, 4.0]);
        assert!([skewness, sample, whole].iter().all(|shape| shape.unwrap().is_nan()));
    }

    #[test]
    fn neither_place_nor_size_nor_sign_of_the_values_matters() {
        let values = [3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0, 6.0, 0.0];
        for shape in SHAPES {
            let expected = of(shape, &values);
            // Powers of two and whole numbers change no digits; the last has few of them.
            let (small, least) = (2f64.powi(-1000), f64::from_bits(1 << 20));
            for (by, and) in [(small, 0.0), (1.0 / small, 0.0), (1.0, 1e12), (least, 0.0)] {
                let moved = values.map(|value| value * by + and);
                assert_eq!(of(shape, &moved), expected, "{shape:?} {by} {and}");
            }
            let turned = of(shape, &values.map(|value| -value)).unwrap();
            let sign = if shape == Shape::Skewness { -1.0 } else { 1.0 };
            assert_eq!(turned * sign, expected.unwrap());
        }
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let values: Vec<f64> = (0..5000)
            .map(|i| f64::from(i * 7919 % 10_007) / 100.0 * 1e5f64.powi(i % 5 - 2))
            .collect();
        for shape in SHAPES {
            let whole = of(shape, &values);
            let mut turned = values.clone();
            turned.reverse();
            assert_eq!(of(shape, &turned), whole);
            let mut merged = PowerSums::new(shape);
            for part in turned.chunks(77) {
                let mut sums = PowerSums::new(shape);
                part.iter().for_each(|value| sums.add(*value));
                let mut bytes = Vec::new();
                sums.write(&mut bytes);
                merged.merge(&PowerSums::read(shape, &bytes).unwrap());
            }
            assert_eq!(merged.answer(), whole);
        }
    }
}
