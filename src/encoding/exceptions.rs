//! Exceptions of ALP and ALP-RD: rows whose value the scheme cannot express, as rising positions and what
//! belongs there, two streams of whole numbers.
//!
//! ```text
//! n u32 │ if n > 0: positions (stream of u32) │ values (stream of words)
//! ```

use std::cell::OnceCell;
use std::ops::Range;

use super::ints::{self, Ints};
use super::{Options, Sink, Source, Word};
use crate::error::{Error, Result};

/// The exceptions of a stream of floats.
#[derive(Debug)]
pub struct Exceptions<'a, W: Word> {
    rows: usize,
    pub(crate) list: Option<(Ints<'a, u32>, Ints<'a, W>)>,
    /// All positions and values, once they were asked for.
    decoded: OnceCell<(Vec<u32>, Vec<W>)>,
}

/// Appends the exceptions at `positions` (rising) to the sink.
pub(super) fn encode<W: Word>(positions: &[u32], values: &[W], options: &Options, sink: &mut Sink) {
    sink.head().count(positions.len());
    if !positions.is_empty() {
        ints::encode(positions, false, options, sink);
        ints::encode(values, false, options, sink);
    }
}

impl<'a, W: Word> Exceptions<'a, W> {
    /// Parses the exceptions of a stream of `rows` values.
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let n = source.cursor.u32()? as usize;
        if n > rows {
            return Err(source.cursor.corrupt(format!("{n} exceptions in {rows} rows")));
        }
        let list = match n {
            0 => None,
            _ => {
                // Kept once decoded, besides what the streams themselves keep.
                source.count_words(n, size_of::<u32>() + W::BYTES)?;
                Some((source.child(|s| Ints::parse(s, n))?, source.child(|s| Ints::parse(s, n))?))
            }
        };
        Ok(Exceptions { rows, list, decoded: OnceCell::new() })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.as_ref().map_or(0, |(positions, _)| positions.rows())
    }

    /// Whether the encoded form is the whole truth.
    pub fn is_empty(&self) -> bool {
        self.list.is_none()
    }

    /// The exception at `row`, if there is one.
    pub(super) fn get(&self, row: usize) -> Result<Option<W>> {
        let Some((positions, values)) = &self.list else { return Ok(None) };
        let at = self.before(row)?;
        if at < positions.rows() && positions.get(at)? as usize == row {
            return values.get(at).map(Some);
        }
        Ok(None)
    }

    /// Calls `put` with the place among `rows`, which rise, and the value of each exception there.
    pub(super) fn apply_to(&self, rows: &[u32], mut put: impl FnMut(usize, W)) -> Result<()> {
        let (positions, values) = self.all()?;
        for (place, row) in rows.iter().enumerate().take(if positions.is_empty() { 0 } else { rows.len() }) {
            if let Ok(at) = positions.binary_search(row)
                && let Some(value) = values.get(at)
            {
                put(place, *value);
            }
        }
        Ok(())
    }

    /// Calls `put` with the place in `rows` and the value of each exception there.
    pub(crate) fn apply(&self, rows: &Range<usize>, mut put: impl FnMut(usize, W)) -> Result<()> {
        let (positions, values) = self.all()?;
        let first = positions.partition_point(|at| (*at as usize) < rows.start);
        let end = positions.partition_point(|at| (*at as usize) < rows.end);
        for (&at, &value) in positions.iter().zip(values).take(end).skip(first) {
            match (at as usize).checked_sub(rows.start).filter(|&at| at < rows.len()) {
                Some(at) => put(at, value),
                None => return Err(Error::corrupt(0, format!("exception at row {at}, out of order"))),
            }
        }
        Ok(())
    }

    fn all(&self) -> Result<(&[u32], &[W])> {
        let Some((positions, values)) = &self.list else { return Ok((&[], &[])) };
        if self.decoded.get().is_none() {
            let (mut at, mut value) = (Vec::new(), Vec::new());
            positions.decode(0..positions.rows(), &mut at)?;
            values.decode(0..values.rows(), &mut value)?;
            let _ = self.decoded.set((at, value));
        }
        Ok(self.decoded.get().map_or((&[], &[]), |(positions, values)| (positions, values)))
    }

    /// How many exceptions stand before `row`.
    fn before(&self, row: usize) -> Result<usize> {
        let Some((positions, _)) = &self.list else { return Ok(0) };
        let (mut low, mut high) = (0, positions.rows());
        if row == 0 || row >= self.rows {
            return Ok(if row == 0 { 0 } else { high });
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if (positions.get(middle)? as usize) < row {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
