//! Division of integers by an invariant divisor: a multiplication and a shift (Granlund,
//! Montgomery: "Division by Invariant Integers using Multiplication", 1994).

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

    #[test]
    fn divisors_must_be_positive() {
        assert_eq!(Divisor::new(0), None);
        assert_eq!(Divisor::new(-3), None);
    }
}
