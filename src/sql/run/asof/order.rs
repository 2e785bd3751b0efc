//! What is compared, and in which order both sides come.

use arrow_schema::SortOptions;
use datafusion::physical_expr::expressions::Column;

/// Which row of the right side a row of the left one is joined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sql) enum Match {
    /// The last one that is not later: `a.t >= b.t`.
    NotLater,
    /// The last one that is earlier: `a.t > b.t`.
    Earlier,
    /// The first one that is not earlier: `a.t <= b.t`.
    NotEarlier,
    /// The first one that is later: `a.t < b.t`.
    Later,
}

impl Match {
    /// The order of the times. Backwards, the first later row is the last one before.
    pub(super) fn order(self) -> SortOptions {
        let descending = matches!(self, Match::NotEarlier | Match::Later);
        SortOptions { descending, ..KEY_ORDER }
    }

    pub(super) fn takes_equal(self) -> bool {
        matches!(self, Match::NotLater | Match::NotEarlier)
    }
}

/// The order of the keys that are equal.
pub(super) const KEY_ORDER: SortOptions = SortOptions { descending: false, nulls_first: true };

/// The columns of one side that are compared: those that are equal, and the time behind them.
pub(super) type Compared = Vec<Column>;
