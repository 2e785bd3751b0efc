//! A set of whole numbers that lie close together, one bit for each.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

/// A set of whole numbers.
#[derive(Clone, Debug)]
pub struct IntegerSet {
    /// Tells this set and its copies from all others of the process.
    id: u64,
    /// The number of the first bit.
    least: i64,
    /// Begins with the first bit of its first byte.
    holds: BooleanBuffer,
}

impl IntegerSet {
    /// Of the numbers from `least` on, those whose bit is set.
    pub(crate) fn new(least: i64, mut holds: BooleanBufferBuilder) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        IntegerSet { id: MADE.fetch_add(1, Ordering::Relaxed), least, holds: holds.finish() }
    }

    /// Sets with the same number are equal.
    pub(crate) fn id(&self) -> u64 {
        self.id
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

    /// What [`IntegerSet::at`] says of the places from one on, one byte for each.
    pub(crate) fn spread(&self, first: u64, places: usize, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.reserve(places);
        let mut next = first;
        while bytes.len() < places {
            let byte = self.holds.values().get((next / 8) as usize).copied().unwrap_or(0);
            let (shift, left) = ((next % 8) as u32, places - bytes.len());
            let taken = (8 - shift).min(left.min(8) as u32);
            bytes.extend((shift..shift + taken).map(|bit| (byte >> bit) & 1));
            next = next.wrapping_add(u64::from(taken));
        }
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

impl PartialEq for IntegerSet {
    fn eq(&self, other: &IntegerSet) -> bool {
        self.id == other.id || (self.least == other.least && self.holds == other.holds)
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
        let mut bytes = Vec::new();
        for (from, places) in [(-40, 80), (-5, 20), (-4, 3), (3, 0), (14, 100), (i64::MIN, 9)] {
            set.spread(set.place(from), places, &mut bytes);
            let one_by_one: Vec<u8> =
                (0..places as i64).map(|i| set.at(set.place(from.wrapping_add(i)))).collect();
            assert_eq!(bytes, one_by_one, "{places} from {from}");
        }
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
