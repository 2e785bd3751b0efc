//! A chart of the answer as an SVG file ([`crate::charts`]).

use std::io::Write as _;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::figures::FigureBuilder;
use crate::charts::{ChartOptions, Surface, draw_svg};
use crate::errors::Failure;
use crate::output::Output;

/// Pixels across, unless it is said how many.
const WIDTH: u32 = 800;

/// Draws one result.
pub(super) struct SvgPrinter {
    figure: FigureBuilder,
    surface: Surface,
    output: Output,
}

impl SvgPrinter {
    pub(super) fn new(schema: &SchemaRef, options: &ChartOptions, output: Output) -> Self {
        let figure = FigureBuilder::new(schema, options);
        SvgPrinter { figure, surface: surface(options), output }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.figure.write(batch)
    }

    /// Writes the picture, and returns what it does not show.
    pub(super) fn finish(mut self) -> Result<(Output, Vec<String>), Failure> {
        let figure = self.figure.finish()?;
        let text = draw_svg(&figure, &self.surface);
        self.output.write_all(text.as_bytes()).map_err(|error| self.output.failure(&error))?;
        Ok((self.output, figure.notes().to_vec()))
    }
}

/// The size of a picture.
pub(super) fn surface(options: &ChartOptions) -> Surface {
    Surface { width: options.width.unwrap_or(WIDTH), height: options.height }
}
