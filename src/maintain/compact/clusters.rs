//! Clusters of segments whose ranges of the first sort key overlap.

use crate::block::Bound;
use crate::model::SortKey;
use crate::store::{ColumnStats, SegmentEntry};

/// A segment that may be rewritten.
pub(super) struct Candidate {
    /// Position in the table.
    pub(super) at: usize,
    pub(super) entry: SegmentEntry,
}

/// Groups segments whose ranges of the first key overlap; each cluster is in table order.
pub(super) fn clusters(
    mine: Vec<Candidate>,
    keys: &[SortKey],
    known: &[Option<ColumnStats>],
) -> Vec<Vec<Candidate>> {
    let descending = keys.first().is_some_and(|key| key.descending);
    // Bounds are unknown where there are nulls or no statistics, or where types differ.
    let data_type = known.iter().flatten().map(|known| &known.data_type).next();
    let bounds = |candidate: &Candidate| -> Option<(Bound, Bound)> {
        let known = known
            .get(candidate.at)?
            .as_ref()
            .filter(|known| Some(&known.data_type) == data_type)?;
        let (min, max) = known.stats.min.clone().zip(known.stats.max.clone())?;
        (known.stats.nulls == 0).then_some(if descending { (max, min) } else { (min, max) })
    };
    let mut sorted: Vec<(Bound, Bound, Candidate)> = Vec::with_capacity(mine.len());
    let mut unknown = Vec::new();
    for candidate in mine {
        match bounds(&candidate) {
            Some((start, end)) => sorted.push((start, end, candidate)),
            None => unknown.push(candidate),
        }
    }
    if !unknown.is_empty() {
        // They may overlap with any segment.
        unknown.extend(sorted.into_iter().map(|(.., candidate)| candidate));
        unknown.sort_by_key(|candidate| candidate.at);
        return vec![unknown];
    }
    let before = |a: &Bound, b: &Bound| {
        let order = a.value.total_cmp(&b.value).unwrap_or(std::cmp::Ordering::Equal);
        if descending { order.reverse() } else { order }
    };
    sorted.sort_by(|a, b| before(&a.0, &b.0).then(a.2.at.cmp(&b.2.at)));
    let mut clusters: Vec<(Bound, Vec<Candidate>)> = Vec::new();
    for (start, end, candidate) in sorted {
        match clusters.last_mut() {
            // Rows with equal first keys may be out of order by the other keys.
            Some((last, cluster)) if before(&start, last).is_le() => {
                if before(last, &end).is_lt() {
                    *last = end;
                }
                cluster.push(candidate);
            }
            _ => clusters.push((end, vec![candidate])),
        }
    }
    clusters
        .into_iter()
        .map(|(_, mut cluster)| {
            cluster.sort_by_key(|candidate| candidate.at);
            cluster
        })
        .collect()
}
