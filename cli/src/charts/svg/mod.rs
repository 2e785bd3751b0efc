//! Draws figures as SVG: one element that needs nothing else, and whose texts are texts.

mod bars;
mod cells;
mod paper;
mod plots;

pub(crate) use paper::escaped;
use paper::{Anchor, Paper};

use super::figure::{Body, Figure};

/// The size of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    /// Pixels across.
    pub(crate) width: u32,
    /// Pixels down; otherwise as many as the chart needs.
    pub(crate) height: Option<u32>,
}

/// Draws a figure as an `svg` element.
pub(crate) fn draw_svg(figure: &Figure, surface: &Surface) -> String {
    let width = f64::from(surface.width.max(120));
    let height = surface.height.map(f64::from);
    let mut paper = Paper::default();
    let mut top = 8.0;
    if let Some(title) = &figure.title {
        let style = " font-weight=\"600\" font-size=\"15\"";
        let title = paper::cut(title, (width - 16.0) / 1.25);
        paper.styled_text(8.0, top + 14.0, &title, Anchor::Start, style);
        top += 28.0;
    }
    let bottom = match &figure.body {
        Body::Empty => {
            paper.text(8.0, top + 14.0, "no rows to draw", Anchor::Start);
            top + 24.0
        }
        Body::Bars(all) => bars::draw(all, figure.log, width, height, top, &mut paper),
        Body::Points(all) => plots::points(all, figure.log, width, height, top, &mut paper),
        Body::Bins(all) => plots::bins(all, figure.log, width, height, top, &mut paper),
        Body::Cells(all) => cells::draw(all, figure.log, width, height, top, &mut paper),
        Body::Sparks(all) => bars::sparks(all, width, height, top, &mut paper),
    };
    let title = figure.title.as_deref().unwrap_or_default();
    paper.into_svg(width, height.unwrap_or(bottom).max(bottom), title)
}
