//! Characters on a rectangle, each with a colour, written as lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::charts::labels;

/// How a character is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Paint {
    #[default]
    Plain,
    Bold,
    /// Axes and notes.
    Dim,
    /// The colour of a series, by its number.
    Series(usize),
    /// A colour between that of the least value, 0, and the greatest, 11.
    Heat(u8),
}

/// The colours of series, from the terminal's own palette.
const SERIES: [u8; 6] = [34, 33, 32, 35, 36, 31];
/// From the least value to the greatest, of the palette of 256 colours.
const HEAT: [u8; 12] = [54, 61, 25, 31, 37, 36, 35, 71, 113, 149, 185, 227];
/// The brightest colour of a heat map.
pub(super) const MAX_HEAT: u8 = HEAT.len() as u8 - 1;

#[derive(Clone, Copy, Debug)]
struct Place {
    /// `None` behind a character that takes two places.
    c: Option<char>,
    paint: Paint,
}

/// Lines of characters.
#[derive(Debug)]
pub(super) struct Canvas {
    width: usize,
    places: Vec<Place>,
    /// What a cut text ends in.
    pub(super) mark: char,
}

impl Canvas {
    pub(super) fn new(width: usize, ascii: bool) -> Self {
        let mark = if ascii { '~' } else { '…' };
        Canvas { width, places: Vec::new(), mark }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The number of lines.
    pub(super) fn height(&self) -> usize {
        self.places.len() / self.width.max(1)
    }

    /// Adds empty lines, and returns the number of the first.
    pub(super) fn add_lines(&mut self, lines: usize) -> usize {
        let height = self.height();
        let blank = Place { c: Some(' '), paint: Paint::Plain };
        self.places.resize(self.places.len() + lines * self.width, blank);
        height
    }

    /// Adds a line with a text.
    pub(super) fn add_text(&mut self, text: &str, paint: Paint) {
        let line = self.add_lines(1);
        self.text(0, line, text, self.width, paint);
    }

    pub(super) fn put(&mut self, x: usize, y: usize, c: char, paint: Paint) {
        if x < self.width
            && let Some(place) = self.places.get_mut(y * self.width + x)
        {
            *place = Place { c: Some(c), paint };
        }
    }

    /// Writes a text of at most `width` places, and returns how many it takes.
    pub(super) fn text(
        &mut self,
        x: usize,
        y: usize,
        text: &str,
        width: usize,
        paint: Paint,
    ) -> usize {
        let text = labels::cut(text, width.min(self.width.saturating_sub(x)), self.mark);
        let mut at = x;
        for c in text.chars() {
            match c.width().unwrap_or(0) {
                // Combining characters have no place of their own.
                0 => continue,
                wide => {
                    self.put(at, y, c, paint);
                    for behind in 1..wide {
                        let place = self.places.get_mut(y * self.width + at + behind);
                        if let Some(place) = place {
                            *place = Place { c: None, paint };
                        }
                    }
                    at += wide;
                }
            }
        }
        at - x
    }

    /// Writes a text that ends before `end`.
    pub(super) fn text_to(&mut self, end: usize, y: usize, text: &str, paint: Paint) {
        let width = text.width().min(end);
        self.text(end - width, y, text, width, paint);
    }

    /// The lines without blanks at their ends.
    pub(super) fn into_text(self, color: bool) -> String {
        let mut out = String::new();
        for line in self.places.chunks(self.width.max(1)) {
            let is_blank = |place: &Place| place.c == Some(' ');
            let end = line.iter().rposition(|place| !is_blank(place)).map_or(0, |last| last + 1);
            let mut current = Paint::Plain;
            for place in line.iter().take(end) {
                let paint = if is_blank(place) { current } else { place.paint };
                if color && paint != current {
                    out.push_str(&escape(paint));
                    current = paint;
                }
                out.extend(place.c);
            }
            if color && current != Paint::Plain {
                out.push_str("\x1b[0m");
            }
            out.push('\n');
        }
        out
    }
}

fn escape(paint: Paint) -> String {
    match paint {
        Paint::Plain => "\x1b[0m".to_owned(),
        Paint::Bold => "\x1b[0;1m".to_owned(),
        Paint::Dim => "\x1b[0;2m".to_owned(),
        Paint::Series(at) => format!("\x1b[0;{}m", SERIES[at % SERIES.len()]),
        Paint::Heat(at) => format!("\x1b[0;38;5;{}m", HEAT[usize::from(at).min(HEAT.len() - 1)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_only_where_characters_do() {
        let mut canvas = Canvas::new(10, false);
        canvas.add_text("ab", Paint::Bold);
        canvas.text(5, 0, "日本語", 4, Paint::Series(0));
        canvas.add_lines(1);
        canvas.put(100, 0, 'x', Paint::Plain);
        canvas.put(0, 100, 'x', Paint::Plain);
        assert_eq!(canvas.height(), 2);
        assert_eq!(canvas.into_text(true), "\x1b[0;1mab   \x1b[0;34m日…\x1b[0m\n\n");
    }
}
