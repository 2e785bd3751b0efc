//! The bins of a histogram, exact for any number of values in bounded memory.
//!
//! The first values are kept; then they are counted by a fine step, which becomes coarser whenever
//! the counts would not fit. Since steps lie within coarser ones, the counts of the bins that are
//! drawn are those of the values.

use super::skipped::Skipped;
use crate::charts::figure::{Axis, Bins};
use crate::charts::steps::Step;

/// Values that are kept before they are counted.
const KEPT: usize = 1 << 16;
/// Counts at most.
const MAX_COUNTS: i64 = 1 << 18;
/// The fine step divides the range of the first values into about this number of parts.
const FINE_PARTS: usize = 4_096;

/// Counts values for a histogram.
#[derive(Debug)]
pub(super) struct BinsCollector {
    x: Axis,
    whole: bool,
    bins: usize,
    kept: Vec<f64>,
    counts: Option<Counts>,
    pub(super) skipped: Skipped,
}

/// Counts by a step: of the steps `first`, `first + 1` and so on.
#[derive(Debug)]
struct Counts {
    step: Step,
    first: i64,
    counts: Vec<u64>,
    /// The least and the greatest value.
    bounds: (f64, f64),
}

impl BinsCollector {
    /// `whole` says that values are whole numbers, `bins` how many there may be.
    pub(super) fn new(x: Axis, whole: bool, bins: usize) -> Self {
        let kept = Vec::new();
        BinsCollector { x, whole, bins, kept, counts: None, skipped: Skipped::default() }
    }

    pub(super) fn add(&mut self, value: Option<f64>) {
        let Some(value) = self.skipped.axis(value, self.x.kind.is_time()) else { return };
        match &mut self.counts {
            Some(counts) => counts.add(value),
            None => {
                self.kept.push(value);
                if self.kept.len() >= KEPT {
                    self.count_kept();
                }
            }
        }
    }

    fn step(&self, lo: f64, hi: f64, parts: usize) -> Step {
        let step = Step::dividing(lo, hi, parts, self.x.kind.is_time());
        match step {
            Step::Number { exponent, .. } if self.whole && exponent < 0 => {
                Step::Number { mantissa: 1, exponent: 0 }
            }
            _ => step,
        }
    }

    fn count_kept(&mut self) {
        let (lo, hi) = bounds(&self.kept);
        let step = self.step(lo, hi, FINE_PARTS).grain();
        let mut counts =
            Counts { step, first: step.index(lo), counts: Vec::new(), bounds: (lo, hi) };
        for value in std::mem::take(&mut self.kept) {
            counts.add(value);
        }
        self.counts = Some(counts);
    }

    pub(super) fn finish(mut self) -> Bins {
        if self.counts.is_none() && self.kept.is_empty() {
            return Bins { x: self.x, ..Bins::default() };
        }
        let (lo, hi) = self.counts.as_ref().map_or_else(|| bounds(&self.kept), |all| all.bounds);
        let mut step = self.step(lo, hi, self.bins);
        if lo == hi && !self.whole {
            step = single(lo, step);
        }
        if let Some(counts) = &self.counts
            && step.length() < counts.step.length()
        {
            step = counts.step;
        }
        let (first, last) = (step.index(lo), step.index(hi));
        let parts = last.saturating_sub(first).clamp(0, MAX_COUNTS) as usize + 1;
        let mut bins = vec![0_u64; parts];
        let mut count = |at: i64, n: u64| {
            let place = usize::try_from(at.saturating_sub(first)).unwrap_or(0).min(parts - 1);
            if let Some(bin) = bins.get_mut(place) {
                *bin += n;
            }
        };
        match &self.counts {
            Some(all) => {
                for (at, n) in (all.first..).zip(&all.counts).filter(|(_, n)| **n > 0) {
                    count(step.index(all.step.start(at)), *n);
                }
            }
            None => self.kept.drain(..).for_each(|value| count(step.index(value), 1)),
        }
        let edges = (0..=parts as i64).map(|at| step.start(first + at)).collect();
        let whole = self.whole && step == Step::Number { mantissa: 1, exponent: 0 };
        Bins { x: self.x, edges, counts: bins, whole }
    }
}

/// The step around values that are all the same.
fn single(value: f64, step: Step) -> Step {
    match step {
        Step::Number { .. } if value == 0.0 => Step::Number { mantissa: 1, exponent: 0 },
        Step::Number { .. } => {
            let exponent = value.abs().log10().floor() as i32 - 1;
            Step::Number { mantissa: 1, exponent }
        }
        Step::Time { .. } => step,
    }
}

impl Counts {
    fn add(&mut self, value: f64) {
        self.bounds = (self.bounds.0.min(value), self.bounds.1.max(value));
        let at = self.step.index(value);
        let place = at.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| self.counts.get_mut(place)) {
            Some(count) => *count += 1,
            None => self.widen(value),
        }
    }

    /// Makes room for a value beyond the counts, with a coarser step if need be, and counts it.
    fn widen(&mut self, value: f64) {
        loop {
            let at = self.step.index(value);
            let end = self.first.saturating_add(self.counts.len() as i64);
            let (first, end) = match self.counts.is_empty() {
                true => (at, at.saturating_add(1)),
                false => (self.first.min(at), end.max(at.saturating_add(1))),
            };
            // Numbers beyond 2^53 would not have steps of their own.
            let is_exact = at.unsigned_abs() < 1 << 53;
            if is_exact && end.saturating_sub(first) <= MAX_COUNTS {
                self.resize(first, end);
                if let Some(count) = self.counts.get_mut((at - first) as usize) {
                    *count += 1;
                }
                return;
            }
            self.coarsen();
        }
    }

    /// `first..end` holds all counts.
    fn resize(&mut self, first: i64, end: i64) {
        let before = (self.first - first).max(0) as usize;
        if before > 0 && !self.counts.is_empty() {
            self.counts.splice(0..0, std::iter::repeat_n(0, before));
        }
        self.first = first;
        self.counts.resize((end - first) as usize, 0);
    }

    fn coarsen(&mut self) {
        let step = self.step.coarser();
        let first = step.index(self.step.start(self.first));
        let mut counts = Vec::new();
        for (at, n) in (self.first..).zip(&self.counts) {
            let place = (step.index(self.step.start(at)) - first).max(0) as usize;
            if place >= counts.len() {
                counts.resize(place + 1, 0);
            }
            if let Some(count) = counts.get_mut(place) {
                *count += n;
            }
        }
        *self = Counts { step, first, counts, bounds: self.bounds };
    }
}

fn bounds(values: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.iter().fold(ends, |(lo, hi), value| (lo.min(*value), hi.max(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::figure::AxisKind;

    fn bins(values: impl Iterator<Item = f64>, whole: bool, most: usize, kind: AxisKind) -> Bins {
        let mut all = BinsCollector::new(Axis { name: "x".into(), kind }, whole, most);
        values.for_each(|value| all.add(Some(value)));
        all.finish()
    }

    #[test]
    fn bins_begin_at_round_numbers_and_hold_every_value() {
        let made = bins((0..1_000).map(|at| f64::from(at) * 0.1), false, 10, AxisKind::Number);
        assert_eq!(made.edges.len(), 11);
        assert_eq!((made.edges[1], made.edges[10]), (10.0, 100.0));
        assert_eq!(made.counts, [100; 10]);
        let whole = bins([1.0, 2.0, 2.0, 5.0].into_iter(), true, 40, AxisKind::Number);
        assert_eq!(
            (whole.edges[0], &*whole.counts, whole.whole),
            (1.0, &[1, 2, 0, 0, 1][..], true)
        );
        let same = bins([3.5, 3.5].into_iter(), false, 40, AxisKind::Number);
        assert_eq!((same.counts.len(), same.counts[0]), (1, 2));
        assert!(same.edges[0] <= 3.5 && same.edges[1] > 3.5);
    }

    #[test]
    fn many_values_give_the_bins_of_few() {
        // Values grow, so that the range of the first ones is a small part of that of all.
        let value = |at: u32| (f64::from(at) * 0.001).powi(2) * f64::from(1 - 2 * (at as i32 % 2));
        let mut sorted: Vec<f64> = (0..200_000).map(value).collect();
        sorted.sort_by(f64::total_cmp);
        for most in [7, 30, 200] {
            let made = bins((0..200_000).map(value), false, most, AxisKind::Number);
            assert!(made.counts.len() <= most);
            for (at, count) in made.counts.iter().enumerate() {
                let below = |edge: f64| sorted.partition_point(|value| *value < edge);
                let expected = below(made.edges[at + 1]) - below(made.edges[at]);
                assert_eq!(*count, expected as u64, "{most} {at}");
            }
            assert_eq!(made.counts.iter().sum::<u64>(), 200_000);
        }
    }

    #[test]
    fn times_are_counted_by_the_calendar() {
        let day = |at: i32| f64::from(at) * 86_400.0 / 100.0;
        let made = bins((0..100_000).map(day), false, 40, AxisKind::Time);
        // 1,000 days from 1970-01-01 by months.
        assert_eq!(made.counts[..3], [3_100, 2_800, 3_100]);
        assert_eq!(made.counts.iter().sum::<u64>(), 100_000);
    }

    #[test]
    fn an_outlier_makes_the_step_coarser() {
        let values = (0..70_000).map(f64::from).chain([1e300, -1e18]);
        let made = bins(values, true, 10, AxisKind::Number);
        assert_eq!(made.counts.iter().sum::<u64>(), 70_002);
        assert_eq!(made.counts.last(), Some(&1));
    }
}
