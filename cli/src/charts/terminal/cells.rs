//! Heat maps: a coloured block for each cell, or a denser one for a greater value.

use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, MAX_HEAT, Paint};
use super::screen::{Screen, add_more};
use crate::charts::figure::Cells;
use crate::charts::labels;
use crate::charts::scale::{Scale, bounds};

const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// The widest cell.
const MAX_WIDTH: usize = 8;

pub(super) fn draw(cells: &Cells, log: bool, screen: &Screen, canvas: &mut Canvas) {
    let [x_name, y_name, value_name] = &cells.names;
    let (lo, hi) = bounds(cells.values.iter().flatten().copied());
    let scale = Scale::values((lo, hi), log, false, 5);
    let (from, to) = (scale.place(lo), scale.place(hi));
    let levels = match (screen.ascii, screen.color) {
        (true, _) => ASCII_SHADES.len(),
        (false, true) => usize::from(MAX_HEAT) + 1,
        (false, false) => SHADES.len(),
    };
    let mark = |level: usize| match (screen.ascii, screen.color) {
        (true, _) => (ASCII_SHADES[level % ASCII_SHADES.len()], Paint::Plain),
        (false, true) => ('█', Paint::Heat(level as u8)),
        (false, false) => (SHADES[level % SHADES.len()], Paint::Plain),
    };
    let mark_of = |value: f64| {
        let share = if to > from { (scale.place(value) - from) / (to - from) } else { 1.0 };
        mark(((share * levels as f64) as usize).min(levels - 1))
    };
    let label = cells.rows.iter().map(|row| row.width()).max().unwrap_or(0);
    let label = label.max(1).min(canvas.width() / 3);
    let left = label + 1;
    let room = canvas.width().saturating_sub(left).max(1);
    let widest = cells.columns.iter().map(|column| column.width()).max().unwrap_or(1);
    let each = (room / cells.columns.len().max(1)).clamp(1, MAX_WIDTH.min(widest + 1).max(2));
    let columns = cells.columns.len().min(room / each);
    let rows = cells.rows.len().min(screen.max_lines);
    canvas.add_text(&format!(" {y_name}"), Paint::Dim);
    let bar = if each > 2 { each - 1 } else { each };
    for (at, name) in cells.rows.iter().take(rows).enumerate() {
        let y = canvas.add_lines(1);
        let name = labels::cut(name, label, canvas.mark);
        canvas.text_to(label, y, &name, Paint::Plain);
        for column in 0..columns {
            let value = cells.values.get(at * cells.columns.len() + column).copied().flatten();
            if let Some((c, paint)) = value.map(mark_of) {
                (0..bar).for_each(|x| canvas.put(left + column * each + x, y, c, paint));
            }
        }
    }
    let texts = canvas.add_lines(1);
    let mut free = left;
    for (at, name) in cells.columns.iter().take(columns).enumerate() {
        let start = left + at * each;
        if start >= free && (name.width() <= MAX_WIDTH * 2 || at == 0) {
            let name = labels::cut(name, MAX_WIDTH * 2, canvas.mark);
            if start + name.width() <= canvas.width() {
                free = start + canvas.text(start, texts, &name, name.width(), Paint::Plain) + 1;
            }
        }
    }
    let line = canvas.add_lines(1);
    canvas.text(left, line, x_name, canvas.width(), Paint::Dim);
    add_more((cells.rows.len() - rows) as u64, "row", canvas);
    add_more((cells.columns.len() - columns) as u64, "column", canvas);
    if lo > hi {
        return;
    }
    // The scale of colours, from the least value to the greatest.
    let line = canvas.add_lines(1);
    let log = if log { ", logarithmic" } else { "" };
    let mut at = canvas.text(0, line, &format!("{value_name}{log}: "), canvas.width(), Paint::Dim);
    at += canvas.text(at, line, &labels::value(lo), 20, Paint::Plain) + 1;
    for level in 0..levels {
        let (c, paint) = mark(level);
        canvas.put(at, line, c, paint);
        at += 1;
    }
    canvas.text(at + 1, line, &labels::value(hi), 20, Paint::Plain);
}
