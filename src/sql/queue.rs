//! The blocks of a scan that are still to be read, after pruning.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};

use super::scan::Scan;
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::ColumnId;
use crate::query::prune::{Evidence, Verdict, verdict};
use crate::segment::{Column, Segment};
use crate::store::{ColumnStats, SegmentEntry};

/// One block to decode.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) segment: Arc<Segment>,
    pub(crate) block: usize,
}

/// Hands out blocks in the order of the table. Segments are opened one at a time, by whoever finds the last one used up.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Segments that may match, in reverse; listed when the first block is asked for.
    segments: Option<Vec<usize>>,
    open: Option<(Arc<Segment>, std::vec::IntoIter<usize>)>,
    counts: Counts,
}

#[derive(Debug)]
struct Counts {
    segments_pruned: Count,
    segments_read: Count,
    blocks_pruned: Count,
    blocks_read: Count,
}

impl Queue {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        let counts = Counts {
            segments_pruned: count("segments_pruned"),
            segments_read: count("segments_read"),
            blocks_pruned: count("blocks_pruned"),
            blocks_read: count("blocks_read"),
        };
        Queue { segments: None, open: None, counts }
    }

    /// The next block; `None` when there are no more.
    pub(crate) fn next(&mut self, scan: &Scan) -> Result<Option<Work>> {
        loop {
            if let Some((segment, blocks)) = &mut self.open {
                if let Some(block) = blocks.next() {
                    self.counts.blocks_read.add(1);
                    return Ok(Some(Work { segment: Arc::clone(segment), block }));
                }
                self.open = None;
            }
            let entries = scan.table.snapshot().segments()?;
            let segments = match &mut self.segments {
                Some(segments) => segments,
                None => {
                    let kept = matching_segments(scan, &entries)?;
                    self.counts.segments_pruned.add(entries.len() - kept.len());
                    self.segments.insert(kept)
                }
            };
            let Some(at) = segments.pop() else { return Ok(None) };
            let Some(entry) = entries.get(at) else { continue };
            let segment = scan.table.snapshot().open_segment(entry)?;
            let blocks = matching_blocks(&scan.predicate, &segment)?;
            self.counts.segments_read.add(1);
            self.counts.blocks_pruned.add(segment.blocks() - blocks.len());
            self.open = Some((segment, blocks.into_iter()));
        }
    }
}

/// Numbers of the segments that the manifest does not rule out, the last one first.
fn matching_segments(scan: &Scan, entries: &[SegmentEntry]) -> Result<Vec<usize>> {
    let mut known: HashMap<ColumnId, Vec<Option<ColumnStats>>> = HashMap::new();
    for column in columns_of(&scan.predicate) {
        known.insert(column, scan.table.snapshot().column_stats(column)?);
    }
    let may_match = |at: usize, entry: &SegmentEntry| {
        let judged = verdict(&scan.predicate, entry.rows, &mut |column| match known.get(&column)?.get(at)? {
            Some(found) => {
                Some(Evidence { data_type: Cow::Borrowed(&found.data_type), stats: Cow::Borrowed(&found.stats) })
            }
            None => Some(Evidence::absent(entry.rows)),
        });
        judged != Verdict::Never
    };
    let kept = entries.iter().enumerate().rev().filter(|(at, entry)| may_match(*at, entry));
    Ok(kept.map(|(at, _)| at).collect())
}

/// Numbers of the blocks that the segment's zone maps do not rule out.
fn matching_blocks(predicate: &Predicate, segment: &Segment) -> Result<Vec<usize>> {
    let mut columns: HashMap<ColumnId, Option<Arc<Column>>> = HashMap::new();
    for column in columns_of(predicate) {
        columns.insert(column, segment.column(column)?);
    }
    let may_match = |block: &usize| {
        let range = segment.block_range(*block);
        let rows = range.end - range.start;
        let judged = verdict(predicate, rows, &mut |id| match columns.get(&id)? {
            Some(column) => Some(Evidence {
                data_type: Cow::Borrowed(column.data_type()),
                stats: Cow::Borrowed(column.block_stats(*block)?),
            }),
            None => Some(Evidence::absent(rows)),
        });
        judged != Verdict::Never
    };
    Ok((0..segment.blocks()).filter(may_match).collect())
}

fn columns_of(predicate: &Predicate) -> Vec<ColumnId> {
    let mut columns = Vec::new();
    predicate.for_each_column(&mut |column| columns.push(column));
    columns.sort_unstable();
    columns.dedup();
    columns
}
