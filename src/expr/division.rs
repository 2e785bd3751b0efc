//! Division of integers by an invariant divisor: a multiplication and a shift (Granlund,
//! Montgomery: "Division by Invariant Integers using Multiplication", 1994).

use crate::encoding::kernels::dispatch::simd;

/// 2^52: the bits of a double from here to its double are those of the whole number above it.
const UNITS: f64 = (1u64 << 52) as f64;
/// What is divided as doubles is below this.
pub(crate) const NEAR: u64 = 1 << 51;

/// A positive divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    divisor: i64,
    /// ⌈2^(63 + bits) / divisor⌉, which is below 2^64.
    factor: u64,
    /// ⌈log₂ divisor⌉.
    bits: u32,
}

impl Divisor {
    /// `None` unless the divisor is positive.
    pub(crate) fn new(divisor: i64) -> Option<Self> {
        let wide = u128::try_from(divisor).ok().filter(|divisor| *divisor > 0)?;
        let bits = u128::BITS - (wide - 1).leading_zeros();
        let factor = u64::try_from((1u128 << (63 + bits)).div_ceil(wide)).ok()?;
        Some(Divisor { divisor, factor, bits })
    }

    /// The quotient, truncated towards zero.
    #[inline(always)]
    pub(crate) fn quotient(self, value: i64) -> i64 {
        let size = value.unsigned_abs();
        if size >> 63 != 0 {
            return value / self.divisor;
        }
        let quotient = ((u128::from(self.factor) * u128::from(size)) >> (63 + self.bits)) as i64;
        let sign = value >> 63;
        (quotient ^ sign) - sign
    }

    /// The quotient of a distance, which must be at least 0 and below [`NEAR`], as the divisor
    /// must.
    /// A loop of it is turned into vector instructions, which know no products of 128 bits.
    #[inline(always)]
    fn near_quotient(self, distance: i64) -> u64 {
        let divisor = self.divisor as f64;
        let distance = f64::from_bits(distance as u64 | UNITS.to_bits()) - UNITS;
        // The nearest whole number to the quotient of doubles is off by one at most. The remainder
        // is exact, and says so.
        let quotient = (distance * (1.0 / divisor) + UNITS) - UNITS;
        let rest = distance - quotient * divisor;
        let one = |is: bool| if is { 1.0 } else { 0.0 };
        let quotient = quotient + one(rest >= divisor) - one(rest < 0.0);
        (quotient + UNITS).to_bits() ^ UNITS.to_bits()
    }

    /// Divides the distance of each value from `base`. All distances must be at least 0 and below
    /// [`NEAR`].
    pub(crate) fn near_quotients(self, base: i64, values: &[i64]) -> Vec<i64> {
        let mut quotients = vec![0; values.len()];
        simd(
            #[inline(always)]
            || {
                for (quotient, value) in quotients.iter_mut().zip(values) {
                    *quotient = self.near_quotient(value.wrapping_sub(base)) as i64;
                }
            },
        );
        quotients
    }

    /// The remainder, which has the sign of the value.
    #[inline(always)]
    pub(crate) fn remainder(self, value: i64) -> i64 {
        value - self.quotient(value) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_divides(value: i64, divisor in 1..=i64::MAX, small in 1i64..1000) {
            for divisor in [divisor, small, 1 << (small % 63), (1 << (small % 62)) + 1] {
                let by = Divisor::new(divisor).unwrap();
                let near = [divisor, divisor - 1, -divisor];
                let others = [value, value >> (small % 64), i64::MAX, i64::MIN, 0];
                for value in near.into_iter().chain(others) {
                    let found = (by.quotient(value), by.remainder(value));
                    proptest::prop_assert_eq!(
                        found, (value / divisor, value % divisor), "{} / {}", value, divisor
                    );
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn near_values_are_divided_as_all(
            distance in 0..NEAR as i64,
            divisor in 1..NEAR as i64,
            shift in 0u32..51,
        ) {
            for divisor in [divisor, (divisor >> shift).max(1)] {
                let by = Divisor::new(divisor).unwrap();
                let multiple = distance - distance % divisor;
                for distance in [distance, multiple, (multiple - 1).max(0), 0, NEAR as i64 - 1] {
                    let found = by.near_quotient(distance);
                    proptest::prop_assert_eq!(found as i64, distance / divisor);
                }
            }
        }
    }

    #[test]
    fn divisors_must_be_positive() {
        assert_eq!(Divisor::new(0), None);
        assert_eq!(Divisor::new(-3), None);
    }
}
