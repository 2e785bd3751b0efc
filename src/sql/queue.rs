//! The blocks of a scan that are still to be read, after pruning.

use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};

use super::scan::Scan;
use crate::error::Result;
use crate::query::scan::{OpenSegment, matching_blocks, matching_segments};

/// One block to decode.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) segment: Arc<OpenSegment>,
    pub(crate) block: usize,
}

/// Hands out blocks in the order of the table. Segments are opened one at a time, by whoever finds the last one used up.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Segments that may match, in reverse; listed when the first block is asked for.
    segments: Option<Vec<usize>>,
    open: Option<(Arc<OpenSegment>, std::vec::IntoIter<usize>)>,
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
                    let mut kept = matching_segments(&scan.predicate, scan.table.snapshot(), &entries)?;
                    kept.reverse();
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
            let open = OpenSegment::open(segment, &scan.columns, scan.conditions.len())?;
            self.open = Some((Arc::new(open), blocks.into_iter()));
        }
    }
}
