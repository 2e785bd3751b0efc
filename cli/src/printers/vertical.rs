//! A value a line, for rows with more columns than a screen has room for. Each row has a line of
//! its own before it; further lines of a value stand below its first. Null is `NULL`, dim where
//! there are colours, and control characters are shown escaped, as in the table.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use unicode_width::UnicodeWidthStr;

use super::cells::Cells;
use super::flush::{FLUSH_BYTES, flush};
use super::table::{NULL, shown_name, write_escaped};
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

/// Names that are longer push their values to the right.
const MOST_NAME_WIDTH: usize = 40;

/// Writes one result with a value a line.
pub(super) struct VerticalPrinter {
    look: Look,
    /// Each name, with the blanks up to its value, and where that begins.
    names: Vec<(String, usize)>,
    rows: u64,
    buffer: Vec<u8>,
    output: Output,
}

impl VerticalPrinter {
    pub(super) fn new(schema: &SchemaRef, look: Look, output: Output) -> Self {
        let names: Vec<String> =
            schema.fields().iter().map(|field| shown_name(field.name())).collect();
        let widths = names.iter().map(|name| name.width());
        let indent = widths.max().unwrap_or(0).min(MOST_NAME_WIDTH) + 2;
        let padded = |name: String| {
            let blanks = indent.saturating_sub(name.width()).max(2);
            let start = name.width() + blanks;
            (name + &" ".repeat(blanks), start)
        };
        let names = names.into_iter().map(padded).collect();
        VerticalPrinter { look, names, rows: 0, buffer: Vec::new(), output }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns = batch.columns().iter().map(|array| Cells::new(array));
        let columns = columns.collect::<Result<Vec<Cells<'_>>, _>>()?;
        let (mut raw, mut text) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            self.rows += 1;
            let rule = if self.look.ascii { "--" } else { "──" };
            self.styled("\x1b[2m", &format!("{rule} row {} {rule}", self.rows));
            self.buffer.push(b'\n');
            for (at, cells) in columns.iter().enumerate() {
                let (name, start) = self.names.get(at).cloned().unwrap_or_default();
                self.styled("\x1b[1m", &name);
                if cells.is_null(row) {
                    self.styled("\x1b[2m", NULL);
                } else {
                    raw.clear();
                    text.clear();
                    cells.write_text(row, &mut raw)?;
                    write_escaped(&String::from_utf8_lossy(&raw), &mut text);
                    self.push_lines(&text, start);
                }
                self.buffer.push(b'\n');
            }
            if self.buffer.len() >= FLUSH_BYTES {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        flush(&mut self.buffer, &mut self.output)
    }

    /// Writes a value; all of its lines begin where the first one does.
    fn push_lines(&mut self, text: &[u8], start: usize) {
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                self.buffer.push(b'\n');
                self.buffer.resize(self.buffer.len() + start, b' ');
            }
            self.buffer.extend_from_slice(line);
        }
    }

    fn styled(&mut self, style: &str, text: &str) {
        let (style, reset) = if self.look.color { (style, "\x1b[0m") } else { ("", "") };
        for part in [style, text, reset] {
            self.buffer.extend_from_slice(part.as_bytes());
        }
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}
