//! Lines and points, in braille dots of two by four a character, or a character each in ASCII.

use super::canvas::{Canvas, Paint};
use super::frame::{Frame, horizontal_ticks, vertical_ticks};
use super::screen::{Screen, add_legend};
use crate::charts::figure::Points;
use crate::charts::scale::{Scale, axis_name, bounds};

const BRAILLE: u32 = 0x2800;
/// The bits of the dots of a braille character, line by line.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
/// The marks of series where there is only ASCII, or no colour.
const MARKS: [char; 12] = ['*', 'o', '+', 'x', '#', '@', '%', '=', '$', '&', 'v', '^'];

/// The dots of a plot. The later series is on top.
struct Dots {
    width: usize,
    height: usize,
    /// Dots of a character, across and down.
    fine: (usize, usize),
    bits: Vec<u8>,
    series: Vec<usize>,
}

impl Dots {
    fn set(&mut self, x: i64, y: i64, series: usize) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let (column, line) = (x / self.fine.0, y / self.fine.1);
        if column >= self.width || line >= self.height {
            return;
        }
        let at = line * self.width + column;
        if let (Some(bits), Some(place)) = (self.bits.get_mut(at), self.series.get_mut(at)) {
            *bits |= DOTS[y % self.fine.1][x % self.fine.0];
            *place = series;
        }
    }

    /// A line between two dots, by Bresenham's algorithm.
    fn connect(&mut self, from: (i64, i64), to: (i64, i64), series: usize) {
        let (dx, dy) = ((to.0 - from.0).abs(), -(to.1 - from.1).abs());
        let (step_x, step_y) = ((to.0 - from.0).signum(), (to.1 - from.1).signum());
        let ((mut x, mut y), mut error) = (from, dx + dy);
        loop {
            self.set(x, y, series);
            if (x, y) == to {
                return;
            }
            let doubled = 2 * error;
            if doubled >= dy {
                error += dy;
                x += step_x;
            }
            if doubled <= dx {
                error += dx;
                y += step_y;
            }
        }
    }
}

pub(super) fn draw(all: &Points, log: bool, screen: &Screen, canvas: &mut Canvas) {
    let several = all.series.len() > 1;
    // Without colours, braille dots of different series would look the same.
    let marks = screen.ascii || (several && !screen.color);
    let mark = |at: usize| match (marks, all.connected) {
        (true, _) => MARKS[at % MARKS.len()],
        (false, true) => '━',
        (false, false) => '●',
    };
    let name = match (several, log) {
        (true, _) => {
            add_legend(all.series.iter().map(|series| &*series.name), mark, canvas);
            all.y.clone()
        }
        (false, true) => format!("{}, logarithmic", all.y),
        (false, false) => all.y.clone(),
    };
    let points = || all.series.iter().flat_map(|series| &series.points);
    let x_bounds = bounds(points().map(|point| point.0));
    let y_bounds = bounds(points().map(|point| point.1));
    let y_scale = Scale::values(y_bounds, log, false, vertical_ticks(screen.height));
    let fine = if marks { (1, 1) } else { (2, 4) };
    let dots_down = screen.height * fine.1;
    let down = |place: f64| ((1.0 - place) * (dots_down - 1) as f64).round() as usize;
    let ticks: Vec<(usize, &str)> =
        y_scale.ticks.iter().map(|(place, text)| (down(*place) / fine.1, &**text)).collect();
    let frame = Frame::new(&name, &ticks, screen, canvas);
    let x_scale = Scale::axis(x_bounds, all.x.kind, horizontal_ticks(frame.width, all.x.kind));
    let dots_across = frame.width * fine.0;
    let across = |place: f64| (place * (dots_across - 1) as f64).round() as usize;
    let ticks: Vec<(usize, &str)> =
        x_scale.ticks.iter().map(|(place, text)| (across(*place) / fine.0, &**text)).collect();
    let x_name = axis_name(&all.x, x_bounds);
    frame.draw_below(frame.width, &ticks, &x_name, screen, canvas);
    let size = frame.width * frame.height;
    let mut dots = Dots {
        width: frame.width,
        height: frame.height,
        fine,
        bits: vec![0; size],
        series: vec![0; size],
    };
    for (at, series) in all.series.iter().enumerate() {
        let mut before = None;
        for (x, y) in &series.points {
            let dot = (across(x_scale.place(*x)) as i64, down(y_scale.place(*y)) as i64);
            match before.filter(|_| all.connected) {
                Some(before) if before == dot => {}
                Some(before) => dots.connect(before, dot, at),
                None => dots.set(dot.0, dot.1, at),
            }
            before = Some(dot);
        }
    }
    for (at, (bits, series)) in dots.bits.iter().zip(&dots.series).enumerate() {
        if *bits == 0 {
            continue;
        }
        let braille = char::from_u32(BRAILLE + u32::from(*bits)).unwrap_or('*');
        let c = if marks { MARKS[series % MARKS.len()] } else { braille };
        let (x, y) = (frame.left + at % frame.width, frame.top + at / frame.width);
        canvas.put(x, y, c, Paint::Series(*series));
    }
}
