//! Constant: one value for all rows, in nine bytes. A stream without rows is written as one too.

use super::{Encoding, Sink, Source, Word};
use crate::error::Result;

/// Appends a stream of one value.
pub(super) fn encode<W: Word>(value: W, sink: &mut Sink) {
    sink.head().u8(Encoding::Constant as u8);
    sink.head().u64(Word::to_u64(value));
}

/// A stream of one value.
#[derive(Clone, Copy, Debug)]
pub struct Constant<W> {
    rows: usize,
    value: W,
}

impl<W: Word> Constant<W> {
    pub(super) fn parse(source: &mut Source<'_>, rows: usize) -> Result<Self> {
        Ok(Constant { rows, value: W::from_u64(source.cursor.u64()?) })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The value of every row.
    pub fn value(&self) -> W {
        self.value
    }
}
