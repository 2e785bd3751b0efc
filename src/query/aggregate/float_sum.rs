//! Sums of doubles that do not depend on the order of the rows.
//!
//! Decimal floats are added as the whole numbers that they are stored as, exactly; everything else
//! in two doubles with the rounding error kept (Knuth's two-sum), whose result differs from the
//! exact sum by 2⁻¹⁰⁰ or so. What may overflow is kept apart (`overflow`).

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};

use super::columns::{GroupMap, GroupStorage, each, gather, read_words, write_words};
use super::input::Values;
use super::kernels::{Groups, fold, fold_spread, grow, neutralised};
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::overflow::{Overflows, any_large, is_large};
use crate::bytes::{Cursor, Writer};
use crate::encoding::kernels::two_sum;
use crate::encoding::scaled::ScaledInts;
use crate::error::Result;
use crate::segment::scaled::Decimals;

/// The most groups for which pending integers are kept: each change of scale passes over all.
pub(crate) const MAX_PENDING: usize = 1 << 16;
/// Pending sums stay below this.
const MOST: u64 = 1 << 62;

#[derive(Debug, Default)]
pub(super) struct FloatSum {
    /// Sum and what rounding has lost of it.
    sums: Vec<(f64, f64)>,
    /// Integers, of `10^-exponent` each, not yet in `sums`; empty while there are none.
    pending: Vec<i64>,
    exponent: u8,
    /// No pending sum is beyond this.
    used: u64,
    /// What is not in the sums.
    overflow: Overflows,
    /// Rows that were looked at for pages to touch.
    touched: usize,
    /// Whether means are wanted.
    mean: bool,
}

#[inline(always)]
fn add(slot: &mut (f64, f64), value: f64) {
    two_sum::add(&mut slot.0, &mut slot.1, value);
}

/// Adds what another sum has, and what it has lost.
#[inline(always)]
fn join(slot: &mut (f64, f64), other: (f64, f64)) {
    add(slot, other.0);
    slot.1 += other.1;
}

impl StateKind for FloatSum {
    fn only_adds(&self) -> bool {
        true
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        self
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        self
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        match values {
            Values::Floats(values) => self.add_floats(groups, values, valid),
            Values::Decimals(values) => self.add_decimals(groups, values, valid),
            Values::Words(_) | Values::Wide(_) | Values::Codes(_) | Values::Array(_) => {
                return Err(wrong_kind_error());
            }
        }
        Ok(())
    }

    /// Moves what is pending into the sums.
    fn settle(&mut self) {
        let power = 10f64.powi(i32::from(self.exponent));
        for (sum, pending) in self.sums.iter_mut().zip(&mut self.pending) {
            let int = std::mem::take(pending);
            if int != 0 {
                // The whole number in two doubles, and its quotient in two.
                let high = int as f64;
                let low = (i128::from(int) - high as i128) as f64;
                let quotient = high / power;
                add(sum, quotient);
                add(sum, ((-quotient).mul_add(power, high) + low) / power);
            }
        }
        self.used = 0;
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        self.settle();
        each(&mut self.sums, &others.sums, map, |slot, sum| {
            // Memory without groups stays untouched.
            if sum != (0.0, 0.0) {
                join(slot, sum);
            }
        });
        self.overflow.merge(&others.overflow, map);
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.overflow.append(&others.overflow, self.sums.len(), at);
        gather(&mut self.sums, &others.sums, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let value = |(group, count): (&u64, &u64)| match self.sum(*group as usize) {
            // Which NaN comes out depends on the order in which they met.
            sum if sum.is_nan() => f64::NAN,
            sum if self.mean => sum / *count as f64,
            sum => sum,
        };
        let values: ScalarBuffer<f64> = batch.groups.iter().zip(batch.counts).map(value).collect();
        Ok(Arc::new(Float64Array::new(values, batch.nulls())))
    }
}

impl GroupStorage for FloatSum {
    fn bytes_a_group(&self) -> usize {
        size_of::<(f64, f64)>()
    }

    fn memory(&self) -> usize {
        self.overflow.memory()
            + self.sums.capacity() * size_of::<(f64, f64)>()
            + self.pending.capacity() * size_of::<i64>()
    }

    fn grow(&mut self, groups: usize) {
        grow(&mut self.sums, groups, (0.0, 0.0));
        if !self.pending.is_empty() {
            self.pending.resize(groups, 0);
        }
    }

    fn clear(&mut self) {
        self.sums.clear();
        self.pending.clear();
        self.used = 0;
        self.overflow.clear();
    }

    fn write(&self, out: &mut Writer) {
        let part = |part: fn(&(f64, f64)) -> f64| {
            self.sums.iter().map(part).map(f64::to_bits).collect::<Vec<u64>>()
        };
        write_words(&part(|sum| sum.0), out);
        write_words(&part(|sum| sum.1), out);
        self.overflow.write(out);
    }

    fn read(&mut self, groups: usize, from: &mut Cursor<'_>) -> Result<()> {
        let (sums, lost): (Vec<u64>, Vec<u64>) =
            (read_words(groups, from)?, read_words(groups, from)?);
        let both = sums
            .into_iter()
            .zip(lost)
            .map(|(sum, lost)| (f64::from_bits(sum), f64::from_bits(lost)));
        *self = FloatSum {
            sums: both.collect(),
            overflow: Overflows::read(from)?,
            ..FloatSum::new(self.mean)
        };
        Ok(())
    }

    #[cfg(feature = "cluster")]
    fn write_one(&self, group: usize, out: &mut Writer) {
        let (sum, lost) = self.sums.get(group).copied().unwrap_or_default();
        out.u64(sum.to_bits());
        out.u64(lost.to_bits());
        self.overflow.write_one(group, out);
    }

    #[cfg(feature = "cluster")]
    fn read_one(&mut self, from: &mut Cursor<'_>) -> Result<()> {
        let (sum, lost) = (f64::from_bits(from.u64()?), f64::from_bits(from.u64()?));
        self.overflow.read_one(self.sums.len(), from)?;
        self.sums.push((sum, lost));
        Ok(())
    }
}

impl FloatSum {
    /// Their sums, or their means.
    pub(super) fn new(mean: bool) -> Self {
        FloatSum { mean, ..FloatSum::default() }
    }

    fn add_floats(&mut self, groups: Groups<'_>, values: &[f64], valid: Option<&NullBuffer>) {
        if let (Groups::Same { .. }, Some(valid)) = (groups, valid) {
            let values: Vec<f64> = neutralised(values, valid, 0, f64::to_bits)
                .into_iter()
                .map(f64::from_bits)
                .collect();
            return self.add_floats(groups, &values, None);
        }
        if let (Groups::Same { group, .. }, None) = (groups, valid) {
            let (sum, lost) = two_sum::sum(values);
            if let Some(slot) = self.sums.get_mut(group)
                && !is_large(sum)
            {
                return join(slot, (sum, lost));
            }
        }
        self.touch(groups);
        if any_large(values) {
            let counts = |at: &usize| valid.is_none_or(|valid| valid.is_valid(*at));
            for at in (0..values.len()).filter(counts) {
                self.add_one(groups.at(at), values.get(at).copied().unwrap_or_default());
            }
            return;
        }
        match valid {
            None => fold_spread(groups, values, &mut self.sums, add, join),
            Some(_) => fold(groups, values, valid, &mut self.sums, add),
        }
    }

    /// Writes to the pages of the sums that rows are about to be added to. To read a fresh page
    /// first costs two faults, of which the second interrupts all other threads: a third of a first
    /// query with millions of groups.
    fn touch(&mut self, groups: Groups<'_>) {
        const PAGE: usize = 4096 / size_of::<(f64, f64)>();
        // Fewer pages are not worth a look.
        let Groups::Words(groups) = groups else { return };
        let pages = self.sums.len() / PAGE;
        if pages < 256 {
            return;
        }
        // An addition in memory is a write from the start. What is added must not be known, or
        // nothing would be.
        let zero = std::hint::black_box(0);
        let write =
            |slot: &mut (f64, f64)| slot.0 = f64::from_bits(slot.0.to_bits().wrapping_add(zero));
        let (least, most) =
            groups.iter().fold((u32::MAX, 0), |(l, m), group| (l.min(*group), m.max(*group)));
        let (least, most) = (least as usize, (most as usize + 1).min(self.sums.len()));
        if let Some(near) =
            self.sums.get_mut(least..most).filter(|near| near.len() / PAGE * 16 <= groups.len())
        {
            near.iter_mut().step_by(PAGE).for_each(write);
            near.last_mut().into_iter().for_each(write);
        } else if self.touched < 4 * pages {
            // Rows from everywhere have been on almost every page soon.
            self.touched += groups.len();
            groups
                .iter()
                .for_each(|group| self.sums.get_mut(*group as usize).into_iter().for_each(write));
        }
    }

    fn add_one(&mut self, group: usize, value: f64) {
        match self.sums.get_mut(group) {
            Some(_) if is_large(value) => self.overflow.add(group, value),
            Some(slot) => add(slot, value),
            None => {}
        }
    }

    /// What null rows hold must be 0 unless `valid` leaves them out.
    fn add_decimals(&mut self, groups: Groups<'_>, values: &Decimals, valid: Option<&NullBuffer>) {
        let more = values.most.saturating_mul(values.ints.len() as u64);
        if self.exponent != values.exponent || self.used.saturating_add(more) > MOST {
            self.settle();
            self.exponent = values.exponent;
        }
        self.pending.resize(self.sums.len(), 0);
        self.used = self.used.saturating_add(more);
        let plus = |slot: &mut i64, v: i64| *slot = slot.wrapping_add(v);
        let plus_narrow = |slot: &mut i64, v: i32| *slot = slot.wrapping_add(i64::from(v));
        match (&values.ints, valid) {
            (ScaledInts::Narrow(ints), None) => {
                fold_spread(groups, ints, &mut self.pending, plus_narrow, plus)
            }
            (ScaledInts::Wide(ints), None) => {
                fold_spread(groups, ints, &mut self.pending, plus, plus)
            }
            (ScaledInts::Narrow(ints), valid) => {
                fold(groups, ints, valid, &mut self.pending, plus_narrow)
            }
            (ScaledInts::Wide(ints), valid) => fold(groups, ints, valid, &mut self.pending, plus),
        }
        for (row, value) in &values.exceptions {
            if valid.is_some_and(|valid| valid.is_null(*row)) {
                continue;
            }
            let at = groups.at(*row);
            if let (Some(pending), Some(int)) = (self.pending.get_mut(at), values.ints.get(*row)) {
                *pending = pending.wrapping_sub(int);
                self.add_one(at, *value);
            }
        }
    }

    /// The sum of a group, once settled.
    fn sum(&self, group: usize) -> f64 {
        self.overflow.total(group, self.sums.get(group).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter() {
        let values: Vec<f64> = (0..10_000)
            .map(|i| f64::from(i * 7919 % 10_007) / 100.0 * 1e3f64.powi(i % 5))
            .collect();
        let sum = |values: &[f64]| {
            let mut sums = FloatSum::default();
            sums.grow(1);
            sums.add_floats(Groups::Same { group: 0, rows: values.len() }, values, None);
            sums.sum(0)
        };
        let mut turned = values.clone();
        turned.reverse();
        assert_eq!(sum(&values), sum(&turned));
        turned.sort_by(f64::total_cmp);
        assert_eq!(sum(&values), sum(&turned));
    }

    #[test]
    fn what_overflows_does_so_in_any_order() {
        const INF: f64 = f64::INFINITY;
        let cases: [(&[f64], f64); 8] = [
            (&[1e300, 1e300, INF], INF),
            (&[INF, -INF], f64::NAN),
            (&[f64::NAN, 1.0], f64::NAN),
            (&[f64::MAX, f64::MAX, -INF], -INF),
            (&[f64::MAX, f64::MAX, -f64::MAX, 1.0], f64::MAX),
            (&[f64::MAX, -f64::MAX, 1.5], 1.5),
            (&[f64::MAX, f64::MAX], INF),
            (&[-1e290, 1e290, 1e-300], 1e-300),
        ];
        for (values, expected) in cases {
            let mut values = values.to_vec();
            for _ in 0..values.len() {
                values.rotate_left(1);
                let rows = values.len();
                let of = |groups: Groups<'_>, values: &[f64]| {
                    let mut sums = FloatSum::default();
                    sums.grow(2);
                    sums.add_floats(groups, values, None);
                    sums
                };
                // In two halves, one of them written and read.
                let (left, right) = values.split_at(rows / 2);
                let mut out = Writer::new();
                of(Groups::Words(&vec![1; rows]), left).write(&mut out);
                let mut halves = of(Groups::Words(&vec![1; rows]), right);
                let mut written = FloatSum::default();
                written.read(2, &mut Cursor::new(out.as_slice())).unwrap();
                halves.merge(&written, GroupMap::Same);
                let mut appended = FloatSum::default();
                appended.append(&halves, &[0, 1]);
                let same = of(Groups::Same { group: 1, rows }, &values);
                let each = of(Groups::Words(&vec![1; rows]), &values);
                for sum in [same, each, halves, appended].map(|sums| sums.sum(1)) {
                    assert!(
                        sum == expected || (sum.is_nan() && expected.is_nan()),
                        "{values:?}: {sum}"
                    );
                }
            }
        }
    }

    #[test]
    fn decimals_are_exact() {
        let mut sums = FloatSum::default();
        sums.grow(2);
        let most = 1 << 50;
        for _ in 0..100 {
            let decimals = Decimals {
                ints: ScaledInts::Wide(vec![10, 20, -most]),
                exponent: 2,
                exceptions: vec![(0, 0.5)],
                most: 1 << 50,
            };
            sums.add_decimals(
                Groups::Bytes { codes: &[0, 0, 1], group_of_code: &[0, 1] },
                &decimals,
                None,
            );
        }
        sums.settle();
        assert_eq!(sums.sum(0), 70.0);
        assert_eq!(sums.sum(1), -(most as f64) / 100.0 * 100.0);
    }
}
