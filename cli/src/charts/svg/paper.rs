//! SVG as text: shapes and texts in pixels, escaped.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::charts::labels;

/// The size of texts.
pub(super) const FONT: f64 = 12.0;
/// About how wide a character is.
const CHARACTER: f64 = 6.7;
/// Colours of series, which can be told apart on white and on black.
const SERIES: [&str; 8] =
    ["#3b7dd8", "#d9702b", "#2f9e62", "#c2487f", "#8a63c9", "#a8831a", "#1f9aa8", "#8c6d5b"];
/// From the least value to the greatest.
const HEAT: [[f64; 3]; 5] = [
    [68.0, 1.0, 84.0],
    [59.0, 82.0, 139.0],
    [33.0, 145.0, 140.0],
    [94.0, 201.0, 98.0],
    [253.0, 231.0, 37.0],
];

/// Where a text is anchored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The shapes of a picture.
#[derive(Debug, Default)]
pub(super) struct Paper {
    shapes: String,
}

impl Paper {
    /// The whole picture. Texts and axes take the colour of the page that they are in, or a grey
    /// that can be read on white and on black.
    pub(super) fn into_svg(self, width: f64, height: f64, title: &str) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" \
             width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             color=\"#767676\" fill=\"currentColor\" font-size=\"{FONT}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n"
        );
        if !title.is_empty() {
            let _ = writeln!(svg, "<title>{}</title>", escaped(title));
        }
        svg.push_str(&self.shapes);
        svg.push_str("</svg>\n");
        svg
    }

    pub(super) fn text(&mut self, x: f64, y: f64, text: &str, anchor: Anchor) {
        self.styled_text(x, y, text, anchor, "");
    }

    /// A text with further attributes.
    pub(super) fn styled_text(&mut self, x: f64, y: f64, text: &str, anchor: Anchor, style: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escaped(text);
        let _ =
            writeln!(self.shapes, "<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{style}>{text}</text>");
    }

    /// A line of an axis or, if it is faint, of the grid.
    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), faint: bool) {
        let opacity = if faint { 0.15 } else { 0.6 };
        let _ = writeln!(
            self.shapes,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"currentColor\" stroke-opacity=\"{opacity}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A filled rectangle, with a text that is shown when it is pointed at.
    pub(super) fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        fill: &str,
        tip: &str,
    ) {
        let _ = write!(
            self.shapes,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"",
            width.max(0.0),
            height.max(0.0)
        );
        if tip.is_empty() {
            self.shapes.push_str("/>\n");
        } else {
            let _ = writeln!(self.shapes, "><title>{}</title></rect>", escaped(tip));
        }
    }

    /// Points, connected or not.
    pub(super) fn points(&mut self, points: &[(f64, f64)], connected: bool, color: &str) {
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let _ = match (connected && at > 0, connected && points.len() > 1) {
                (true, _) => write!(path, "L{x:.1} {y:.1}"),
                (false, true) => write!(path, "M{x:.1} {y:.1}"),
                (false, false) => write!(path, "M{x:.1} {y:.1}h0"),
            };
        }
        let width = if connected && points.len() > 1 { "1.5" } else { "4\" stroke-opacity=\"0.7" };
        let _ = writeln!(
            self.shapes,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" \
             stroke-linecap=\"round\" stroke-linejoin=\"round\"/>"
        );
    }

    /// The names of series with their colours, from a height on. Returns the height below them.
    pub(super) fn legend<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        width: f64,
        top: f64,
    ) -> f64 {
        let (mut x, mut y) = (8.0, top);
        for (at, name) in names.enumerate() {
            let name = cut(name, width / 2.0);
            let taken = text_width(&name) + 30.0;
            if x > 8.0 && x + taken > width {
                (x, y) = (8.0, y + 18.0);
            }
            self.rect((x, y + 3.0), (10.0, 10.0), series_color(at), "");
            self.text(x + 15.0, y + 12.0, &name, Anchor::Start);
            x += taken;
        }
        y + 24.0
    }
}

pub(super) fn series_color(at: usize) -> &'static str {
    SERIES[at % SERIES.len()]
}

/// The colour of a share between 0 and 1.
pub(super) fn heat_color(share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let at = (place as usize).min(HEAT.len() - 2);
    let part = place - at as f64;
    let mixed = |channel: usize| {
        (HEAT[at][channel] * (1.0 - part) + HEAT[at + 1][channel] * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2))
}

pub(super) fn text_width(text: &str) -> f64 {
    text.width() as f64 * CHARACTER
}

/// A text cut so that it takes at most the given number of pixels.
pub(super) fn cut(text: &str, pixels: f64) -> String {
    labels::cut(text, (pixels / CHARACTER).max(1.0) as usize, '…')
}

/// The text with what is markup in XML and HTML escaped, and without characters that XML refuses:
/// control characters are escaped as in a table.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}
