//! The axes of a plot: ticks and their texts to the left and below.

use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, Paint};
use super::screen::Screen;
use crate::charts::figure::AxisKind;

/// The part of the canvas within the axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// The characters of axes.
struct Lines {
    down: char,
    left_tick: char,
    across: char,
    down_tick: char,
    corner: char,
}

const UNICODE: Lines =
    Lines { down: '│', left_tick: '┤', across: '─', down_tick: '┬', corner: '└' };
const ASCII: Lines = Lines { down: '|', left_tick: '+', across: '-', down_tick: '+', corner: '+' };

/// The number of ticks of a vertical axis that is `height` lines high.
pub(super) fn vertical_ticks(height: usize) -> usize {
    (height / 3).clamp(2, 8)
}

/// The number of ticks of a horizontal axis that is `width` characters wide.
pub(super) fn horizontal_ticks(width: usize, kind: AxisKind) -> usize {
    (width / if kind.is_time() { 10 } else { 8 }).clamp(2, 12)
}

impl Frame {
    /// Draws the vertical axis. Its texts are beside lines of the plot, from the top; the line
    /// below the last is the horizontal axis.
    pub(super) fn new(
        name: &str,
        ticks: &[(usize, &str)],
        screen: &Screen,
        canvas: &mut Canvas,
    ) -> Frame {
        let lines = if screen.ascii { &ASCII } else { &UNICODE };
        let left = ticks.iter().map(|(_, text)| text.width()).max().unwrap_or(0) + 2;
        if !name.is_empty() {
            canvas.add_text(&format!(" {name}"), Paint::Dim);
        }
        let top = canvas.add_lines(screen.height + 2);
        let width = canvas.width().saturating_sub(left).max(1);
        let frame = Frame { left, top, width, height: screen.height };
        for line in 0..frame.height {
            canvas.put(left - 1, top + line, lines.down, Paint::Dim);
        }
        canvas.put(left - 1, top + frame.height, lines.corner, Paint::Dim);
        for (line, text) in ticks {
            let y = top + (*line).min(frame.height);
            canvas.text_to(left - 2, y, text, Paint::Plain);
            if *line < frame.height {
                canvas.put(left - 1, y, lines.left_tick, Paint::Dim);
            }
        }
        frame
    }

    /// Draws the horizontal axis of `width` characters. Ticks are at columns of the plot.
    pub(super) fn draw_below(
        &self,
        width: usize,
        ticks: &[(usize, &str)],
        name: &str,
        screen: &Screen,
        canvas: &mut Canvas,
    ) {
        let lines = if screen.ascii { &ASCII } else { &UNICODE };
        let (axis, texts) = (self.top + self.height, self.top + self.height + 1);
        for x in 0..width {
            canvas.put(self.left + x, axis, lines.across, Paint::Dim);
        }
        let mut free = 0;
        for (column, text) in ticks {
            let x = self.left + column;
            let start = x.saturating_sub(text.width() / 2);
            let start = start.min(canvas.width().saturating_sub(text.width()));
            if start < free {
                continue;
            }
            canvas.put(x, axis, lines.down_tick, Paint::Dim);
            free = start + canvas.text(start, texts, text, text.width(), Paint::Plain) + 1;
        }
        if !name.is_empty() {
            let line = canvas.add_lines(1);
            let blank = self.left + width.saturating_sub(name.width()) / 2;
            let start = blank.min(canvas.width().saturating_sub(name.width()));
            canvas.text(start, line, name, canvas.width(), Paint::Dim);
        }
    }
}
