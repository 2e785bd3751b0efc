//! The bytes of a body, taken one after the other.

use std::io::{self, BufRead, BufReader, Read};

use super::literals::ends_in_escape;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::{invalid, too_large};

const BUFFER: usize = 64 << 10;
/// Names and types of columns are not longer.
const MOST_NAME: u64 = 64 << 10;

/// A body, and how much of it a batch may hold.
pub(super) struct Input<'a> {
    body: BufReader<Box<dyn Read + Send + 'a>>,
    position: u64,
    /// What a batch may take, and what the current one may still take.
    most: u64,
    left: u64,
}

impl<'a> Input<'a> {
    pub(super) fn new(body: Box<dyn Read + Send + 'a>, most: u64) -> Self {
        // Offsets of texts have 31 bits.
        let most = most.min(i32::MAX as u64);
        Input { body: BufReader::with_capacity(BUFFER, body), position: 0, most, left: most }
    }

    /// Starts a batch, for which nothing is taken yet.
    pub(super) fn start_batch(&mut self) {
        self.left = self.most;
    }

    /// How many bytes the batch takes.
    pub(super) fn taken(&self) -> u64 {
        self.most - self.left
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, Failure> {
        match self.body.fill_buf() {
            Ok(rest) => Ok(rest.is_empty()),
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// Takes memory for a batch, before it is allocated.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), Failure> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let most = self.most;
                Err(too_large(format!("a block of the body needs more than {most} bytes"))
                    .hint("send the rows in several smaller blocks"))
            }
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, Failure> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Failure> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let mut bytes = [0; N];
        match self.body.read_exact(&mut bytes) {
            Ok(()) => {
                self.position += N as u64;
                Ok(bytes)
            }
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// An integer in groups of seven bits.
    pub(super) fn varuint(&mut self) -> Result<u64, Failure> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.wrong("a length has more than 64 bits"))
    }

    /// Appends this many bytes, which are charged.
    pub(super) fn append(&mut self, length: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.charge(length)?;
        match self.body.by_ref().take(length).read_to_end(out) {
            Ok(read) => {
                self.position += read as u64;
                if (read as u64) < length { Err(self.cut_short()) } else { Ok(()) }
            }
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// Appends the next line without its end, if there is one. With escapes, a line feed behind a
    /// backslash is a part of the line.
    pub(super) fn line(&mut self, has_escapes: bool, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let start = out.len();
        let is_escaped = |out: &[u8]| {
            has_escapes && ends_in_escape(out.get(start..out.len() - 1).unwrap_or_default())
        };
        loop {
            let most = self.left.saturating_add(1);
            match self.body.by_ref().take(most).read_until(b'\n', out) {
                Ok(0) => return Ok(out.len() > start),
                Ok(read) => {
                    self.position += read as u64;
                    self.charge(read as u64)?;
                }
                Err(error) => return Err(self.failure(&error)),
            }
            if out.last() != Some(&b'\n') {
                return Ok(true);
            }
            if !is_escaped(out) {
                out.pop();
                if out.last() == Some(&b'\r') && !is_escaped(out) {
                    out.pop();
                }
                return Ok(true);
            }
        }
    }

    /// Appends the next literal in parentheses, if there is one. There may be a comma before it,
    /// and a semicolon behind the last.
    pub(super) fn tuple(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut within = Within::default();
        loop {
            let bytes = match self.body.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) => return Err(self.failure(&error)),
            };
            if bytes.is_empty() {
                return if out.is_empty() { Ok(false) } else { Err(self.cut_short()) };
            }
            let skipped = match out.is_empty() {
                true => bytes.iter().take_while(|byte| is_between(**byte)).count(),
                false => 0,
            };
            let rest = &bytes[skipped..];
            if out.is_empty() && rest.first().is_some_and(|first| *first != b'(') {
                return Err(self.wrong("no parenthesis where a row should start"));
            }
            let end = rest.iter().position(|byte| within.ends(*byte));
            let taken = end.map_or(rest.len(), |end| end + 1);
            out.extend_from_slice(&rest[..taken]);
            self.body.consume(skipped + taken);
            self.position += (skipped + taken) as u64;
            self.charge(taken as u64)?;
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// The name of a column or a type.
    pub(super) fn name(&mut self) -> Result<String, Failure> {
        let length = self.varuint()?;
        if length > MOST_NAME {
            return Err(self.wrong(&format!("a name of {length} bytes")));
        }
        let mut bytes = Vec::new();
        self.append(length, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.wrong("a name that is not UTF-8"))
    }

    /// What is wrong with the bytes before the current position.
    pub(super) fn wrong(&self, what: &str) -> Failure {
        invalid(format!("the body has {what} before byte {}", self.position))
            .hint("is it in the format that the statement says?")
    }

    fn cut_short(&self) -> Failure {
        invalid(format!("the body ends within a value, after {} bytes", self.position))
            .hint("it was cut off, or is not in the format that the statement says")
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.cut_short(),
            _ => invalid(format!("the body cannot be read: {error}")),
        }
    }
}

fn is_between(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b';')
}

/// Where in a literal in parentheses a byte is.
#[derive(Default)]
struct Within {
    depth: usize,
    quoted: bool,
    escaped: bool,
}

impl Within {
    /// Whether the literal ends with this byte.
    fn ends(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.escaped) {
            return false;
        }
        match byte {
            b'\\' if self.quoted => self.escaped = true,
            b'\'' => self.quoted = !self.quoted,
            b'(' if !self.quoted => self.depth += 1,
            b')' if !self.quoted => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
