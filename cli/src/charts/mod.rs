//! Charts of answers.
//!
//! A [`Collector`] takes the rows of an answer as they come and makes a [`Figure`], which has no
//! sizes. [`terminal`] draws it with characters, [`svg`] as a picture. What both share is computed
//! once: which chart ([`choice`]), ticks and bins ([`steps`]), their texts ([`labels`]), positions
//! ([`scale`]).
//!
//! The libraries that were looked at draw either for terminals (textplots: braille without ticks,
//! times or series) or pictures (plotters: no terminal, colours and sizes of text fixed in the
//! file), so that an answer would have looked different in each.

mod steps;
mod labels;
mod scale;
mod figure;
mod options;
mod rows;
mod choice;
mod collect;
mod terminal;
mod svg;

pub(crate) use collect::Collector;
pub(crate) use figure::Figure;
pub(crate) use options::ChartOptions;
pub(crate) use rows::{Class, Column, Rows};
pub(crate) use svg::{Surface, draw_svg, escaped};
pub(crate) use terminal::{Screen, draw_text};
