//! Where values lie between the ends of an axis, and its ticks.

use super::figure::{Axis, AxisKind};
use super::labels;
use super::steps::Step;

/// An axis with ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    lo: f64,
    hi: f64,
    log: bool,
    /// Places from 0 to 1, and their texts.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// A scale of values, whose ends are ticks, with about `most` of them. `from_zero` says that
    /// lengths stand for values.
    pub(super) fn values((lo, hi): (f64, f64), log: bool, from_zero: bool, most: usize) -> Scale {
        if log && lo > 0.0 && hi.is_finite() {
            return Scale::logarithmic(lo, hi, most);
        }
        let (mut lo, mut hi) = if lo <= hi { (lo, hi) } else { (0.0, 1.0) };
        if from_zero {
            (lo, hi) = (lo.min(0.0), hi.max(0.0));
        }
        if lo == hi {
            let around = if lo == 0.0 { 1.0 } else { lo.abs() * 0.1 };
            (lo, hi) = (if from_zero { lo } else { lo - around }, hi + around);
        }
        let step = Step::dividing(lo, hi, most.max(2), false);
        let first = step.index(lo);
        let last = step.index(hi);
        // A value that is a multiple of the step ends the scale there.
        let last = if step.start(last) < hi { last + 1 } else { last };
        let values: Vec<f64> = (first..=last).map(|at| step.start(at)).collect();
        (lo, hi) = (step.start(first), step.start(last));
        let mut scale = Scale { lo, hi, log: false, ticks: Vec::new() };
        let texts = labels::numbers(&values, step);
        scale.ticks = values.iter().map(|value| scale.place(*value)).zip(texts).collect();
        scale
    }

    fn logarithmic(lo: f64, hi: f64, most: usize) -> Scale {
        let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
        let last = last.max(first + 1);
        let (lo, hi) = (10_f64.powi(first), 10_f64.powi(last));
        let mut scale = Scale { lo, hi, log: true, ticks: Vec::new() };
        let decades = (last - first) as usize;
        let every = decades.div_ceil(most.max(1));
        let mut values: Vec<f64> = (first..=last).step_by(every).map(|e| 10_f64.powi(e)).collect();
        if decades * 3 <= most {
            let parts = (first..last).flat_map(|e| [2.0, 5.0].map(|part| part * 10_f64.powi(e)));
            values.extend(parts);
            values.sort_by(f64::total_cmp);
        }
        let ticks = values.iter().map(|value| (scale.place(*value), labels::short_value(*value)));
        scale.ticks = ticks.collect();
        scale
    }

    /// A horizontal axis from the first to the last value, with at most `most` ticks.
    pub(super) fn axis((lo, hi): (f64, f64), kind: AxisKind, most: usize) -> Scale {
        let (mut lo, mut hi) = if lo <= hi { (lo, hi) } else { (0.0, 1.0) };
        if lo == hi {
            let around = if kind.is_time() { 43_200.0 } else { (lo.abs() * 0.1).max(0.5) };
            (lo, hi) = (lo - around, hi + around);
        }
        let step = Step::dividing(lo, hi, most.max(2), kind.is_time());
        let values = step.starts(lo, hi);
        let texts = match kind {
            AxisKind::Number => labels::numbers(&values, step),
            _ => labels::times(&values, step, kind == AxisKind::TimeOfDay),
        };
        let mut scale = Scale { lo, hi, log: false, ticks: Vec::new() };
        scale.ticks = values.iter().map(|value| scale.place(*value)).zip(texts).collect();
        scale
    }

    /// Where a value lies, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value.log10() - self.lo.log10()) / (self.hi.log10() - self.lo.log10())
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Where bars begin: at zero, or at the lower end.
    pub(super) fn base(&self) -> f64 {
        if self.log { 0.0 } else { self.place(0.0) }
    }
}

/// The name of an axis, and what its ticks do not tell of a time.
pub(super) fn axis_name(axis: &Axis, (lo, hi): (f64, f64)) -> String {
    match axis.kind {
        _ if lo > hi => axis.name.clone(),
        AxisKind::Number => axis.name.clone(),
        kind => {
            let span = labels::time_span(lo, hi, kind == AxisKind::TimeOfDay);
            format!("{}, {span}", axis.name)
        }
    }
}

/// The least and the greatest of some values; the first is greater if there are none.
pub(super) fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| &*tick.1).collect()
    }

    #[test]
    fn values_end_at_ticks() {
        let scale = Scale::values((3.0, 97.0), false, true, 6);
        assert_eq!(ticks(&scale), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!((scale.place(50.0), scale.base()), (0.5, 0.0));
        let scale = Scale::values((-12.0, 30.0), false, true, 6);
        assert_eq!(ticks(&scale), ["-20", "-10", "0", "10", "20", "30"]);
        assert_eq!(scale.base(), 0.4);
        assert_eq!(ticks(&Scale::values((7.0, 7.0), false, true, 3)).first(), Some(&"0"));
        assert_eq!(ticks(&Scale::values((1.0, 0.0), false, false, 3)), ["0", "0.5", "1.0"]);
    }

    #[test]
    fn logarithmic_scales_go_by_powers_of_ten() {
        let scale = Scale::values((3.0, 45_000.0), true, true, 6);
        assert_eq!(ticks(&scale), ["1", "10", "100", "1,000", "10k", "100k"]);
        assert_eq!((scale.place(10.0), scale.base()), (0.2, 0.0));
        let scale = Scale::values((2.0, 9.0), true, false, 6);
        assert_eq!(ticks(&scale), ["1", "2", "5", "10"]);
        let scale = Scale::values((1e-5, 1e5), true, false, 5);
        assert_eq!(scale.ticks.len(), 6);
    }

    #[test]
    fn no_range_is_too_small_or_too_large() {
        for (lo, hi) in [(0.0, 0.0), (1e17, 1e17), (-1e300, 1e300), (5e-324, 5e-324), (1.0, -1.0)] {
            for log in [false, true] {
                let scale = Scale::values((lo, hi), log, false, 5);
                assert!(scale.ticks.len() < 20, "{lo} {hi} {}", scale.ticks.len());
                assert!(scale.ticks.iter().all(|(place, _)| (0.0..=1.0).contains(place)));
            }
            for kind in [AxisKind::Number, AxisKind::Time, AxisKind::TimeOfDay] {
                let (lo, hi) =
                    if kind.is_time() { (lo.max(-8e12), hi.min(8e12)) } else { (lo, hi) };
                assert!(Scale::axis((lo, hi), kind, 5).ticks.len() < 20);
            }
        }
    }
}
