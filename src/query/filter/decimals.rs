//! Comparisons of decimal floats as ranges of the whole numbers that a block stores.

use super::range::{WordRange, ordered_range};
use crate::block::{Bound, Stream};
use crate::encoding::floats::{Alp, Dyadic, Floats};
use crate::expr::{Comparison, Predicate};
use crate::model::{Column, DataType, Scalar};
use crate::query::open::OpenBlock;
use crate::query::words::ordered;

/// Beyond this, neighbours are not told apart.
const MOST: f64 = 5e14;

/// A comparison with a constant, on whole numbers; rows with a value of their own are compared by
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalRange {
    pub(crate) range: WordRange,
    /// StoredWords of [`ordered`] that pass.
    low: i64,
    high: i64,
}

impl DecimalRange {
    /// The range that a predicate is on a column of decimals, if it is a comparison.
    pub(crate) fn new(
        predicate: &Predicate,
        column: &Column,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Option<Self> {
        let Predicate::Compare { operand, comparison, value: Scalar::Float(value) } = predicate
        else {
            return None;
        };
        let same = operand.column == column.id && operand.data_type == DataType::Float64;
        let stored = block.stored(at)?;
        if !same
            || column.data_type != DataType::Float64
            || *stored.data_type() != DataType::Float64
        {
            return None;
        }
        let Stream::F64(floats) = block.column(at).ok()??.reader().stream() else { return None };
        let words = StoredWords::new(floats)?;
        let stats = stored.block_stats(block.at.block)?;
        let scale = 10f64.powi(i32::from(words.exponent()));
        let int = |v: f64| (v.abs() * scale < MOST).then(|| (v * scale).round() as i64);
        let bound = |bound: &Option<Bound>| match bound.as_ref()?.value {
            Scalar::Float(v) => Some(v),
            _ => None,
        };
        let (min, max) = (bound(&stats.min)?, bound(&stats.max)?);
        let (base, top) = words.around_all(int(min)?, int(max)?);
        // A constant far from all values compares with them as one that is near.
        let near = if value.is_nan() { return None } else { value.max(min - 1.0).min(max + 1.0) };
        let (below, above) = words.around(near, int(near)?)?;
        // `below` is the last word under the constant, `above` the first over it.
        let (low, high) = match comparison {
            Comparison::Equal => (below + 1, above - 1),
            Comparison::Less => (i64::MIN, below),
            Comparison::LessOrEqual => (i64::MIN, above - 1),
            Comparison::Greater => (above, i64::MAX),
            Comparison::GreaterOrEqual => (below + 1, i64::MAX),
            Comparison::NotEqual => return None,
        };
        let range = WordRange::between(low.into(), high.into(), base, top);
        let (low, high) = ordered_range(*comparison, *value)?;
        Some(DecimalRange { range, low, high })
    }

    /// Whether a row's own value passes.
    #[inline(always)]
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&ordered(value + 0.0))
    }
}

/// What the words of a block stand for; they sort as their values do.
#[derive(Clone, Copy)]
enum StoredWords<'b, 'a> {
    Decimals(&'b Alp<'a, f64>),
    Dyadic(&'b Dyadic<'a, f64>),
}

impl<'b, 'a> StoredWords<'b, 'a> {
    fn new(floats: &'b Floats<'a, f64>) -> Option<Self> {
        match floats {
            Floats::Alp(alp) => Some(StoredWords::Decimals(alp)),
            Floats::Dyadic(dyadic) => Some(StoredWords::Dyadic(dyadic)),
            Floats::Bits(_) | Floats::AlpRd(_) => None,
        }
    }

    fn exponent(self) -> u8 {
        match self {
            StoredWords::Decimals(alp) => alp.exponent,
            StoredWords::Dyadic(dyadic) => dyadic.exponent(),
        }
    }

    fn decimal(self, int: i64) -> f64 {
        match self {
            StoredWords::Decimals(alp) => alp.value(int as u64),
            StoredWords::Dyadic(dyadic) => dyadic.value((int << 1) as u64),
        }
    }

    /// Bounds of all words of values whose nearest decimals lie from one to another.
    fn around_all(self, least: i64, most: i64) -> (i64, i64) {
        match self {
            StoredWords::Decimals(_) => (least, most),
            StoredWords::Dyadic(_) => ((least - 1) << 1, (most + 1) << 1),
        }
    }

    /// The last word whose value is below `value`, and the first whose value is above it; `near` is
    /// about there.
    fn around(self, value: f64, near: i64) -> Option<(i64, i64)> {
        let below = (near - 3..=near + 3).rev().find(|int| self.decimal(*int) < value)?;
        let above = (near - 3..=near + 3).find(|int| self.decimal(*int) > value)?;
        match self {
            StoredWords::Decimals(_) => Some((below, above)),
            StoredWords::Dyadic(dyadic) => {
                // The words between two decimals.
                let (last, first) = (below << 1 | 1, (above - 1) << 1 | 1);
                let of = |word: i64| dyadic.value(word as u64);
                let below = if of(last) < value { last } else { below << 1 };
                let above = if of(first) > value { first } else { above << 1 };
                Some((below, above))
            }
        }
    }
}
