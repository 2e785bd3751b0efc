//! Splits text into rows one by one, for text with bad rows: the bounds of each row, and what is
//! wrong with it.
//!
//! The slow twin of the splitter: the same grammar, but it continues after a fault. **Where a bad
//! row ends.** A row with the wrong number of fields ends where it would end otherwise. If a quoted
//! field is unterminated or followed by text, its opening quote is taken for the culprit: the row
//! ends with the line of that quote, and the next line is the next row. So a stray quote costs one
//! line and not all text up to the next quote, and a faulty field that really spans several lines
//! costs those lines, each as a bad row.
//!
//! [`CsvChunks`](super::CsvChunks) cuts by the same rule, so that no chunk ends within a good row.

use memchr::{memchr, memchr_iter, memchr2};

use super::split::{Fault, blank_line, is_blank};

/// A row, good or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Its first byte.
    pub(super) start: usize,
    /// Just after its line end.
    pub(super) end: usize,
    /// Its first line in the text, from 0.
    pub(super) line: u64,
    /// Why it cannot be split.
    pub(super) fault: Option<Fault>,
}

/// The rows of a text. Empty lines are skipped, except in a single column.
pub(super) struct Rows<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
    columns: usize,
    delimiter: u8,
    quote: u8,
    /// Empty lines that were skipped.
    pub(super) blank_lines: u64,
}

/// What a quote inside a quoted field turns out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterQuote {
    /// The first of a doubled quote.
    Doubled,
    /// The end of the field.
    Closed,
    /// The end of the field, followed by text that must not be there.
    Junk,
    /// Undecided, because the text ends.
    Unknown,
}

/// Classifies a quote in a quoted field by the bytes `behind` it.
pub(super) fn after_quote(behind: &[u8], delimiter: u8, quote: u8) -> AfterQuote {
    match behind {
        returns if is_blank(returns) => AfterQuote::Unknown,
        [next, ..] if *next == quote => AfterQuote::Doubled,
        [next, ..] if *next == delimiter => AfterQuote::Closed,
        line_end if blank_line(line_end).is_some() => AfterQuote::Closed,
        _ => AfterQuote::Junk,
    }
}

impl<'a> Rows<'a> {
    /// Rows of `columns` fields in `text` from `from` on.
    pub(super) fn new(
        text: &'a [u8],
        from: usize,
        columns: usize,
        delimiter: u8,
        quote: u8,
    ) -> Self {
        let line = memchr_iter(b'\n', text.get(..from).unwrap_or(text)).count() as u64;
        Rows { text, at: from, line, columns, delimiter, quote, blank_lines: 0 }
    }

    fn rest(&self, at: usize) -> &'a [u8] {
        self.text.get(at..).unwrap_or_default()
    }

    /// Just after the line of `at`.
    fn line_end(&self, at: usize) -> usize {
        memchr(b'\n', self.rest(at)).map_or(self.text.len(), |found| at + found + 1)
    }

    /// The end of the row that starts here, and its fault.
    fn split(&self, start: usize) -> (usize, Option<Fault>) {
        let (mut at, mut found) = (start, 1);
        loop {
            let separator = match self.rest(at).first() {
                Some(first) if *first == self.quote => match self.quoted(at) {
                    Ok(end) => end,
                    Err(fault) => return (self.line_end(at), Some(fault)),
                },
                _ => memchr2(self.delimiter, b'\n', self.rest(at))
                    .map_or(self.text.len(), |next| at + next),
            };
            if self.rest(separator).first() != Some(&self.delimiter) {
                let fault = (found != self.columns).then_some(Fault::Fields { at: start, found });
                return (self.line_end(separator), fault);
            }
            (at, found) = (separator + 1, found + 1);
        }
    }

    /// The end of the quoted field that opens here: a separator, or the carriage return of the line
    /// end.
    fn quoted(&self, opened: usize) -> Result<usize, Fault> {
        let mut at = opened + 1;
        while let Some(found) = memchr(self.quote, self.rest(at)) {
            at += found + 1;
            match after_quote(self.rest(at), self.delimiter, self.quote) {
                AfterQuote::Doubled => at += 1,
                AfterQuote::Closed => return Ok(at),
                AfterQuote::Junk => return Err(Fault::AfterQuote { at }),
                AfterQuote::Unknown => break,
            }
        }
        Err(Fault::Unterminated { at: opened })
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        while self.columns != 1
            && let Some(length) = blank_line(self.rest(self.at))
        {
            self.at += length;
            self.line += 1;
            self.blank_lines += 1;
        }
        if self.at >= self.text.len() {
            return None;
        }
        let (start, line) = (self.at, self.line);
        let (end, fault) = self.split(start);
        self.at = end;
        self.line +=
            memchr_iter(b'\n', self.text.get(start..end).unwrap_or_default()).count() as u64;
        Some(Row { start, end, line, fault })
    }
}
