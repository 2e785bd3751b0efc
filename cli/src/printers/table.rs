//! The table for people: a box, numbers to the right, null empty (a dim `NULL` with colours).
//!
//! Up to 10,000 rows are held back to find the widths of the columns; what follows is written at
//! these widths, and a longer cell pushes its line out. On a terminal the table is fitted to its
//! width. Control characters are shown escaped: what is in the data cannot drive the terminal.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cells::Cells;
use super::table_layout::{Shown, Wish, fit};
use super::{FLUSH_AT, flush};
use crate::errors::Failure;
use crate::output::Output;
use crate::terminal::Look;

/// Rows that are held back to find the widths.
const SAMPLE_ROWS: usize = 10_000;
/// Bytes of text after which widths are decided even if there are fewer rows.
const SAMPLE_BYTES: usize = 16 << 20;

/// Writes one result as a table.
pub(super) struct TablePrinter {
    look: Look,
    names: Vec<String>,
    wishes: Vec<Wish>,
    /// The text of the rows held back, and of each cell its end in it and its width (none for
    /// null).
    text: Vec<u8>,
    held: Vec<(usize, Option<usize>)>,
    /// The layout, once decided.
    shown: Option<Vec<Shown>>,
    buffer: Vec<u8>,
    output: Output,
}

/// The characters of the box.
struct Box {
    across: &'static str,
    down: &'static str,
    top: [&'static str; 3],
    middle: [&'static str; 3],
    bottom: [&'static str; 3],
    cut: char,
}

const LINES: Box = Box {
    across: "─",
    down: "│",
    top: ["┌", "┬", "┐"],
    middle: ["├", "┼", "┤"],
    bottom: ["└", "┴", "┘"],
    cut: '…',
};
const ASCII: Box = Box {
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
        let mut wishes = Vec::new();
        for field in schema.fields() {
            let mut name = Vec::new();
            escape(field.name(), &mut name);
            let name = String::from_utf8_lossy(&name).into_owned();
            let data_type = field.data_type();
            let number = data_type.is_numeric();
            let rigid = number || data_type.is_temporal();
            wishes.push(Wish { width: name.width(), number, rigid });
            names.push(name);
        }
        let (text, held, buffer) = (Vec::new(), Vec::new(), Vec::new());
        TablePrinter { look, names, wishes, text, held, shown: None, buffer, output }
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
                self.hold(cells, row, &mut raw)?;
            }
            let rows = self.held.len() / columns.len();
            if self.shown.is_some() || rows >= SAMPLE_ROWS || self.text.len() >= SAMPLE_BYTES {
                self.release()?;
            }
        }
        if self.shown.is_some() { flush(&mut self.buffer, &mut self.output) } else { Ok(()) }
    }

    /// Renders a cell and keeps it.
    fn hold(&mut self, cells: &Cells<'_>, row: usize, raw: &mut Vec<u8>) -> Result<(), Failure> {
        let start = self.text.len();
        let width = if cells.is_null(row) {
            None
        } else if let Some(text) = cells.text(row) {
            escape(text, &mut self.text);
            Some(width_of(&self.text[start..]))
        } else {
            raw.clear();
            cells.write_text(row, raw)?;
            escape(&String::from_utf8_lossy(raw), &mut self.text);
            Some(width_of(&self.text[start..]))
        };
        let column = self.held.len() % self.wishes.len();
        let null = if self.look.color { NULL.len() } else { 0 };
        if self.shown.is_none()
            && let Some(wish) = self.wishes.get_mut(column)
        {
            wish.width = wish.width.max(width.unwrap_or(null));
        }
        self.held.push((self.text.len(), width));
        Ok(())
    }

    /// Writes the rows held back; before the first of them, the head.
    fn release(&mut self) -> Result<(), Failure> {
        if self.shown.is_none() && !self.names.is_empty() {
            let shown = fit(&self.wishes, self.look.width);
            self.head(&shown);
            self.shown = Some(shown);
        }
        let shown = self.shown.take().unwrap_or_default();
        let (text, held) = (std::mem::take(&mut self.text), std::mem::take(&mut self.held));
        let mut start = 0;
        for row in held.chunks(self.names.len().max(1)) {
            self.row(&shown, row, start, &text);
            start = row.last().map_or(start, |(end, _)| *end);
            if self.buffer.len() >= FLUSH_AT {
                flush(&mut self.buffer, &mut self.output)?;
            }
        }
        (self.text, self.held) = (text, held);
        self.text.clear();
        self.held.clear();
        self.shown = Some(shown);
        Ok(())
    }

    fn head(&mut self, shown: &[Shown]) {
        self.rule(shown, self.lines().top);
        let (bold, reset) = if self.look.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let lines = self.lines();
        self.push(lines.down);
        for column in shown {
            let name = column.column.and_then(|at| self.names.get(at)).cloned();
            let name = name.unwrap_or_else(|| lines.cut.to_string());
            let number =
                column.column.and_then(|at| self.wishes.get(at)).is_some_and(|wish| wish.number);
            self.push(" ");
            self.push(bold);
            self.pad(name.as_bytes(), name.width(), column.width, number);
            self.push(reset);
            self.push(" ");
            self.push(lines.down);
        }
        self.push("\n");
        self.rule(shown, lines.middle);
    }

    fn row(
        &mut self,
        shown: &[Shown],
        cells: &[(usize, Option<usize>)],
        start: usize,
        text: &[u8],
    ) {
        let lines = self.lines();
        self.push(lines.down);
        for column in shown {
            self.push(" ");
            match column.column.and_then(|at| Some((at, cells.get(at)?))) {
                None => self.push(lines.cut.encode_utf8(&mut [0; 4])),
                Some((_, (_, None))) => self.null(column.width),
                Some((at, (end, Some(width)))) => {
                    let from = at
                        .checked_sub(1)
                        .and_then(|before| cells.get(before))
                        .map_or(start, |cell| cell.0);
                    let number = self.wishes.get(at).is_some_and(|wish| wish.number);
                    self.pad(
                        text.get(from..*end).unwrap_or_default(),
                        *width,
                        column.width,
                        number,
                    );
                }
            }
            self.push(" ");
            self.push(lines.down);
        }
        self.push("\n");
    }

    fn null(&mut self, room: usize) {
        if self.look.color {
            self.push("\x1b[2m");
            self.pad(NULL.as_bytes(), NULL.len(), room, false);
            self.push("\x1b[0m");
        } else {
            self.buffer.resize(self.buffer.len() + room, b' ');
        }
    }

    /// Writes a cell at the given width; on a terminal, what is longer is cut.
    fn pad(&mut self, text: &[u8], width: usize, room: usize, right: bool) {
        if width > room && self.look.width.is_some() {
            let cut = self.lines().cut;
            let text = String::from_utf8_lossy(text);
            let mut left = room.saturating_sub(1);
            for c in text.chars() {
                let wide = c.width().unwrap_or(0);
                if wide > left {
                    break;
                }
                left -= wide;
                self.push(c.encode_utf8(&mut [0; 4]));
            }
            self.push(cut.encode_utf8(&mut [0; 4]));
            self.buffer.resize(self.buffer.len() + left, b' ');
            return;
        }
        let blanks = room.saturating_sub(width);
        let (before, after) = if right { (blanks, 0) } else { (0, blanks) };
        self.buffer.resize(self.buffer.len() + before, b' ');
        self.buffer.extend_from_slice(text);
        self.buffer.resize(self.buffer.len() + after, b' ');
    }

    fn rule(&mut self, shown: &[Shown], corners: [&'static str; 3]) {
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

    fn lines(&self) -> &'static Box {
        if self.look.ascii { &ASCII } else { &LINES }
    }

    fn push(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    pub(super) fn finish(mut self) -> Result<Output, Failure> {
        if !self.names.is_empty() {
            self.release()?;
            let shown = self.shown.take().unwrap_or_default();
            self.rule(&shown, self.lines().bottom);
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

fn width_of(text: &[u8]) -> usize {
    if text.is_ascii() { text.len() } else { String::from_utf8_lossy(text).width() }
}

/// Appends text with control characters escaped.
fn escape(text: &str, out: &mut Vec<u8>) {
    // Bytes below 0x20 and DEL; the controls U+0080 to U+009F start with 0xC2 in UTF-8.
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
