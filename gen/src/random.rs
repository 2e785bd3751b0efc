//! Pseudo-random numbers (splitmix64). Every row starts a stream of its own, so that rows do not
//! depend on one another.

/// A stream of pseudo-random numbers.
pub(crate) struct Random(u64);

/// One output of splitmix64.
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of item `number` under `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Random(mix(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15))
            ^ number.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// The next 64 bits.
    fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number uniform in `[0, 1)`.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An integer uniform in `0..bound`, where `bound` > 0. The multiplication's bias is too small
    /// to notice.
    pub(crate) fn integer_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// A nearly normal number with mean 0 and deviation 1: the sum of four uniform numbers taken
    /// from one draw.
    pub(crate) fn normal(&mut self) -> f64 {
        let bits = self.next_bits();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f64 / 65_536.0 - 2.0) * 1.732_050_8
    }

    /// An exponentially distributed number.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// One of `choices`, drawn by weight.
    pub(crate) fn pick<T: Copy + Default>(&mut self, choices: &[(u32, T)]) -> T {
        let total: u32 = choices.iter().map(|choice| choice.0).sum();
        let mut remaining = self.integer_below(u64::from(total.max(1))) as u32;
        for &(weight, value) in choices {
            if remaining < weight {
                return value;
            }
            remaining -= weight;
        }
        T::default()
    }
}
