//! A chart of the answer, drawn with characters ([`crate::charts`]).

use std::io::Write as _;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::figures::FigureBuilder;
use crate::charts::{ChartOptions, Screen, draw_text};
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

/// Characters of a line and lines of a chart where no terminal says how many there are.
const WIDTH: usize = 80;
const HEIGHT: usize = 16;
/// Lines of bars, rows of a heat map and small lines, unless it is said how many.
const MAX_LINES: usize = 40;

/// Draws one result.
pub(super) struct ChartPrinter {
    figure: FigureBuilder,
    screen: Screen,
    output: Output,
}

impl ChartPrinter {
    pub(super) fn new(
        schema: &SchemaRef,
        options: &ChartOptions,
        look: Look,
        output: Output,
    ) -> Self {
        let figure = FigureBuilder::new(schema, options);
        ChartPrinter { figure, screen: screen(options, look), output }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.figure.write(batch)
    }

    /// Writes the chart, and returns what it does not show.
    pub(super) fn finish(mut self) -> Result<(Output, Vec<String>), Failure> {
        let figure = self.figure.finish()?;
        let text = draw_text(&figure, &self.screen);
        self.output.write_all(text.as_bytes()).map_err(|error| self.output.failure(&error))?;
        Ok((self.output, figure.notes().to_vec()))
    }
}

pub(super) fn screen(options: &ChartOptions, look: Look) -> Screen {
    let height = options.height.map(|height| height as usize);
    // A prompt, the names of series and axes have room beside the chart.
    let fitting = look.height.map_or(HEIGHT, |lines| lines.saturating_sub(8).clamp(8, 24));
    Screen {
        width: options.width.map(|width| width as usize).or(look.width).unwrap_or(WIDTH),
        height: height.unwrap_or(fitting),
        max_lines: height.unwrap_or(MAX_LINES),
        color: look.color,
        ascii: options.ascii || look.ascii || !look.braille,
    }
}
