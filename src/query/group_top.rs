//! The first rows of each group, in an order.
//!
//! A row that comes after the k-th one found so far of its group is not among the first k; the
//! others are candidates. Once there are twice as many candidates as were left the last time, those
//! of each group are sorted, all but the first k are dropped, and the k-th one becomes the group's
//! threshold. So each row is compared with one threshold, mostly by the rank of its first key, and
//! few rows are sorted. `order` has one threshold for the whole table, and works the same way.
//!
//! Only numbers and keys are here; whoever asks holds the rows.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType as ArrowType, SortOptions};

use super::group::{Bytes, GroupNumbers, KeyColumn};
use super::slice::take;
use super::words::{is_ranked, null_rank, ranks};
use crate::error::{ArrowResult, Result};

/// How the rows of a group are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranking {
    /// Each row has a number of its own, whichever of those with equal keys comes first.
    RowNumber,
    /// One more than the rows that come before.
    Rank,
    /// One more than the distinct keys that come before.
    DenseRank,
}

/// The fewest candidates among which the first rows are looked for.
const LEAST: usize = 1 << 14;

/// Finds the rows that may be among the first of their groups.
#[derive(Debug)]
pub(crate) struct GroupTop {
    ranking: Ranking,
    limit: usize,
    numbers: GroupNumbers,
    /// `None` without an order.
    converter: Option<RowConverter>,
    /// How the first key of the order is sorted.
    first: Option<SortOptions>,
    thresholds: Thresholds,
    candidates: Candidates,
    /// How many candidates are enough to look for the first among them.
    full: usize,
    /// The groups of the last rows.
    groups: Vec<u32>,
}

/// The last row of each group that would still be among its first.
#[derive(Debug, Default)]
struct Thresholds {
    /// The rank of the first key; rows of higher ranks come later.
    ranks: Vec<i64>,
    /// The whole key; no bytes where there is no threshold yet.
    keys: Bytes,
}

/// Rows that may be among the first, in the order in which they came.
#[derive(Debug, Default)]
struct Candidates {
    groups: Vec<u32>,
    ranks: Vec<i64>,
    /// They sort as the order asks.
    keys: Bytes,
}

impl GroupTop {
    /// The rows with numbers up to `limit`, which is at least 1, of groups with such keys.
    pub(crate) fn new(
        keys: &[ArrowType],
        order: &[(ArrowType, SortOptions)],
        ranking: Ranking,
        limit: usize,
    ) -> Result<Self> {
        let field = |(data_type, by): &(ArrowType, SortOptions)| {
            SortField::new_with_options(data_type.clone(), *by)
        };
        let converter = match order.is_empty() {
            true => None,
            false => Some(RowConverter::new(order.iter().map(field).collect()).or_unsupported()?),
        };
        Ok(GroupTop {
            ranking,
            limit: limit.max(1),
            numbers: GroupNumbers::new(keys)?,
            converter,
            first: order.first().map(|(_, by)| *by),
            thresholds: Thresholds::default(),
            candidates: Candidates::default(),
            full: LEAST,
            groups: Vec::new(),
        })
    }

    /// The bytes that it holds, and those that [`GroupTop::prune`] takes beside them.
    pub(crate) fn memory(&self) -> usize {
        let (thresholds, candidates) = (&self.thresholds, &self.candidates);
        let held = self.numbers.memory() + thresholds.memory() + candidates.memory();
        held + candidates.memory() + thresholds.ranks.len() * size_of::<u32>()
    }

    /// How many groups there are so far.
    pub(crate) fn groups(&self) -> usize {
        self.numbers.len()
    }

    /// How many candidates there are.
    pub(crate) fn len(&self) -> usize {
        self.candidates.groups.len()
    }

    /// Whether there are enough candidates to look for the first among them.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.full
    }

    /// The places, rising, of those of some rows that may be among the first of their groups. These
    /// are candidates from now on.
    pub(crate) fn enter(
        &mut self,
        keys: &[ArrayRef],
        order: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<u32>> {
        self.groups.clear();
        self.numbers.number(keys, rows, &mut self.groups)?;
        self.thresholds.ranks.resize(self.numbers.len(), i64::MAX);
        let first = self.first.zip(order.first());
        let ranks = first.and_then(|(by, key)| first_ranks(key, by));
        let mut places: Vec<u32> = (0..rows as u32).collect();
        if let Some(ranks) = &ranks {
            let rows = places.iter().zip(self.groups.iter().zip(ranks));
            let worth = rows.filter(|(_, (group, rank))| **rank <= self.thresholds.rank(**group));
            places = worth.map(|(place, _)| *place).collect();
        }
        let sorted = self.sorted(order, &places, rows)?;
        let mut number = 0;
        places.retain(|place| {
            let key = sorted.as_ref().map_or(&[0][..], |sorted| sorted.row(number).data());
            number += 1;
            let at = *place as usize;
            let group = self.groups.get(at).copied().unwrap_or(0);
            let rank = ranks.as_ref().and_then(|ranks| ranks.get(at)).copied().unwrap_or(0);
            let may = self.thresholds.admit(group, (rank, key), self.ranking);
            if may {
                self.candidates.push(group, (rank, key));
            }
            may
        });
        Ok(places)
    }

    /// The keys of some of the rows, as bytes that sort as the order asks.
    fn sorted(&self, order: &[ArrayRef], places: &[u32], rows: usize) -> Result<Option<Rows>> {
        let Some(converter) = &self.converter else { return Ok(None) };
        let sorted = match places.len() == rows {
            true => converter.convert_columns(order),
            false => {
                let keys = order.iter().map(|key| take(key, places));
                converter.convert_columns(&keys.collect::<Result<Vec<_>>>()?)
            }
        };
        sorted.or_unsupported().map(Some)
    }

    /// Drops candidates that are not among the first. Says of each whether it stays.
    pub(crate) fn prune(&mut self) -> BooleanBuffer {
        let mut stays = BooleanBufferBuilder::new(self.len());
        stays.append_n(self.len(), false);
        let (mut by_group, ends) = self.candidates.by_group(self.thresholds.ranks.len());
        let (mut keys, mut rest) = (Bytes::default(), by_group.as_mut_slice());
        let mut start = 0;
        for (group, end) in ends.iter().enumerate() {
            let (rows, others) = rest.split_at_mut((end - start) as usize);
            (rest, start) = (others, *end);
            let (first, last) = self.first_of(rows);
            rows.iter().take(first).for_each(|row| stays.set_bit(*row as usize, true));
            let (rank, key) = match last {
                Some(last) => self.candidates.key(last),
                None => (self.thresholds.rank(group as u32), self.thresholds.keys.get(group)),
            };
            keys.push(key);
            if let Some(threshold) = self.thresholds.ranks.get_mut(group) {
                *threshold = rank;
            }
        }
        self.thresholds.keys = keys;
        let stays = stays.finish();
        self.candidates.retain(&stays);
        self.full = (self.len() * 2).max(LEAST);
        stays
    }

    /// Sorts the candidates of a group. Returns how many of them are among the first, and the last
    /// that is, if no row after it can be.
    fn first_of(&self, rows: &mut [u32]) -> (usize, Option<u32>) {
        if rows.len() < self.limit {
            return (rows.len(), None);
        }
        let compare = |a: &u32, b: &u32| self.candidates.key(*a).cmp(&self.candidates.key(*b));
        rows.sort_by(compare);
        let last = match self.ranking {
            Ranking::RowNumber | Ranking::Rank => rows.get(self.limit - 1),
            Ranking::DenseRank => {
                let mut equal = rows.chunk_by(|a, b| compare(a, b).is_eq());
                equal.nth(self.limit - 1).and_then(<[u32]>::first)
            }
        };
        let Some(last) = last.copied() else { return (rows.len(), None) };
        let first = match self.ranking {
            Ranking::RowNumber => self.limit,
            Ranking::Rank | Ranking::DenseRank => {
                rows.partition_point(|row| compare(row, &last).is_le())
            }
        };
        (first, Some(last))
    }

    /// Forgets all candidates. What was found out by them holds.
    pub(crate) fn forget(&mut self) {
        self.candidates = Candidates::default();
        self.full = LEAST;
    }
}

/// A word for each row that rises with the order by a key: a row that comes later never has a
/// smaller word. Rows with the same word may differ. `None` for keys without such words.
pub(crate) fn first_ranks(key: &ArrayRef, by: SortOptions) -> Option<Vec<i64>> {
    let (turn, null) = (if by.descending { -1 } else { 0 }, null_rank(by.nulls_first));
    let head = |bytes: &[u8]| {
        let mut first = [0; 8];
        first.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        i64::from_be_bytes(first) ^ i64::MIN ^ turn
    };
    Some(match key.data_type() {
        ArrowType::Utf8View => {
            let texts = key.as_string_view().iter();
            texts.map(|text| text.map_or(null, |text| head(text.as_bytes()))).collect()
        }
        ArrowType::BinaryView => {
            key.as_binary_view().iter().map(|bytes| bytes.map_or(null, head)).collect()
        }
        ArrowType::Decimal128(..) => {
            let near = |int: i128| int.clamp(i64::MIN.into(), i64::MAX.into()) as i64 ^ turn;
            let decimals = key.as_primitive::<Decimal128Type>().iter();
            decimals.map(|decimal| decimal.map_or(null, near)).collect()
        }
        other if is_ranked(other) => return ranks(key, by.descending, by.nulls_first),
        _ => return None,
    })
}

/// Whether [`first_ranks`] knows keys of the type.
pub(crate) fn has_first_ranks(data_type: &ArrowType) -> bool {
    let is_long = matches!(
        data_type,
        ArrowType::Utf8View | ArrowType::BinaryView | ArrowType::Decimal128(..)
    );
    is_long || is_ranked(data_type)
}

impl Thresholds {
    fn memory(&self) -> usize {
        self.ranks.capacity() * size_of::<i64>() + self.keys.memory()
    }

    #[inline(always)]
    fn rank(&self, group: u32) -> i64 {
        self.ranks.get(group as usize).copied().unwrap_or(i64::MAX)
    }

    /// Whether a row can be among the first of its group. One that is like the last of them is not
    /// if each row has a number of its own.
    #[inline(always)]
    fn admit(&self, group: u32, (rank, key): (i64, &[u8]), ranking: Ranking) -> bool {
        let last = (self.rank(group), self.keys.get(group as usize));
        match (rank, key).cmp(&last) {
            _ if last.1.is_empty() => true,
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => ranking != Ranking::RowNumber,
            std::cmp::Ordering::Greater => false,
        }
    }
}

impl Candidates {
    fn memory(&self) -> usize {
        let numbers = self.groups.capacity() * size_of::<u32>();
        numbers + self.ranks.capacity() * size_of::<i64>() + self.keys.memory()
    }

    fn push(&mut self, group: u32, (rank, key): (i64, &[u8])) {
        self.groups.push(group);
        self.ranks.push(rank);
        self.keys.push(key);
    }

    /// What sorts as the order asks.
    #[inline(always)]
    fn key(&self, row: u32) -> (i64, &[u8]) {
        let rank = self.ranks.get(row as usize).copied().unwrap_or(0);
        (rank, self.keys.get(row as usize))
    }

    /// All candidates, those of one group after those of the other, and where each group ends.
    fn by_group(&self, groups: usize) -> (Vec<u32>, Vec<u32>) {
        let mut ends = vec![0u32; groups];
        for group in &self.groups {
            if let Some(count) = ends.get_mut(*group as usize) {
                *count += 1;
            }
        }
        let mut start = 0;
        for place in &mut ends {
            start += std::mem::replace(place, start);
        }
        let mut sorted = vec![0; self.groups.len()];
        for (row, group) in (0u32..).zip(&self.groups) {
            if let Some(end) = ends.get_mut(*group as usize)
                && let Some(slot) = sorted.get_mut(*end as usize)
            {
                (*slot, *end) = (row, *end + 1);
            }
        }
        (sorted, ends)
    }

    fn retain(&mut self, stays: &BooleanBuffer) {
        let mut left = Candidates::default();
        for row in stays.set_indices() {
            let group = self.groups.get(row).copied().unwrap_or(0);
            left.push(group, self.key(row as u32));
        }
        *self = left;
    }
}
