//! Sorted segments in chains: within each, one segment comes after the other, so that a chain is a
//! sorted sequence and a merge of all chains is the sorted table. A compacted table is one chain. A
//! table whose nightly loads overlap has about as many chains as segments overlap at any one key.
//!
//! Each chain is a partition of the scan, and DataFusion merges them. A scan that can promise no
//! order visits the best blocks first.

use std::cmp::Ordering;

use crate::block::Bound;
use crate::error::Result;
use crate::model::{DataType, SortKey};
use crate::store::Snapshot;

/// More chains than this are no better than sorting.
const MAX_CHAINS: usize = 32;

/// Segments by number, chain by chain, in the order in which their rows come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chains {
    pub(crate) chains: Vec<Vec<usize>>,
    /// Whether rows are stored in the opposite order.
    pub(crate) backwards: bool,
}

/// One segment's range of the first key, from what comes out first.
struct Range {
    number: usize,
    first: Bound,
    last: Bound,
}

/// The chains of a table by these keys; `None` if some segment is not sorted by them, or there
/// would be too many.
///
/// That a segment is sorted by the first key was measured when it was written; that it is by the
/// others follows from the table's arrangement. Segments of a narrower type than the table's keep
/// their order in it: no type widens to one that turns it.
pub(crate) fn chains(snapshot: &Snapshot, keys: &[SortKey]) -> Result<Option<Chains>> {
    let Some(key) = keys.first() else { return Ok(None) };
    let known = snapshot.column_stats(key.column)?;
    let Some(data_type) = known.iter().flatten().map(|known| known.data_type.clone()).next() else {
        return Ok(None);
    };
    let (mut rising, mut falling) = (true, true);
    let mut ranges = Vec::with_capacity(known.len());
    for (number, known) in known.into_iter().enumerate() {
        let Some(known) = known.filter(|known| known.data_type == data_type) else {
            return Ok(None);
        };
        let stats = known.stats;
        rising &= stats.order.ascending;
        falling &= stats.order.descending;
        let Some((min, max)) =
            stats.min.zip(stats.max).filter(|_| stats.nulls == 0 && stats.nans == 0)
        else {
            return Ok(None);
        };
        let (first, last) = if key.descending { (max, min) } else { (min, max) };
        ranges.push(Range { number, first, last });
    }
    // The order of truth values is not measured.
    let unmeasured = data_type == DataType::Bool;
    let (with, against) = if key.descending { (falling, rising) } else { (rising, falling) };
    let sort_by = &snapshot.root().arrangement.sort_by;
    let opposite = |key: &SortKey| SortKey {
        column: key.column,
        descending: !key.descending,
        nulls_first: !key.nulls_first,
    };
    let promised = |keys: &[SortKey]| sort_by.starts_with(keys);
    let proven = |measured: bool, keys: &[SortKey]| match (unmeasured, keys) {
        (false, [_]) => measured,
        (false, _) => measured && promised(keys),
        (true, _) => promised(keys),
    };
    let backwards = if proven(with, keys) {
        false
    } else if proven(against, &keys.iter().map(opposite).collect::<Vec<_>>()) {
        true
    } else {
        return Ok(None);
    };
    // What comes after the first key may be out of order where two segments meet in one value.
    let touching = keys.len() == 1;
    Ok(in_chains(ranges, key.descending, touching).map(|chains| Chains { chains, backwards }))
}

fn in_chains(mut ranges: Vec<Range>, descending: bool, touching: bool) -> Option<Vec<Vec<usize>>> {
    let before = |a: &Bound, b: &Bound| {
        let order = a.value.total_cmp(&b.value).unwrap_or(Ordering::Equal);
        if descending { order.reverse() } else { order }
    };
    let comparable = |range: &Range| range.first.value.total_cmp(&range.last.value).is_some();
    if !ranges.iter().all(comparable) {
        return None;
    }
    ranges.sort_by(|a, b| before(&a.first, &b.first).then(before(&a.last, &b.last)));
    let mut chains: Vec<(Bound, Vec<usize>)> = Vec::new();
    for Range { number, first, last } in ranges {
        let follows = |end: &Bound| match before(end, &first) {
            Ordering::Less => true,
            Ordering::Equal => touching,
            Ordering::Greater => false,
        };
        let full = chains.len() == MAX_CHAINS;
        match chains.iter_mut().find(|(end, _)| follows(end)) {
            Some((end, chain)) => {
                *end = last;
                chain.push(number);
            }
            None if full => return None,
            None => chains.push((last, vec![number])),
        }
    }
    Some(chains.into_iter().map(|(_, chain)| chain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Scalar;

    fn of(ranges: &[(i128, i128)], descending: bool, touching: bool) -> Option<Vec<Vec<usize>>> {
        let bound = |value| Bound { value: Scalar::Int(value), exact: true };
        let range = |(number, (min, max)): (usize, &(i128, i128))| {
            let (first, last) = if descending { (max, min) } else { (min, max) };
            Range { number, first: bound(*first), last: bound(*last) }
        };
        in_chains(ranges.iter().enumerate().map(range).collect(), descending, touching)
    }

    #[test]
    fn ranges_that_overlap_are_in_different_chains() {
        let ranges = [(10, 20), (0, 5), (5, 9), (12, 30), (31, 40)];
        assert_eq!(of(&ranges, false, true), Some(vec![vec![1, 2, 0, 4], vec![3]]));
        assert_eq!(of(&ranges, false, false), Some(vec![vec![1, 0, 4], vec![2, 3]]));
        assert_eq!(of(&ranges, true, true), Some(vec![vec![4, 3, 2, 1], vec![0]]));
        assert_eq!(
            of(&[(0, 9); MAX_CHAINS], false, true).map(|chains| chains.len()),
            Some(MAX_CHAINS)
        );
        assert_eq!(of(&[(0, 9); MAX_CHAINS + 1], false, true), None);
    }
}
