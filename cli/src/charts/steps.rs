//! Steps of an axis: the distances between its ticks and the widths of bins. Numbers go by 1, 2 or
//! 5 times a power of ten, times by units of the clock and the calendar.
//!
//! Every value of an axis lies in one step. Steps have numbers, so that a finer step lies within a
//! coarser one as a whole: counts by a fine step can be added up to counts by a coarse one.

use chrono::{DateTime, Datelike, Days, NaiveDate};

/// Numbers beyond this are not drawn: differences of larger ones overflow.
pub(super) const MAX_NUMBER: f64 = 1e300;
/// Times beyond this many seconds from 1970 are not drawn: they are beyond the calendar.
pub(super) const MAX_SECONDS: f64 = 8e12;
const DAY: i64 = 86_400;

/// The distance between two ticks, or the width of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// `mantissa · 10^exponent`.
    Number { mantissa: i64, exponent: i32 },
    /// `count` units, from 1970 or, where they do not divide it, from the start of a longer unit.
    Time { unit: Unit, count: i64 },
}

/// Units of time. Values on a time axis are seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Year,
}

impl Unit {
    /// Steps in this unit, from the shortest, and about how many seconds the unit has.
    fn steps(self) -> (&'static [i64], f64) {
        match self {
            Unit::Microsecond => (&[1, 2, 5, 10, 20, 50, 100, 200, 500], 1e-6),
            Unit::Millisecond => (&[1, 2, 5, 10, 20, 50, 100, 200, 500], 1e-3),
            Unit::Second => (&[1, 2, 5, 10, 15, 30], 1.0),
            Unit::Minute => (&[1, 2, 5, 10, 15, 30], 60.0),
            Unit::Hour => (&[1, 2, 3, 6, 12], 3600.0),
            Unit::Day => (&[1, 2, 7, 14], 86_400.0),
            Unit::Month => (&[1, 3, 6], 2_629_746.0),
            Unit::Year => (&[1, 2, 5], 31_556_952.0),
        }
    }

    const ALL: [Unit; 8] = [
        Unit::Microsecond,
        Unit::Millisecond,
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
        Unit::Month,
        Unit::Year,
    ];
}

impl Step {
    /// The shortest step that divides `lo..=hi` into at most `most` parts.
    pub(super) fn dividing(lo: f64, hi: f64, most: usize, is_time: bool) -> Step {
        let span = (hi - lo).max(0.0);
        let least = span / most.max(1) as f64;
        let fits = |step: &Step| step.index(hi).saturating_sub(step.index(lo)) < most.max(1) as i64;
        if is_time {
            let powers = [1, 10, 100, 1_000, 10_000, 100_000];
            let years = powers.iter().flat_map(|power| [1, 2, 5].map(|count| count * power));
            let shorter = Unit::ALL.iter().filter(|unit| **unit != Unit::Year).flat_map(|unit| {
                unit.steps().0.iter().map(|count| Step::Time { unit: *unit, count: *count })
            });
            let all = shorter.chain(years.map(|count| Step::Time { unit: Unit::Year, count }));
            let long_enough = |step: &Step| step.length() >= least * 0.99;
            let last = Step::Time { unit: Unit::Year, count: 1_000_000 };
            return all.filter(long_enough).find(fits).unwrap_or(last);
        }
        // Steps below the precision of the values would not tell them apart.
        let magnitude = lo.abs().max(hi.abs());
        let least = least.max(magnitude * 1e-14).max(1e-290);
        let mut exponent = least.log10().floor() as i32;
        loop {
            let steps = [1, 2, 5].map(|mantissa| Step::Number { mantissa, exponent });
            let long_enough = |step: &&Step| step.length() >= least * 0.999_999;
            if let Some(step) = steps.iter().filter(long_enough).find(|step| fits(step)) {
                return *step;
            }
            exponent += 1;
        }
    }

    /// The next coarser step of a chain in which each divides all those after it.
    pub(super) fn coarser(self) -> Step {
        match self {
            Step::Number { exponent, .. } => Step::Number { mantissa: 1, exponent: exponent + 1 },
            Step::Time { unit: Unit::Year, count } => {
                Step::Time { unit: Unit::Year, count: count.saturating_mul(10) }
            }
            Step::Time { unit, .. } => {
                let next = Unit::ALL.iter().find(|other| **other > unit);
                Step::Time { unit: next.copied().unwrap_or(Unit::Year), count: 1 }
            }
        }
    }

    /// The finest step of that chain that divides this one.
    pub(super) fn grain(self) -> Step {
        match self {
            Step::Number { exponent, .. } => Step::Number { mantissa: 1, exponent },
            Step::Time { unit: Unit::Year, count } => {
                let power = 10_i64.pow((count.max(1)).ilog10());
                Step::Time { unit: Unit::Year, count: power }
            }
            Step::Time { unit, .. } => Step::Time { unit, count: 1 },
        }
    }

    /// Its length, of months and years about.
    pub(super) fn length(self) -> f64 {
        match self {
            Step::Number { mantissa, exponent } => scaled(mantissa as f64, exponent),
            Step::Time { unit, count } => unit.steps().1 * count as f64,
        }
    }

    /// The number of the step in which a value lies.
    pub(super) fn index(self, value: f64) -> i64 {
        match self {
            Step::Number { mantissa, exponent } => {
                let quotient = scaled(value, -exponent) / mantissa as f64;
                // 0.29 is the 29th hundredth, though its quotient is 28.999999999999996.
                let nearest = quotient.round();
                let is_near = (quotient - nearest).abs() <= 1e-12 * quotient.abs().max(1.0);
                if is_near { nearest as i64 } else { quotient.floor() as i64 }
            }
            Step::Time { unit, count } => {
                let index = match unit {
                    Unit::Microsecond => (value * 1e6).round() as i64,
                    Unit::Millisecond => ((value * 1e6).round() as i64).div_euclid(1_000),
                    _ => match unit {
                        Unit::Second => whole_seconds(value),
                        Unit::Minute => whole_seconds(value).div_euclid(60),
                        Unit::Hour => whole_seconds(value).div_euclid(3600),
                        // Weeks begin on Mondays, and 1970-01-01 was a Thursday.
                        Unit::Day if count % 7 == 0 => days(value) + 3,
                        Unit::Day => days(value),
                        Unit::Month => {
                            let date = date(days(value));
                            i64::from(date.year()) * 12 + i64::from(date.month0())
                        }
                        _ => i64::from(date(days(value)).year()),
                    },
                };
                index.div_euclid(count.max(1))
            }
        }
    }

    /// Where the step of this number begins.
    pub(super) fn start(self, index: i64) -> f64 {
        match self {
            Step::Number { mantissa, exponent } => scaled(index as f64 * mantissa as f64, exponent),
            Step::Time { unit, count } => {
                let index = index.saturating_mul(count);
                match unit {
                    Unit::Microsecond => index as f64 / 1e6,
                    Unit::Millisecond => index as f64 / 1e3,
                    Unit::Second => index as f64,
                    Unit::Minute => index as f64 * 60.0,
                    Unit::Hour => index as f64 * 3600.0,
                    Unit::Day if count % 7 == 0 => ((index - 3) * DAY) as f64,
                    Unit::Day => (index as f64) * DAY as f64,
                    Unit::Month => first_of(index.div_euclid(12), index.rem_euclid(12)),
                    Unit::Year => first_of(index, 0),
                }
            }
        }
    }

    /// The starts of the steps within `lo..=hi`.
    pub(super) fn starts(self, lo: f64, hi: f64) -> Vec<f64> {
        let (first, last) = (self.index(lo), self.index(hi));
        let tolerance = self.length() * 1e-9;
        let starts = (first..=last.min(first.saturating_add(10_000))).map(|at| self.start(at));
        starts.filter(|start| *start >= lo - tolerance && *start <= hi + tolerance).collect()
    }
}

/// `value · 10^exponent`, correctly rounded for the exponents of ordinary numbers.
fn scaled(value: f64, exponent: i32) -> f64 {
    if exponent >= 0 { value * 10_f64.powi(exponent) } else { value / 10_f64.powi(-exponent) }
}

fn whole_seconds(value: f64) -> i64 {
    // Microseconds are not exact as fractions: a time at the start of a second must not fall
    // before it.
    ((value * 1e6).round() / 1e6).floor() as i64
}

fn days(value: f64) -> i64 {
    whole_seconds(value).div_euclid(DAY)
}

/// The date of a day since 1970, at the end of the calendar for days beyond it.
pub(super) fn date(days: i64) -> NaiveDate {
    let epoch = DateTime::UNIX_EPOCH.date_naive();
    let moved = match days >= 0 {
        true => epoch.checked_add_days(Days::new(days.unsigned_abs())),
        false => epoch.checked_sub_days(Days::new(days.unsigned_abs())),
    };
    moved.unwrap_or(if days > 0 { NaiveDate::MAX } else { NaiveDate::MIN })
}

/// The seconds at which a month begins.
fn first_of(year: i64, month0: i64) -> f64 {
    let year = year.clamp(-262_142, 262_141) as i32;
    let first = NaiveDate::from_ymd_opt(year, month0 as u32 + 1, 1).unwrap_or_default();
    (first.signed_duration_since(DateTime::UNIX_EPOCH.date_naive()).num_days() * DAY) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(lo: f64, hi: f64, most: usize) -> (i64, i32) {
        match Step::dividing(lo, hi, most, false) {
            Step::Number { mantissa, exponent } => (mantissa, exponent),
            step => panic!("{step:?}"),
        }
    }

    #[test]
    fn numbers_go_by_one_two_and_five() {
        assert_eq!(number(0.0, 10.0, 6), (2, 0));
        assert_eq!(number(0.0, 97.0, 5), (2, 1));
        assert_eq!(number(0.0, 1.0, 11), (1, -1));
        assert_eq!(number(-3.0, 3.0, 4), (2, 0));
        assert_eq!(number(1_000_000.0, 1_000_004.0, 6), (1, 0));
        assert_eq!(number(5.0, 5.0, 5), (5, -14));
        for (lo, hi) in [(0.0, 0.0), (-1e300, 1e300), (1e-300, 2e-300), (1e17, 1e17 + 64.0)] {
            for most in [1, 2, 7, 500] {
                let step = Step::dividing(lo, hi, most, false);
                assert!(step.index(hi) - step.index(lo) < most.max(2) as i64, "{lo} {hi} {most}");
            }
        }
    }

    #[test]
    fn a_value_lies_in_the_step_that_begins_with_it() {
        for exponent in -6..6 {
            for mantissa in [1, 2, 5] {
                let step = Step::Number { mantissa, exponent };
                for at in -1_000..1_000 {
                    assert_eq!(step.index(step.start(at)), at, "{step:?}");
                }
            }
        }
        assert_eq!(Step::Number { mantissa: 1, exponent: -2 }.index(0.29), 29);
        for unit in Unit::ALL {
            for count in unit.steps().0 {
                let step = Step::Time { unit, count: *count };
                for at in (-3_000..3_000).step_by(7) {
                    assert_eq!(step.index(step.start(at)), at, "{step:?}");
                }
            }
        }
    }

    #[test]
    fn fine_steps_lie_within_coarse_ones() {
        let times = [0.0, -1.0, 1_435_755_900.5, 951_782_400.0, -2_208_988_800.0, 1e10];
        for value in times {
            let mut step = Step::Time { unit: Unit::Microsecond, count: 1 };
            while step.length() < 1e10 {
                let coarse = step.coarser();
                assert_eq!(coarse.index(step.start(step.index(value))), coarse.index(value));
                step = coarse;
            }
        }
        for value in [0.29, -0.31, 1234.5678, 99_999.999] {
            let mut step = Step::Number { mantissa: 1, exponent: -6 };
            for _ in 0..12 {
                let coarse = step.coarser();
                assert_eq!(coarse.index(step.start(step.index(value))), coarse.index(value));
                step = coarse;
            }
        }
    }

    #[test]
    fn times_go_by_units() {
        let step = |span: f64, most| Step::dividing(1.4e9, 1.4e9 + span, most, true);
        assert_eq!(step(3600.0, 8), Step::Time { unit: Unit::Minute, count: 10 });
        assert_eq!(step(86_400.0, 10), Step::Time { unit: Unit::Hour, count: 3 });
        assert_eq!(step(86_400.0 * 31.0, 8), Step::Time { unit: Unit::Day, count: 7 });
        assert_eq!(step(86_400.0 * 365.0, 13), Step::Time { unit: Unit::Month, count: 1 });
        assert_eq!(step(86_400.0 * 36_500.0, 8), Step::Time { unit: Unit::Year, count: 20 });
        assert_eq!(step(0.004, 5), Step::Time { unit: Unit::Millisecond, count: 1 });
        // Weeks begin on Monday: 2015-06-29 was one.
        let week = Step::Time { unit: Unit::Day, count: 7 };
        let monday = 1_435_536_000.0;
        assert_eq!(week.start(week.index(monday + 3.5 * 86_400.0)), monday);
    }
}
