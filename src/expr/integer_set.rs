//! A set of whole numbers that lie close together, one bit for each.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

/// A set of whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerSet {
    /// The number of the first bit.
    least: i64,
    /// Begins with the first bit of its first byte.
    holds: BooleanBuffer,
}

impl IntegerSet {
    /// Of the numbers from `least` on, those whose bit is set.
    pub(crate) fn new(least: i64, mut holds: BooleanBufferBuilder) -> Self {
        IntegerSet { least, holds: holds.finish() }
    }

    /// How many numbers are in the set.
    pub(crate) fn len(&self) -> u64 {
        self.holds.count_set_bits() as u64
    }

    /// Where a number has its bit; beyond the last one if it has none.
    pub(crate) fn place(&self, number: i64) -> u64 {
        number.wrapping_sub(self.least) as u64
    }

    /// 1 if the number with this place is in the set, else 0.
    #[inline(always)]
    pub(crate) fn at(&self, place: u64) -> u8 {
        let byte = self.holds.values().get((place / 8) as usize).copied().unwrap_or(0);
        (byte >> (place % 8)) & 1
    }

    /// Whether some of the numbers from one to another are in the set, and whether all are.
    pub(crate) fn among(&self, low: i128, high: i128) -> (bool, bool) {
        let least = i128::from(self.least);
        let last = least + self.holds.len() as i128 - 1;
        let (from, to) = (low.max(least), high.min(last));
        if from > to {
            return (false, false);
        }
        let numbers = (to - from + 1) as usize;
        let found = self.holds.slice((from - least) as usize, numbers).count_set_bits();
        (found > 0, found == numbers && from == low && to == high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_and_others_are_not() {
        let mut holds = BooleanBufferBuilder::new(20);
        (0..20).for_each(|i| holds.append(i % 3 == 0 || i > 15));
        let set = IntegerSet::new(-5, holds);
        let has = |number: i64| set.at(set.place(number)) == 1;
        let found: Vec<i64> = (-40..40).filter(|number| has(*number)).collect();
        assert_eq!(found, [-5, -2, 1, 4, 7, 10, 11, 12, 13, 14]);
        assert!(!has(i64::MIN) && !has(i64::MAX));
        assert_eq!(set.among(-5, -5), (true, true));
        assert_eq!(set.among(-4, -3), (false, false));
        assert_eq!(set.among(-4, 0), (true, false));
        assert_eq!(set.among(10, 14), (true, true));
        assert_eq!(set.among(10, 15), (true, false));
        assert_eq!(set.among(-6, -5), (true, false));
        assert_eq!(set.among(15, 99), (false, false));
        assert_eq!(set.among(i128::MIN, i128::MAX), (true, false));
    }
}
