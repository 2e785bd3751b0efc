//! Cuts a stream of CSV bytes into chunks that can be parsed independently.
//!
//! A chunk ends at the last row end within its size or, if a single row is longer, at the end of
//! that row; so boundaries depend on the bytes alone. Only quotes and line feeds matter here: a
//! quote opens a quoted field only at the start of a field, as in the splitter. Carriage returns
//! that end rows have been replaced by line feeds ([`LineEnds`]).
//!
//! With `skip_bad_rows`, bad rows are cut as in [`super::rows`], and a quoted field of more than
//! `MAX_OPEN_BYTES` counts as unterminated, so that it does not swallow the rest of the input.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

use super::dialect::{Dialect, Rewriter, named_delimiter};
use super::guess::{COMMA, Guess, find_delimiter};
use super::line_ends::LineEnds;
use super::options::CsvOptions;
use super::row_ends::RowEnds;
use super::split::{blank_line, is_blank};
use crate::error::{Error, Result};
use crate::ingest::sources::live::{Liveness, Pauses};
use crate::ingest::sources::stream::{Bytes, Filled, fill};
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
    /// Empty lines before the first row, which the text lacks.
    pub blank_before: u64,
    /// Places in the text before which comment lines were left out.
    pub(super) left_out: Vec<(usize, u64)>,
    /// What was found out about the dialect.
    pub(super) guesses: Vec<Guess>,
}

/// Empty lines before the first row that a single column may have, each a null.
const MAX_BLANK_BEFORE: u64 = 1 << 20;

impl CsvChunk {
    /// Rows that start in this line.
    pub(crate) fn new(text: Vec<u8>, number: u64, line: u64, delimiter: u8) -> Self {
        CsvChunk {
            text,
            number,
            line,
            offset: 0,
            delimiter,
            delimiter_is_guessed: false,
            blank_before: 0,
            left_out: Vec::new(),
            guesses: Vec::new(),
        }
    }

    /// The chunk with the empty lines before its first row, if they are nulls: those of a single
    /// column without a header.
    pub(super) fn with_blank_lines(&self, columns: usize, header: bool) -> Result<Cow<'_, Self>> {
        if self.blank_before == 0 || columns != 1 || header {
            return Ok(Cow::Borrowed(self));
        }
        if self.blank_before > MAX_BLANK_BEFORE {
            return Err(Error::LimitExceeded(format!(
                "{} empty lines before the first row; pass over them with --skip",
                self.blank_before
            )));
        }
        let blank = self.blank_before as usize;
        let mut text = vec![b'\n'; blank];
        text.extend_from_slice(&self.text);
        Ok(Cow::Owned(CsvChunk {
            text,
            line: self.line.saturating_sub(self.blank_before),
            left_out: self.left_out.iter().map(|(at, lines)| (at + blank, *lines)).collect(),
            guesses: Vec::new(),
            blank_before: 0,
            ..*self
        }))
    }

    /// The physical line of a place in the text.
    pub(super) fn line_at(&self, at: usize) -> u64 {
        let before = self.text.get(..at).unwrap_or(&self.text);
        self.line + memchr_iter(b'\n', before).count() as u64 + self.comments_before(at)
    }

    /// How many comment lines there were before a place in the text.
    pub(super) fn comments_before(&self, at: usize) -> u64 {
        let before = self.left_out.partition_point(|(place, _)| *place <= at);
        before
            .checked_sub(1)
            .and_then(|last| self.left_out.get(last))
            .map_or(0, |(_, lines)| *lines)
    }
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
    options: CsvOptions,
    /// Rewrites the text of other dialects, which are detected in the first chunk.
    rewriter: Option<Rewriter>,
    dialect_is_known: bool,
    guesses: Vec<Guess>,
    /// Empty lines before the first row.
    blank_before: u64,
    chunk_bytes: usize,
    row_limit: usize,
    skip_bad_rows: bool,
    max_open: usize,
    carry: Vec<u8>,
    next: (u64, u64, u64),
    done: bool,
    pauses: Pauses,
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
            options: options.clone(),
            rewriter: None,
            dialect_is_known: false,
            guesses: Vec::new(),
            blank_before: 0,
            chunk_bytes: CHUNK_BYTES,
            row_limit: limits::MAX_VALUE_BYTES,
            skip_bad_rows: options.skip_bad_rows,
            max_open: MAX_OPEN_BYTES,
            carry: Vec::new(),
            next: (0, 1, 0),
            done: false,
            pauses: Pauses::default(),
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
            let filled = fill(&self.name, &mut self.bytes, &mut text, size)?;
            let more = filled != Filled::End;
            if self.pauses.wait_for_lines(filled, self.next.0 == 0, &text) {
                size = text.len() + self.chunk_bytes;
                continue;
            }
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
            let is_start = self.next.0 == 0 && ends.at == 0;
            if is_start && self.rewriter.is_none() && self.skip_preamble(&mut text, more) && more {
                if text.len() > self.row_limit {
                    return Err(self.row_too_long(&text, &ends));
                }
                // Twice the text, as each round looks at all of it.
                size = 2 * text.len() + self.chunk_bytes;
                continue;
            }
            let quote = self.quote;
            self.delimiter_is_guessed |= self.delimiter.is_none();
            let comment = self.options.comment;
            let delimiter =
                *self.delimiter.get_or_insert_with(|| find_delimiter(&text, !more, quote, comment));
            if !self.dialect_is_known {
                new = 0;
                self.find_dialect(&text, !more, delimiter)?;
            }
            if let Some(rewriter) = &mut self.rewriter {
                rewriter.rewrite(&mut text, new);
                if is_start {
                    self.skip_blank_lines(&mut text);
                }
            }
            self.pauses.note(filled);
            if !more {
                self.done = true;
                if self.pauses.is_cut_off() {
                    // The rest of the last row has not come. A quoted field that is open is one
                    // that does not end, as it would be later.
                    ends.advance(&text, delimiter, quote);
                    while self.skip_bad_rows && ends.give_up(&text, 0) {
                        ends.advance(&text, delimiter, quote);
                    }
                    text.truncate(ends.last);
                }
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
            if self.pauses.is_paused() {
                self.carry = text;
                // Without text, it is not the one with the header.
                return Ok(Some(CsvChunk::new(Vec::new(), u64::MAX, self.next.1, delimiter)));
            }
            size = text.len() + self.chunk_bytes;
        }
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.finish(text)))
    }

    /// Reads on to the end, after the `last` chunk that was read, and continues with the rows that
    /// were added to the text.
    pub(crate) fn go_on(&mut self, mut last: Option<CsvChunk>, added: Bytes) -> Result<()> {
        while let Some(chunk) = self.next().transpose()? {
            last = Some(chunk);
        }
        if let Some(CsvChunk { text, line, delimiter, .. }) = last {
            let mut ends = RowEnds { skip_bad_rows: self.skip_bad_rows, ..RowEnds::default() };
            ends.advance(&text, delimiter, self.quote);
            if let Some(open) = ends.open {
                let before = text.get(..open).unwrap_or_default();
                return Err(Error::InvalidInput(format!(
                    "{}: the quoted field that starts in line {} has its end among the rows that \
                     were added to the file since it was loaded, so that they cannot be told",
                    self.name.display(),
                    line + memchr_iter(b'\n', before).count() as u64
                )));
            }
        }
        (self.bytes, self.done) = (added, false);
        Ok(())
    }

    /// Sets what is known of an input that may never end, and lets its reads pause from now on:
    /// then chunks come that end early, or have no text.
    #[must_use]
    pub(crate) fn live(mut self, liveness: Option<Liveness>) -> Self {
        self.pauses = Pauses::start(liveness);
        self
    }

    /// Whether the last chunk ended because there was no more yet.
    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.is_paused()
    }

    /// Finds out the dialect by the first rows, and what is to be rewritten.
    fn find_dialect(&mut self, text: &[u8], whole: bool, delimiter: u8) -> Result<()> {
        self.dialect_is_known = true;
        let told = Dialect::of(&self.options);
        if matches!(self.line_ends, Some(LineEnds::CarriageReturn(_))) {
            // They were replaced by the plain grammar.
            return if told.is_plain() { Ok(()) } else { Err(self.carriage_returns()) };
        }
        let found = told.guess(&self.options, text, whole, delimiter);
        if found.escape != told.escape {
            self.guesses.push(Guess::Escape);
        }
        if found.skip_space != told.skip_space {
            self.guesses.push(Guess::InitialSpace);
        }
        let is_plain = found.is_plain();
        self.rewriter = (!is_plain).then(|| Rewriter::new(found, delimiter, self.quote));
        Ok(())
    }

    /// Takes away where comment lines were left out of the first bytes of the text.
    fn take_left_out(&mut self, length: usize) -> Vec<(usize, u64)> {
        self.rewriter.as_mut().map(|rewriter| rewriter.left_out(length)).unwrap_or_default()
    }

    fn finish(&mut self, mut text: Vec<u8>) -> CsvChunk {
        let (number, line, offset) = self.next;
        self.next.2 += text.len() as u64;
        let left_out = self.take_left_out(text.len());
        self.next.1 += left_out.last().map_or(0, |(_, lines)| *lines);
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        self.next.0 += 1;
        self.next.1 += memchr_iter(b'\n', &text).count() as u64;
        let delimiter = self.delimiter.unwrap_or(COMMA);
        let delimiter_is_guessed = self.delimiter_is_guessed;
        let blank_before = if number == 0 { self.blank_before } else { 0 };
        let guesses = std::mem::take(&mut self.guesses);
        CsvChunk {
            text,
            number,
            line,
            offset,
            delimiter,
            delimiter_is_guessed,
            blank_before,
            left_out,
            guesses,
        }
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
        self.skip_blank_lines(text);
        is_blank(text)
    }

    fn skip_blank_lines(&mut self, text: &mut Vec<u8>) {
        let mut empty = 0;
        while let Some(length) = text.get(empty..).and_then(blank_line) {
            empty += length;
            self.blank_before += 1;
        }
        self.drop_front(text, empty);
    }

    fn drop_front(&mut self, text: &mut Vec<u8>, length: usize) {
        self.next.1 += memchr_iter(b'\n', text.get(..length).unwrap_or_default()).count() as u64;
        self.next.1 += self.take_left_out(length).last().map_or(0, |(_, lines)| *lines);
        self.next.2 += length as u64;
        text.drain(..length);
    }

    fn carriage_returns(&self) -> Error {
        Error::InvalidInput(format!(
            "{}: rows end with a carriage return, while comments, escapes and blanks before fields \
             are read in lines that end with a line feed; convert them, for example with \
             tr '\\r' '\\n'",
            self.name.display()
        ))
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
