//! Parses single fields of text: used by CSV and JSON columns and by type inference.
//!
//! Every parser takes a slice that *starts* with the field, and the field's length: the bytes after
//! the field let it load whole machine words without checking the length first. Strict parsers
//! accept only text that converts without loss and has no other likely meaning (`007` and `+1` are
//! no numbers); lenient ones serve columns whose type the user has named.

pub(crate) mod interval;
pub(crate) mod layout; // other ways to write dates and booleans
pub(crate) mod number;
pub(crate) mod number_format; // plus signs, decimal commas, thousands
pub(crate) mod time;

/// A field and the bytes after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    tail: &'a [u8],
    len: usize,
}

impl<'a> Text<'a> {
    /// The first `len` bytes of `tail` (all of it, where it is shorter).
    #[inline]
    pub(crate) fn new(tail: &'a [u8], len: usize) -> Self {
        Text { tail, len: len.min(tail.len()) }
    }

    /// The field alone.
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.tail.get(..self.len).unwrap_or_default()
    }

    /// Length of the field.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The field from byte `n` on.
    #[inline]
    pub(crate) fn skip(&self, n: usize) -> Self {
        let n = n.min(self.len);
        Text { tail: self.tail.get(n..).unwrap_or_default(), len: self.len - n }
    }

    /// The field without the blanks and tabs around it, if it has any.
    #[cold]
    pub(crate) fn without_blanks(&self) -> Option<Self> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let bytes = self.bytes();
        let head = bytes.iter().take_while(|byte| is_blank(byte)).count();
        let inner = self.skip(head);
        let tail = inner.bytes().iter().rev().take_while(|byte| is_blank(byte)).count();
        (head + tail > 0).then(|| Text { len: inner.len - tail, ..inner })
    }

    /// Eight bytes from `at`; bytes after the field are arbitrary.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        match self.tail.get(at..at + 8).and_then(|bytes| bytes.first_chunk::<8>()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.short_word(at),
        }
    }

    #[cold]
    fn short_word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(self.tail.get(at..).unwrap_or_default()) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Text { tail: bytes, len: bytes.len() }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        text.as_bytes().into()
    }
}
