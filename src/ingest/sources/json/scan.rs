//! Where values end: the scan that cuts arrays and free-standing objects, before anything is
//! parsed.
//!
//! It knows strings and depth and nothing else. Of an array it makes what its elements are without
//! it: the outer brackets and the commas between elements become blanks, so that a worker sees
//! values with blanks between them.

use memchr::memchr2;

/// How rows stand in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A row or more a line, none over several lines.
    Lines,
    /// Values with blanks between them, or nothing.
    Values,
    /// The elements of one array.
    Array,
}

/// What stands where it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanError {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

/// Between values, what may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The bracket that opens the array.
    Open,
    /// An element, or the end of an array without any.
    First,
    /// A value.
    Value,
    /// A comma, or the end of the array.
    Comma,
    /// Nothing.
    End,
}

/// The ends of the values in a growing text.
#[derive(Debug)]
pub(super) struct Scan {
    array: bool,
    next: Expected,
    /// Looked at so far.
    pub(super) at: usize,
    /// Brackets that are open.
    depth: usize,
    in_string: bool,
    /// Within a number or a literal that is an element itself.
    in_scalar: bool,
    /// Behind the last value; 0 if there is none yet.
    pub(super) last: usize,
    /// Where the value at hand starts.
    pub(super) start: usize,
}

impl Scan {
    /// Before the first byte of an array, or of values.
    pub(super) fn new(array: bool) -> Self {
        let next = if array { Expected::Open } else { Expected::Value };
        Scan { array, next, at: 0, depth: 0, in_string: false, in_scalar: false, last: 0, start: 0 }
    }

    /// Goes on behind text that was cut off at `last`.
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

    /// Looks at all of the text, or says what stands in a wrong place. A text that ends with half
    /// an escape waits for more.
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

    /// Brackets and strings inside a value.
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

    /// A byte outside of values: whether it is to become a blank; `None` to be asked again.
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
            (b']' | b'}', _) => return wrong("a bracket closes that none has opened"),
            (b',', _) => return wrong("a comma that follows no value"),
            (_, Expected::Open) => return wrong("the array does not start with its bracket"),
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

/// Behind the value at `start`, as the scan sees it; the end of the text if the value does not end.
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
