//! Comparisons of decimal floats as ranges of the whole numbers that a block stores.

use super::range::WordRange;
use crate::block::{Bound, Stream};
use crate::encoding::floats::{Alp, Floats};
use crate::expr::{Comparison, Predicate};
use crate::model::{Column, DataType, Scalar};
use crate::query::scan::OpenBlock;
use crate::query::words::ordered;

/// Beyond this, neighbours are not told apart.
const MOST: f64 = 1e15;

/// A comparison with a constant, on whole numbers; rows with a value of their own are compared by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalRange {
    pub(crate) range: WordRange,
    /// Words of [`ordered`] that pass.
    low: i64,
    high: i64,
}

/// The inclusive range of words of [`ordered`] for which a comparison with a constant is true, where −0.0 is 0.0.
pub(super) fn ordered_range(comparison: Comparison, value: f64) -> Option<(i64, i64)> {
    let word = ordered(value + 0.0);
    Some(match comparison {
        Comparison::Equal => (word, word),
        Comparison::Less => (i64::MIN, word.saturating_sub(1)),
        Comparison::LessOrEqual => (i64::MIN, word),
        Comparison::Greater => (word.saturating_add(1), i64::MAX),
        Comparison::GreaterOrEqual => (word, i64::MAX),
        Comparison::NotEqual => return None,
    })
}

impl DecimalRange {
    /// The range that a predicate is on a column of decimals, if it is a comparison.
    pub(crate) fn of(predicate: &Predicate, column: &Column, at: usize, block: &OpenBlock<'_>) -> Option<Self> {
        let Predicate::Compare { operand, comparison, value: Scalar::Float(value) } = predicate else {
            return None;
        };
        let same = operand.column == column.id && operand.data_type == DataType::Float64;
        let stored = block.stored(at)?;
        if !same || column.data_type != DataType::Float64 || *stored.data_type() != DataType::Float64 {
            return None;
        }
        let Stream::F64(Floats::Alp(alp)) = block.column(at).ok()??.reader().stream() else { return None };
        let stats = stored.block_stats(block.work.block)?;
        let scale = 10f64.powi(i32::from(alp.exponent));
        let int = |v: f64| (v.abs() * scale < MOST).then(|| (v * scale).round() as i64);
        let bound = |bound: &Option<Bound>| match bound.as_ref()?.value {
            Scalar::Float(v) => int(v),
            _ => None,
        };
        let (base, top) = (bound(&stats.min)?, bound(&stats.max)?);
        let (below, above) = around(alp, *value, int(*value)?)?;
        // `below` is the last whole number under the constant, `above` the first over it.
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

/// The greatest whole number whose decimal is below `value`, and the least whose decimal is above it.
fn around(alp: &Alp<'_, f64>, value: f64, near: i64) -> Option<(i64, i64)> {
    let of = |int: i64| alp.value(int as u64);
    let below = (near - 3..=near + 3).rev().find(|int| of(*int) < value)?;
    let above = (near - 3..=near + 3).find(|int| of(*int) > value)?;
    Some((below, above))
}
