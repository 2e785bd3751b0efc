//! Bars from left to right, a line each, with their values beside them.

use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, Paint};
use super::screen::{Screen, add_legend, add_more};
use crate::charts::figure::{Bars, has_length};
use crate::charts::labels;
use crate::charts::scale::{Scale, bounds};

/// The eighths of a block, from the left.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// What series are drawn with where there are no colours.
const FILLS: [char; 4] = ['█', '▓', '▒', '░'];
const ASCII_FILLS: [char; 8] = ['#', '=', '+', '-', '*', 'o', '%', '.'];

pub(super) fn draw(bars: &Bars, log: bool, screen: &Screen, canvas: &mut Canvas) {
    let several = bars.series.len() > 1;
    let fill = |at: usize| match (screen.ascii, screen.color || !several) {
        (true, _) => ASCII_FILLS[at % ASCII_FILLS.len()],
        (false, true) => '█',
        (false, false) => FILLS[at % FILLS.len()],
    };
    if several {
        add_legend(bars.series.iter().map(|series| &*series.name), fill, canvas);
    }
    let lines_each = bars.series.len().max(1) + usize::from(several);
    let shown = bars.labels.len().min((screen.max_lines / lines_each).max(1));
    let values =
        || bars.series.iter().flat_map(|series| series.values.iter().take(shown).flatten());
    let texts = |is_wanted: fn(f64) -> bool| {
        let texts = values().filter(|value| is_wanted(**value));
        texts.map(|value| labels::value(*value).width() + 1).max().unwrap_or(0)
    };
    let (before, after) = (texts(|value| value < 0.0), texts(|value| value >= 0.0).max(5));
    let label = bars.labels.iter().take(shown).map(|label| label.width()).max().unwrap_or(0);
    let label = label.min(canvas.width() / 3);
    let left = label + 1 + before;
    let width = canvas.width().saturating_sub(left + after + 1).max(8);
    let drawn = || values().copied().filter(|value| has_length(*value, log));
    let scale = Scale::values(bounds(drawn()), log, true, 5);
    // The ends of ticks are not drawn: the longest bar takes all of the width.
    let (lo, hi) = bounds(drawn().map(|value| scale.place(value)).chain([scale.base()]));
    let place = |value: f64| if hi > lo { (scale.place(value) - lo) / (hi - lo) } else { 0.0 };
    let base = if hi > lo { (scale.base() - lo) / (hi - lo) } else { 0.0 };
    let base = (base * width as f64).round() as usize;
    for (row, name) in bars.labels.iter().take(shown).enumerate() {
        for (at, series) in bars.series.iter().enumerate() {
            let y = canvas.add_lines(1);
            if at == 0 {
                let name = labels::cut(name, label, canvas.mark);
                canvas.text_to(label, y, &name, Paint::Plain);
            }
            let axis = if screen.ascii { '|' } else { '│' };
            canvas.put(left + base, y, axis, Paint::Dim);
            let Some(value) = series.values.get(row).copied().flatten() else {
                canvas.text(left + base + 2, y, "NULL", 4, Paint::Dim);
                continue;
            };
            let text = labels::value(value);
            if !has_length(value, log) {
                canvas.text(left + base + 2, y, &text, text.width(), Paint::Dim);
                continue;
            }
            let end = place(value) * width as f64;
            if value < 0.0 && !log {
                let from = left + end.round() as usize;
                (from..left + base).for_each(|x| canvas.put(x, y, fill(at), Paint::Series(at)));
                canvas.text_to(from.saturating_sub(1), y, &text, Paint::Plain);
            } else {
                let eighths = ((end - base as f64).max(0.0) * 8.0).round() as usize;
                let (whole, part) = (eighths / 8, eighths % 8);
                let first = left + base + 1;
                (0..whole).for_each(|x| canvas.put(first + x, y, fill(at), Paint::Series(at)));
                let is_block = fill(at) == '█';
                let part = if is_block && part > 0 { Some(EIGHTHS[part]) } else { None };
                let part = part.or_else(|| (!is_block && eighths % 8 >= 4).then(|| fill(at)));
                if let Some(c) = part {
                    canvas.put(first + whole, y, c, Paint::Series(at));
                }
                let x = first + whole + usize::from(part.is_some()) + 1;
                canvas.text(x, y, &text, text.width(), Paint::Plain);
            }
        }
        if several && row + 1 < shown {
            canvas.add_lines(1);
        }
    }
    add_more((bars.labels.len() - shown) as u64 + bars.more, "bar", canvas);
    let name = match (&*bars.series, several) {
        ([only], false) if !only.name.is_empty() && !bars.category.is_empty() => {
            format!("{} by {}", only.name, bars.category)
        }
        _ => String::new(),
    };
    let log = if log { ", logarithmic" } else { "" };
    if !name.is_empty() {
        canvas.add_text(&format!("{name}{log}"), Paint::Dim);
    }
}
