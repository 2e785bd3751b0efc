//! Many rows at once, by what a zone map says of them: how many are null, the sum, the bounds.
//!
//! Where this stands on the road of a query: a block all of whose rows belong to one group, and a
//! whole table, need not be read where these suffice. They do for counts, for sums and means of
//! whole numbers and decimals, for their extremes, and for linear functions of them: the sum of
//! `a·x + b` is `a` times the sum of `x`, and `b` for each value.

use crate::block::{Bound, Stats};
use crate::expr::Expression;
use crate::expr::arithmetic::Arithmetic;
use crate::query::open::ColumnTotals;

/// What is known of an input of aggregates in many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Rows, nulls included.
    pub(super) rows: u64,
    /// Null rows.
    pub(super) nulls: u64,
    /// Of the others, where they are whole numbers, or decimals, for which whole numbers stand.
    pub(super) numbers: Option<Numbers>,
}

/// The sum and the bounds of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) sum: i128,
    /// The least and the greatest one, if both occur.
    pub(super) bounds: Option<(i64, i64)>,
}

impl Totals {
    /// The totals of rows without a value.
    pub(crate) fn all_null(rows: u64) -> Self {
        Totals { rows, nulls: rows, numbers: Some(Numbers { sum: 0, bounds: None }) }
    }

    /// The column whose zone map tells of an expression, which is null where the column is, and
    /// nowhere else.
    pub(crate) fn column(input: &Expression) -> Option<usize> {
        let is_known =
            input.as_column().is_some() || input.as_arithmetic().is_some() || input.traits.widening;
        input.only_input().filter(|_| is_known)
    }

    /// The totals of an expression over one column, whose zone map `column` returns; `None` if the
    /// zone map does not suffice.
    pub(crate) fn new<'s>(
        input: &Expression,
        column: impl FnOnce(usize) -> Option<ColumnTotals<'s>>,
    ) -> Option<Self> {
        let at = Totals::column(input)?;
        let arithmetic = input.as_arithmetic();
        let ColumnTotals { stats, is_number } = column(at)?;
        let values = stats.rows.checked_sub(stats.nulls)?;
        if values == 0 {
            return Some(Totals::all_null(stats.rows));
        }
        let numbers = if is_number { Numbers::of(&stats, arithmetic, values) } else { None };
        // Some of these may fail.
        if numbers.is_none() && matches!(arithmetic, Some(Arithmetic::Decimals { .. })) {
            return None;
        }
        Some(Totals { rows: stats.rows, nulls: stats.nulls, numbers })
    }

    /// How many rows are not null.
    pub(super) fn values(&self) -> u64 {
        self.rows.saturating_sub(self.nulls)
    }
}

impl Numbers {
    fn of(stats: &Stats, arithmetic: Option<&Arithmetic>, values: u64) -> Option<Self> {
        let (sum, bounds) = (stats.sum?, stats.integers());
        let is_exact = |bound: &Option<Bound>| bound.as_ref().is_some_and(|bound| bound.exact);
        let exact = bounds.filter(|_| is_exact(&stats.min) && is_exact(&stats.max));
        let (factor, offset) = match arithmetic {
            None => return Some(Numbers { sum, bounds: exact }),
            Some(Arithmetic::Floats(_)) => return None,
            Some(Arithmetic::Ints(steps) | Arithmetic::Decimals { steps, .. }) => {
                steps.linear().filter(|_| bounds.is_some_and(|bounds| steps.fit(&[bounds])))?
            }
        };
        let of = |number: i64| {
            i64::try_from(factor.checked_mul(number.into())?.checked_add(offset)?).ok()
        };
        let ends = exact.and_then(|(least, most)| of(least).zip(of(most)));
        let offsets = offset.checked_mul(values.into())?;
        Some(Numbers {
            sum: factor.checked_mul(sum)?.checked_add(offsets)?,
            bounds: ends.map(|(one, other)| (one.min(other), one.max(other))),
        })
    }
}
