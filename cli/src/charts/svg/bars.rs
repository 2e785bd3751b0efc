//! Bars from left to right, and small lines, one below the other.

use super::paper::{Anchor, Paper, cut, series_color, text_width};
use crate::charts::figure::{Bars, Sparks, has_length};
use crate::charts::labels;
use crate::charts::scale::{Scale, bounds};
use crate::units::show_count;

/// Bars and lines at most, if no height is asked for.
const MAX_BARS: usize = 60;
const BAR: f64 = 18.0;
const GAP: f64 = 6.0;

pub(super) fn draw(
    bars: &Bars,
    log: bool,
    width: f64,
    height: Option<f64>,
    top: f64,
    paper: &mut Paper,
) -> f64 {
    let several = bars.series.len() > 1;
    let mut top = top;
    if several {
        top = paper.legend(bars.series.iter().map(|series| &*series.name), width, top);
    }
    let each = BAR * bars.series.len().max(1) as f64 + GAP;
    let room = height.map_or(MAX_BARS, |height| ((height - top - 50.0) / each).max(1.0) as usize);
    let shown = bars.labels.len().min(room);
    let values =
        || bars.series.iter().flat_map(|series| series.values.iter().take(shown).flatten());
    let drawn = || values().copied().filter(|value| has_length(*value, log));
    let widest = |is_wanted: fn(f64) -> bool| {
        let texts = values().filter(|value| is_wanted(**value)).map(|v| labels::value(*v));
        texts.map(|text| text_width(&text) + 8.0).fold(0.0, f64::max)
    };
    let (before, after) = (widest(|value| value < 0.0), widest(|value| value >= 0.0).max(30.0));
    let label = bars.labels.iter().take(shown).map(|label| text_width(label)).fold(0.0, f64::max);
    let label = label.min(width / 3.0);
    let left = 8.0 + label + 8.0 + before;
    let length = (width - left - after - 8.0).max(20.0);
    let scale = Scale::values(bounds(drawn()), log, true, 5);
    let (lo, hi) = bounds(drawn().map(|value| scale.place(value)).chain([scale.base()]));
    let place = |at: f64| left + if hi > lo { (at - lo) / (hi - lo) * length } else { 0.0 };
    let base = place(scale.base());
    for (row, name) in bars.labels.iter().take(shown).enumerate() {
        let y = top + row as f64 * each;
        let middle = y + (each - GAP) / 2.0 + 4.0;
        let end = left - before - 8.0;
        paper.text(end, middle, &cut(name, label + 4.0), Anchor::End);
        for (at, series) in bars.series.iter().enumerate() {
            let y = y + at as f64 * BAR;
            let (text_y, value) = (y + BAR / 2.0 + 4.0, series.values.get(row).copied().flatten());
            let Some(value) = value.filter(|value| has_length(*value, log)) else {
                let text = value.map_or_else(|| "NULL".to_owned(), labels::value);
                paper.styled_text(base + 5.0, text_y, &text, Anchor::Start, " opacity=\"0.6\"");
                continue;
            };
            let text = labels::value(value);
            let to = place(scale.place(value));
            let tip = match several {
                true => format!("{name}, {}: {text}", series.name),
                false => format!("{name}: {text}"),
            };
            let size = ((to - base).abs().max(0.5), BAR - 2.0);
            paper.rect((base.min(to), y + 1.0), size, series_color(at), &tip);
            match to < base {
                true => paper.text(to - 5.0, text_y, &text, Anchor::End),
                false => paper.text(to + 5.0, text_y, &text, Anchor::Start),
            }
        }
    }
    let mut y = top + shown as f64 * each;
    paper.rule((base, top - 2.0), (base, y), false);
    let more = (bars.labels.len() - shown) as u64 + bars.more;
    if more > 0 {
        y += 18.0;
        let text = format!("… and {} more", show_count(more));
        paper.text(8.0, y, &text, Anchor::Start);
    }
    if let ([only], false) = (&*bars.series, bars.category.is_empty()) {
        let log = if log { ", logarithmic" } else { "" };
        let name = format!("{} by {}{log}", only.name, bars.category);
        y += 18.0;
        paper.styled_text(left, y, &cut(&name, width - left), Anchor::Start, " opacity=\"0.8\"");
    }
    y + 10.0
}

pub(super) fn sparks(
    sparks: &Sparks,
    width: f64,
    height: Option<f64>,
    top: f64,
    paper: &mut Paper,
) -> f64 {
    let each = 28.0;
    let room = height.map_or(MAX_BARS, |height| ((height - top - 24.0) / each).max(1.0) as usize);
    let shown = sparks.lines.len().min(room);
    let lines = || sparks.lines.iter().take(shown);
    let ends = |lo: f64, hi: f64| [labels::short_value(lo), labels::short_value(hi)];
    let label = lines().map(|line| text_width(&line.label)).fold(0.0, f64::max).min(width / 3.0);
    let left = 8.0 + label + 70.0;
    let length = (width - left - 78.0).max(20.0);
    for (at, line) in lines().enumerate() {
        let (y, (lo, hi)) = (top + at as f64 * each, bounds(line.values.iter().flatten().copied()));
        paper.text(8.0, y + 16.0, &cut(&line.label, label + 4.0), Anchor::Start);
        if lo > hi {
            paper.styled_text(left, y + 16.0, "no values", Anchor::Start, " opacity=\"0.6\"");
            continue;
        }
        let [least, greatest] = ends(lo, hi);
        paper.styled_text(left - 8.0, y + 16.0, &least, Anchor::End, " opacity=\"0.8\"");
        let end = left + length + 8.0;
        paper.styled_text(end, y + 16.0, &greatest, Anchor::Start, " opacity=\"0.8\"");
        let last = line.values.len().saturating_sub(1).max(1) as f64;
        let point = |(at, value): (usize, &Option<f64>)| {
            let share = value.map(|value| if hi > lo { (value - lo) / (hi - lo) } else { 0.5 })?;
            Some((left + at as f64 / last * length, y + 21.0 - share * 18.0))
        };
        let points: Vec<(f64, f64)> = line.values.iter().enumerate().filter_map(point).collect();
        paper.points(&super::plots::thinned(&points), true, series_color(0));
    }
    let y = top + shown as f64 * each;
    let more = (sparks.lines.len() - shown) as u64 + sparks.more;
    if more > 0 {
        let text = format!("… and {} more", show_count(more));
        paper.text(8.0, y + 12.0, &text, Anchor::Start);
    }
    y + if more > 0 { 24.0 } else { 8.0 }
}
