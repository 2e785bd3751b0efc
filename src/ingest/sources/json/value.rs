//! A cursor over JSON text: checks the grammar and returns the positions of values.
//!
//! Strings are scanned eight bytes at a time. Nothing recurses: open brackets are bits.

/// The greatest depth of nested values.
pub(crate) const MAX_DEPTH: usize = 512;

const LOWS: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Number,
    String,
    /// An object or an array.
    Nested,
}

/// The position of a value; of a string, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether it is a string with backslashes.
    pub(super) escaped: bool,
}

/// A syntax error and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) what: String,
}

pub(super) type ParseResult<T> = Result<T, SyntaxError>;

/// A position in a text.
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    pub(super) at: usize,
    /// Whether a line feed ends a row, and so cannot be inside one.
    lines: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], at: usize, lines: bool) -> Self {
        Cursor { text, at, lines }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    pub(super) fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            let blank = matches!(byte, b' ' | b'\t' | b'\r') || (byte == b'\n' && !self.lines);
            if !blank {
                return;
            }
            self.at += 1;
        }
    }

    #[cold]
    pub(super) fn expected<T>(&self, expected: &str) -> ParseResult<T> {
        let what = match self.peek() {
            None => format!("{expected} expected, but the input ends"),
            Some(b'\n') => format!("{expected} expected, but the line ends"),
            Some(byte) if byte.is_ascii_graphic() => {
                format!("{expected} expected, but there is '{}'", char::from(byte))
            }
            Some(byte) => format!("{expected} expected, but there is byte 0x{byte:02x}"),
        };
        Err(SyntaxError { at: self.at, what })
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8, name: &str) -> ParseResult<()> {
        if self.peek() != Some(byte) {
            return self.expected(name);
        }
        self.at += 1;
        Ok(())
    }

    /// Parses any value.
    #[inline]
    pub(super) fn value(&mut self) -> ParseResult<Value> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'"') => return self.string(),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Kind::Number
            }
            Some(b'{' | b'[') => {
                self.nested()?;
                Kind::Nested
            }
            _ => self.literal()?,
        };
        Ok(Value { kind, start, end: self.at, escaped: false })
    }

    /// Parses a string, from its opening quote on.
    #[inline]
    pub(super) fn string(&mut self) -> ParseResult<Value> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            if let Some(word) = self.text.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
                let word = u64::from_le_bytes(*word);
                let zeros = |x: u64| x.wrapping_sub(LOWS) & !x;
                let control = word.wrapping_sub(LOWS * 0x20) & !word;
                let found =
                    (zeros(word ^ (LOWS * 0x22)) | zeros(word ^ (LOWS * 0x5c)) | control) & HIGHS;
                if found == 0 {
                    self.at += 8;
                    continue;
                }
                self.at += (found.trailing_zeros() / 8) as usize;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Value { kind: Kind::String, start, end: self.at - 1, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                None | Some(0..=0x1f) => return self.expected("a closing quote"),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Parses a backslash escape.
    fn escape(&mut self) -> ParseResult<()> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let high = self.code_unit()?;
                match high {
                    0xd800..=0xdbff if self.text.get(self.at..self.at + 2) == Some(b"\\u") => {
                        self.at += 1;
                        let low = self.code_unit()?;
                        if !(0xdc00..=0xdfff).contains(&low) {
                            return self.lone_surrogate();
                        }
                    }
                    0xd800..=0xdfff => return self.lone_surrogate(),
                    _ => {}
                }
            }
            _ => return self.expected("an escape such as \\n or \\u00e9"),
        }
        Ok(())
    }

    #[cold]
    fn lone_surrogate(&self) -> ParseResult<()> {
        let what =
            "half of a surrogate pair (\\ud800 to \\udfff) stands alone, which is no character"
                .to_owned();
        Err(SyntaxError { at: self.at.saturating_sub(6), what })
    }

    /// Parses the digits after `\u`; the cursor is at the `u`.
    fn code_unit(&mut self) -> ParseResult<u32> {
        let digits = self.text.get(self.at + 1..self.at + 5).unwrap_or_default();
        match hexadecimal(digits) {
            Some(unit) => {
                self.at += 5;
                Ok(unit)
            }
            None => self.expected("\\u and four hexadecimal digits"),
        }
    }

    #[inline]
    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    #[inline]
    fn number(&mut self) -> ParseResult<()> {
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else if self.digits() == 0 {
            return self.expected("a digit");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return self.expected("a digit");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return self.expected("a digit");
            }
        }
        Ok(())
    }

    #[inline]
    fn literal(&mut self) -> ParseResult<Kind> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        for (spelled, kind) in
            [(&b"null"[..], Kind::Null), (b"true", Kind::Bool), (b"false", Kind::Bool)]
        {
            if rest.starts_with(spelled) {
                self.at += spelled.len();
                return Ok(kind);
            }
        }
        self.expected("a value")
    }

    /// Parses an object or array with all its contents.
    fn nested(&mut self) -> ParseResult<()> {
        // A bit for each open bracket, set for objects.
        let mut open = [0_u64; MAX_DEPTH / 64];
        let mut depth = 0;
        loop {
            // At a value.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    let Some(word) = open.get_mut(depth / 64) else {
                        let what = format!("values nest more than {MAX_DEPTH} deep");
                        return Err(SyntaxError { at: self.at, what });
                    };
                    let bit = 1 << (depth % 64);
                    if bracket == b'{' {
                        *word |= bit
                    } else {
                        *word &= !bit
                    }
                    (depth, self.at) = (depth + 1, self.at + 1);
                    self.skip_blanks();
                    if self.peek() == Some(bracket + 2) {
                        self.at += 1;
                        depth -= 1;
                    } else {
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                _ => {
                    self.literal()?;
                }
            }
            // After a value.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = open
                    .get((depth - 1) / 64)
                    .is_some_and(|word| word >> ((depth - 1) % 64) & 1 == 1);
                self.skip_blanks();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.skip_blanks();
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if object => (depth, self.at) = (depth - 1, self.at + 1),
                    Some(b']') if !object => (depth, self.at) = (depth - 1, self.at + 1),
                    _ => return self.expected(if object { "',' or '}'" } else { "',' or ']'" }),
                }
            }
        }
    }

    /// Parses a key and its colon, up to the value.
    #[inline]
    pub(super) fn key(&mut self) -> ParseResult<Value> {
        if self.peek() != Some(b'"') {
            return self.expected("a key in quotes");
        }
        let key = self.string()?;
        self.skip_blanks();
        self.expect(b':', "':'")?;
        self.skip_blanks();
        Ok(key)
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    if digits.len() != 4 {
        return None;
    }
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// Appends a string with its escapes decoded; a cursor has checked them.
pub(super) fn unescape(mut raw: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(b'\\', raw) {
        out.extend_from_slice(raw.get(..at).unwrap_or_default());
        let (mut used, unit) =
            (2, |at: usize| raw.get(at..at + 4).and_then(hexadecimal).unwrap_or(0));
        let character = match raw.get(at + 1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = unit(at + 2);
                used = if (0xd800..0xdc00).contains(&high) { 12 } else { 6 };
                let code = match high {
                    0xd800..0xdc00 => {
                        0x10000 + ((high - 0xd800) << 10) + unit(at + 8).wrapping_sub(0xdc00)
                    }
                    _ => high,
                };
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => char::from(other.copied().unwrap_or(b'\\')),
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        raw = raw.get(at + used..).unwrap_or_default();
    }
    out.extend_from_slice(raw);
}
