//! Heat maps: a coloured rectangle for each cell, and the scale of its colours.

use super::paper::{Anchor, Paper, cut, heat_color, text_width};
use crate::charts::figure::Cells;
use crate::charts::labels;
use crate::charts::scale::{Scale, bounds};
use crate::units::show_count;

/// Rows and columns that are drawn.
const MAX_KEYS: usize = 120;
/// The height of a row, if no height is asked for.
const ROW: f64 = 22.0;

pub(super) fn draw(
    cells: &Cells,
    log: bool,
    width: f64,
    height: Option<f64>,
    top: f64,
    paper: &mut Paper,
) -> f64 {
    let [x_name, y_name, value_name] = &cells.names;
    let (lo, hi) = bounds(cells.values.iter().flatten().copied());
    let scale = Scale::values((lo, hi), log, false, 5);
    let (from, to) = (scale.place(lo), scale.place(hi));
    let share =
        |value: f64| if to > from { (scale.place(value) - from) / (to - from) } else { 1.0 };
    let (columns, rows) = (cells.columns.len().min(MAX_KEYS), cells.rows.len().min(MAX_KEYS));
    let label = cells.rows.iter().take(rows).map(|row| text_width(row)).fold(0.0, f64::max);
    let label = label.min(width / 3.0);
    let left = 8.0 + label + 8.0;
    let each = ((width - left - 16.0) / columns.max(1) as f64).min(90.0);
    let room = height.map(|height| (height - top - 100.0) / rows.max(1) as f64);
    let row = room.unwrap_or(ROW).max(4.0);
    paper.styled_text(8.0, top + 10.0, &cut(y_name, width - 16.0), Anchor::Start, DIM);
    let top = top + 20.0;
    for (at, name) in cells.rows.iter().take(rows).enumerate() {
        let y = top + at as f64 * row;
        if row >= 12.0 || (at as f64 * row) % 12.0 < row {
            paper.text(left - 8.0, y + row / 2.0 + 4.0, &cut(name, label + 4.0), Anchor::End);
        }
        for (column, column_name) in cells.columns.iter().take(columns).enumerate() {
            let value = cells.values.get(at * cells.columns.len() + column).copied().flatten();
            if let Some(value) = value {
                let tip = format!("{name}, {column_name}: {}", labels::value(value));
                let size = (each - 1.0, row - 1.0);
                let corner = (left + column as f64 * each, y);
                paper.rect(corner, size, &heat_color(share(value)), &tip);
            }
        }
    }
    let mut y = top + rows as f64 * row + 15.0;
    let mut free = 0.0;
    for (at, name) in cells.columns.iter().take(columns).enumerate() {
        let x = left + (at as f64 + 0.5) * each;
        let name = cut(name, each.max(90.0));
        let half = text_width(&name) / 2.0;
        if x - half >= free {
            free = x + half + 6.0;
            paper.text(x, y, &name, Anchor::Middle);
        }
    }
    y += 18.0;
    let middle = left + each * columns as f64 / 2.0;
    paper.styled_text(middle, y, &cut(x_name, width - left), Anchor::Middle, DIM);
    for (more, what) in
        [(cells.rows.len() - rows, "rows"), (cells.columns.len() - columns, "columns")]
    {
        if more > 0 {
            y += 18.0;
            let text = format!("… and {} more {what}", show_count(more as u64));
            paper.text(8.0, y, &text, Anchor::Start);
        }
    }
    if lo > hi {
        return y + 10.0;
    }
    // The scale of colours, from the least value to the greatest.
    y += 26.0;
    let log = if log { ", logarithmic" } else { "" };
    let name = cut(&format!("{value_name}{log}: {}", labels::value(lo)), width / 2.0);
    paper.text(8.0, y, &name, Anchor::Start);
    let mut x = 8.0 + text_width(&name) + 8.0;
    for level in 0..24 {
        paper.rect((x, y - 10.0), (5.0, 12.0), &heat_color(f64::from(level) / 23.0), "");
        x += 5.0;
    }
    paper.text(x + 8.0, y, &labels::value(hi), Anchor::Start);
    y + 12.0
}

const DIM: &str = " opacity=\"0.8\"";
