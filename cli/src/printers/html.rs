//! A section of a page: the statement, a chart and a table that a browser can sort. Of many rows,
//! the first are in the table, and it says how many are not.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::cells::Cells;
use super::figures::FigureBuilder;
use super::svg::surface;
use crate::charts::{ChartOptions, Surface, draw_svg};
use crate::errors::Failure;
use crate::output::Output;
use crate::page::{self, escaped, head};
use crate::units::{show_counted, show_duration, show_name};

/// Rows and bytes of a table.
const MAX_ROWS: u64 = 5_000;
const MAX_BYTES: usize = 8 << 20;
/// Columns of an answer that is drawn without being asked for.
const MAX_DRAWN_COLUMNS: usize = 6;

/// Where an answer is in its page.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// It has a page of its own.
    #[default]
    Alone,
    /// It is the first of several in a page of this title.
    First(String),
    /// It comes after others. The end of the page is written by who knows that it is the last.
    Later,
}

/// What a page says about an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PagePart {
    /// Where it is.
    pub(crate) place: Place,
    /// The title of the answer.
    pub(crate) title: Option<String>,
    /// The statement.
    pub(crate) sql: String,
    /// When it was started.
    pub(crate) started: Option<Instant>,
}

/// Writes one result as a section.
pub(super) struct HtmlPrinter {
    part: PagePart,
    figure: Option<FigureBuilder>,
    options: ChartOptions,
    rows: u64,
    /// Rows that are in the table.
    shown: u64,
    is_number: Vec<bool>,
    table: String,
    output: Output,
}

impl HtmlPrinter {
    pub(super) fn new(
        schema: &SchemaRef,
        options: &ChartOptions,
        part: PagePart,
        output: Output,
    ) -> Self {
        // The title of the options is that of the page.
        let options = ChartOptions { title: None, ..options.clone() };
        let is_drawn = options.any() || schema.fields().len() <= MAX_DRAWN_COLUMNS;
        let is_number: Vec<bool> =
            schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
        let is_drawn = is_drawn && (options.any() || is_number.contains(&true));
        let mut table = String::from("<thead><tr>");
        for (field, is_number) in schema.fields().iter().zip(&is_number) {
            let class = if *is_number { " class=\"n\"" } else { "" };
            let _ = write!(table, "<th{class}>{}</th>", escaped(&show_name(field.name())));
        }
        table.push_str("</tr></thead>\n<tbody>\n");
        HtmlPrinter {
            part,
            figure: is_drawn.then(|| FigureBuilder::new(schema, &options)),
            options,
            rows: 0,
            shown: 0,
            is_number,
            table,
            output,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        if let Some(figure) = &mut self.figure
            && let Err(failure) = figure.write(batch)
        {
            self.cannot_draw(failure)?;
        }
        self.rows += batch.num_rows() as u64;
        if self.shown >= MAX_ROWS || self.table.len() >= MAX_BYTES {
            return Ok(());
        }
        let columns = batch.columns().iter().map(|array| Cells::new(array));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut text = Vec::new();
        for row in 0..batch.num_rows() {
            if self.shown >= MAX_ROWS || self.table.len() >= MAX_BYTES {
                break;
            }
            self.shown += 1;
            self.table.push_str("<tr>");
            for (cells, is_number) in columns.iter().zip(&self.is_number) {
                if cells.is_null(row) {
                    let class = if *is_number { "null n" } else { "null" };
                    let _ = write!(self.table, "<td class=\"{class}\">NULL</td>");
                    continue;
                }
                text.clear();
                cells.write_text(row, &mut text)?;
                let class = if *is_number { " class=\"n\"" } else { "" };
                let text = String::from_utf8_lossy(&text);
                let _ = write!(self.table, "<td{class}>{}</td>", escaped(&text));
            }
            self.table.push_str("</tr>\n");
        }
        Ok(())
    }

    /// A chart that nobody asked for is left out.
    fn cannot_draw(&mut self, failure: Failure) -> Result<(), Failure> {
        self.figure = None;
        if self.options.any() { Err(failure) } else { Ok(()) }
    }

    /// Writes the section, and returns what its chart does not show.
    pub(super) fn finish(mut self) -> Result<(Output, Vec<String>), Failure> {
        let mut html = match &self.part.place {
            Place::Alone => head("Answer"),
            Place::First(title) => head(title),
            Place::Later => String::new(),
        };
        html.push_str("<section>\n");
        if let Some(title) = &self.part.title {
            let _ = writeln!(html, "<h2>{}</h2>", escaped(title));
        }
        if !self.part.sql.is_empty() {
            let _ = writeln!(html, "<pre>{}</pre>", escaped(&self.part.sql));
        }
        let took = self.part.started.map(|started| show_duration(started.elapsed()));
        let took = took.map_or_else(String::new, |took| format!(" in {took}"));
        let _ = writeln!(html, "<p class=\"dim\">{}{took}</p>", show_counted(self.rows, "row"));
        let figure = match self.figure.take().map(FigureBuilder::finish) {
            // One row is easier to read in the table.
            Some(Ok(figure)) if self.rows > 1 || self.options.any() => Some(figure),
            Some(Err(failure)) => {
                self.cannot_draw(failure)?;
                None
            }
            _ => None,
        };
        let mut notes = Vec::new();
        if let Some(figure) = figure {
            let Surface { width, height } = surface(&self.options);
            let picture = draw_svg(&figure, &Surface { width, height });
            let _ = writeln!(html, "<div class=\"picture\">{picture}</div>");
            notes.extend_from_slice(figure.notes());
            for note in &notes {
                let _ = writeln!(html, "<p class=\"dim\">{}</p>", escaped(note));
            }
        }
        html.push_str("<div class=\"table\"><table class=\"sortable\">\n");
        html.push_str(&self.table);
        html.push_str("</tbody>\n</table></div>\n");
        if self.shown < self.rows {
            let left_out = show_counted(self.rows - self.shown, "more row");
            let note = format!("the table leaves out {left_out}");
            let _ = writeln!(html, "<p>{note}</p>");
            notes.push(note);
        }
        html.push_str("</section>\n");
        if matches!(self.part.place, Place::Alone) {
            html.push_str(page::END);
        }
        self.output.write_all(html.as_bytes()).map_err(|error| self.output.failure(&error))?;
        Ok((self.output, notes))
    }
}
