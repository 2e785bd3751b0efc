//! Exceptions of ALP, ALP-RD and dyadic: rows whose value the scheme cannot express, as two streams
//! of integers: ascending positions, and the values there.
//!
//! ```text
//! n u32 │ if n > 0: positions (stream of u32) │ values (stream of words)
//! ```

use std::cell::OnceCell;
use std::ops::Range;

use super::float::Float;
use super::ints::{self, Ints};
use super::kernels::dispatch::simd;
use super::{Options, Sink, Source, Word, bits};
use crate::budget::{Budget, Charge};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// Rows decoded at a time, so that they are still cached in the second pass.
const PIECE: usize = 4 * VECTOR;

/// Floats as integers, with exceptions.
#[derive(Debug)]
pub(crate) struct Corrected<'a, F: Float> {
    /// The integers; where a row is an exception, a neighbour's.
    pub(super) ints: Ints<'a, F::Bits>,
    /// Rows that the integers do not represent, with the bits of their values.
    pub(super) exceptions: Exceptions<'a, F::Bits>,
}

impl<'a, F: Float> Corrected<'a, F> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let ints = source.child(|s| Ints::parse(s, rows))?;
        Ok(Corrected { ints, exceptions: Exceptions::parse(source, rows)? })
    }

    /// Appends the values of `rows`; `value` converts an integer.
    #[inline(always)]
    pub(super) fn decode(
        &self,
        rows: Range<usize>,
        value: impl Fn(F::Bits) -> F,
        out: &mut Vec<F>,
    ) -> Result<()> {
        let base = out.len();
        for start in rows.clone().step_by(PIECE) {
            let from = out.len();
            bits::decode_words(&self.ints, start..rows.end.min(start + PIECE), out)?;
            let slots = out.get_mut(from..).unwrap_or_default();
            simd(
                #[inline(always)]
                || slots.iter_mut().for_each(|slot| *slot = value(slot.to_word())),
            );
        }
        self.exceptions.apply(&rows, |at, word| put(out, base + at, word))
    }

    /// Appends the values of single rows, in ascending order.
    #[inline(always)]
    pub(super) fn gather(
        &self,
        rows: &[u32],
        value: impl Fn(F::Bits) -> F,
        out: &mut Vec<F>,
    ) -> Result<()> {
        let from = out.len();
        bits::gather_words(&self.ints, rows, out)?;
        out[from..].iter_mut().for_each(|slot| *slot = value(slot.to_word()));
        self.exceptions.apply_to(rows, |at, word| put(out, from + at, word))
    }

    pub(super) fn get(&self, row: usize, value: impl Fn(F::Bits) -> F) -> Result<F> {
        match self.exceptions.get(row)? {
            Some(word) => Ok(F::from_word(word)),
            None => Ok(value(self.ints.get(row)?)),
        }
    }

    pub(super) fn describe(&self, out: &mut String) {
        self.ints.describe(out);
        out.push_str(&format!(", {} exceptions)", self.exceptions.len()));
    }
}

fn put<F: Float>(out: &mut [F], at: usize, word: F::Bits) {
    if let Some(slot) = out.get_mut(at) {
        *slot = F::from_word(word);
    }
}

/// The exceptions of a stream of floats.
#[derive(Debug)]
pub(crate) struct Exceptions<'a, W: Word> {
    rows: usize,
    list: Option<(Ints<'a, u32>, Ints<'a, W>)>,
    /// All positions and values, once decoded.
    decoded: OnceCell<(Vec<u32>, Vec<W>, Charge)>,
    budget: &'a Budget,
}

/// Appends the exceptions at `positions`, in ascending order, to the sink.
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
                // Decoded values are kept in addition to what the streams themselves keep.
                source.count_words(n, size_of::<u32>() + W::BYTES)?;
                Some((source.child(|s| Ints::parse(s, n))?, source.child(|s| Ints::parse(s, n))?))
            }
        };
        Ok(Exceptions { rows, list, decoded: OnceCell::new(), budget: source.budget() })
    }

    /// The number of exceptions.
    pub(crate) fn len(&self) -> usize {
        self.list.as_ref().map_or(0, |(positions, _)| positions.rows())
    }

    /// The exception at `row`, if there is one.
    pub(super) fn get(&self, row: usize) -> Result<Option<W>> {
        let Some((positions, values)) = &self.list else { return Ok(None) };
        let at = self.count_before(row)?;
        if at < positions.rows() && positions.get(at)? as usize == row {
            return values.get(at).map(Some);
        }
        Ok(None)
    }

    /// Calls `put` with the index in `rows`, which are ascending, and the value of each exception
    /// there.
    pub(super) fn apply_to(&self, rows: &[u32], mut put: impl FnMut(usize, W)) -> Result<()> {
        let (positions, values) = self.decoded()?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        let start = positions.partition_point(|at| at < first);
        let end = positions.partition_point(|at| at <= last);
        // The shorter list is looked up in the longer one.
        if end.saturating_sub(start) < rows.len() {
            for (at, value) in positions.iter().zip(values).take(end).skip(start) {
                if let Ok(place) = rows.binary_search(at) {
                    put(place, *value);
                }
            }
            return Ok(());
        }
        for (place, row) in rows.iter().enumerate() {
            if let Ok(at) = positions.binary_search(row)
                && let Some(value) = values.get(at)
            {
                put(place, *value);
            }
        }
        Ok(())
    }

    /// Calls `put` with the index in `rows` and the value of each exception there.
    pub(super) fn apply(&self, rows: &Range<usize>, mut put: impl FnMut(usize, W)) -> Result<()> {
        let (positions, values) = self.decoded()?;
        let first = positions.partition_point(|at| (*at as usize) < rows.start);
        let end = positions.partition_point(|at| (*at as usize) < rows.end);
        for (&at, &value) in positions.iter().zip(values).take(end).skip(first) {
            match (at as usize).checked_sub(rows.start).filter(|&at| at < rows.len()) {
                Some(at) => put(at, value),
                None => {
                    return Err(Error::corrupt(0, format!("exception at row {at}, out of order")));
                }
            }
        }
        Ok(())
    }

    fn decoded(&self) -> Result<(&[u32], &[W])> {
        let Some((positions, values)) = &self.list else { return Ok((&[], &[])) };
        if self.decoded.get().is_none() {
            let charge = self.budget.charge(positions.rows() * (size_of::<u32>() + W::BYTES))?;
            let (mut at, mut value) = (Vec::new(), Vec::new());
            positions.decode(0..positions.rows(), &mut at)?;
            values.decode(0..values.rows(), &mut value)?;
            let rises =
                at.iter().zip(at.iter().skip(1)).fold(true, |rises, (a, b)| rises & (a < b));
            if !rises || at.last().is_some_and(|last| *last as usize >= self.rows) {
                let what = "positions of exceptions are not ascending rows of their block";
                return Err(Error::corrupt(0, what));
            }
            let _ = self.decoded.set((at, value, charge));
        }
        Ok(self.decoded.get().map_or((&[], &[]), |(positions, values, _)| (positions, values)))
    }

    /// The number of exceptions before `row`.
    fn count_before(&self, row: usize) -> Result<usize> {
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
