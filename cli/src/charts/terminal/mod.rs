//! Draws figures with characters: blocks and braille, or ASCII.

mod bars;
mod bins;
mod canvas;
mod cells;
mod frame;
mod points;
mod screen;
mod sparks;

use canvas::{Canvas, Paint};
pub(crate) use screen::Screen;

use super::figure::{Body, Figure};

/// Draws a figure as lines of text.
pub(crate) fn draw_text(figure: &Figure, screen: &Screen) -> String {
    let mut canvas = Canvas::new(screen.width.max(20), screen.ascii);
    if let Some(title) = &figure.title {
        canvas.add_text(title, Paint::Bold);
    }
    match &figure.body {
        Body::Empty => canvas.add_text("no rows to draw", Paint::Dim),
        Body::Bars(all) => bars::draw(all, figure.log, screen, &mut canvas),
        Body::Points(all) => points::draw(all, figure.log, screen, &mut canvas),
        Body::Bins(all) => bins::draw(all, figure.log, screen, &mut canvas),
        Body::Cells(all) => cells::draw(all, figure.log, screen, &mut canvas),
        Body::Sparks(all) => sparks::draw(all, screen, &mut canvas),
    }
    canvas.into_text(screen.color)
}
