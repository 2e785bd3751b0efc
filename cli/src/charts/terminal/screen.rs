//! Where a chart is drawn, and the lines above and below it that charts share.

use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, Paint};
use crate::units::show_count;

/// Where a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Characters of a line.
    pub(crate) width: usize,
    /// Lines of a chart with a vertical axis.
    pub(crate) height: usize,
    /// Lines of a chart with a line for each bar or row.
    pub(crate) max_lines: usize,
    /// Whether there are colours.
    pub(crate) color: bool,
    /// Whether there is only ASCII.
    pub(crate) ascii: bool,
}

/// Adds the names of series with their marks, on as many lines as they take.
pub(super) fn add_legend<'a>(
    names: impl Iterator<Item = &'a str>,
    mark: impl Fn(usize) -> char,
    canvas: &mut Canvas,
) {
    let (mut line, mut x) = (canvas.add_lines(1), 0);
    for (at, name) in names.enumerate() {
        let width = (name.width() + 2).min(canvas.width());
        if x > 0 && x + width > canvas.width() {
            (line, x) = (canvas.add_lines(1), 0);
        }
        canvas.put(x, line, mark(at), Paint::Series(at));
        x += 2 + canvas.text(x + 2, line, name, canvas.width(), Paint::Plain) + 2;
    }
}

/// Says how many bars or rows are left out below.
pub(super) fn add_more(more: u64, what: &str, canvas: &mut Canvas) {
    if more > 0 {
        let plural = if more == 1 { "" } else { "s" };
        let mark = if canvas.mark == '~' { "..." } else { "…" };
        let text = format!("{mark} and {} more {what}{plural}", show_count(more));
        canvas.add_text(&text, Paint::Dim);
    }
}
