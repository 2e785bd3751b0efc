//! Cuts a stream of CSV bytes into chunks that can be parsed independently.
//!
//! A chunk ends at the last row end within its size or, if a single row is longer, at the end of
//! that row; so boundaries depend on the bytes alone. Only quotes and line feeds matter here: a
//! quote opens a quoted field only at the start of a field, as in the splitter. Carriage returns
//! that end rows have been replaced by line feeds ([`LineEnds`]).
//!
//! With `skip_bad_rows`, bad rows are cut as in [`super::rows`], and a quoted field of more than
//! `MAX_OPEN_BYTES` counts as unterminated, so that it does not swallow the rest of the input.

use std::path::{Path, PathBuf};

use memchr::{memchr, memchr_iter, memrchr};

use super::guess::{COMMA, find_delimiter};
use super::line_ends::LineEnds;
use super::options::{CsvOptions, is_usable};
use super::rows::{AfterQuote, after_quote};
use super::split::{blank_line, is_blank};
use crate::error::{Error, Result};
use crate::ingest::sources::stream::{Bytes, fill};
use crate::limits;

/// Bytes of a chunk, unless one row is longer.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;
/// Approximate limit on the bytes of a quoted field where bad rows are left out.
pub(super) const MAX_OPEN_BYTES: usize = 16 << 20;

/// Whole rows of raw text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvChunk {
    /// The text. Its last row ends with a line feed, or inside an open quote.
    pub text: Vec<u8>,
    /// Number of the chunk in its input, from 0. The first chunk has the header, if there is one.
    pub number: u64,
    /// Physical line of the first row, from 1.
    pub line: u64,
    /// Offset of the chunk in the uncompressed input.
    pub offset: u64,
    /// Delimiter of fields.
    pub delimiter: u8,
    /// Whether the delimiter was found out, and not named by the options or by the input itself.
    pub delimiter_is_guessed: bool,
}

/// The chunks of one input, in order.
pub struct CsvChunks {
    name: PathBuf,
    bytes: Bytes,
    /// Detected in the first chunk if not given.
    delimiter: Option<u8>,
    quote: u8,
    /// Lines that are still to be passed over.
    skip_lines: u64,
    /// Whether the first line may be `sep=;`.
    may_name_delimiter: bool,
    delimiter_is_guessed: bool,
    /// Detected in the first row.
    line_ends: Option<LineEnds>,
    chunk_bytes: usize,
    row_limit: usize,
    skip_bad_rows: bool,
    max_open: usize,
    carry: Vec<u8>,
    next: (u64, u64, u64),
    done: bool,
}

impl CsvChunks {
    /// The chunks of `bytes`; `name` is for messages.
    pub fn new(name: &Path, bytes: Bytes, options: &CsvOptions) -> Self {
        CsvChunks {
            name: name.to_path_buf(),
            bytes,
            delimiter: options.delimiter,
            quote: options.quote,
            skip_lines: options.skip_lines,
            may_name_delimiter: true,
            delimiter_is_guessed: false,
            line_ends: None,
            chunk_bytes: CHUNK_BYTES,
            row_limit: limits::MAX_VALUE_BYTES,
            skip_bad_rows: options.skip_bad_rows,
            max_open: MAX_OPEN_BYTES,
            carry: Vec::new(),
            next: (0, 1, 0),
            done: false,
        }
    }

    /// Sets a chunk size other than [`CHUNK_BYTES`].
    #[must_use]
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes.max(1);
        self
    }

    /// Makes longer rows, and so longer quoted fields, an error. With `skip_bad_rows`, quoted
    /// fields of half as many bytes count as unterminated, so that they are no error.
    #[must_use]
    pub fn with_row_limit(mut self, bytes: usize) -> Self {
        self.row_limit = bytes.min(limits::MAX_VALUE_BYTES);
        self.max_open = self.max_open.min(self.row_limit / 2);
        self
    }

    /// With `skip_bad_rows`, longer quoted fields count as unterminated; the default is 16 MiB.
    #[must_use]
    pub fn with_max_open(mut self, bytes: usize) -> Self {
        self.max_open = bytes;
        self
    }

    /// The input's name in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    fn read_chunk(&mut self) -> Result<Option<CsvChunk>> {
        let mut text = Vec::with_capacity(self.chunk_bytes.max(self.carry.len()));
        text.append(&mut self.carry);
        // The first chunk must have room for a byte-order mark.
        let mut size = if self.next.0 == 0 { self.chunk_bytes.max(3) } else { self.chunk_bytes };
        let mut ends = RowEnds { skip_bad_rows: self.skip_bad_rows, ..RowEnds::default() };
        loop {
            let mut new = text.len();
            let more = fill(&self.name, &mut self.bytes, &mut text, size)?;
            if self.next.0 == 0 && ends.at == 0 && self.next.2 == 0 {
                self.check_start(&mut text)?;
            }
            if self.line_ends.is_none() {
                let enough = text.len() >= CHUNK_BYTES.min(self.row_limit).min(self.max_open);
                self.line_ends = LineEnds::find(&text, more, enough, self.delimiter, self.quote);
                new = 0;
            }
            let Some(line_ends) = &mut self.line_ends else {
                size = text.len() + self.chunk_bytes;
                continue;
            };
            if !line_ends.make_line_feeds(text.get_mut(new..).unwrap_or_default()) {
                return Err(self.mixed_line_ends());
            }
            if self.next.0 == 0 && ends.at == 0 && self.skip_preamble(&mut text, more) && more {
                if text.len() > self.row_limit {
                    return Err(self.row_too_long(&text, &ends));
                }
                // Twice the text, as each round looks at all of it.
                size = 2 * text.len() + self.chunk_bytes;
                continue;
            }
            let quote = self.quote;
            self.delimiter_is_guessed |= self.delimiter.is_none();
            let delimiter =
                *self.delimiter.get_or_insert_with(|| find_delimiter(&text, !more, quote));
            if !more {
                self.done = true;
                break;
            }
            ends.advance(&text, delimiter, quote);
            if ends.last > 0 {
                self.carry.extend_from_slice(text.get(ends.last..).unwrap_or_default());
                text.truncate(ends.last);
                break;
            }
            if self.skip_bad_rows && ends.give_up(&text, self.max_open) {
                self.carry.extend_from_slice(text.get(ends.last..).unwrap_or_default());
                text.truncate(ends.last);
                break;
            }
            if text.len() > self.row_limit {
                return Err(self.row_too_long(&text, &ends));
            }
            size = text.len() + self.chunk_bytes;
        }
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.finish(text)))
    }

    fn finish(&mut self, mut text: Vec<u8>) -> CsvChunk {
        let (number, line, offset) = self.next;
        self.next.2 += text.len() as u64;
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        self.next.0 += 1;
        self.next.1 += memchr_iter(b'\n', &text).count() as u64;
        let delimiter = self.delimiter.unwrap_or(COMMA);
        let delimiter_is_guessed = self.delimiter_is_guessed;
        CsvChunk { text, number, line, offset, delimiter, delimiter_is_guessed }
    }

    /// Drops a byte-order mark, and refuses UTF-16.
    fn check_start(&mut self, text: &mut Vec<u8>) -> Result<()> {
        if text.starts_with(&[0xef, 0xbb, 0xbf]) {
            text.drain(..3);
            self.next.2 = 3;
        } else if text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]) {
            let name = self.name.display();
            return Err(Error::Unsupported(format!(
                "{name} is UTF-16; convert it to UTF-8 first, for example with iconv -f UTF-16 -t \
                 UTF-8"
            )));
        }
        Ok(())
    }

    /// Drops the lines that are to be passed over, a line that names the delimiter, and empty
    /// lines, so that the first chunk starts with the first row. Returns true if nothing but part
    /// of such a line is left.
    fn skip_preamble(&mut self, text: &mut Vec<u8>, more: bool) -> bool {
        if self.skip_lines > 0 {
            let wanted = usize::try_from(self.skip_lines).unwrap_or(usize::MAX);
            let ends: usize = memchr_iter(b'\n', text).take(wanted).count();
            let last = ends.checked_sub(1).and_then(|last| memchr_iter(b'\n', text).nth(last));
            self.skip_lines -= ends as u64;
            let is_within = self.skip_lines > 0;
            let length = if is_within { text.len() } else { last.map_or(0, |last| last + 1) };
            self.drop_front(text, length);
            if is_within {
                return true;
            }
        }
        if self.may_name_delimiter {
            let named = named_delimiter(text, self.quote);
            if named == Some(None) && more {
                return true;
            }
            self.may_name_delimiter = false;
            if let Some(Some((delimiter, length))) = named {
                self.delimiter.get_or_insert(delimiter);
                self.drop_front(text, length);
            }
        }
        let mut empty = 0;
        while let Some(length) = text.get(empty..).and_then(blank_line) {
            empty += length;
        }
        self.drop_front(text, empty);
        is_blank(text)
    }

    fn drop_front(&mut self, text: &mut Vec<u8>, length: usize) {
        self.next.1 += memchr_iter(b'\n', text.get(..length).unwrap_or_default()).count() as u64;
        self.next.2 += length as u64;
        text.drain(..length);
    }

    fn mixed_line_ends(&self) -> Error {
        Error::InvalidInput(format!(
            "{}: rows end with a carriage return first, and with a line feed later; convert them, \
             for example with tr '\\r' '\\n'",
            self.name.display()
        ))
    }

    fn row_too_long(&self, text: &[u8], ends: &RowEnds) -> Error {
        let name = self.name.display();
        let limit = limits::too_long(self.row_limit);
        match ends.open {
            Some(open) => {
                let before = text.get(..open).unwrap_or_default();
                let line = self.next.1 + memchr_iter(b'\n', before).count() as u64;
                Error::LimitExceeded(format!(
                    "{name}: the quoted field that starts in line {line} {limit}; is its closing \
                     quote missing, or the quote character another one (--quote)?"
                ))
            }
            None => Error::LimitExceeded(format!(
                "{name}: line {} {limit}; is this a text file?",
                self.next.1
            )),
        }
    }
}

impl Iterator for CsvChunks {
    type Item = Result<CsvChunk>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let chunk = self.read_chunk();
        self.done |= chunk.is_err();
        chunk.transpose()
    }
}

/// The delimiter that a first line names, `sep=;` as Excel writes it, and the line's length;
/// within, `None` if the text is too short to tell.
fn named_delimiter(text: &[u8], quote: u8) -> Option<Option<(u8, usize)>> {
    let start = text.get(..4).unwrap_or(text);
    if !b"sep=".get(..start.len())?.eq_ignore_ascii_case(start) {
        return None;
    }
    let usable = |byte: &u8| is_usable(*byte) && *byte != quote;
    if text.get(4).is_some_and(|delimiter| !usable(delimiter)) {
        return None;
    }
    match text.get(4..) {
        Some([delimiter, b'\n', ..]) => Some(Some((*delimiter, 6))),
        Some([delimiter, b'\r', b'\n', ..]) => Some(Some((*delimiter, 7))),
        None | Some([] | [_] | [_, b'\r']) => Some(None),
        Some(_) => None,
    }
}

/// Finds the last row end of a growing text.
#[derive(Debug, Default)]
struct RowEnds {
    /// Scanned up to here.
    at: usize,
    /// Start of the quoted field that `at` is inside of.
    open: Option<usize>,
    /// Just after the last row end; 0 if there is none yet.
    last: usize,
    /// Whether text after a closing quote ends the row at the line of the opening quote.
    skip_bad_rows: bool,
}

impl RowEnds {
    fn advance(&mut self, text: &[u8], delimiter: u8, quote: u8) {
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
    fn give_up(&mut self, text: &[u8], bytes: usize) -> bool {
        self.open.is_some_and(|open| text.len() - open > bytes && self.end_row(text, open))
    }

    /// Scans bytes from `at` on that are outside quotes.
    fn note_row_end(&mut self, outside: &[u8]) {
        if let Some(last) = memrchr(b'\n', outside) {
            self.last = self.at + last + 1;
        }
    }
}
