//! Comparisons of floats as ranges of the integers that a block stores in their place.

use super::range::{WordRange, ordered_range};
use crate::expr::{Comparison, Predicate};
use crate::model::{Column, DataType, Scalar};
use crate::query::open::OpenBlock;
use crate::query::words::ordered;

/// A comparison with a constant, on integers; exceptions are compared by their values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalRange {
    pub(crate) range: WordRange,
    /// Words of [`ordered`] that pass.
    low: i64,
    high: i64,
    /// Whether the integers are the bits of the floats.
    pub(super) of_bits: bool,
}

impl DecimalRange {
    /// The range that a predicate is on a column of floats, if it is a comparison: as doubles, they
    /// are the same numbers in the same order.
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
        let stored = block.stored(at)?;
        let types = [&operand.data_type, &column.data_type, stored.data_type()];
        let floats = types.iter().all(|t| matches!(t, DataType::Float32 | DataType::Float64));
        if operand.column != column.id || !floats || value.is_nan() {
            return None;
        }
        let scaling = block.column(at).ok()??.reader().scaled()?.scaling;
        let (min, max) = stored.block_stats(block.at.block)?.doubles()?;
        let bounds = scaling.bounds(min, max)?;
        let (below, above) = scaling.around(*value, &bounds);
        let (first, last) = match comparison {
            Comparison::Equal => (below + 1, above - 1),
            Comparison::Less => (i128::MIN, below),
            Comparison::LessOrEqual => (i128::MIN, above - 1),
            Comparison::Greater => (above, i128::MAX),
            Comparison::GreaterOrEqual => (below + 1, i128::MAX),
            Comparison::NotEqual => return None,
        };
        let range = WordRange::between(first, last, *bounds.start(), *bounds.end());
        let (low, high) = ordered_range(*comparison, *value)?;
        Some(DecimalRange { range, low, high, of_bits: scaling.is_bits() })
    }

    /// Whether a row's own value passes.
    #[inline(always)]
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&ordered(value + 0.0))
    }
}
