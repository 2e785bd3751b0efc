//! A small generator of random numbers (splitmix64): started afresh for every row, so that rows do
//! not depend on one another.

/// A stream of pseudo-random numbers.
pub(super) struct Random(u64);

/// One output of splitmix64.
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of item `number` under `seed`.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Random(mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15))
            ^ number.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..bound` (`bound` > 0; the bias of the multiplication is far below what anyone
    /// could see).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`.
    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Nearly normal, mean 0 and deviation 1: the sum of four uniform numbers taken from one draw.
    pub(super) fn normal(&mut self) -> f64 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f64 / 65_536.0 - 2.0) * 1.732_050_8
    }

    /// Exponential with mean `mean`.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// One of `choices`, by weight.
    pub(super) fn pick<T: Copy + Default>(&mut self, choices: &[(u32, T)]) -> T {
        let total: u32 = choices.iter().map(|choice| choice.0).sum();
        let mut left = self.below(u64::from(total.max(1))) as u32;
        for &(weight, value) in choices {
            if left < weight {
                return value;
            }
            left -= weight;
        }
        T::default()
    }
}
