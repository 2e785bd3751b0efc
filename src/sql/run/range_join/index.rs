//! The rows of the left side, so that those are found that a row of the right side may be joined
//! to: points in order, or ranges in the order of their beginnings with a tree of their ends.

use std::ops::Range;

/// Rows of the left side by their keys.
#[derive(Debug)]
pub(super) enum Index {
    Points { keys: Vec<u128>, rows: Vec<u32> },
    Ranges(Ranges),
}

/// Ranges in the order of their beginnings. Node 1 of the tree is the root, nodes 2n and 2n + 1 are
/// below node n, and each has the greatest end of the ranges below it.
#[derive(Debug)]
pub(super) struct Ranges {
    lows: Vec<u128>,
    rows: Vec<u32>,
    leaves: usize,
    ends: Vec<u128>,
}

/// What is still to be looked at for a row of the right side.
#[derive(Debug)]
pub(super) enum Search {
    /// Places in the order of the points.
    Between(Range<usize>),
    /// Nodes that may have ranges around a point, among the first `before` ones.
    Around { point: u128, before: usize, nodes: Vec<(usize, usize, usize)> },
}

impl Index {
    /// The index of points, which are keys and rows.
    pub(super) fn of_points(mut points: Vec<(u128, u32)>) -> Index {
        points.sort_unstable();
        let (keys, rows) = points.into_iter().unzip();
        Index::Points { keys, rows }
    }

    /// The index of ranges, which are beginnings, ends and rows.
    pub(super) fn of_ranges(mut ranges: Vec<(u128, u128, u32)>) -> Index {
        ranges.sort_unstable();
        let leaves = ranges.len().next_power_of_two();
        let mut ends = vec![0; 2 * leaves];
        for (end, (_, high, _)) in ends.iter_mut().skip(leaves).zip(&ranges) {
            *end = *high;
        }
        for node in (1..leaves).rev() {
            ends[node] = ends[2 * node].max(ends[2 * node + 1]);
        }
        let lows = ranges.iter().map(|(low, ..)| *low).collect();
        let rows = ranges.iter().map(|(.., row)| *row).collect();
        Index::Ranges(Ranges { lows, rows, leaves, ends })
    }

    /// The bytes for each row.
    pub(super) const BYTES_OF_ROW: usize = 160;

    /// Begins to look for the rows within a range, or around a point (`low` and `high` are equal).
    pub(super) fn search(&self, low: u128, high: u128) -> Search {
        match self {
            Index::Points { keys, .. } => {
                let from = keys.partition_point(|key| *key < low);
                let to = keys.partition_point(|key| *key <= high);
                Search::Between(from..to.max(from))
            }
            Index::Ranges(ranges) => {
                let before = ranges.lows.partition_point(|begin| *begin <= low);
                let nodes = vec![(1, 0, ranges.leaves)];
                Search::Around { point: high, before, nodes }
            }
        }
    }

    /// The next row that is found.
    pub(super) fn next(&self, search: &mut Search) -> Option<u32> {
        match (self, search) {
            (Index::Points { rows, .. }, Search::Between(places)) => {
                rows.get(places.next()?).copied()
            }
            (Index::Ranges(ranges), Search::Around { point, before, nodes }) => {
                while let Some((node, from, width)) = nodes.pop() {
                    if from >= *before || ranges.ends[node] < *point {
                        continue;
                    }
                    if width == 1 {
                        return ranges.rows.get(from).copied();
                    }
                    let half = width / 2;
                    nodes.push((2 * node + 1, from + half, half));
                    nodes.push((2 * node, from, half));
                }
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(index: &Index, low: u128, high: u128) -> Vec<u32> {
        let mut search = index.search(low, high);
        let mut rows: Vec<u32> = std::iter::from_fn(|| index.next(&mut search)).collect();
        rows.sort_unstable();
        rows
    }

    proptest! {
        #[test]
        fn what_matches_is_found(
            ranges in prop::collection::vec((0u128..20, 0u128..20), 0..40),
            low in 0u128..20,
            high in 0u128..20,
        ) {
            let numbered = || ranges.iter().zip(0u32..);
            let points = Index::of_points(numbered().map(|((key, _), row)| (*key, row)).collect());
            let within: Vec<u32> = numbered()
                .filter(|((key, _), _)| (low..=high).contains(key))
                .map(|(_, row)| row)
                .collect();
            prop_assert_eq!(found(&points, low, high), within);
            let all = numbered().map(|((low, high), row)| (*low, *high, row)).collect();
            let around: Vec<u32> = numbered()
                .filter(|((begin, end), _)| (*begin..=*end).contains(&low))
                .map(|(_, row)| row)
                .collect();
            prop_assert_eq!(found(&Index::of_ranges(all), low, low), around);
        }
    }
}
