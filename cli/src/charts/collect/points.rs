//! The points of lines and scatter plots in bounded memory.
//!
//! The first points are kept. Of more, a line keeps the first, last, lowest and highest of each of
//! 2,048 intervals of x, and a scatter plot which fields of a grid have points. Both are finer than
//! what is drawn, and double their range when a point lies beyond it.

use std::collections::{HashMap, HashSet};

use super::skipped::Skipped;
use crate::charts::figure::{Axis, PointSeries, Points};
use crate::units::{show_count, show_counted};

/// Points that are kept, of all series together.
const KEPT: usize = 100_000;
/// Names of series that are counted.
const MAX_NAMES: usize = 10_000;
const INTERVALS: usize = 2_048;
const GRID: (usize, usize) = (1_024, 512);

/// Collects points by series.
#[derive(Debug)]
pub(super) struct PointsCollector {
    x: Axis,
    y: String,
    connected: bool,
    log: bool,
    max_series: usize,
    names: HashMap<String, usize>,
    series: Vec<Series>,
    kept: usize,
    condensed: bool,
    count: u64,
    /// Series beyond those that are drawn, and their points.
    others: HashSet<String>,
    other_points: u64,
    pub(super) skipped: Skipped,
}

#[derive(Debug)]
struct Series {
    name: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Kept(Vec<(f64, f64)>),
    Intervals(Intervals),
    Grid(Grid),
}

impl PointsCollector {
    pub(super) fn new(x: Axis, y: String, connected: bool, log: bool, max_series: usize) -> Self {
        PointsCollector {
            x,
            y,
            connected,
            log,
            max_series,
            names: HashMap::new(),
            series: Vec::new(),
            kept: 0,
            condensed: false,
            count: 0,
            others: HashSet::new(),
            other_points: 0,
            skipped: Skipped::default(),
        }
    }

    pub(super) fn add(&mut self, series: &str, x: Option<f64>, y: Option<f64>) {
        let Some(x) = self.skipped.axis(x, self.x.kind.is_time()) else { return };
        let Some(y) = self.skipped.number(y, self.log) else { return };
        // Grids are fine on the scale that is drawn.
        let y = if self.log && !self.connected { y.log10() } else { y };
        let Some(at) = self.series(series) else {
            self.other_points += 1;
            return;
        };
        self.count += 1;
        let Some(series) = self.series.get_mut(at) else { return };
        match &mut series.state {
            State::Kept(points) => {
                points.push((x, y));
                self.kept += 1;
                if self.condensed || self.kept > KEPT {
                    self.condense();
                }
            }
            State::Intervals(intervals) => intervals.add(x, y),
            State::Grid(grid) => grid.add(x, y),
        }
    }

    fn series(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.names.get(name) {
            return Some(*at);
        }
        if self.series.len() >= self.max_series {
            if self.others.len() < MAX_NAMES && !self.others.contains(name) {
                self.others.insert(name.to_owned());
            }
            return None;
        }
        let at = self.series.len();
        self.series.push(Series { name: name.to_owned(), state: State::Kept(Vec::new()) });
        self.names.insert(name.to_owned(), at);
        Some(at)
    }

    fn condense(&mut self) {
        self.condensed = true;
        for series in &mut self.series {
            if let State::Kept(points) = &series.state {
                series.state = match self.connected {
                    true => State::Intervals(Intervals::of(points)),
                    false => State::Grid(Grid::of(points)),
                };
            }
        }
    }

    /// The points, and what is to be said of them.
    pub(super) fn finish(self) -> (Points, Vec<String>) {
        let mut notes = Vec::new();
        if self.condensed {
            let points = show_counted(self.count, "point");
            notes.push(match self.connected {
                true => format!(
                    "{points}: first, last, lowest and highest of each of {} intervals are drawn",
                    show_count(INTERVALS as u64)
                ),
                false => format!("{points} are drawn on a grid of {} × {}", GRID.0, GRID.1),
            });
        }
        if !self.others.is_empty() {
            let at_least = if self.others.len() >= MAX_NAMES { "at least " } else { "" };
            notes.push(format!(
                "{} of {at_least}{} series are drawn; {} of the others left out",
                show_count(self.series.len() as u64),
                show_count((self.series.len() + self.others.len()) as u64),
                show_counted(self.other_points, "point"),
            ));
        }
        let (connected, log) = (self.connected, self.log && !self.connected);
        let series = self.series.into_iter().map(|series| {
            let mut points = match series.state {
                State::Kept(points) => points,
                State::Intervals(intervals) => intervals.points(),
                State::Grid(grid) => grid.points(),
            };
            if connected {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
            if log {
                points.iter_mut().for_each(|point| point.1 = 10_f64.powf(point.1));
            }
            PointSeries { name: series.name, points }
        });
        (Points { x: self.x, y: self.y, series: series.collect(), connected }, notes)
    }
}

/// The least and the greatest x and y.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)))
}

/// A range that is divided into equal parts, and doubles when a value lies beyond it.
#[derive(Debug)]
struct Range {
    start: f64,
    width: f64,
    parts: usize,
}

/// To which side a range has doubled.
#[derive(Clone, Copy, Debug)]
enum Doubled {
    Up,
    Down,
}

impl Range {
    fn new((lo, hi): (f64, f64), parts: usize) -> Range {
        let least = (lo.abs() * 1e-9).max(1e-9);
        let width = ((hi - lo) / parts as f64 * 1.000_001).max(least);
        Range { start: lo, width, parts }
    }

    /// The part in which a value lies, or `Err` once the range has doubled.
    fn part(&mut self, value: f64) -> Result<usize, Doubled> {
        let length = self.width * self.parts as f64;
        let doubled = if value < self.start {
            self.start -= length;
            Doubled::Down
        } else if value >= self.start + length {
            Doubled::Up
        } else {
            return Ok((((value - self.start) / self.width) as usize).min(self.parts - 1));
        };
        self.width *= 2.0;
        Err(doubled)
    }

    fn center(&self, part: usize) -> f64 {
        self.start + (part as f64 + 0.5) * self.width
    }

    /// Where a part is after the range has doubled.
    fn moved(&self, part: usize, doubled: Doubled) -> usize {
        match doubled {
            Doubled::Up => part / 2,
            Doubled::Down => self.parts / 2 + part / 2,
        }
    }
}

#[derive(Debug)]
struct Intervals {
    x: Range,
    parts: Vec<Option<Interval>>,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    first: (f64, f64),
    last: (f64, f64),
    low: (f64, f64),
    high: (f64, f64),
}

impl Interval {
    fn joined(self, other: Interval) -> Interval {
        Interval {
            first: if other.first.0 < self.first.0 { other.first } else { self.first },
            last: if other.last.0 >= self.last.0 { other.last } else { self.last },
            low: if other.low.1 < self.low.1 { other.low } else { self.low },
            high: if other.high.1 > self.high.1 { other.high } else { self.high },
        }
    }
}

impl Intervals {
    fn of(points: &[(f64, f64)]) -> Intervals {
        let x = Range::new(bounds(points.iter().map(|point| point.0)), INTERVALS);
        let mut all = Intervals { x, parts: vec![None; INTERVALS] };
        points.iter().for_each(|(x, y)| all.add(*x, *y));
        all
    }

    fn add(&mut self, x: f64, y: f64) {
        loop {
            match self.x.part(x) {
                Ok(part) => {
                    let point = Interval { first: (x, y), last: (x, y), low: (x, y), high: (x, y) };
                    return self.join(part, point);
                }
                Err(doubled) => {
                    let parts = std::mem::replace(&mut self.parts, vec![None; INTERVALS]);
                    for (part, interval) in parts.into_iter().enumerate() {
                        if let Some(interval) = interval {
                            self.join(self.x.moved(part, doubled), interval);
                        }
                    }
                }
            }
        }
    }

    fn join(&mut self, part: usize, interval: Interval) {
        if let Some(place) = self.parts.get_mut(part) {
            *place = Some(place.map_or(interval, |known| known.joined(interval)));
        }
    }

    fn points(self) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for interval in self.parts.into_iter().flatten() {
            let mut all = [interval.first, interval.low, interval.high, interval.last];
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            for point in all {
                if points.last() != Some(&point) {
                    points.push(point);
                }
            }
        }
        points
    }
}

#[derive(Debug)]
struct Grid {
    x: Range,
    y: Range,
    fields: Vec<bool>,
}

impl Grid {
    fn of(points: &[(f64, f64)]) -> Grid {
        let x = Range::new(bounds(points.iter().map(|point| point.0)), GRID.0);
        let y = Range::new(bounds(points.iter().map(|point| point.1)), GRID.1);
        let mut grid = Grid { x, y, fields: vec![false; GRID.0 * GRID.1] };
        points.iter().for_each(|(x, y)| grid.add(*x, *y));
        grid
    }

    fn add(&mut self, x: f64, y: f64) {
        let column = loop {
            match self.x.part(x) {
                Ok(part) => break part,
                Err(doubled) => self.doubled(Some(doubled), None),
            }
        };
        let row = loop {
            match self.y.part(y) {
                Ok(part) => break part,
                Err(doubled) => self.doubled(None, Some(doubled)),
            }
        };
        if let Some(field) = self.fields.get_mut(row * GRID.0 + column) {
            *field = true;
        }
    }

    fn doubled(&mut self, x: Option<Doubled>, y: Option<Doubled>) {
        let fields = std::mem::replace(&mut self.fields, vec![false; GRID.0 * GRID.1]);
        for (at, _) in fields.iter().enumerate().filter(|(_, field)| **field) {
            let (column, row) = (at % GRID.0, at / GRID.0);
            let column = x.map_or(column, |doubled| self.x.moved(column, doubled));
            let row = y.map_or(row, |doubled| self.y.moved(row, doubled));
            if let Some(field) = self.fields.get_mut(row * GRID.0 + column) {
                *field = true;
            }
        }
    }

    fn points(self) -> Vec<(f64, f64)> {
        let fields = self.fields.iter().enumerate().filter(|(_, field)| **field);
        fields.map(|(at, _)| (self.x.center(at % GRID.0), self.y.center(at / GRID.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(points: impl Iterator<Item = (f64, f64)>, connected: bool) -> (Points, Vec<String>) {
        let mut all = PointsCollector::new(Axis::default(), "y".into(), connected, false, 2);
        points.for_each(|(x, y)| all.add("", Some(x), Some(y)));
        all.finish()
    }

    #[test]
    fn few_points_are_kept_in_the_order_of_x() {
        let (points, notes) = collect([(2.0, 1.0), (1.0, 5.0)].into_iter(), true);
        assert_eq!(points.series[0].points, [(1.0, 5.0), (2.0, 1.0)]);
        assert!(notes.is_empty());
    }

    #[test]
    fn a_long_line_keeps_its_peaks_and_its_ends() {
        let height = |at: i32| match at {
            123_456 => 1e9,
            277_777 => -1e9,
            at => f64::from(at % 100),
        };
        let (points, notes) = collect((0..300_000).map(|at| (f64::from(at), height(at))), true);
        let kept = &points.series[0].points;
        assert!(kept.len() <= 4 * INTERVALS && kept.len() > INTERVALS);
        assert_eq!((kept[0], kept[kept.len() - 1]), ((0.0, 0.0), (299_999.0, 99.0)));
        for peak in [(123_456.0, 1e9), (277_777.0, -1e9)] {
            assert!(kept.contains(&peak));
        }
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
        assert!(notes[0].starts_with("300,000 points"), "{notes:?}");
    }

    #[test]
    fn many_points_lie_near_their_places() {
        let point = |at: i32| (f64::from(at % 1_000), -f64::from(at / 1_000) * 3.0);
        let (points, _) = collect((0..400_000).map(point).chain([(-5_000.0, 700.0)]), false);
        let kept = &points.series[0].points;
        let near = |(x, y): (f64, f64)| {
            kept.iter().any(|(a, b)| (a - x).abs() < 12.0 && (b - y).abs() < 8.0)
        };
        assert!(near((-5_000.0, 700.0)) && near((0.0, 0.0)) && near((999.0, -1_197.0)));
        assert!(kept.iter().all(|(x, _)| *x > -10.0 || *x < -4_980.0));
    }

    #[test]
    fn series_beyond_the_limit_are_counted() {
        let mut all = PointsCollector::new(Axis::default(), "y".into(), true, true, 2);
        for at in 0..100 {
            all.add(&format!("series {}", at % 5), Some(f64::from(at)), Some(f64::from(at)));
        }
        all.add("series 0", Some(1.0), None);
        all.add("series 0", Some(1.0), Some(f64::NAN));
        assert_eq!(
            all.skipped.notes(),
            [
                "not drawn: 1 null",
                "not drawn: 1 value (NaN or infinite)",
                "not drawn: 1 value (zero or less, on a logarithmic scale)"
            ]
        );
        let (points, notes) = all.finish();
        assert_eq!(points.series.len(), 2);
        assert_eq!(notes, ["2 of 5 series are drawn; 59 points of the others left out"]);
    }
}
