//! The blocks of a scan that are still to be read, after pruning.

use std::sync::Arc;

use super::scan::Scan;
use crate::error::Result;
use crate::query::scan::{OpenSegment, matching_blocks, matching_segments};
use crate::query::stats::{Clock, Counters, Recorder};

/// One block to decode.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) segment: Arc<OpenSegment>,
    pub(crate) block: usize,
}

/// Hands out blocks in the order of the table. Segments are opened one at a time, by whoever finds the last one used up.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Segments that may match, in reverse; listed when the first block is asked for.
    segments: Option<Vec<usize>>,
    open: Option<(Arc<OpenSegment>, std::vec::IntoIter<usize>)>,
}

impl Queue {
    /// The next block; `None` when there are no more. `recorder` is told of what was pruned, and with `timed` of how
    /// long it took.
    pub(crate) fn next(&mut self, scan: &Scan, recorder: &Recorder, timed: bool) -> Result<Option<Work>> {
        loop {
            if let Some((segment, blocks)) = &mut self.open {
                if let Some(block) = blocks.next() {
                    return Ok(Some(Work { segment: Arc::clone(segment), block }));
                }
                self.open = None;
            }
            let (mut clock, mut counters) = (Clock::start(timed), Counters::new(scan.conditions.len()));
            let entries = scan.table.snapshot().segments()?;
            let segments = match &mut self.segments {
                Some(segments) => segments,
                None => {
                    let mut kept =
                        matching_segments(&scan.predicate, scan.table.snapshot(), &entries, &mut counters)?;
                    kept.reverse();
                    self.segments.insert(kept)
                }
            };
            let next = segments.pop().and_then(|number| Some((number, entries.get(number)?)));
            if let Some((number, entry)) = next {
                let segment = scan.table.snapshot().open_segment(entry)?;
                let blocks = matching_blocks(&scan.predicate, &segment, &scan.columns, timed, &mut counters)?;
                let open = OpenSegment::open(segment, number, &scan.columns, scan.conditions.len())?;
                self.open = Some((Arc::new(open), blocks.into_iter()));
            }
            counters.prune = clock.lap();
            recorder.update(|sum| sum.add(&counters));
            if next.is_none() {
                return Ok(None);
            }
        }
    }
}
