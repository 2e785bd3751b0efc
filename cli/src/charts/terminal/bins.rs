//! Histograms: bars from below, in eighths of a line.

use super::canvas::{Canvas, Paint};
use super::frame::{Frame, horizontal_ticks, vertical_ticks};
use super::screen::Screen;
use crate::charts::figure::Bins;
use crate::charts::labels;
use crate::charts::scale::{Scale, axis_name};
use crate::units::show_counted;

/// The eighths of a block, from below.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(bins: &Bins, log: bool, screen: &Screen, canvas: &mut Canvas) {
    let highest = bins.counts.iter().copied().max().unwrap_or(0);
    if highest == 0 {
        canvas.add_text("no values to draw", Paint::Dim);
        return;
    }
    let least = if log { 0.5 } else { 0.0 };
    let scale = Scale::values((least, highest as f64), log, true, vertical_ticks(screen.height));
    let line = |place: f64| screen.height - (place * screen.height as f64).round() as usize;
    let ticks: Vec<(usize, &str)> =
        scale.ticks.iter().map(|(place, text)| (line(*place), &**text)).collect();
    let rows = show_counted(bins.counts.iter().sum(), "row");
    let log_name = if log { ", logarithmic" } else { "" };
    let frame = Frame::new(&format!("{rows}{log_name}"), &ticks, screen, canvas);
    // Bars are equally wide, and leave a gap if there is room.
    let shown = bins.counts.len().min(frame.width);
    let each = (frame.width / shown).clamp(1, 8);
    let bar = if each > 2 { each - 1 } else { each };
    for (at, count) in bins.counts.iter().take(shown).enumerate().filter(|(_, n)| **n > 0) {
        let eighths = scale.place(*count as f64) * (screen.height * 8) as f64;
        // The smallest count can be seen.
        let eighths = (eighths.round() as usize).max(1);
        for line in 0..eighths.div_ceil(8) {
            let part = (eighths - line * 8).min(8);
            let c = match screen.ascii {
                true if part >= 4 || line == 0 => '#',
                true => ' ',
                false => EIGHTHS[part],
            };
            for x in 0..bar {
                let y = frame.top + frame.height - 1 - line;
                canvas.put(frame.left + at * each + x, y, c, Paint::Series(0));
            }
        }
    }
    let ends = (first(&bins.edges), bins.edges.get(shown).copied().unwrap_or_default());
    let x_scale = Scale::axis(ends, bins.x.kind, horizontal_ticks(shown * each, bins.x.kind));
    let of_edge: Vec<(usize, String)> = match bins.whole {
        // A bar that stands for one number has it in its middle.
        true => {
            let middle = |at: usize| at * each + bar / 2;
            let label = |edge: &f64| labels::value(*edge);
            bins.edges
                .iter()
                .take(shown)
                .enumerate()
                .map(|(at, e)| (middle(at), label(e)))
                .collect()
        }
        false => {
            let column = |place: f64| (place * (shown * each) as f64).round() as usize;
            x_scale.ticks.iter().map(|(place, text)| (column(*place), text.clone())).collect()
        }
    };
    let ticks: Vec<(usize, &str)> = of_edge.iter().map(|(at, text)| (*at, &**text)).collect();
    let mut name = axis_name(&bins.x, ends);
    if shown < bins.counts.len() {
        let left_out: u64 = bins.counts.iter().skip(shown).sum();
        name = format!("{name}; {} to the right are left out", show_counted(left_out, "row"));
    }
    frame.draw_below(shown * each, &ticks, &name, screen, canvas);
}

fn first(edges: &[f64]) -> f64 {
    edges.first().copied().unwrap_or_default()
}
