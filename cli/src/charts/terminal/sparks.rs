//! Small lines: one line of blocks each, with its least and greatest value.

use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, Paint};
use super::screen::{Screen, add_more};
use crate::charts::figure::{Spark, Sparks};
use crate::charts::labels;
use crate::charts::scale::bounds;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 6] = ['_', '.', '-', '=', '*', '#'];

pub(super) fn draw(sparks: &Sparks, screen: &Screen, canvas: &mut Canvas) {
    let shown = sparks.lines.len().min(screen.max_lines);
    let lines = || sparks.lines.iter().take(shown);
    let ends: Vec<Option<[String; 2]>> = lines().map(ends).collect();
    let width_of = |at: usize| {
        ends.iter().flatten().filter_map(|ends| ends.get(at)).map(|text| text.width()).max()
    };
    let (low, high) = (width_of(0).unwrap_or(0), width_of(1).unwrap_or(0));
    let label = lines().map(|line| line.label.width()).max().unwrap_or(0).min(canvas.width() / 3);
    let left = if label > 0 { label + 2 } else { 0 } + low + 1;
    let room = canvas.width().saturating_sub(left + high + 1).max(4);
    for (line, ends) in lines().zip(&ends) {
        let y = canvas.add_lines(1);
        let name = labels::cut(&line.label, label, canvas.mark);
        canvas.text(0, y, &name, label, Paint::Plain);
        let Some([least, greatest]) = ends else {
            canvas.text(left, y, "no values", 9, Paint::Dim);
            continue;
        };
        canvas.text_to(left - 1, y, least, Paint::Dim);
        let values = resampled(&line.values, room);
        let (lo, hi) = bounds(values.iter().flatten().copied());
        for (x, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let share = if hi > lo { (value - lo) / (hi - lo) } else { 0.5 };
            let level = |levels: usize| ((share * levels as f64) as usize).min(levels - 1);
            let c = match screen.ascii {
                true => ASCII_LEVELS[level(ASCII_LEVELS.len())],
                false => LEVELS[level(LEVELS.len())],
            };
            canvas.put(left + x, y, c, Paint::Series(0));
        }
        canvas.text(left + values.len() + 1, y, greatest, high, Paint::Dim);
    }
    add_more((sparks.lines.len() - shown) as u64 + sparks.more, "line", canvas);
}

fn ends(line: &Spark) -> Option<[String; 2]> {
    let (lo, hi) = bounds(line.values.iter().flatten().copied());
    (lo <= hi).then(|| [labels::short_value(lo), labels::short_value(hi)])
}

/// At most `room` values: the means of as many parts.
pub(super) fn resampled(values: &[Option<f64>], room: usize) -> Vec<Option<f64>> {
    if values.len() <= room {
        return values.to_vec();
    }
    let part = |at: usize| {
        let (from, to) = (at * values.len() / room, (at + 1) * values.len() / room);
        let known = || values.get(from..to).unwrap_or_default().iter().flatten();
        let count = known().count();
        (count > 0).then(|| known().map(|value| value / count as f64).sum())
    };
    (0..room).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_means() {
        let values: Vec<Option<f64>> = [1.0, 3.0, 5.0, 7.0].map(Some).into();
        assert_eq!(resampled(&values, 2), [Some(2.0), Some(6.0)]);
        assert_eq!(resampled(&values, 9).len(), 4);
        assert_eq!(resampled(&[None, None, Some(1.0)], 2), [None, Some(1.0)]);
    }
}
