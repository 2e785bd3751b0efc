//! `Pretty` and `PrettyCompact`: a box for people. As in ClickHouse, the first thousand rows are
//! shown, and long values without their end.

use std::borrow::Cow;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::errors::Failure;
use crate::serve::clickhouse::columns::{Column, columns};
use crate::serve::clickhouse::text::{Spelling, write};
use crate::serve::clickhouse::types::Type;

/// Rows that are shown.
const MOST_ROWS: u64 = 1_000;
/// Characters of a value that are shown.
const MOST_CHARACTERS: usize = 10_000;
/// Rows with more bytes are shown as several tables.
const MOST_GATHERED: usize = 16 << 20;
/// From this many rows on, the names stand below them, too.
const MANY_ROWS: usize = 50;

/// The look of the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Lines between rows, and around the names.
    Full,
    /// Names within the upper line.
    Compact,
}

/// Writes one answer.
pub(super) struct PrettyWriter {
    style: Style,
    /// The names, and whether values are flush right.
    columns: Vec<(String, bool)>,
    /// The rows of the table, as many cells each as there are columns.
    cells: Vec<String>,
    /// The bytes in them.
    bytes: usize,
    /// The rows of tables that are written.
    written: u64,
    /// All rows of the answer.
    rows: u64,
}

impl PrettyWriter {
    pub(super) fn new(schema: &SchemaRef, style: Style) -> Self {
        let column = |field: &std::sync::Arc<arrow_schema::Field>| {
            let name = clean(field.name().clone());
            (name, Type::of_field(field).is_flush_right())
        };
        PrettyWriter {
            style,
            columns: schema.fields().iter().map(column).collect(),
            cells: Vec::new(),
            bytes: 0,
            written: 0,
            rows: 0,
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        let shown = MOST_ROWS.saturating_sub(self.rows);
        let shown = batch.num_rows().min(usize::try_from(shown).unwrap_or(usize::MAX));
        self.rows += batch.num_rows() as u64;
        let columns = columns(&batch.slice(0, shown))?;
        for row in 0..shown {
            for column in &columns {
                let cell = cell(column, row);
                self.bytes += cell.len();
                self.cells.push(cell);
            }
            if self.bytes >= MOST_GATHERED {
                self.write_table(out);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        self.write_table(out);
        if self.rows > MOST_ROWS {
            let note = format!("Showed {MOST_ROWS} out of {} rows.\n", self.rows);
            out.extend_from_slice(note.as_bytes());
        }
    }

    fn write_table(&mut self, out: &mut Vec<u8>) {
        let cells = std::mem::take(&mut self.cells);
        self.bytes = 0;
        if cells.is_empty() {
            return;
        }
        let rows = cells.len() / self.columns.len();
        let last = self.written + rows as u64;
        let mut table = Table {
            columns: &self.columns,
            widths: self.columns.iter().map(|(name, _)| name.width()).collect(),
            margin: last.to_string().len() + 2,
            text: String::new(),
        };
        for (at, cell) in cells.iter().enumerate() {
            let width = &mut table.widths[at % self.columns.len()];
            *width = cell.width().max(*width);
        }
        table.top(self.style);
        for (at, cells) in cells.chunks(self.columns.len()).enumerate() {
            if at > 0 && self.style == Style::Full {
                table.line(["├", "┼", "┤"], "─");
            }
            table.row(self.written + at as u64 + 1, cells);
        }
        table.bottom(self.style, rows >= MANY_ROWS);
        out.extend_from_slice(table.text.as_bytes());
        self.written = last;
    }
}

struct Table<'a> {
    columns: &'a [(String, bool)],
    widths: Vec<usize>,
    /// The width of the numbers of rows.
    margin: usize,
    text: String,
}

impl Table<'_> {
    fn top(&mut self, style: Style) {
        match style {
            Style::Compact => self.names_in_line(["┌", "┬", "┐"]),
            Style::Full => {
                self.line(["┏", "┳", "┓"], "━");
                self.names();
                self.line(["┡", "╇", "┩"], "━");
            }
        }
    }

    fn bottom(&mut self, style: Style, with_names: bool) {
        match (style, with_names) {
            (Style::Compact, true) => self.names_in_line(["└", "┴", "┘"]),
            (_, false) => self.line(["└", "┴", "┘"], "─"),
            (Style::Full, true) => {
                self.line(["┢", "╈", "┪"], "━");
                self.names();
                self.line(["┗", "┻", "┛"], "━");
            }
        }
    }

    fn line(&mut self, [start, between, end]: [&str; 3], line: &str) {
        self.space(self.margin);
        for (at, width) in self.widths.iter().enumerate() {
            self.text.push_str(if at > 0 { between } else { start });
            self.text.push_str(&line.repeat(width + 2));
        }
        self.text.push_str(end);
        self.text.push('\n');
    }

    fn names_in_line(&mut self, [start, between, end]: [&str; 3]) {
        self.space(self.margin);
        for (at, (name, flush_right)) in self.columns.iter().enumerate() {
            self.text.push_str(if at > 0 { between } else { start });
            let padding = "─".repeat(self.widths[at] - name.width());
            let (before, behind) =
                if *flush_right { (padding.as_str(), "") } else { ("", &*padding) };
            for part in ["─", before, name, behind, "─"] {
                self.text.push_str(part);
            }
        }
        self.text.push_str(end);
        self.text.push('\n');
    }

    fn names(&mut self) {
        self.space(self.margin);
        for (at, (name, flush_right)) in self.columns.iter().enumerate() {
            self.text.push_str(if at > 0 { " ┃ " } else { "┃ " });
            push_padded(name, self.widths[at], *flush_right, &mut self.text);
        }
        self.text.push_str(" ┃\n");
    }

    fn row(&mut self, number: u64, cells: &[String]) {
        let number = number.to_string();
        self.space(self.margin.saturating_sub(number.len() + 2));
        self.text.push_str(&number);
        self.text.push_str(". ");
        for (at, cell) in cells.iter().enumerate() {
            self.text.push_str(if at > 0 { " │ " } else { "│ " });
            push_padded(cell, self.widths[at], self.columns[at].1, &mut self.text);
        }
        self.text.push_str(" │\n");
    }

    fn space(&mut self, width: usize) {
        self.text.extend(std::iter::repeat_n(' ', width));
    }
}

fn push_padded(text: &str, width: usize, flush_right: bool, out: &mut String) {
    let padding = std::iter::repeat_n(' ', width.saturating_sub(text.width()));
    if flush_right {
        out.extend(padding);
        out.push_str(text);
    } else {
        out.push_str(text);
        out.extend(padding);
    }
}

fn cell(column: &Column, row: usize) -> String {
    let mut text = Vec::new();
    write(column, row, Spelling::Plain, &mut text);
    let text = match String::from_utf8_lossy(&text) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    };
    clean(text)
}

/// A text that keeps its place in the box: control characters are escaped, and what is too long has
/// no end.
fn clean(text: String) -> String {
    let fits = text.len() <= MOST_CHARACTERS && text.chars().all(|c| c.width().is_some());
    if fits {
        return text;
    }
    let mut clean = String::new();
    for (at, c) in text.chars().enumerate() {
        match c {
            _ if at == MOST_CHARACTERS => {
                clean.push('⋯');
                break;
            }
            c if c.width().is_some() => clean.push(c),
            c => clean.extend(c.escape_default()),
        }
    }
    clean
}
