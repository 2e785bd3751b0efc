//! Lines, points and histograms within axes.

use std::collections::HashSet;

use super::paper::{Anchor, Paper, cut, series_color, text_width};
use crate::charts::figure::{AxisKind, Bins, Points};
use crate::charts::labels;
use crate::charts::scale::{Scale, axis_name, bounds};
use crate::units::{show_count, show_counted};

/// The default ratio of a plot's height to its width.
const ASPECT: f64 = 0.5;

/// The part of the picture within the axes.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    /// Draws the vertical axis.
    fn new(
        y: &Scale,
        name: &str,
        width: f64,
        height: Option<f64>,
        top: f64,
        paper: &mut Paper,
    ) -> Frame {
        let label = y.ticks.iter().map(|(_, text)| text_width(text)).fold(0.0, f64::max);
        let height = height.unwrap_or((width * ASPECT).clamp(200.0, 600.0) + top);
        let left = 8.0 + label + 8.0;
        let mut top = top;
        if !name.is_empty() {
            let name = cut(name, width - 16.0);
            paper.styled_text(8.0, top + 10.0, &name, Anchor::Start, " opacity=\"0.8\"");
            top += 22.0;
        }
        let bottom = (height - 44.0).max(top + 40.0);
        let frame = Frame { left, right: width - 16.0, top: top + 6.0, bottom };
        for (place, text) in &y.ticks {
            let y = frame.y(*place);
            paper.rule((frame.left, y), (frame.right, y), true);
            paper.text(frame.left - 8.0, y + 4.0, text, Anchor::End);
        }
        frame
    }

    fn x(&self, place: f64) -> f64 {
        self.left + place * (self.right - self.left)
    }

    fn y(&self, place: f64) -> f64 {
        self.bottom - place * (self.bottom - self.top)
    }

    fn ticks(&self, kind: AxisKind) -> usize {
        let each = if kind.is_time() { 80.0 } else { 65.0 };
        ((self.right - self.left) / each).clamp(2.0, 14.0) as usize
    }

    /// Draws the horizontal axis. Returns the height below it.
    fn draw_below(
        &self,
        ticks: impl Iterator<Item = (f64, String)>,
        name: &str,
        paper: &mut Paper,
    ) -> f64 {
        paper.rule((self.left, self.bottom), (self.right, self.bottom), false);
        let mut free = 0.0;
        for (place, text) in ticks {
            let (x, half) = (self.x(place), text_width(&text) / 2.0);
            if x - half < free {
                continue;
            }
            free = x + half + 6.0;
            paper.rule((x, self.bottom), (x, self.bottom + 4.0), false);
            paper.text(x, self.bottom + 17.0, &text, Anchor::Middle);
        }
        let middle = f64::midpoint(self.left, self.right);
        let name = cut(name, self.right - self.left);
        paper.styled_text(middle, self.bottom + 35.0, &name, Anchor::Middle, " opacity=\"0.8\"");
        self.bottom + 44.0
    }
}

pub(super) fn points(
    all: &Points,
    log: bool,
    width: f64,
    height: Option<f64>,
    top: f64,
    paper: &mut Paper,
) -> f64 {
    let mut top = top;
    if all.series.len() > 1 {
        top = paper.legend(all.series.iter().map(|series| &*series.name), width, top);
    }
    let points = || all.series.iter().flat_map(|series| &series.points);
    let x_bounds = bounds(points().map(|point| point.0));
    let y = Scale::values(bounds(points().map(|point| point.1)), log, false, 7);
    let name = if log { format!("{}, logarithmic", all.y) } else { all.y.clone() };
    let frame = Frame::new(&y, &name, width, height, top, paper);
    let x = Scale::axis(x_bounds, all.x.kind, frame.ticks(all.x.kind));
    for (at, series) in all.series.iter().enumerate() {
        let place = |(px, py): &(f64, f64)| (frame.x(x.place(*px)), frame.y(y.place(*py)));
        let places: Vec<(f64, f64)> = series.points.iter().map(place).collect();
        let places = if all.connected { thinned(&places) } else { distinct(&places) };
        paper.points(&places, all.connected, series_color(at));
    }
    frame.draw_below(x.ticks.into_iter(), &axis_name(&all.x, x_bounds), paper)
}

/// The first, last, lowest and highest point of each half pixel, in the order of x.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let column = |point: &(f64, f64)| (point.0 * 2.0) as i64;
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for part in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_y = |a: &(usize, &(f64, f64)), b: &(usize, &(f64, f64))| a.1.1.total_cmp(&b.1.1);
        let all = || part.iter().enumerate();
        let ends = [Some(0), all().min_by(by_y).map(|p| p.0), all().max_by(by_y).map(|p| p.0)];
        let mut places: Vec<usize> = ends.into_iter().flatten().collect();
        places.push(part.len() - 1);
        places.sort_unstable();
        places.dedup();
        kept.extend(places.iter().filter_map(|at| part.get(*at)));
    }
    kept
}

/// One point for each pixel.
fn distinct(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut seen = HashSet::new();
    let is_new = |point: &&(f64, f64)| seen.insert((point.0 as i64, point.1 as i64));
    points.iter().filter(is_new).copied().collect()
}

pub(super) fn bins(
    bins: &Bins,
    log: bool,
    width: f64,
    height: Option<f64>,
    top: f64,
    paper: &mut Paper,
) -> f64 {
    let highest = bins.counts.iter().copied().max().unwrap_or(0);
    if highest == 0 {
        paper.text(8.0, top + 14.0, "no values to draw", Anchor::Start);
        return top + 24.0;
    }
    let least = if log { 0.5 } else { 0.0 };
    let y = Scale::values((least, highest as f64), log, true, 6);
    let rows = show_counted(bins.counts.iter().sum(), "row");
    let name = if log { format!("{rows}, logarithmic") } else { rows };
    let frame = Frame::new(&y, &name, width, height, top, paper);
    let parts = bins.counts.len() as f64;
    let each = (frame.right - frame.left) / parts;
    let is_time = bins.x.kind.is_time();
    for (at, (count, edges)) in bins.counts.iter().zip(bins.edges.windows(2)).enumerate() {
        let [from, to] = edges else { continue };
        if *count == 0 {
            continue;
        }
        let range = match (bins.whole, is_time) {
            (true, _) => labels::value(*from),
            (_, true) => labels::time_span(*from, *to, bins.x.kind == AxisKind::TimeOfDay),
            _ => format!("{} to {}", labels::value(*from), labels::value(*to)),
        };
        let (x, to) = (frame.left + at as f64 * each, frame.y(y.place(*count as f64)));
        let size = ((each - 1.0).max(each * 0.8), (frame.bottom - to).max(0.5));
        let tip = format!("{range}: {}", show_count(*count));
        paper.rect((x, frame.bottom - size.1), size, series_color(0), &tip);
    }
    let first = bins.edges.first().copied().unwrap_or_default();
    let ends = (first, bins.edges.last().copied().unwrap_or_default());
    let name = axis_name(&bins.x, ends);
    if bins.whole {
        let middle = |at: usize| (at as f64 + 0.5) / parts;
        let label = |(at, edge): (usize, &f64)| (middle(at), labels::value(*edge));
        let ticks = bins.edges.iter().take(bins.counts.len()).enumerate().map(label);
        return frame.draw_below(ticks, &name, paper);
    }
    // Bins of months are not equally long, but equally wide.
    let place = |edge: f64| {
        let at = bins.edges.partition_point(|known| *known < edge - 1e-9 * edge.abs());
        at as f64 / parts
    };
    let x = Scale::axis(ends, bins.x.kind, frame.ticks(bins.x.kind));
    let ticks = x.ticks.iter().map(|(at, text)| {
        let place = if is_time { place(first + at * (ends.1 - first)) } else { *at };
        (place, text.clone())
    });
    frame.draw_below(ticks, &name, paper)
}
