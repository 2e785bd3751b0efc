//! Stored rows that cannot be among the first of their groups are left out before their other
//! columns are decoded.
//!
//! Each thread keeps the ranks of the best rows of each group that it has seen, by the first key of
//! the order. A row that comes after the k-th of them is not among the first k, and one comparison
//! of words tells. What is left is a little more than the first rows, in the order in which it was
//! stored: `group_top` looks at it by all keys. A block is not opened if its best row comes after
//! the k-th of every group that it may have.

use std::fmt;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType as ArrowType, SortOptions};

use super::OrderBy;
use super::group::SliceNumbers;
use super::group_top::{Ranking, first_ranks, has_first_ranks};
use super::open::{OpenBlock, OpenSegment};
use super::order::ranks::best_of_block;
use super::slice::Slice;
use super::words::is_ranked;
use crate::error::Result;
use crate::expr::Expression;
use crate::model::Column;

/// The most rows of a group whose ranks are kept.
pub(crate) const MOST_RANKS: usize = 64;

/// After so many rows, most of which were let through, the others are no longer looked at.
const TRIAL_ROWS: usize = 1 << 17;

/// Which rows of stored groups are wanted.
#[derive(Clone, Debug)]
pub(crate) struct FirstOfGroups {
    /// The columns that groups are made of.
    keys: Vec<Expression>,
    /// The first key of the order, a column; any rows will do without one.
    order: Option<OrderBy>,
    /// Whether the order has no other keys.
    is_alone: bool,
    ranking: Ranking,
    limit: usize,
}

impl FirstOfGroups {
    /// `None` if there are too many rows of a group, or the key of the order has no ranks.
    pub(crate) fn new(
        keys: Vec<Expression>,
        order: Option<OrderBy>,
        is_alone: bool,
        (ranking, limit): (Ranking, usize),
    ) -> Option<Self> {
        let has_ranks = order.as_ref().is_none_or(|by| has_first_ranks(&by.expression.data_type));
        let is_kept = (1..=MOST_RANKS).contains(&limit) && has_ranks;
        is_kept.then_some(FirstOfGroups { keys, order, is_alone, ranking, limit })
    }

    /// The columns that are read of all rows.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = usize> {
        let order = self.order.iter().map(|by| &by.expression);
        self.keys.iter().chain(order).flat_map(|key| key.inputs.iter().copied())
    }

    /// Whether the rank of a row says how it stands to all others.
    fn ranks_say_all(&self) -> bool {
        let says_all = |by: &OrderBy| {
            let data_type = &by.expression.data_type;
            // Zeros have one rank.
            is_ranked(data_type) && !matches!(data_type, ArrowType::Float32 | ArrowType::Float64)
        };
        self.is_alone && self.order.as_ref().is_none_or(says_all)
    }
}

impl fmt::Display for FirstOfGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.limit)?;
        for (number, key) in self.keys.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { " of " } else { ", " }, key.text)?;
        }
        self.order.as_ref().map_or(Ok(()), |by| write!(f, " by {by}"))
    }
}

/// What one thread knows of the first rows of groups.
#[derive(Debug)]
pub(crate) struct GroupBounds {
    numbers: SliceNumbers,
    order: Option<OrderBy>,
    best: BestRanks,
    /// The groups of the rows at hand.
    groups: Vec<u32>,
    /// Rows that came, and those of them that were let through.
    seen: usize,
    passed: usize,
}

impl GroupBounds {
    pub(crate) fn new(asked: &FirstOfGroups, columns: &[Column]) -> Result<Self> {
        let best = BestRanks::new(asked.limit, asked.ranking, asked.ranks_say_all());
        Ok(GroupBounds {
            numbers: SliceNumbers::new(asked.keys.clone(), columns)?,
            order: asked.order.clone(),
            best,
            groups: Vec::new(),
            seen: 0,
            passed: 0,
        })
    }

    /// The bytes that it holds.
    pub(crate) fn memory(&self) -> usize {
        self.numbers.memory() + self.best.ranks.capacity() * size_of::<i64>()
    }

    /// Whether it has left out so many rows that it is expected to go on so.
    pub(crate) fn helps(&self) -> bool {
        let most = |share: usize| self.seen - self.seen / share;
        self.seen < TRIAL_ROWS || (self.passed <= most(4) && self.numbers.len() <= most(8))
    }

    /// Goes on with the rows of a segment.
    pub(crate) fn enter(&mut self, segment: &Arc<OpenSegment>) -> Result<()> {
        self.numbers.enter(segment)
    }

    /// Whether no row of a block can be among the first of its group.
    pub(crate) fn skips(&self, block: &OpenBlock<'_>) -> Result<bool> {
        let best = match &self.order {
            Some(by) => best_of_block(by, &block.segment.columns, block.at.block),
            None => 0,
        };
        // Most blocks have better rows than that.
        if best == i64::MIN || self.seen == 0 {
            return Ok(false);
        }
        let groups = self.numbers.possible(block)?;
        Ok(groups.is_some_and(|groups| {
            groups.iter().all(|group| self.best.is_late(best, self.best.bound(*group)))
        }))
    }

    /// Leaves those rows of a slice selected that may be among the first of their groups. They come
    /// in their order, or `backwards`.
    pub(crate) fn narrow(&mut self, slice: &mut Slice<'_, '_>, backwards: bool) -> Result<()> {
        let ranks = match &self.order {
            None => Some(vec![0; slice.len()]),
            Some(OrderBy { expression, descending, nulls_first }) => {
                let key: ArrayRef = slice.evaluate(expression)?;
                let by = SortOptions { descending: *descending, nulls_first: *nulls_first };
                first_ranks(&key, by)
            }
        };
        let Some(ranks) = ranks else { return Ok(()) };
        self.numbers.number(slice, &mut self.groups)?;
        self.best.grow(self.numbers.len());
        let places = self.best.admit(&self.groups, &ranks, backwards);
        self.seen += slice.len();
        self.passed += places.len();
        if places.len() < slice.len() {
            let rows = match slice.selected() {
                None => places,
                Some(rows) => {
                    let row = |place: &u32| rows.get(*place as usize).copied();
                    places.iter().filter_map(row).collect()
                }
            };
            slice.select(rows);
        }
        Ok(())
    }

    /// Forgets what is known of groups: some of the rows that were let through will come again.
    pub(crate) fn forget(&mut self) {
        self.numbers.leave();
        self.best.ranks.fill(i64::MAX);
    }
}

/// The ranks of the best rows of each group so far.
#[derive(Debug)]
pub(super) struct BestRanks {
    /// How many are kept of a group.
    limit: usize,
    /// Whether rows of the same rank as the last that is kept come too late.
    drops_ties: bool,
    /// Whether rows of one rank count once.
    is_distinct: bool,
    /// Those of each group rising, the greatest where there are fewer.
    ranks: Vec<i64>,
}

impl BestRanks {
    /// `say_all`: rows of one rank are equal.
    pub(super) fn new(limit: usize, ranking: Ranking, say_all: bool) -> Self {
        BestRanks {
            limit,
            drops_ties: say_all && ranking == Ranking::RowNumber,
            is_distinct: ranking == Ranking::DenseRank,
            ranks: Vec::new(),
        }
    }

    /// Makes room for `groups` groups in all.
    pub(super) fn grow(&mut self, groups: usize) {
        self.ranks.resize(groups * self.limit, i64::MAX);
    }

    /// The rank of the last row of a group that would still be among the first.
    fn bound(&self, group: u32) -> i64 {
        let last = (group as usize + 1) * self.limit - 1;
        self.ranks.get(last).copied().unwrap_or(i64::MAX)
    }

    /// Whether rows of a rank come too late in a group of this bound. The extremes may stand for
    /// null, or for what is not known.
    #[inline(always)]
    fn is_late(&self, rank: i64, bound: i64) -> bool {
        let is_extreme = rank == i64::MIN || rank == i64::MAX;
        rank > bound || (rank == bound && self.drops_ties && !is_extreme)
    }

    /// Notes a row. False if it is not among the first of its group so far.
    #[inline(always)]
    fn offer(&mut self, group: u32, rank: i64) -> bool {
        if self.is_late(rank, self.bound(group)) {
            return false;
        }
        let start = group as usize * self.limit;
        let Some(kept) = self.ranks.get_mut(start..start + self.limit) else { return true };
        if let [only] = kept {
            *only = rank;
        } else if !(self.is_distinct && kept.contains(&rank)) {
            let at = kept.partition_point(|known| *known <= rank);
            let after = kept.get_mut(at..).unwrap_or_default();
            after.rotate_right(usize::from(!after.is_empty()));
            if let Some(first) = after.first_mut() {
                *first = rank;
            }
        }
        true
    }

    /// The places, rising, of those of some rows that may be among the first of their groups.
    pub(super) fn admit(&mut self, groups: &[u32], ranks: &[i64], backwards: bool) -> Vec<u32> {
        let mut places = Vec::new();
        let rows = groups.iter().zip(ranks).zip(0..groups.len() as u32);
        let mut offer = |((group, rank), place): ((&u32, &i64), u32)| {
            if self.offer(*group, *rank) {
                places.push(place);
            }
        };
        match backwards {
            false => rows.for_each(&mut offer),
            true => rows.rev().for_each(&mut offer),
        }
        // Better ones may have come after them.
        places.retain(|place| {
            let at = *place as usize;
            let row = groups.get(at).zip(ranks.get(at));
            row.is_none_or(|(group, rank)| *rank <= self.bound(*group))
        });
        if backwards {
            places.reverse();
        }
        places
    }
}
