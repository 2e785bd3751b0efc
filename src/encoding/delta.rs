//! Delta: differences of neighbours, wrapping, for ascending and slowly changing columns. Every
//! vector has a start value, so that decoding may begin at any vector and reading one row decodes
//! at most one vector.
//!
//! It has two children: the first value of every vector, and one difference per row. The first
//! difference of a vector is stored too (it costs as little as its neighbours and keeps the vectors
//! aligned), but not used.

use std::ops::Range;

use super::choose::{self, Scope};
use super::frame;
use super::{Encoding, Ints, Sink, Source, Word};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// Bits of a delta stream, from sampled differences; `width` is that of a vector's start value.
pub(super) fn estimate<W: Word>(values: &[W], width: u32) -> f64 {
    let mut sample: Vec<W> = choose::sample(values.len())
        .filter(|&i| i > 0)
        .map(|i| choose::to_unsigned_order(Word::sub(values[i], values[i - 1]), true))
        .collect();
    sample.sort_unstable();
    let window = frame::Window::from_sorted_words(&sample);
    let starts = values.len().div_ceil(VECTOR) as f64 * f64::from(width);
    window.bits * values.len() as f64 + starts + 8.0 * 110.0
}

/// Appends a delta stream of at least one value.
pub(super) fn encode<W: Word>(values: &[W], signed: bool, scope: Scope, sink: &mut Sink) {
    let starts: Vec<W> = values.iter().step_by(VECTOR).copied().collect();
    let mut deltas = Vec::with_capacity(values.len());
    deltas.push(W::default());
    deltas.extend(values.windows(2).map(|w| Word::sub(w[1], w[0])));
    if let [first, second, ..] = deltas.as_mut_slice() {
        *first = *second;
    }
    sink.head().u8(Encoding::Delta as u8);
    choose::encode(
        &starts,
        signed,
        scope.child(&[Encoding::Delta, Encoding::RunLength, Encoding::Planes]),
        sink,
    );
    choose::encode(&deltas, true, scope.child(&[Encoding::Delta]), sink);
}

/// A stream of differences.
#[derive(Debug)]
pub struct Delta<'a, W: Word> {
    starts: Ints<'a, W>,
    deltas: Ints<'a, W>,
}

impl<'a, W: Word> Delta<'a, W> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let starts = source.child(|source| Ints::parse(source, rows.div_ceil(VECTOR)))?;
        let deltas = source.child(|source| Ints::parse(source, rows))?;
        Ok(Delta { starts, deltas })
    }

    pub(super) fn rows(&self) -> usize {
        self.deltas.rows()
    }

    /// The streams of vector starts and of differences.
    pub fn children(&self) -> (&Ints<'a, W>, &Ints<'a, W>) {
        (&self.starts, &self.deltas)
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        let from = out.len();
        self.deltas.decode(rows.clone(), out)?;
        for (i, vector) in out.get_mut(from..).unwrap_or_default().chunks_mut(VECTOR).enumerate() {
            let mut value = self.starts.get(rows.start / VECTOR + i)?;
            let Some((first, rest)) = vector.split_first_mut() else { continue };
            *first = value;
            for delta in rest {
                value = Word::add(value, *delta);
                *delta = value;
            }
        }
        Ok(())
    }

    /// Appends `value - bias` of `rows` modulo 2^BITS of the narrower word `N`.
    pub(super) fn decode_narrow<N: Word>(
        &self,
        rows: Range<usize>,
        bias: u64,
        out: &mut Vec<N>,
    ) -> Result<()> {
        let from = out.len();
        self.deltas.decode_narrow(rows.clone(), 0, false, out)?;
        for (i, vector) in out.get_mut(from..).unwrap_or_default().chunks_mut(VECTOR).enumerate() {
            let start = Word::to_u64(self.starts.get(rows.start / VECTOR + i)?);
            let mut value = N::from_u64(start.wrapping_sub(bias));
            let Some((first, rest)) = vector.split_first_mut() else { continue };
            *first = value;
            for delta in rest {
                value = Word::add(value, *delta);
                *delta = value;
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, row: usize) -> Result<W> {
        let mut vector = Vec::with_capacity(VECTOR);
        self.decode(row - row % VECTOR..row + 1, &mut vector)?;
        vector.last().copied().ok_or_else(|| Error::corrupt(0, "vector is empty"))
    }
}
