//! Numbers that sums of doubles keep apart: infinities, NaN, and values so large that a few of them
//! overflow. Added as they come, they would make a sum depend on the order of the rows: `∞` or not,
//! `NaN` or `-∞`.

use std::collections::BTreeMap;

use super::columns::GroupMap;
use crate::bytes::{Cursor, Writer};
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::kernels::two_sum;
use crate::error::Result;

/// Numbers from here on are large: 2^63 smaller ones do not overflow.
const LARGE: f64 = f64::from_bits((900 + 1023) << 52);
/// Large numbers are added in units of 2^128: 2^63 of them do not overflow either.
const UNIT: f64 = f64::from_bits((128 + 1023) << 52);

/// Whether a number is kept apart.
#[inline(always)]
pub(super) fn is_large(value: f64) -> bool {
    // Sizes sort as their bits do, and what is no number comes last.
    (value.to_bits() & (u64::MAX >> 1)) >= LARGE.to_bits()
}

/// Whether some of them are.
pub(super) fn any_large(values: &[f64]) -> bool {
    simd(
        #[inline(always)]
        || values.iter().fold(false, |any, value| any | is_large(*value)),
    )
}

/// What is kept apart for one group.
#[derive(Clone, Copy, Debug, Default)]
struct Overflow {
    /// The sum of large numbers in their unit, and what rounding has lost of it.
    sum: (f64, f64),
    /// How many infinities, and what is no number.
    rising: u64,
    falling: u64,
    nans: u64,
}

impl Overflow {
    fn add(&mut self, value: f64) {
        match value {
            f64::INFINITY => self.rising += 1,
            f64::NEG_INFINITY => self.falling += 1,
            value if value.is_nan() => self.nans += 1,
            value => two_sum::add(&mut self.sum.0, &mut self.sum.1, value / UNIT),
        }
    }

    fn join(&mut self, other: &Overflow) {
        two_sum::add(&mut self.sum.0, &mut self.sum.1, other.sum.0);
        self.sum.1 += other.sum.1;
        self.rising += other.rising;
        self.falling += other.falling;
        self.nans += other.nans;
    }

    fn write(&self, out: &mut Writer) {
        out.u64(self.sum.0.to_bits());
        out.u64(self.sum.1.to_bits());
        [self.rising, self.falling, self.nans].iter().for_each(|count| out.u64(*count));
    }

    fn read(from: &mut Cursor<'_>) -> Result<Overflow> {
        let sum = (f64::from_bits(from.u64()?), f64::from_bits(from.u64()?));
        let (rising, falling, nans) = (from.u64()?, from.u64()?, from.u64()?);
        Ok(Overflow { sum, rising, falling, nans })
    }

    /// The sum with the one of all other numbers.
    fn total(&self, (sum, lost): (f64, f64)) -> f64 {
        match (self.nans, self.rising, self.falling) {
            (0, 0, 0) => {
                // The other numbers' digits are lost in the unit: it is used where the whole might
                // overflow.
                let unit = if self.sum.0.abs() * UNIT <= f64::MAX / 4.0 { 1.0 } else { UNIT };
                let (mut all, mut all_lost) =
                    (self.sum.0 * (UNIT / unit), self.sum.1 * (UNIT / unit));
                two_sum::add(&mut all, &mut all_lost, sum / unit);
                (all + (all_lost + lost / unit)) * unit
            }
            (0, _, 0) => f64::INFINITY,
            (0, 0, _) => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

/// What is kept apart for those groups that have such numbers.
#[derive(Debug, Default)]
pub(super) struct Overflows(BTreeMap<usize, Overflow>);

impl Overflows {
    /// Adds a number.
    pub(super) fn add(&mut self, group: usize, value: f64) {
        self.0.entry(group).or_default().add(value);
    }

    /// Adds others' to the groups that `map` names.
    pub(super) fn merge(&mut self, other: &Overflows, map: GroupMap<'_>) {
        for (group, beyond) in &other.0 {
            self.0.entry(map.at(*group)).or_default().join(beyond);
        }
    }

    /// Appends some groups of others to the `groups` that there are.
    pub(super) fn append(&mut self, other: &Overflows, groups: usize, at: &[u32]) {
        if other.0.is_empty() {
            return;
        }
        for (place, from) in at.iter().enumerate() {
            if let Some(beyond) = other.0.get(&(*from as usize)) {
                self.0.insert(groups + place, *beyond);
            }
        }
    }

    /// The sum of a group whose other numbers are these: their sum, and what rounding has lost of
    /// it.
    pub(super) fn total(&self, group: usize, others: (f64, f64)) -> f64 {
        match self.0.get(&group) {
            Some(beyond) => beyond.total(others),
            None => others.0 + others.1,
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn memory(&self) -> usize {
        self.0.len() * (size_of::<usize>() + size_of::<Overflow>())
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.u64(self.0.len() as u64);
        for (group, beyond) in &self.0 {
            out.u64(*group as u64);
            beyond.write(out);
        }
    }

    pub(super) fn read(from: &mut Cursor<'_>) -> Result<Self> {
        let mut all = BTreeMap::new();
        for _ in 0..from.u64()? {
            let group = from.u64()? as usize;
            all.insert(group, Overflow::read(from)?);
        }
        Ok(Overflows(all))
    }

    /// Writes what a group has, if anything.
    #[cfg(feature = "cluster")]
    pub(super) fn write_one(&self, group: usize, out: &mut Writer) {
        let beyond = self.0.get(&group);
        out.u8(u8::from(beyond.is_some()));
        beyond.into_iter().for_each(|beyond| beyond.write(out));
    }

    /// Reads it.
    #[cfg(feature = "cluster")]
    pub(super) fn read_one(&mut self, group: usize, from: &mut Cursor<'_>) -> Result<()> {
        if from.u8()? > 0 {
            self.0.insert(group, Overflow::read(from)?);
        }
        Ok(())
    }
}
