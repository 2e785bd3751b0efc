//! Where partitions and peers begin in a batch.

use std::ops::Range;

use crate::sql::run::cut::Runs;

/// Where partitions begin in a batch, and peers: rows of a partition that are equal in the order of
/// its rows.
pub(super) struct Bounds {
    pub(super) partitions: Runs,
    /// `None` if no function needs them.
    pub(super) peers: Option<Runs>,
}

impl Bounds {
    /// Whether a partition begins with each of the ranges.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        let Runs { ranges, goes_on } = &self.partitions;
        ranges.iter().enumerate().map(move |(at, range)| (range.clone(), at > 0 || !goes_on))
    }

    /// Whether peers begin with each of the ranges.
    pub(super) fn peers(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        self.peers.iter().flat_map(|Runs { ranges, goes_on }| {
            ranges.iter().enumerate().map(move |(at, range)| (range.clone(), at > 0 || !goes_on))
        })
    }
}
