//! Finds the ends of values, to cut arrays and concatenated objects into chunks before anything is
//! parsed.
//!
//! It tracks only strings and depth. It replaces the outer brackets of an array and the commas
//! between its elements by blanks, so that workers see values separated by blanks.

use memchr::memchr2;

/// How the rows of an input are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One or more rows per line; no row spans lines.
    Lines,
    /// Values separated by blanks or nothing.
    Values,
    /// The elements of one array.
    Array,
}

/// A byte in a wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanError {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

/// What is expected next, between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The bracket that opens the array.
    Open,
    /// An element, or the end of an empty array.
    First,
    /// A value.
    Value,
    /// A comma, or the end of the array.
    Comma,
    /// Nothing: the array has ended.
    End,
}

/// Finds the ends of values in a growing text.
#[derive(Debug)]
pub(super) struct Scan {
    array: bool,
    next: Expected,
    /// Scanned up to here.
    pub(super) at: usize,
    /// Number of open brackets.
    depth: usize,
    in_string: bool,
    /// Inside a top-level number or literal.
    in_scalar: bool,
    /// Just after the last complete value; 0 if there is none yet.
    pub(super) last: usize,
    /// Start of the current value.
    pub(super) start: usize,
}

impl Scan {
    /// Starts before the first byte of an array, or of separate values.
    pub(super) fn new(array: bool) -> Self {
        let next = if array { Expected::Open } else { Expected::Value };
        Scan { array, next, at: 0, depth: 0, in_string: false, in_scalar: false, last: 0, start: 0 }
    }

    /// Continues after the text up to `last` has been cut off.
    pub(super) fn cut(&mut self) {
        self.at -= self.last;
        self.start = self.start.saturating_sub(self.last);
        self.last = 0;
    }

    /// Whether the text may end here.
    pub(super) fn is_over(&self) -> bool {
        self.depth == 0
            && !self.in_string
            && if self.array { self.next == Expected::End } else { true }
    }

    /// Whether the text ends within a value.
    pub(super) fn is_within(&self) -> bool {
        self.depth > 0 || self.in_string
    }

    /// Scans all of the text; a misplaced byte is an error. If the text ends within an escape, the
    /// scan waits for more.
    pub(super) fn advance(&mut self, text: &mut [u8]) -> Result<(), ScanError> {
        while let Some(byte) = text.get(self.at).copied() {
            if self.in_string {
                let Some(found) = memchr2(b'"', b'\\', text.get(self.at..).unwrap_or_default())
                else {
                    self.at = text.len();
                    return Ok(());
                };
                self.at += found;
                if text.get(self.at) == Some(&b'\\') {
                    if self.at + 1 >= text.len() {
                        return Ok(());
                    }
                    self.at += 2;
                } else {
                    (self.in_string, self.at) = (false, self.at + 1);
                    self.note_end();
                }
            } else if self.depth > 0 {
                self.skip_nested(text);
            } else if let Some(blank) = self.between_values(byte)? {
                if blank && let Some(byte) = text.get_mut(self.at) {
                    *byte = b' ';
                }
                self.at += 1;
                self.note_end();
            }
        }
        Ok(())
    }

    /// Scans brackets and strings inside a value.
    #[inline]
    fn skip_nested(&mut self, text: &[u8]) {
        let rest = text.get(self.at..).unwrap_or_default();
        for (i, byte) in rest.iter().enumerate() {
            match byte {
                b'"' => {
                    (self.in_string, self.at) = (true, self.at + i + 1);
                    return;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.at += i + 1;
                        self.note_end();
                        return;
                    }
                }
                _ => {}
            }
        }
        self.at = text.len();
    }

    fn note_end(&mut self) {
        if self.depth == 0 && !self.in_string && !self.in_scalar && self.start < self.at {
            self.last = self.at;
        }
    }

    /// Handles a byte between values. Returns whether it must be blanked out; `None` to be called
    /// again with the same byte.
    fn between_values(&mut self, byte: u8) -> Result<Option<bool>, ScanError> {
        let wrong = |what| Err(ScanError { at: self.at, what });
        let ends_scalar =
            matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b']' | b'[' | b'{' | b'"' | b'}');
        if self.in_scalar {
            self.in_scalar = !ends_scalar;
            return Ok((!ends_scalar).then_some(false));
        }
        match (byte, self.next) {
            (b' ' | b'\n' | b'\r' | b'\t', _) => {}
            (b'[', Expected::Open) => {
                self.next = Expected::First;
                return Ok(Some(true));
            }
            (b',', Expected::Comma) => {
                self.next = Expected::Value;
                return Ok(Some(true));
            }
            (b']', Expected::First | Expected::Comma) => {
                self.next = Expected::End;
                return Ok(Some(true));
            }
            (_, Expected::End) => return wrong("text after the end of the array"),
            (_, Expected::Comma) => {
                return wrong("a comma is missing between two elements of the array");
            }
            (b']' | b'}', _) => return wrong("a closing bracket without an opening one"),
            (b',', _) => return wrong("a comma that follows no value"),
            (_, Expected::Open) => return wrong("the array does not start with a bracket"),
            _ => {
                self.start = self.at;
                self.next = if self.array { Expected::Comma } else { Expected::Value };
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth = 1,
                    _ => self.in_scalar = true,
                }
            }
        }
        Ok(Some(false))
    }
}

/// The text without the blanks of JSON at its start, which form feeds are not among.
pub(super) fn after_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
    text.get(blanks.count()..).unwrap_or_default()
}

/// The position just after the value at `start`, as the scan sees it; the end of the text if the
/// value is incomplete.
pub(super) fn value_end(text: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(found) = memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
                    at += found;
                    if text.get(at) == Some(&b'"') {
                        break;
                    }
                    at += 2;
                }
                if at >= text.len() || text.get(at) != Some(&b'"') {
                    return text.len();
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            b' ' | b'\n' | b'\r' | b'\t' => return at,
            _ => {
                let next = text.get(at + 1);
                if !matches!(next, None | Some(b' ' | b'\n' | b'\r' | b'\t' | b'{' | b'[' | b'"')) {
                    at += 1;
                    continue;
                }
            }
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    at.min(text.len())
}
