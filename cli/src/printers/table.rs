//! The table for people: a box with numbers to the right. Null is empty, or a dim `NULL` with
//! colours.
//!
//! Up to 10,000 rows are buffered to find the widths of the columns. Later rows are written at
//! these widths, and a longer cell makes its line longer. On a terminal, the table is fitted to the
//! width. Control characters are shown escaped, so that data cannot control the terminal.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cells::Cells;
use super::flush::{FLUSH_BYTES, flush};
use super::table_layout::{NaturalColumn, ShownColumn, fit};
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

/// The number of rows that are buffered to find the widths.
const SAMPLE_ROWS: usize = 10_000;
/// Widths are decided after this much text, even if there are fewer rows.
const SAMPLE_BYTES: usize = 16 << 20;

/// Writes one result as a table.
pub(super) struct TablePrinter {
    look: Look,
    names: Vec<String>,
    columns: Vec<NaturalColumn>,
    /// The text of the buffered cells.
    text: Vec<u8>,
    cells: Vec<BufferedCell>,
    /// The layout, once it is decided.
    shown: Option<Vec<ShownColumn>>,
    buffer: Vec<u8>,
    output: Output,
}

/// A cell whose text is buffered.
#[derive(Clone, Copy, Debug)]
struct BufferedCell {
    /// Where its text ends in the buffer.
    end: usize,
    /// `None` for null.
    width: Option<usize>,
}

/// The characters of the box.
struct BoxLines {
    across: &'static str,
    down: &'static str,
    top: [&'static str; 3],
    middle: [&'static str; 3],
    bottom: [&'static str; 3],
    cut: char,
}

const UNICODE: BoxLines = BoxLines {
    across: "─",
    down: "│",
    top: ["┌", "┬", "┐"],
    middle: ["├", "┼", "┤"],
    bottom: ["└", "┴", "┘"],
    cut: '…',
};
const ASCII: BoxLines = BoxLines {
    across: "-",
    down: "|",
    top: ["+", "+", "+"],
    middle: ["+", "+", "+"],
    bottom: ["+", "+", "+"],
    cut: '~',
};
const NULL: &str = "NULL";

impl TablePrinter {
    pub(super) fn new(schema: &SchemaRef, look: Look, output: Output) -> Self {
        let mut names = Vec::new();
        let mut columns = Vec::new();
        for field in schema.fields() {
            let mut name = Vec::new();
            escape(field.name(), &mut name);
            let name = String::from_utf8_lossy(&name).into_owned();
            let data_type = field.data_type();
            let align_right = data_type.is_numeric();
            let rigid = align_right || data_type.is_temporal();
            columns.push(NaturalColumn { width: name.width(), align_right, rigid });
            names.push(name);
        }
        TablePrinter {
            look,
            names,
            columns,
            text: Vec::new(),
            cells: Vec::new(),
            shown: None,
            buffer: Vec::new(),
            output,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let columns = batch
            .columns()
            .iter()
            .map(|array| Cells::new(array))
            .collect::<Result<Vec<Cells<'_>>, _>>()?;
        if columns.is_empty() {
            return Ok(());
        }
        let mut raw = Vec::new();
        for row in 0..batch.num_rows() {
            for cells in &columns {
                self.buffer_cell(cells, row, &mut raw)?;
            }
            let rows = self.cells.len() / columns.len();
            if self.shown.is_some() || rows >= SAMPLE_ROWS || self.text.len() >= SAMPLE_BYTES {
                self.write_buffered()?;
            }
        }
        if self.shown.is_some() { flush(&mut self.buffer, &mut self.output) } else { Ok(()) }
    }

    /// Renders a cell into the buffer.
    fn buffer_cell(
        &mut self,
        cells: &Cells<'_>,
        row: usize,
        raw: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let start = self.text.len();
        let width = if cells.is_null(row) {
            None
        } else if let Some(text) = cells.text(row) {
            escape(text, &mut self.text);
            Some(display_width(&self.text[start..]))
        } else {
            raw.clear();
            cells.write_text(row, raw)?;
            escape(&String::from_utf8_lossy(raw), &mut self.text);
            Some(display_width(&self.text[start..]))
        };
        let column = self.cells.len() % self.columns.len();
        let null_width = if self.look.color { NULL.len() } else { 0 };
        if self.shown.is_none()
            && let Some(column) = self.columns.get_mut(column)
        {
            column.width = column.width.max(width.unwrap_or(null_width));
        }
        self.cells.push(BufferedCell { end: self.text.len(), width });
        Ok(())
    }

    /// Writes the buffered rows, with the header before the first of them.
    fn write_buffered(&mut self) -> Result<(), Failure> {
        if self.shown.is_none() && !self.names.is_empty() {
            let shown = fit(&self.columns, self.look.width);
            self.write_header(&shown);
            self.shown = Some(shown);
        }
        let shown = self.shown.take().unwrap_or_default();
        let (text, cells) = (std::mem::take(&mut self.text), std::mem::take(&mut self.cells));
        let mut start = 0;
        for row in cells.chunks(self.names.len().max(1)) {
            self.write_row(&shown, row, start, &text);
            start = row.last().map_or(start, |cell| cell.end);
            if self.buffer.len() >= FLUSH_BYTES {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        (self.text, self.cells) = (text, cells);
        self.text.clear();
        self.cells.clear();
        self.shown = Some(shown);
        Ok(())
    }

    fn write_header(&mut self, shown: &[ShownColumn]) {
        self.write_rule(shown, self.lines().top);
        let (bold, reset) = if self.look.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let lines = self.lines();
        self.push(lines.down);
        for column in shown {
            let name = column.column.and_then(|at| self.names.get(at)).cloned();
            let name = name.unwrap_or_else(|| lines.cut.to_string());
            let align_right =
                column.column.and_then(|at| self.columns.get(at)).is_some_and(|c| c.align_right);
            self.push(" ");
            self.push(bold);
            self.write_padded(name.as_bytes(), name.width(), column.width, align_right);
            self.push(reset);
            self.push(" ");
            self.push(lines.down);
        }
        self.push("\n");
        self.write_rule(shown, lines.middle);
    }

    /// Writes a row, whose text begins at `start`.
    fn write_row(
        &mut self,
        shown: &[ShownColumn],
        cells: &[BufferedCell],
        start: usize,
        text: &[u8],
    ) {
        let lines = self.lines();
        self.push(lines.down);
        for column in shown {
            self.push(" ");
            match column.column.and_then(|at| Some((at, cells.get(at)?))) {
                None => self.push(lines.cut.encode_utf8(&mut [0; 4])),
                Some((_, BufferedCell { width: None, .. })) => self.write_null(column.width),
                Some((at, BufferedCell { end, width: Some(width) })) => {
                    let from = at
                        .checked_sub(1)
                        .and_then(|before| cells.get(before))
                        .map_or(start, |cell| cell.end);
                    let align_right = self.columns.get(at).is_some_and(|c| c.align_right);
                    self.write_padded(
                        text.get(from..*end).unwrap_or_default(),
                        *width,
                        column.width,
                        align_right,
                    );
                }
            }
            self.push(" ");
            self.push(lines.down);
        }
        self.push("\n");
    }

    fn write_null(&mut self, column_width: usize) {
        if self.look.color {
            self.push("\x1b[2m");
            self.write_padded(NULL.as_bytes(), NULL.len(), column_width, false);
            self.push("\x1b[0m");
        } else {
            self.buffer.resize(self.buffer.len() + column_width, b' ');
        }
    }

    /// Writes a cell, padded to the width of its column. On a terminal, longer text is cut.
    fn write_padded(&mut self, text: &[u8], width: usize, column_width: usize, align_right: bool) {
        if width > column_width && self.look.width.is_some() {
            let cut = self.lines().cut;
            let text = String::from_utf8_lossy(text);
            let mut remaining = column_width.saturating_sub(1);
            for c in text.chars() {
                let char_width = c.width().unwrap_or(0);
                if char_width > remaining {
                    break;
                }
                remaining -= char_width;
                self.push(c.encode_utf8(&mut [0; 4]));
            }
            self.push(cut.encode_utf8(&mut [0; 4]));
            self.buffer.resize(self.buffer.len() + remaining, b' ');
            return;
        }
        let blanks = column_width.saturating_sub(width);
        let (before, after) = if align_right { (blanks, 0) } else { (0, blanks) };
        self.buffer.resize(self.buffer.len() + before, b' ');
        self.buffer.extend_from_slice(text);
        self.buffer.resize(self.buffer.len() + after, b' ');
    }

    fn write_rule(&mut self, shown: &[ShownColumn], corners: [&'static str; 3]) {
        let across = self.lines().across;
        for (at, column) in shown.iter().enumerate() {
            self.push(if at == 0 { corners[0] } else { corners[1] });
            for _ in 0..column.width + 2 {
                self.push(across);
            }
        }
        self.push(corners[2]);
        self.push("\n");
    }

    fn lines(&self) -> &'static BoxLines {
        if self.look.ascii { &ASCII } else { &UNICODE }
    }

    fn push(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        if !self.names.is_empty() {
            self.write_buffered()?;
            let shown = self.shown.take().unwrap_or_default();
            self.write_rule(&shown, self.lines().bottom);
            let hidden =
                self.names.len() - shown.iter().filter(|shown| shown.column.is_some()).count();
            if hidden > 0 {
                let note = format!(
                    "{hidden} of {} columns do not fit and are left out\n",
                    self.names.len()
                );
                self.push(&note);
            }
        }
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}

/// The number of terminal cells that a text takes.
fn display_width(text: &[u8]) -> usize {
    if text.is_ascii() { text.len() } else { String::from_utf8_lossy(text).width() }
}

/// Appends the text with its control characters escaped.
fn escape(text: &str, out: &mut Vec<u8>) {
    // Control characters are below 0x20, or DEL, or U+0080 to U+009F, whose UTF-8 begins with 0xC2.
    if !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f || byte == 0xc2) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default().map(|c| c as u8));
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}
