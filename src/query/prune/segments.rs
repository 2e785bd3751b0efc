//! Segments that the manifest does not rule out: by the values of their partition's keys, by bounds
//! and by counts of nulls.

use std::borrow::Cow;
use std::collections::HashMap;

use super::partitions::ruled_out_by_partition;
use super::{Cause, Evidence, columns_of, outside_sample, ruled_out};
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::ColumnId;
use crate::query::stats::{Counters, Pruned, Statistic};
use crate::store::{ColumnStats, SegmentEntry, Snapshot};

/// Numbers of the segments that the manifest does not rule out, in order. `partitions` is over
/// partition keys.
pub(crate) fn matching_segments(
    predicate: &Predicate,
    partitions: &Predicate,
    snapshot: &Snapshot,
    entries: &[SegmentEntry],
    counters: &mut Counters,
) -> Result<Vec<usize>> {
    let keys = &snapshot.root().arrangement.partition_by;
    let excluded = match partitions.is_opaque() {
        true => Vec::new(),
        false => ruled_out_by_partition(partitions, keys, entries)?,
    };
    let (mut kept, mut start) = (Vec::new(), 0);
    let block_rows = u64::from(snapshot.options().block_rows.max(1));
    // Chunk by chunk, so that what is known of segments stays in the caches.
    for chunk in 0..snapshot.chunks().len() {
        let end = start + snapshot.segments_of_chunk(chunk)?;
        let mut manifest = None;
        for (at, entry) in (start..end).zip(entries.get(start..end).unwrap_or_default()) {
            counters.segments += 1;
            counters.blocks += entry.rows.div_ceil(block_rows);
            counters.scan.rows_in += entry.rows;
            if let Some(part) = excluded.get(at).copied().flatten() {
                counters.prune(Statistic::Partition, Some(part), segment_pruned(entry, block_rows));
                continue;
            }
            let manifest = match &mut manifest {
                Some(manifest) => manifest,
                none => none.insert(ManifestBounds::for_chunk(predicate, snapshot, chunk, start)?),
            };
            if manifest.keeps(predicate, at, entry, counters) {
                kept.push(at);
            }
        }
        start = end;
    }
    Ok(kept)
}

/// Rows of the segments that the manifest does not rule out.
pub(crate) fn rows_left(
    predicate: &Predicate,
    partitions: &Predicate,
    snapshot: &Snapshot,
) -> Result<u64> {
    let (entries, mut counters) = (snapshot.segments()?, Counters::default());
    let kept = matching_segments(predicate, partitions, snapshot, &entries, &mut counters)?;
    Ok(kept.into_iter().filter_map(|number| entries.get(number)).map(|entry| entry.rows).sum())
}

fn segment_pruned(entry: &SegmentEntry, block_rows: u64) -> Pruned {
    Pruned {
        segments: 1,
        blocks: entry.rows.div_ceil(block_rows),
        rows: entry.rows,
        bytes: entry.length,
    }
}

/// What the manifest knows of the columns of a predicate, over some segments.
#[derive(Debug)]
pub(crate) struct ManifestBounds {
    block_rows: u64,
    /// The first of the segments.
    start: usize,
    /// Of each segment; `None` inside where it lacks the column.
    known: HashMap<ColumnId, Vec<Option<ColumnStats>>>,
}

impl ManifestBounds {
    /// Of all segments.
    #[cfg(feature = "sql")]
    pub(crate) fn new(predicate: &Predicate, snapshot: &Snapshot) -> Result<Self> {
        let known = columns_of(predicate)
            .into_iter()
            .map(|column| Ok((column, snapshot.column_stats(column)?)));
        let block_rows = u64::from(snapshot.options().block_rows.max(1));
        Ok(ManifestBounds { block_rows, start: 0, known: known.collect::<Result<_>>()? })
    }

    /// Of the segments of one chunk.
    fn for_chunk(
        predicate: &Predicate,
        snapshot: &Snapshot,
        chunk: usize,
        start: usize,
    ) -> Result<Self> {
        let columns = columns_of(predicate).into_iter();
        let known =
            columns.map(|column| Ok((column, snapshot.column_stats_of_chunk(column, chunk)?)));
        let block_rows = u64::from(snapshot.options().block_rows.max(1));
        Ok(ManifestBounds { block_rows, start, known: known.collect::<Result<_>>()? })
    }

    /// Whether the segment with this number may hold rows that meet the predicate; if not, it is
    /// counted as pruned.
    pub(crate) fn keeps(
        &self,
        predicate: &Predicate,
        number: usize,
        entry: &SegmentEntry,
        counters: &mut Counters,
    ) -> bool {
        if let Some(part) = outside_sample(predicate, number, 0..entry.rows) {
            let pruned = segment_pruned(entry, self.block_rows);
            counters.prune(Statistic::Sample, Some(part), pruned);
            return false;
        }
        let judged = ruled_out(predicate, entry.rows, &mut |column| match self
            .known
            .get(&column)?
            .get(
            number.checked_sub(self.start)?,
        )? {
            Some(found) => Some(Evidence {
                data_type: Cow::Borrowed(&found.data_type),
                stats: Cow::Borrowed(&found.stats),
            }),
            None => Some(Evidence::absent(entry.rows)),
        });
        let Some((part, cause)) = judged else { return true };
        let statistic = match cause {
            Cause::Bounds => Statistic::ManifestBounds,
            Cause::Nulls => Statistic::ManifestNulls,
        };
        counters.prune(statistic, Some(part), segment_pruned(entry, self.block_rows));
        false
    }
}
