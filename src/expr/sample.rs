//! Rows of a table that are chosen by their place alone: what TABLESAMPLE asks for.
//!
//! Which rows these are follows from the seed and from how many rows each segment has, so that the
//! same generation of a table gives the same ones, on any number of threads. A share of a large
//! table is one of its vectors or blocks, so that the others need not be read; of a small one, of
//! its rows.

use std::collections::HashSet;
use std::ops::Range;

use arrow_array::ArrayRef;

use super::expression::Function;
use crate::error::{Error, Result};
use crate::limits::{BLOCK_ROWS, VECTOR};

/// How rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choosing {
    /// This share, in units of neighbouring rows if there are many.
    Units(f64),
    /// This share, spread evenly over all rows: as many as it is of them.
    Evenly(f64),
    /// Each row by itself, with this chance.
    Each(f64),
    /// This many rows, chosen independently; at most [`MAX_SAMPLE_ROWS`].
    Rows(u64),
}

/// The most single rows, whose numbers are held.
pub(crate) const MAX_SAMPLE_ROWS: u64 = 1 << 20;

/// The number of units in a stratum. The sample takes the same share of every stratum.
const STRATUM: u64 = 64;
/// Units are single rows in a table of no more rows than this: they are read in no time.
const SMALL_TABLE: u64 = 1 << 20;
/// A unit is as large as it can be while the sample still takes at least this many units.
const ENOUGH_UNITS: f64 = 32.0;
/// Rows of the units to choose from.
const UNITS: [u64; 2] = [BLOCK_ROWS as u64, 8 * VECTOR as u64];

/// Which rows of a table are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    text: Box<str>,
    seed: u64,
    /// The share of all rows that are chosen.
    share: f64,
    chosen: Chosen,
    /// The units of the segments before each one, and in the end of all.
    before: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Chosen {
    /// The same share of each stratum; a unit has this many rows.
    Units(u64),
    /// Each row with the same chance.
    Each,
    /// These rows of the table, rising.
    Rows(Box<[u64]>),
}

/// What is chosen of some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SamplePart {
    None,
    Some,
    All,
}

impl Sample {
    /// A sample of a table; `segments` has the number of rows of each segment. EXPLAIN shows
    /// `text`.
    pub(crate) fn new(choosing: Choosing, seed: u64, segments: &[u64], text: &str) -> Self {
        let rows: u64 = segments.iter().sum();
        let (share, chosen) = match choosing {
            Choosing::Units(share) => (share, Chosen::Units(unit(share, rows))),
            Choosing::Evenly(share) => (share, Chosen::Units(1)),
            Choosing::Each(share) => (share, Chosen::Each),
            Choosing::Rows(wanted) if wanted >= rows => (1.0, Chosen::Each),
            Choosing::Rows(wanted) => {
                let wanted = wanted.min(MAX_SAMPLE_ROWS);
                (wanted as f64 / rows as f64, Chosen::Rows(distinct(wanted, rows, seed)))
            }
        };
        let unit = if let Chosen::Units(unit) = chosen { unit } else { 1 };
        let mut before = vec![0];
        let mut sum = 0;
        before.extend(segments.iter().map(|rows| {
            sum += rows.div_ceil(unit);
            sum
        }));
        Sample { text: text.into(), seed, share, chosen, before }
    }

    /// How EXPLAIN shows it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The share of the table's rows.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// What is chosen of some rows of a segment.
    pub(crate) fn part(&self, segment: usize, rows: Range<u64>) -> SamplePart {
        let (mut some, mut all) = (false, true);
        match &self.chosen {
            _ if self.share <= 0.0 => return SamplePart::None,
            _ if self.share >= 1.0 => return SamplePart::All,
            Chosen::Each => return SamplePart::Some,
            Chosen::Rows(_) => {
                let chosen = self.listed(segment, rows.clone()).len() as u64;
                (some, all) = (chosen > 0, chosen == rows.end - rows.start);
            }
            Chosen::Units(_) => self.strata(segment, rows, |_, chosen| {
                some |= chosen;
                all &= chosen;
            }),
        }
        match (some, all) {
            (false, _) => SamplePart::None,
            (true, false) => SamplePart::Some,
            (true, true) => SamplePart::All,
        }
    }

    /// Zeroes the bytes of those rows of a segment that are not chosen.
    pub(crate) fn mask(&self, segment: usize, rows: Range<u64>, mask: &mut [u8]) {
        let within = |from: u64, to: u64| {
            (from.max(rows.start) - rows.start) as usize..(to.min(rows.end) - rows.start) as usize
        };
        let first = self.first(segment);
        match &self.chosen {
            _ if self.share >= 1.0 => {}
            Chosen::Each => {
                for (row, byte) in (first + rows.start..).zip(mask) {
                    *byte &= u8::from(chance(self.seed, row) < self.share);
                }
            }
            Chosen::Rows(_) => {
                let mut next = 0;
                for row in self.listed(segment, rows.clone()) {
                    let at = (row - first - rows.start) as usize;
                    mask.get_mut(next..at).unwrap_or_default().fill(0);
                    next = at + 1;
                }
                mask.get_mut(next..).unwrap_or_default().fill(0);
            }
            Chosen::Units(unit) => self.strata(segment, rows.clone(), |number, chosen| {
                if !chosen {
                    let from = (number - first) * unit;
                    mask.get_mut(within(from, from + unit)).unwrap_or_default().fill(0);
                }
            }),
        }
    }

    /// The number of a segment's first unit.
    fn first(&self, segment: usize) -> u64 {
        self.before.get(segment).copied().unwrap_or(0)
    }

    /// The rows among those of a list that are some of a segment.
    fn listed(&self, segment: usize, rows: Range<u64>) -> &[u64] {
        let Chosen::Rows(all) = &self.chosen else { return &[] };
        let first = self.first(segment);
        let place = |row: u64| all.partition_point(|known| *known < first + row);
        all.get(place(rows.start)..place(rows.end)).unwrap_or_default()
    }

    /// Calls `with` with the number of each unit that has some of these rows, and whether it is
    /// chosen.
    fn strata(&self, segment: usize, rows: Range<u64>, mut with: impl FnMut(u64, bool)) {
        let Chosen::Units(unit) = self.chosen else { return };
        let first = self.first(segment);
        let (mut next, end) = (first + rows.start / unit, first + rows.end.div_ceil(unit));
        while next < end {
            let stratum = next / STRATUM;
            let chosen = self.stratum(stratum);
            let last = end.min((stratum + 1) * STRATUM);
            (next..last).for_each(|number| with(number, chosen >> (number % STRATUM) & 1 == 1));
            next = last;
        }
    }

    /// The units of a stratum that are chosen, a bit for each. Of all units up to any stratum's end
    /// as many are as the share is of them, up or down by chance; within a stratum, any are.
    fn stratum(&self, stratum: u64) -> u64 {
        let units = self.before.last().copied().unwrap_or(0);
        let (from, to) = (stratum * STRATUM, units.min((stratum + 1) * STRATUM));
        let size = to.saturating_sub(from);
        let offset = chance(self.seed, u64::MAX);
        let up_to = |units: u64| (units as f64 * self.share + offset).floor() as u64;
        let wanted = up_to(to).saturating_sub(up_to(from)).min(size);
        let mut places: [u8; STRATUM as usize] = std::array::from_fn(|place| place as u8);
        let mut chosen = 0;
        for at in 0..wanted {
            let number = at + below(self.seed ^ stratum.rotate_left(32), at, size - at);
            places.swap(at as usize, number as usize);
            chosen |= 1 << places.get(at as usize).copied().unwrap_or(0);
        }
        chosen
    }
}

/// Names a sample in a condition. What tests conditions knows it by its predicate.
impl Function for Sample {
    fn evaluate(&self, _: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        Err(Error::InvalidInput("a sample of rows without places".into()))
    }
}

/// Rows of the units of which a share is chosen.
fn unit(share: f64, rows: u64) -> u64 {
    if rows <= SMALL_TABLE {
        return 1;
    }
    let is_enough = |unit: &u64| share * rows as f64 >= ENOUGH_UNITS * *unit as f64;
    UNITS.into_iter().find(is_enough).unwrap_or(VECTOR as u64)
}

/// `wanted` different random numbers below `below_this`, in rising order (Floyd's algorithm).
fn distinct(wanted: u64, below_this: u64, seed: u64) -> Box<[u64]> {
    let mut chosen = HashSet::with_capacity(wanted as usize);
    for last in below_this - wanted..below_this {
        let number = below(seed, last, last + 1);
        chosen.insert(if chosen.contains(&number) { last } else { number });
    }
    let mut chosen: Vec<u64> = chosen.into_iter().collect();
    chosen.sort_unstable();
    chosen.into()
}

/// A random number for another: `SplitMix64`.
fn random(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The same as a float from 0 to less than 1.
fn chance(seed: u64, number: u64) -> f64 {
    (random(seed, number) >> 11) as f64 / (1u64 << 53) as f64
}

/// The same as a whole number below a limit.
fn below(seed: u64, number: u64, limit: u64) -> u64 {
    ((u128::from(random(seed, number)) * u128::from(limit)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the chosen rows, asked for in pieces of some rows.
    fn chosen(sample: &Sample, segments: &[u64], step: u64) -> Vec<u64> {
        let (mut rows, mut first) = (Vec::new(), 0);
        for (segment, all) in segments.iter().enumerate() {
            let mut start = 0;
            while start < *all {
                let range = start..(start + step).min(*all);
                let mut mask = vec![1; (range.end - range.start) as usize];
                sample.mask(segment, range.clone(), &mut mask);
                let count = mask.iter().filter(|byte| **byte == 1).count();
                match sample.part(segment, range.clone()) {
                    SamplePart::None => assert_eq!(count, 0),
                    SamplePart::All => assert_eq!(count, mask.len()),
                    SamplePart::Some => {}
                }
                let passing = (first + start..).zip(&mask).filter(|(_, byte)| **byte == 1);
                rows.extend(passing.map(|(row, _)| row));
                start = range.end;
            }
            first += all;
        }
        rows
    }

    #[test]
    fn the_same_seed_gives_the_same_rows_however_they_are_asked_for() {
        let segments = [70_000, 1, 1_500_000, 3_000];
        for choosing in [
            Choosing::Units(0.03),
            Choosing::Evenly(0.2),
            Choosing::Each(0.2),
            Choosing::Rows(1000),
        ] {
            let sample = |seed| Sample::new(choosing, seed, &segments, "");
            let rows = chosen(&sample(7), &segments, 8192);
            assert_eq!(rows, chosen(&sample(7), &segments, 65_536), "{choosing:?}");
            assert_eq!(rows, chosen(&sample(7), &segments, 1000), "{choosing:?}");
            assert_ne!(rows, chosen(&sample(8), &segments, 8192), "{choosing:?}");
        }
    }

    #[test]
    fn shares_are_right_in_tables_of_all_sizes() {
        for (all, share) in [(10, 0.1), (100, 0.1), (100, 0.01), (5000, 0.5), (3_000_000, 0.01)] {
            let segments = [all / 3, all - all / 3];
            for choosing in [Choosing::Units(share), Choosing::Evenly(share), Choosing::Each(share)]
            {
                let count = |seed: u32| {
                    let sample = Sample::new(choosing, seed.into(), &segments, "");
                    chosen(&sample, &segments, 65_536).len() as f64
                };
                let times: u32 = if all > 100_000 { 5 } else { 400 };
                let mean = (0..times).map(count).sum::<f64>() / f64::from(times);
                let expected = all as f64 * share;
                let deviation = (expected / f64::from(times)).sqrt().max(0.006 * expected);
                assert!((mean - expected).abs() < 4.0 * deviation, "{choosing:?} {all}: {mean}");
            }
        }
    }

    #[test]
    fn every_row_comes_as_often_as_any_other() {
        let segments = [50, 87];
        for choosing in [Choosing::Units(0.3), Choosing::Each(0.3), Choosing::Rows(41)] {
            let mut times = [0_u32; 137];
            for seed in 0..2000 {
                let sample = Sample::new(choosing, seed, &segments, "");
                for row in chosen(&sample, &segments, 64) {
                    times[row as usize] += 1;
                }
            }
            // Six standard deviations of 2000 draws.
            let wrong: Vec<_> = times.iter().filter(|n| n.abs_diff(600) > 125).collect();
            assert!(wrong.is_empty(), "{choosing:?} {wrong:?}");
        }
    }

    #[test]
    fn numbers_of_rows_are_exact_and_extremes_are_none_and_all() {
        let segments = [1000, 0, 24_000];
        let count =
            |choosing| chosen(&Sample::new(choosing, 3, &segments, ""), &segments, 4096).len();
        for wanted in [0, 1, 77, 24_999, 25_000, 26_000] {
            assert_eq!(count(Choosing::Rows(wanted)) as u64, wanted.min(25_000));
        }
        for of in [Choosing::Units, Choosing::Evenly, Choosing::Each] {
            assert_eq!((count(of(0.0)), count(of(1.0))), (0, 25_000));
        }
        assert_eq!(count(Choosing::Evenly(0.1)), 2500);
    }

    #[test]
    fn large_tables_are_sampled_in_larger_units() {
        assert_eq!(unit(0.01, 1 << 20), 1);
        assert_eq!(unit(0.01, 20_000_000), 1024);
        assert_eq!(unit(0.01, 100_000_000), 8192);
        assert_eq!(unit(0.1, 100_000_000), 65_536);
        let segments = [1 << 20; 8];
        let sample = Sample::new(Choosing::Units(0.01), 5, &segments, "");
        let blocks = (0..8).flat_map(|segment| (0..16).map(move |block| (segment, block)));
        let untouched = blocks.filter(|(segment, block)| {
            sample.part(*segment, block * 65_536..(block + 1) * 65_536) == SamplePart::None
        });
        assert!(untouched.count() > 30);
    }
}
