//! Run-length: the end of every run (exclusive, strictly ascending, the last is the number of rows)
//! and its value, each a stream of its own. For sorted and clustered columns.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use super::choose::{self, Scope};
use super::kernels::dispatch::simd;
use super::{Encoding, Ints, Sink, Source, Word};
use crate::budget::{Budget, Charge};
use crate::error::{Error, Result};

/// Runs of up to this many rows are decoded by one store of fixed size.
const SHORT: usize = 8;
/// Where fewer than one run in this many passes a test, only the rows of those that do are written.
const MANY: usize = 8;

/// A lower bound on the bits of `runs` runs over `rows` rows, to see whether it is worth trying.
pub(super) fn lower_bound(rows: usize, runs: usize) -> f64 {
    let (rows, runs) = (rows as f64, runs as f64);
    runs * (1.0 + 0.8 * (rows / runs).log2()) + 8.0 * 30.0
}

/// Appends a run-length stream of at least one value.
pub(super) fn encode<W: Word>(values: &[W], signed: bool, scope: Scope, sink: &mut Sink) {
    let (mut ends, mut runs) = (Vec::<u32>::new(), Vec::<W>::new());
    for run in values.chunk_by(|a, b| a == b) {
        ends.push(ends.last().copied().unwrap_or(0) + run.len() as u32);
        runs.extend(run.first());
    }
    sink.head().u8(Encoding::RunLength as u8);
    sink.head().count(runs.len());
    let scope = scope.child(&[Encoding::RunLength]);
    choose::encode(&ends, false, scope, sink);
    choose::encode(&runs, signed, scope, sink);
}

/// Refuses an empty first run, and runs that do not end with the rows.
pub(super) fn check_ends(ends: &[u32], rows: usize) -> Result<()> {
    let last = ends.last().map_or(0, |end| *end as usize);
    match ends.first() != Some(&0) && last == rows {
        true => Ok(()),
        false => Err(Error::corrupt(0, format!("runs end at row {last} of {rows}, or are empty"))),
    }
}

/// A stream of runs.
#[derive(Debug)]
pub struct RunLength<'a, W: Word> {
    rows: usize,
    ends: Ints<'a, u32>,
    values: Ints<'a, W>,
    decoded_ends: OnceCell<(Vec<u32>, Charge)>,
    decoded_values: OnceCell<(Vec<W>, Charge)>,
    /// A range in which no run's value lies, as its least value and its span.
    absent: Cell<Option<(W, W)>>,
    budget: &'a Budget,
}

impl<'a, W: Word> RunLength<'a, W> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let runs = source.cursor.u32()? as usize;
        if runs > rows {
            return Err(source.cursor.corrupt(format!("{runs} runs in {rows} rows")));
        }
        // Decoded runs are kept in addition to what the streams themselves keep.
        source.count_words(runs, size_of::<u32>() + W::BYTES)?;
        let ends = source.child(|source| Ints::parse(source, runs))?;
        let values = source.child(|source| Ints::parse(source, runs))?;
        let budget = source.budget();
        let (decoded_ends, decoded_values) = (OnceCell::new(), OnceCell::new());
        let absent = Cell::new(None);
        Ok(RunLength { rows, ends, values, decoded_ends, decoded_values, absent, budget })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The streams of ends and of values.
    pub fn children(&self) -> (&Ints<'a, u32>, &Ints<'a, W>) {
        (&self.ends, &self.values)
    }

    /// All run ends and run values. Of the ends, only the first and the last were checked: callers
    /// must check that they are ascending.
    pub fn runs(&self) -> Result<(&[u32], &[W])> {
        if self.decoded_ends.get().is_none() {
            let charge = self.budget.charge(self.ends.rows() * size_of::<u32>())?;
            let mut ends = Vec::new();
            self.ends.decode(0..self.ends.rows(), &mut ends)?;
            check_ends(&ends, self.rows)?;
            let _ = self.decoded_ends.set((ends, charge));
        }
        let ends = self.decoded_ends.get().map_or(&[][..], |(ends, _)| ends);
        Ok((ends, self.run_values()?))
    }

    /// The value of each run.
    fn run_values(&self) -> Result<&[W]> {
        if self.decoded_values.get().is_none() {
            let charge = self.budget.charge(self.values.rows() * W::BYTES)?;
            let mut values = Vec::new();
            self.values.decode(0..self.values.rows(), &mut values)?;
            let _ = self.decoded_values.set((values, charge));
        }
        Ok(self.decoded_values.get().map_or(&[], |(values, _)| values))
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        self.decode_with(rows, out, |value| value)
    }

    /// Appends each run's value, converted by `map`, for all rows of the run.
    pub(super) fn decode_with<N: Word>(
        &self,
        rows: Range<usize>,
        out: &mut Vec<N>,
        map: impl Fn(W) -> N,
    ) -> Result<()> {
        let (ends, values) = self.runs()?;
        let start = out.len();
        out.resize(start + rows.len(), N::default());
        let out = out.get_mut(start..).unwrap_or_default();
        let first = ends.partition_point(|&end| end as usize <= rows.start);
        let last = ends.partition_point(|&end| end as usize <= rows.end);
        let whole = ends.get(first..last).unwrap_or_default().iter();
        let (mut at, mut ascending) = (0, true);
        for (&end, &value) in whole.zip(values.get(first..).unwrap_or_default()) {
            let end = (end as usize).wrapping_sub(rows.start);
            let value = map(value);
            ascending &= end > at;
            // Most runs are short: a fixed number of words is stored even if the run is shorter,
            // and the next run overwrites the excess.
            match out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<SHORT>()) {
                Some(some) => {
                    *some = [value; SHORT];
                    if end.wrapping_sub(at) > SHORT {
                        out.get_mut(at + SHORT..end).unwrap_or_default().fill(value);
                    }
                }
                None => out.get_mut(at..end).unwrap_or_default().fill(value),
            }
            at = end;
        }
        if !ascending || at > out.len() {
            return Err(Error::corrupt(0, "run ends are not ascending"));
        }
        match (out.get_mut(at..).unwrap_or_default(), values.get(last)) {
            ([], _) => Ok(()),
            (rest, Some(&value)) => {
                rest.fill(map(value));
                Ok(())
            }
            (_, None) => Err(Error::corrupt(0, "runs end before the rows do")),
        }
    }

    /// Sets the mask for the rows of each run by whether its value lies from `low` to `low + span`,
    /// modulo 2^BITS; with `refine`, rows whose mask is 0 stay 0.
    ///
    /// The ends of the runs are read only if a value passes.
    pub(super) fn select(
        &self,
        rows: Range<usize>,
        (low, span): (W, W),
        refine: bool,
        mask: &mut [u8],
    ) -> Result<()> {
        let passes = move |value: W| Word::sub(value, low) <= span;
        if self.absent.get() == Some((low, span)) {
            mask.fill(0);
            return Ok(());
        }
        let values = self.run_values()?;
        let passing = simd(
            #[inline(always)]
            || values.iter().map(|value| usize::from(passes(*value))).sum::<usize>(),
        );
        if passing == 0 {
            self.absent.set(Some((low, span)));
            mask.fill(0);
            return Ok(());
        }
        if passing * MANY > values.len() {
            return self.select_runs(rows, refine, mask, |value| u8::from(passes(value)));
        }
        let (ends, values) = self.runs()?;
        let first = ends.partition_point(|&end| end as usize <= rows.start);
        let (mut at, mut start) = (0, 0);
        for (&end, &value) in ends.iter().zip(values).skip(first) {
            let end = (end as usize).min(rows.end).saturating_sub(rows.start);
            if end <= start {
                return Err(Error::corrupt(0, "run ends are not ascending"));
            }
            if passes(value) {
                mask.get_mut(at..start).unwrap_or_default().fill(0);
                if !refine {
                    mask.get_mut(start..end).unwrap_or_default().fill(1);
                }
                at = end;
            }
            start = end;
            if end == rows.len() {
                break;
            }
        }
        mask.get_mut(at..).unwrap_or_default().fill(0);
        Ok(())
    }

    /// Sets the mask for the rows of each run to what `passes` says of its value, 0 or 1; with
    /// `refine`, rows whose mask is 0 stay 0.
    pub(super) fn select_runs(
        &self,
        rows: Range<usize>,
        refine: bool,
        mask: &mut [u8],
        passes: impl Fn(W) -> u8,
    ) -> Result<()> {
        let mut found = Vec::new();
        self.decode_with(rows, &mut found, passes)?;
        for (slot, found) in mask.iter_mut().zip(found) {
            *slot = if refine { *slot & found } else { found };
        }
        Ok(())
    }

    /// The value of one row. The first call decodes the runs, but no rows.
    pub(super) fn get(&self, row: usize) -> Result<W> {
        let (ends, values) = self.runs()?;
        let run = ends.partition_point(|&end| end as usize <= row);
        values.get(run).copied().ok_or_else(|| Error::corrupt(0, "runs end before the rows do"))
    }
}
