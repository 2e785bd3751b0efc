//! Literals of ClickHouse's SQL in a row of text, and the escapes within texts.

use crate::errors::Failure;
use crate::serve::clickhouse::refusals::invalid;

/// A row, and how much of it was read.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// A literal that is no array, tuple or map.
pub(super) enum Word<'a> {
    /// In quotes, without its escapes.
    Text(Vec<u8>),
    /// A number or a name.
    Bare(&'a [u8]),
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Scanner { text, at: 0 }
    }

    /// The next byte that is no space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.get(self.at).copied()
    }

    /// Whether the next byte is this one, which is then passed.
    pub(super) fn passes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Failure> {
        if self.passes(byte) { Ok(()) } else { Err(self.wrong(&format!("'{}'", char::from(byte)))) }
    }

    /// Passes a name, whatever its letters' case.
    pub(super) fn passes_name(&mut self, name: &[u8]) -> bool {
        self.peek();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let found = rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && rest.get(name.len()).is_none_or(|next| !is_part_of_name(*next));
        self.at += if found { name.len() } else { 0 };
        found
    }

    /// Passes a literal that is one word or a text in quotes.
    pub(super) fn word(&mut self) -> Result<Word<'a>, Failure> {
        if self.peek() == Some(b'\'') {
            return self.quoted().map(Word::Text);
        }
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_part = |byte: &&u8| is_part_of_name(**byte) || matches!(**byte, b'+' | b'-' | b'.');
        let length = rest.iter().take_while(is_part).count();
        if length == 0 {
            return Err(self.wrong("a literal"));
        }
        self.at += length;
        match self.peek() {
            // A call, an operator, a subquery.
            Some(next) if !matches!(next, b',' | b')' | b']' | b'}' | b':') => {
                Err(self.wrong("nothing but literals"))
            }
            _ => Ok(Word::Bare(&rest[..length])),
        }
    }

    fn quoted(&mut self) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        let mut at = self.at + 1;
        loop {
            match self.text.get(at) {
                Some(b'\'') if self.text.get(at + 1) == Some(&b'\'') => {
                    text.push(b'\'');
                    at += 2;
                }
                Some(b'\'') => {
                    self.at = at + 1;
                    return Ok(text);
                }
                Some(b'\\') => at = unescape(self.text, at, &mut text),
                Some(byte) => {
                    text.push(*byte);
                    at += 1;
                }
                None => return Err(self.wrong("the end of a text")),
            }
        }
    }

    /// What should have been there.
    pub(super) fn wrong(&self, wanted: &str) -> Failure {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let shown = String::from_utf8_lossy(&rest[..rest.len().min(40)]).into_owned();
        invalid(format!("there should be {wanted} at byte {} of the row: '{shown}'", self.at))
    }
}

fn is_part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether what follows a text is escaped by the backslash at its end.
pub(in crate::serve) fn ends_in_escape(text: &[u8]) -> bool {
    // Each of two stands for the other.
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The fields of a line of tab-separated values. A tab behind a backslash is a part of its field.
pub(super) fn fields(line: &[u8], has_escapes: bool) -> impl Iterator<Item = &[u8]> + Clone {
    let has_escapes = has_escapes && line.contains(&b'\\');
    let mut is_escaped = false;
    line.split(move |byte| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        is_escaped = has_escapes && *byte == b'\\';
        *byte == b'\t'
    })
}

/// A field of tab-separated values without its escapes.
pub(super) fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut text, mut at) = (Vec::with_capacity(field.len()), 0);
    while let Some(byte) = field.get(at) {
        if *byte == b'\\' {
            at = unescape(field, at, &mut text);
        } else {
            text.push(*byte);
            at += 1;
        }
    }
    text
}

/// Appends what the backslash at a place stands for, and returns the place behind it.
pub(in crate::serve) fn unescape(text: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let Some(next) = text.get(at + 1) else {
        out.push(b'\\');
        return at + 1;
    };
    match next {
        b'n' => out.push(b'\n'),
        b't' => out.push(b'\t'),
        b'r' => out.push(b'\r'),
        b'0' => out.push(0),
        b'a' => out.push(7),
        b'b' => out.push(8),
        b'v' => out.push(11),
        b'f' => out.push(12),
        b'e' => out.push(27),
        b'x' => {
            let digits = text.get(at + 2..at + 4);
            let digits = digits.filter(|it| it.iter().all(u8::is_ascii_hexdigit));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                out.push(byte);
                return at + 4;
            }
            out.extend_from_slice(b"\\x");
        }
        b'\\' | b'\'' | b'"' | b'`' | b'/' | b'=' => out.push(*next),
        // A tab or line feed itself.
        control if *control < b' ' => out.push(*control),
        // What is no escape keeps its backslash, as in ClickHouse.
        other => out.extend_from_slice(&[b'\\', *other]),
    }
    at + 2
}
