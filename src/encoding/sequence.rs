//! Sequence: `first + step · row`, wrapping, in seventeen bytes; for row numbers and evenly spaced
//! timestamps.

use std::ops::Range;

use super::{Encoding, Sink, Source, Word};
use crate::error::Result;

/// The step of `values`, if they are a sequence of at least two values.
pub(super) fn step<W: Word>(values: &[W]) -> Option<W> {
    let [first, second, ..] = values else { return None };
    let step = Word::sub(*second, *first);
    values.windows(2).all(|w| Word::sub(w[1], w[0]) == step).then_some(step)
}

/// Appends the sequence.
pub(super) fn encode<W: Word>(first: W, step: W, sink: &mut Sink) {
    sink.head().u8(Encoding::Sequence as u8);
    sink.head().u64(Word::to_u64(first));
    sink.head().u64(Word::to_u64(step));
}

/// A stream of evenly spaced values.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<W> {
    rows: usize,
    first: W,
    step: W,
}

impl<W: Word> Sequence<W> {
    pub(super) fn parse(source: &mut Source<'_>, rows: usize) -> Result<Self> {
        let (first, step) = (W::from_u64(source.cursor.u64()?), W::from_u64(source.cursor.u64()?));
        Ok(Sequence { rows, first, step })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The value of a row.
    pub fn value(&self, row: usize) -> W {
        Word::add(self.first, Word::mul(self.step, W::from_u64(row as u64)))
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) {
        out.extend(rows.map(|row| self.value(row)));
    }
}
