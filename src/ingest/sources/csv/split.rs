//! Splits a chunk into rows and fields.
//!
//! The splitter walks the text in tiles of about 128 KiB, small enough that text and table stay in
//! the cache while the columns of the tile are parsed one after the other. The table of a tile is a
//! plain list of separator positions; whether every row has the right number of fields is checked
//! afterwards, once per row. Only tiles with quotes, empty lines or errors take slower paths.

use super::scan::scan;
use crate::limits;

/// A tile is closed after this many bytes of text.
const TILE_BYTES: usize = 128 << 10;
/// Flag: the field is quoted.
const QUOTED: u32 = 1 << 31;
/// Flag: the field is quoted and contains doubled quotes.
const ESCAPED: u32 = 1 << 30;
/// Mask of the position in a table entry.
const POSITION: u32 = ESCAPED - 1;

/// Why a row cannot be split, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The row that starts at `at` has `found` fields (or more).
    Fields { at: usize, found: usize },
    /// Text between a closing quote and the next delimiter.
    AfterQuote { at: usize },
    /// A quoted field starts here and never ends.
    Unterminated { at: usize },
}

/// A field of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ingest::sources) struct Field {
    /// First byte of the value, after an opening quote.
    pub(in crate::ingest::sources) start: usize,
    /// Bytes of the value, without the closing quote.
    pub(in crate::ingest::sources) len: usize,
    /// Whether it is quoted.
    pub(in crate::ingest::sources) quoted: bool,
    /// Whether it contains doubled quotes.
    pub(in crate::ingest::sources) escaped: bool,
}

impl Field {
    /// An absent field.
    pub(in crate::ingest::sources) const NONE: Field =
        Field { start: 0, len: 0, quoted: false, escaped: false };
}

/// Some rows of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    text: &'a [u8],
    ends: &'a [u32],
    starts: &'a [u32],
    columns: usize,
}

impl<'a> Tile<'a> {
    pub(super) fn rows(&self) -> usize {
        self.starts.len()
    }

    /// The tile without its first `rows` rows.
    pub(super) fn skip(&self, rows: usize) -> Tile<'a> {
        let ends = self.ends.get(rows * self.columns..).unwrap_or_default();
        Tile { ends, starts: self.starts.get(rows..).unwrap_or_default(), ..*self }
    }

    /// One field.
    pub(super) fn field(&self, row: usize, column: usize) -> Field {
        self.skip(row).column(column).next().unwrap_or(Field::NONE)
    }

    /// Where a row starts.
    pub(super) fn row_start(&self, row: usize) -> usize {
        self.starts.get(row).map_or(0, |start| *start as usize)
    }

    /// The chunk's text.
    pub(super) fn text(&self) -> &'a [u8] {
        self.text
    }

    #[inline]
    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = Field> + use<'a> {
        let (text, columns) = (self.text, self.columns);
        let last = column + 1 == columns;
        let first = column == 0;
        // For the first column, `before` belongs to another row or is missing; it is not used.
        let ends = self.ends.get(column..).unwrap_or_default().iter().step_by(columns);
        let before =
            self.ends.get(column.saturating_sub(1)..).unwrap_or_default().iter().step_by(columns);
        ends.zip(before).zip(self.starts).map(move |((end, before), start)| {
            let start = if first { *start } else { (*before & POSITION) + 1 } as usize;
            field(text, start, *end, last)
        })
    }
}

/// The field from `start` to a table entry; the last field of a row drops its carriage returns.
#[inline]
fn field(text: &[u8], start: usize, entry: u32, last: bool) -> Field {
    let mut end = (entry & POSITION) as usize;
    while last && end > start && text.get(end - 1) == Some(&b'\r') {
        end -= 1;
    }
    if entry & QUOTED == 0 {
        return Field { start, len: end - start, quoted: false, escaped: false };
    }
    let len = (end - start).saturating_sub(2);
    Field { start: start + 1, len, quoted: true, escaped: entry & ESCAPED != 0 }
}

/// Whether a line is empty. It may end with several carriage returns, if CRLF was converted to CRLF
/// once more.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte == b'\r')
}

/// The length of the empty line at the start of `text`, if there is a complete one.
pub(super) fn blank_line(text: &[u8]) -> Option<usize> {
    let returns = text.iter().take_while(|byte| **byte == b'\r').count();
    (text.get(returns) == Some(&b'\n')).then_some(returns + 1)
}

/// Finds the fields of a chunk, tile by tile.
pub(super) struct Splitter<'a> {
    text: &'a [u8],
    columns: usize,
    delimiter: u8,
    quote: u8,
    /// Scanned up to here.
    at: usize,
    /// Separators found but not yet returned.
    ends: Vec<u32>,
    /// Row starts of the current tile.
    starts: Vec<u32>,
    /// How many entries of `ends` belong to the returned tile.
    used: usize,
    /// Start of the row whose fields are not complete.
    row_start: usize,
    newlines: usize,
    /// Empty lines that were dropped.
    pub(super) blank_lines: u64,
    quoting: QuoteState,
}

/// State of the current field.
#[derive(Default)]
struct QuoteState {
    flags: u32,
    inside: bool,
    /// Quotes before this position have been handled.
    resume: usize,
    /// Positions of the opening quote and just after the closing one.
    opened: usize,
    closed: usize,
    fault: Option<Fault>,
}

impl<'a> Splitter<'a> {
    /// Rows of `columns` fields in `text` from `from` on.
    pub(super) fn new(
        text: &'a [u8],
        from: usize,
        columns: usize,
        delimiter: u8,
        quote: u8,
    ) -> Self {
        Splitter {
            text,
            columns: columns.max(1),
            delimiter,
            quote,
            at: from,
            ends: Vec::new(),
            starts: Vec::new(),
            used: 0,
            row_start: from,
            newlines: 0,
            blank_lines: 0,
            quoting: QuoteState::default(),
        }
    }

    /// The next rows; `None` at the end.
    pub(super) fn next_tile(&mut self) -> Result<Option<Tile<'_>>, Fault> {
        loop {
            self.ends.drain(..self.used);
            (self.used, self.newlines) = (0, 0);
            self.starts.clear();
            self.scan_tile()?;
            if self.newlines == 0 {
                return self.finish().map(|()| None);
            }
            if !self.accept_regular_rows() {
                self.check_rows()?;
            }
            if !self.starts.is_empty() {
                let ends = self.ends.get(..self.used).unwrap_or_default();
                return Ok(Some(Tile {
                    text: self.text,
                    ends,
                    starts: &self.starts,
                    columns: self.columns,
                }));
            }
        }
    }

    /// Scans until a tile is full and has a row end, or the text ends.
    fn scan_tile(&mut self) -> Result<(), Fault> {
        let begin = self.at;
        while self.at < self.text.len() && (self.at - begin < TILE_BYTES || self.newlines == 0) {
            self.scan_block();
            if let Some(fault) = self.quoting.fault {
                return Err(fault);
            }
            if self.newlines == 0 && self.ends.len() > self.columns.max(limits::MAX_COLUMNS) {
                return Err(Fault::Fields { at: self.row_start, found: self.ends.len() });
            }
        }
        Ok(())
    }

    #[inline]
    fn scan_block(&mut self) {
        let base = self.at;
        self.at += 64;
        let rest = self.text.get(base..).unwrap_or_default();
        let masks = match rest.first_chunk::<64>() {
            Some(block) => scan(block, self.delimiter, self.quote),
            None => {
                let mut block = [0; 64];
                for (to, from) in block.iter_mut().zip(rest) {
                    *to = *from;
                }
                scan(&block, self.delimiter, self.quote)
            }
        };
        if masks.quotes == 0 && !self.quoting.inside && self.quoting.flags == 0 {
            self.newlines += masks.newlines.count_ones() as usize;
            push_positions(&mut self.ends, base as u32, masks.separators);
        } else {
            let mut bits = masks.separators | masks.quotes;
            while bits != 0 {
                let bit = bits.trailing_zeros();
                self.take_byte(
                    base + bit as usize,
                    masks.quotes >> bit & 1 == 1,
                    masks.newlines >> bit & 1 == 1,
                );
                bits &= bits - 1;
            }
        }
    }

    /// Handles a quote or separator in text with quotes.
    fn take_byte(&mut self, at: usize, is_quote: bool, is_newline: bool) {
        let field_start =
            self.ends.last().map_or(self.row_start, |end| (end & POSITION) as usize + 1);
        let state = &mut self.quoting;
        if at < state.resume {
            return;
        }
        if state.inside {
            if is_quote && self.text.get(at + 1) == Some(&self.quote) {
                state.flags |= ESCAPED;
                state.resume = at + 2;
            } else if is_quote {
                (state.inside, state.closed) = (false, at + 1);
            }
        } else if is_quote {
            if at == field_start {
                (state.inside, state.flags, state.opened) = (true, QUOTED, at);
            }
        } else {
            if state.flags != 0 && state.closed != at {
                let between = self.text.get(state.closed..at).unwrap_or_default();
                if !(is_newline && is_blank(between)) {
                    state.fault = state.fault.or(Some(Fault::AfterQuote { at: state.closed }));
                }
            }
            self.ends.push(at as u32 | state.flags);
            self.newlines += usize::from(is_newline);
            state.flags = 0;
        }
    }

    /// Accepts the tile if every row has the right number of fields.
    fn accept_regular_rows(&mut self) -> bool {
        let (columns, rows) = (self.columns, self.newlines);
        let Some(table) = self.ends.get(..rows.saturating_mul(columns)) else {
            return false;
        };
        let mut start = self.row_start;
        for row in table.chunks_exact(columns) {
            let end = row.last().map_or(0, |end| (end & POSITION) as usize);
            if self.text.get(end) != Some(&b'\n') {
                return false;
            }
            self.starts.push(start as u32);
            start = end + 1;
        }
        (self.used, self.row_start) = (table.len(), start);
        true
    }

    /// Goes through the tile row by row: drops empty lines and finds the row with the wrong number
    /// of fields.
    fn check_rows(&mut self) -> Result<(), Fault> {
        self.starts.clear();
        let ends = std::mem::take(&mut self.ends);
        let mut row = Vec::new();
        for end in &ends {
            row.push(*end);
            let position = (end & POSITION) as usize;
            if self.text.get(position) != Some(&b'\n') {
                continue;
            }
            let empty = self.text.get(self.row_start..position).is_some_and(is_blank);
            if row.len() == self.columns {
                self.starts.push(self.row_start as u32);
                self.ends.append(&mut row);
            } else if empty && row.len() == 1 {
                self.blank_lines += 1;
            } else {
                return Err(Fault::Fields { at: self.row_start, found: row.len() });
            }
            row.clear();
            self.row_start = position + 1;
        }
        self.used = self.ends.len();
        self.ends.append(&mut row);
        Ok(())
    }

    /// Checks that nothing is left open at the end of the text.
    fn finish(&self) -> Result<(), Fault> {
        if self.quoting.inside {
            return Err(Fault::Unterminated { at: self.quoting.opened });
        }
        if self.row_start < self.text.len() {
            return Err(Fault::Fields { at: self.row_start, found: self.ends.len() + 1 });
        }
        Ok(())
    }
}

/// Appends `base` plus the position of every set bit. The first 16 are written unconditionally.
#[inline]
fn push_positions(ends: &mut Vec<u32>, base: u32, mut bits: u64) {
    let (before, count) = (ends.len(), bits.count_ones() as usize);
    ends.extend_from_slice(&[0; 16]);
    if let Some(slots) = ends.get_mut(before..).and_then(|slots| slots.first_chunk_mut::<16>()) {
        for slot in slots {
            // The top bit avoids a branch on whether any bit is set.
            *slot = base + (bits | 1 << 63).trailing_zeros();
            bits &= bits.wrapping_sub(1);
        }
    }
    ends.truncate(before + count);
    while bits != 0 {
        ends.push(base + bits.trailing_zeros());
        bits &= bits - 1;
    }
}

/// The fields of the first row that is not an empty line, and the start of the next row; `None` if
/// all lines are empty.
pub(super) fn first_row(
    text: &[u8],
    delimiter: u8,
    quote: u8,
) -> Result<Option<(Vec<Field>, usize)>, Fault> {
    let mut begin = 0;
    loop {
        let rest = text.get(begin..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return Ok(None);
        };
        if !is_blank(rest.get(..end).unwrap_or_default()) {
            break;
        }
        begin += end + 1;
    }
    // A single column, so that the splitter does not group the fields.
    let mut splitter = Splitter::new(text, begin, 1, delimiter, quote);
    while splitter.at < text.len() && splitter.newlines == 0 {
        splitter.scan_block();
        if splitter.ends.len() > 2 * limits::MAX_COLUMNS {
            return Err(Fault::Fields { at: begin, found: splitter.ends.len() });
        }
    }
    let newline = |end: &u32| text.get((end & POSITION) as usize) == Some(&b'\n');
    let Some(last) = splitter.ends.iter().position(newline) else {
        splitter.finish()?;
        return Ok(None);
    };
    let mut start = begin;
    let mut fields = Vec::with_capacity(last + 1);
    for (i, end) in splitter.ends.iter().take(last + 1).enumerate() {
        fields.push(field(text, start, *end, i == last));
        start = (end & POSITION) as usize + 1;
    }
    match splitter.quoting.fault {
        Some(Fault::AfterQuote { at }) if at < start => Err(Fault::AfterQuote { at }),
        _ => Ok(Some((fields, start))),
    }
}
