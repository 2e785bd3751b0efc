//! Where rows end in a growing text, by its quotes and line feeds alone.

use memchr::{memchr, memrchr};

use super::rows::{AfterQuote, after_quote};

/// Finds the last row end of a growing text.
#[derive(Debug, Default)]
pub(super) struct RowEnds {
    /// Scanned up to here.
    pub(super) at: usize,
    /// Start of the quoted field that `at` is inside of.
    pub(super) open: Option<usize>,
    /// Just after the last row end; 0 if there is none yet.
    pub(super) last: usize,
    /// Whether text after a closing quote ends the row at the line of the opening quote.
    pub(super) skip_bad_rows: bool,
}

impl RowEnds {
    pub(super) fn advance(&mut self, text: &[u8], delimiter: u8, quote: u8) {
        while let Some(rest) = text.get(self.at..).filter(|rest| !rest.is_empty()) {
            let Some(found) = memchr(quote, rest) else {
                if self.open.is_none() {
                    self.note_row_end(rest);
                }
                self.at = text.len();
                return;
            };
            let at = self.at + found;
            if let Some(open) = self.open.filter(|_| self.skip_bad_rows) {
                match after_quote(text.get(at + 1..).unwrap_or_default(), delimiter, quote) {
                    AfterQuote::Doubled => self.at = at + 2,
                    AfterQuote::Closed => (self.open, self.at) = (None, at + 1),
                    AfterQuote::Junk if self.end_row(text, open) => {}
                    AfterQuote::Junk | AfterQuote::Unknown => {
                        // Undecided until there is more text.
                        self.at = at;
                        return;
                    }
                }
            } else if self.open.is_some() {
                match text.get(at + 1) {
                    None => {
                        // The next byte decides whether this quote closes the field.
                        self.at = at;
                        return;
                    }
                    Some(next) if *next == quote => self.at = at + 2,
                    Some(_) => (self.open, self.at) = (None, at + 1),
                }
            } else {
                self.note_row_end(rest.get(..found).unwrap_or_default());
                let before = at.checked_sub(1).and_then(|before| text.get(before));
                if before.is_none_or(|before| *before == delimiter || *before == b'\n') {
                    self.open = Some(at);
                }
                self.at = at + 1;
            }
        }
    }

    /// Ends the row at the line in which its bad field opens, if the text has the end of that line.
    fn end_row(&mut self, text: &[u8], open: usize) -> bool {
        let Some(end) = memchr(b'\n', text.get(open..).unwrap_or_default()) else { return false };
        self.last = open + end + 1;
        (self.open, self.at) = (None, self.last);
        true
    }

    /// Ends a row whose quoted field has been open for more than `bytes` bytes.
    pub(super) fn give_up(&mut self, text: &[u8], bytes: usize) -> bool {
        self.open.is_some_and(|open| text.len() - open > bytes && self.end_row(text, open))
    }

    /// Scans bytes from `at` on that are outside quotes.
    fn note_row_end(&mut self, outside: &[u8]) {
        if let Some(last) = memrchr(b'\n', outside) {
            self.last = self.at + last + 1;
        }
    }
}
