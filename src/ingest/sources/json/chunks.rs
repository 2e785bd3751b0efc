//! Cuts a stream of JSON into chunks that can be parsed independently.
//!
//! In JSON lines, a chunk ends at a line feed, which no string can contain. In other layouts,
//! [`super::scan`] finds the ends of rows.

use std::path::{Path, PathBuf};

use memchr::{memchr, memchr_iter, memrchr};

use super::scan::{Layout, Scan, ScanError, after_blanks};
use crate::error::{Error, Result};
use crate::ingest::sources::csv::CHUNK_BYTES;
use crate::ingest::sources::live::{Liveness, Pauses};
use crate::ingest::sources::stream::{Bytes, Filled, fill};
use crate::limits;

/// Whole rows of raw text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonChunk {
    /// The rows. The brackets and commas of a `Layout::Array` have been blanked out, so that it
    /// parses like `Layout::Values`.
    pub text: Vec<u8>,
    /// How the rows are laid out.
    pub layout: Layout,
    /// Number of the chunk in its input, from 0.
    pub number: u64,
    /// Line of its first byte, from 1.
    pub line: u64,
    /// Offset of the chunk in the uncompressed input.
    pub offset: u64,
}

/// The chunks of one input, in order.
pub struct JsonChunks {
    name: PathBuf,
    bytes: Bytes,
    /// Detected from the first bytes.
    layout: Option<Layout>,
    scan: Scan,
    chunk_bytes: usize,
    row_limit: usize,
    carry: Vec<u8>,
    /// Number, line and offset of the next chunk.
    next: (u64, u64, u64),
    done: bool,
    pauses: Pauses,
}

impl JsonChunks {
    /// The chunks of `bytes`; `name` is for messages, and its extension can indicate JSON lines.
    pub fn new(name: &Path, bytes: Bytes) -> Self {
        JsonChunks {
            name: name.to_path_buf(),
            bytes,
            layout: None,
            scan: Scan::new(false),
            chunk_bytes: CHUNK_BYTES,
            row_limit: limits::MAX_VALUE_BYTES,
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

    /// Makes longer rows an error.
    #[must_use]
    pub fn with_row_limit(mut self, bytes: usize) -> Self {
        self.row_limit = bytes.min(limits::MAX_VALUE_BYTES);
        self
    }

    /// Passes over all rows, and continues with those that were added to the text.
    pub(crate) fn go_on(&mut self, added: Bytes) -> Result<()> {
        while self.next().transpose()?.is_some() {}
        if !matches!(self.layout, None | Some(Layout::Lines)) {
            return Err(Error::InvalidInput(format!(
                "{} has changed since it was loaded, and rows that were added can be told in JSON \
                 lines alone; --if-loaded skip leaves it out, --if-loaded again adds all of its \
                 rows once more",
                self.name.display()
            )));
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

    fn read_chunk(&mut self) -> Result<Option<JsonChunk>> {
        let mut text = std::mem::take(&mut self.carry);
        let mut size = self.chunk_bytes;
        loop {
            let filled = fill(&self.name, &mut self.bytes, &mut text, size)?;
            let more = filled != Filled::End;
            if self.pauses.wait_for_lines(filled, self.next.0 == 0, &text) {
                size = text.len() + self.chunk_bytes;
                continue;
            }
            let cut_off = !more && self.pauses.is_cut_off();
            if self.layout.is_none() && more && text.len() < CHUNK_BYTES && !shows_layout(&text) {
                size = text.len() + self.chunk_bytes;
                continue;
            }
            let layout = match self.layout {
                Some(layout) => layout,
                None => self.start(&mut text, more),
            };
            let end = if layout == Layout::Lines {
                match memrchr(b'\n', &text).map(|at| at + 1) {
                    last if more => last,
                    // The rest of the last row has not come.
                    last if cut_off => last.or(Some(0)),
                    _ => Some(text.len()),
                }
            } else {
                self.scan.advance(&mut text).map_err(|fault| self.misplaced(&text, fault))?;
                if !more && !self.scan.is_over() && !cut_off {
                    return Err(self.cut_off(&text));
                }
                let end = if more || cut_off { self.scan.last } else { text.len() };
                Some(end).filter(|end| *end > 0 || !more)
            };
            self.done |= !more;
            self.pauses.note(filled);
            if let Some(end) = end {
                self.carry = text.split_off(end);
                if layout != Layout::Lines && more {
                    self.scan.cut();
                }
                return Ok(self.finish(text, layout));
            }
            if text.len() > self.row_limit {
                return Err(Error::LimitExceeded(format!(
                    "{}: the row at line {} {}; is a quote or a bracket missing?",
                    self.name.display(),
                    self.line_at(&text, self.scan.start),
                    limits::too_long(self.row_limit)
                )));
            }
            if self.pauses.is_paused() {
                self.carry = text;
                let (number, (_, line, offset)) = (u64::MAX, self.next);
                return Ok(Some(JsonChunk { text: Vec::new(), layout, number, line, offset }));
            }
            size = text.len() + self.chunk_bytes;
        }
    }

    /// Makes a chunk of `text`; `None` if it is blank.
    fn finish(&mut self, text: Vec<u8>, layout: Layout) -> Option<JsonChunk> {
        let (number, line, offset) = self.next;
        self.next.1 += memchr_iter(b'\n', &text).count() as u64;
        self.next.2 += text.len() as u64;
        if after_blanks(&text).is_empty() {
            return None;
        }
        self.next.0 += 1;
        Some(JsonChunk { text, layout, number, line, offset })
    }

    /// Drops a byte-order mark and detects the layout.
    fn start(&mut self, text: &mut Vec<u8>, more: bool) -> Layout {
        if text.starts_with(&[0xef, 0xbb, 0xbf]) {
            text.drain(..3);
            self.next.2 = 3;
        }
        let layout = find_layout(&self.name, text, more);
        self.scan = Scan::new(layout == Layout::Array);
        *self.layout.insert(layout)
    }

    fn line_at(&self, text: &[u8], at: usize) -> u64 {
        self.next.1 + memchr_iter(b'\n', text.get(..at).unwrap_or(text)).count() as u64
    }

    #[cold]
    fn misplaced(&self, text: &[u8], fault: ScanError) -> Error {
        let (name, line) = (self.name.display(), self.line_at(text, fault.at));
        let offset = self.next.2 + fault.at as u64;
        Error::InvalidInput(format!("{name}: line {line}: {} (byte {offset})", fault.what))
    }

    #[cold]
    fn cut_off(&self, text: &[u8]) -> Error {
        let name = self.name.display();
        Error::InvalidInput(if self.scan.is_within() {
            let line = self.line_at(text, self.scan.start);
            format!(
                "{name}: the input ends within the value that starts in line {line}; is the file \
                 cut off?"
            )
        } else {
            format!("{name}: the input ends before the array does; is the file cut off?")
        })
    }
}

/// The text without lines of empty objects at its start: objects over several lines may follow.
fn after_empty_objects(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b"{}") {
        let after = after_blanks(rest);
        if after.is_empty()
            || memchr(b'\n', rest.get(..rest.len() - after.len()).unwrap_or_default()).is_none()
        {
            break;
        }
        text = after;
    }
    text
}

/// Whether the start of an input shows its layout: an array, or a complete first line.
fn shows_layout(text: &[u8]) -> bool {
    let body = text.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(text);
    let body = after_blanks(body);
    body.first() == Some(&b'[') || memchr(b'\n', body).is_some()
}

/// Detects the layout from the start of an input.
fn find_layout(name: &Path, text: &[u8], more: bool) -> Layout {
    let body = after_blanks(text);
    if body.first() == Some(&b'[') {
        return Layout::Array;
    }
    let lower = name.to_string_lossy().to_ascii_lowercase();
    if [".jsonl", ".ndjson"].iter().any(|extension| lower.contains(extension)) {
        return Layout::Lines;
    }
    let body = after_empty_objects(body);
    let Some(end) = memchr(b'\n', body) else {
        // A single line, or the start of a long one.
        return if more { Layout::Values } else { Layout::Lines };
    };
    let mut scan = Scan::new(false);
    let mut line = body.get(..end).unwrap_or_default().to_vec();
    let whole = scan.advance(&mut line).is_ok() && !scan.is_within();
    if whole { Layout::Lines } else { Layout::Values }
}

impl Iterator for JsonChunks {
    type Item = Result<JsonChunk>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            match self.read_chunk() {
                Ok(None) => {}
                Ok(Some(chunk)) => return Some(Ok(chunk)),
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
