//! The table for people: a box with numbers to the right. Null is `NULL`, dim where there are
//! colours. A cell of several lines takes as many lines of the table.
//!
//! Up to 10,000 rows are buffered to find the widths of the columns. Later rows are written at
//! these widths, and a longer cell makes its line longer. On a terminal, the table is fitted to the
//! width, fewer rows are buffered, and fewer still if they come slowly. Control characters are
//! shown escaped, so that data cannot control the terminal.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cells::Cells;
use super::flush::{FLUSH_BYTES, flush};
use super::table_layout::{NaturalColumn, ShownColumn, fit, gap_name};
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

/// The number of rows that are buffered to find the widths.
const SAMPLE_ROWS: usize = 10_000;
/// The number of rows on a terminal, and the number and the time after which rows that come slowly
/// are shown.
const SCREEN_ROWS: usize = 2_000;
const SLOW_ROWS: usize = 100;
const SLOW: Duration = Duration::from_millis(200);
/// Lines of a cell that are shown on a terminal.
const MOST_LINES: usize = 40;
/// Widths are decided after this much text, even if there are fewer rows.
const SAMPLE_BYTES: usize = 16 << 20;

/// Writes one result as a table.
pub(super) struct TablePrinter {
    look: Look,
    started: Instant,
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
    /// That of its widest line, `None` for null.
    width: Option<usize>,
    lines: usize,
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
/// What stands for null.
pub(super) const NULL: &str = "NULL";
/// Room for the count of columns that are not named.
const MORE_WIDTH: usize = 16;
/// Of a terminal. Narrower ones have less room for words.
const USUAL_WIDTH: usize = 80;

impl TablePrinter {
    pub(super) fn new(schema: &SchemaRef, look: Look, output: Output) -> Self {
        let mut names = Vec::new();
        let mut columns = Vec::new();
        for field in schema.fields() {
            let name = shown_name(field.name());
            let data_type = field.data_type();
            let align_right = data_type.is_numeric();
            let rigid = align_right || data_type.is_temporal();
            columns.push(NaturalColumn { width: name.width(), align_right, rigid });
            names.push(name);
        }
        TablePrinter {
            look,
            started: Instant::now(),
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
        let rows = self.cells.len() / columns.len();
        let is_enough = rows >= SCREEN_ROWS || rows >= SLOW_ROWS && self.started.elapsed() > SLOW;
        if self.look.width.is_some() && is_enough {
            self.write_buffered()?;
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
            write_escaped(text, &mut self.text);
            Some(self.text.get(start..).map_or(0, widest_line))
        } else {
            raw.clear();
            cells.write_text(row, raw)?;
            write_escaped(&String::from_utf8_lossy(raw), &mut self.text);
            Some(self.text.get(start..).map_or(0, widest_line))
        };
        let lines = self.cut_lines(start);
        let column = self.cells.len() % self.columns.len();
        if self.shown.is_none()
            && let Some(column) = self.columns.get_mut(column)
        {
            column.width = column.width.max(width.unwrap_or(NULL.len()));
        }
        self.cells.push(BufferedCell { end: self.text.len(), width, lines });
        Ok(())
    }

    /// The lines of the text from `start`, of which a terminal shows the first.
    fn cut_lines(&mut self, start: usize) -> usize {
        let text = self.text.get(start..).unwrap_or_default();
        let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
        if self.look.width.is_none() || lines <= MOST_LINES {
            return lines;
        }
        let mut ends = (0..).zip(text).filter(|(_, byte)| **byte == b'\n');
        let kept = ends.nth(MOST_LINES - 2).map_or(text.len(), |(end, _)| end);
        self.text.truncate(start + kept);
        let note = format!("\n{} {} lines more", self.lines().cut, lines - (MOST_LINES - 1));
        self.push_text(&note);
        MOST_LINES
    }

    fn push_text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
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
            let left_out = || (self.names.len() + 1).saturating_sub(shown.len());
            let name = name.unwrap_or_else(|| gap_name(left_out()));
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
        let lines = shown.iter().filter_map(|column| Some(cells.get(column.column?)?.lines));
        for line in 0..lines.max().unwrap_or(1) {
            self.write_line(line, shown, cells, start, text);
        }
    }

    /// Writes one line of a row.
    fn write_line(
        &mut self,
        line: usize,
        shown: &[ShownColumn],
        cells: &[BufferedCell],
        start: usize,
        text: &[u8],
    ) {
        let lines = self.lines();
        self.push(lines.down);
        for column in shown {
            self.push(" ");
            let cell = column.column.and_then(|at| Some((at, cells.get(at)?)));
            let align_right = column.column.and_then(|at| self.columns.get(at));
            let align_right = align_right.is_some_and(|column| column.align_right);
            match cell {
                None => {
                    self.push(lines.cut.encode_utf8(&mut [0; 4]));
                    self.pad(column.width.saturating_sub(1));
                }
                Some((_, cell)) if line >= cell.lines => self.pad(column.width),
                Some((_, BufferedCell { width: None, .. })) => {
                    self.write_null(column.width, align_right);
                }
                Some((at, cell)) => {
                    let before = at.checked_sub(1).and_then(|before| cells.get(before));
                    let from = before.map_or(start, |cell| cell.end);
                    let whole = text.get(from..cell.end).unwrap_or_default();
                    let (part, width) = match cell.lines {
                        1 => (whole, cell.width.unwrap_or(0)),
                        _ => {
                            let part = whole.split(|byte| *byte == b'\n').nth(line);
                            let part = part.unwrap_or_default();
                            (part, display_width(part))
                        }
                    };
                    self.write_padded(part, width, column.width, align_right);
                }
            }
            self.push(" ");
            self.push(lines.down);
        }
        self.push("\n");
    }

    fn write_null(&mut self, column_width: usize, align_right: bool) {
        let (dim, reset) = if self.look.color { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        self.push(dim);
        self.write_padded(NULL.as_bytes(), NULL.len(), column_width, align_right);
        self.push(reset);
    }

    fn pad(&mut self, blanks: usize) {
        self.buffer.resize(self.buffer.len() + blanks, b' ');
    }

    /// Writes a cell, padded to the width of its column. On a terminal, longer text is cut, but no
    /// number is: its line becomes longer than the others.
    fn write_padded(&mut self, text: &[u8], width: usize, column_width: usize, align_right: bool) {
        if width > column_width && self.look.width.is_some() && !align_right {
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

    /// Says which columns are left out: as many names as two lines hold.
    fn left_out(&self, shown: &[ShownColumn]) -> String {
        let is_shown: HashSet<usize> = shown.iter().filter_map(|shown| shown.column).collect();
        let hidden: Vec<&String> = (0..)
            .zip(&self.names)
            .filter_map(|(at, name)| (!is_shown.contains(&at)).then_some(name))
            .collect();
        if hidden.is_empty() {
            return String::new();
        }
        let width = self.look.width.unwrap_or(usize::MAX);
        let mut note = String::new();
        let way = if width < USUAL_WIDTH { "" } else { " (format vertical shows all)" };
        let mut line = format!("{} of {} columns do not fit{way}:", hidden.len(), self.names.len());
        for (at, name) in hidden.iter().enumerate() {
            let last = at + 1 == hidden.len();
            let word = if last { format!(" {name}") } else { format!(" {name},") };
            // On the second line, the count of the others must fit, too.
            let is_second = !note.is_empty();
            let room = if is_second && !last { width.saturating_sub(MORE_WIDTH) } else { width };
            if line.width() + word.width() > room {
                if is_second || word.width() > width.saturating_sub(MORE_WIDTH) {
                    line += &format!(" {} {} more", self.lines().cut, hidden.len() - at);
                    break;
                }
                note = std::mem::take(&mut line) + "\n";
                line.push(' ');
            }
            line += &word;
        }
        note + &line + "\n"
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        if !self.names.is_empty() {
            self.write_buffered()?;
            let shown = self.shown.take().unwrap_or_default();
            self.write_rule(&shown, self.lines().bottom);
            let note = self.left_out(&shown);
            self.push(&note);
        }
        flush(&mut self.buffer, &mut self.output)?;
        Ok(self.output)
    }
}

/// The number of terminal cells that the widest line of a text takes.
fn widest_line(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').map(display_width).max().unwrap_or(0)
}

/// The number of terminal cells that a text takes.
fn display_width(text: &[u8]) -> usize {
    if text.is_ascii() { text.len() } else { String::from_utf8_lossy(text).width() }
}

/// The name of a column, with its control characters escaped.
pub(super) fn shown_name(name: &str) -> String {
    let mut shown = Vec::new();
    write_escaped(name, &mut shown);
    String::from_utf8_lossy(&shown).replace('\n', "\\n")
}

/// Appends the text with its control characters escaped, except ends of lines.
pub(super) fn write_escaped(text: &str, out: &mut Vec<u8>) {
    // Control characters are below 0x20, or DEL, or U+0080 to U+009F, whose UTF-8 begins with 0xC2.
    if !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f || byte == 0xc2) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            out.extend(c.escape_default().map(|c| c as u8));
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}
