//! The blocks of a scan that are still to be read, after pruning.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::request::{Scan, ScanOrder};
use crate::error::Result;
use crate::expr::Predicate;
use crate::limits::BLOCK_ROWS;
use crate::query::Condition;
use crate::query::filter::OnDictionaries;
use crate::query::open::OpenSegment;
use crate::query::open::opener::{known_rows, leave_out, of_segment, partitions};
use crate::query::open::prefetch::{BATCH, LOW_WATER, Prefetch};
use crate::query::order::ranks::{best_of_block, best_of_segment};
use crate::query::prune::blocks::matching_blocks;
use crate::query::prune::segments::{ManifestBounds, matching_segments};
use crate::query::stats::{Clock, Counters, Recorder};
use crate::store::known_rows::OfConditions;
use crate::store::{SegmentEntry, Snapshot};

/// One block to decode.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) segment: Arc<OpenSegment>,
    pub(crate) block: usize,
    pub(crate) current: Arc<CurrentFilters>,
    pub(crate) on_dictionaries: OnDictionaries,
    pub(crate) prefetch: Arc<Prefetch>,
}

/// The scan's conditions and the current values of its dynamic filters.
#[derive(Debug)]
pub(crate) struct CurrentFilters {
    /// Those of the scan, then those of its dynamic filters.
    pub(crate) conditions: Vec<Condition>,
    /// What zone maps can judge of them.
    predicate: Predicate,
    /// The generation of the dynamic filters that these are.
    generation: u64,
    /// What the manifest knows of the predicate's columns, once it was asked.
    manifest: OnceLock<ManifestBounds>,
}

impl CurrentFilters {
    fn of(scan: &Scan) -> Result<Self> {
        let generation = scan.dynamic.generation();
        let later = scan.dynamic.conditions(&scan.table, &scan.schema)?;
        let conditions = [scan.conditions.clone(), later].concat();
        Ok(CurrentFilters {
            predicate: scan.predicate(&conditions),
            conditions,
            generation,
            manifest: OnceLock::new(),
        })
    }

    /// Whether a segment may match; what the manifest rules out is counted.
    fn keeps(
        &self,
        number: usize,
        entry: &SegmentEntry,
        snapshot: &Snapshot,
        counters: &mut Counters,
    ) -> Result<bool> {
        let manifest = match self.manifest.get() {
            Some(known) => known,
            None => {
                let known = ManifestBounds::new(&self.predicate, snapshot)?;
                self.manifest.get_or_init(|| known)
            }
        };
        Ok(manifest.keeps(&self.predicate, number, entry, counters))
    }
}

/// Hands out blocks in the order in which the scan visits them. Segments are opened one at a time,
/// by whoever finds the last one used up.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    current: Option<Arc<CurrentFilters>>,
    /// In each lane, the segments that may match, the next one last; listed when the first block is
    /// asked for.
    segments: Option<Vec<Vec<usize>>>,
    /// In each lane, the segment at hand.
    open: HashMap<usize, Open>,
    prefetch: Arc<Prefetch>,
    /// The rows that are known to meet the conditions of the scan.
    known: Option<Arc<OfConditions>>,
}

#[derive(Debug)]
struct Open {
    segment: Arc<OpenSegment>,
    blocks: std::vec::IntoIter<usize>,
    /// How many of them were prefetched.
    prefetched: usize,
    on_dictionaries: OnDictionaries,
}

impl Queue {
    /// The next block of a lane ([`ScanOrder::lanes`]); `None` when there are no more. `recorder`
    /// is told of what was pruned, and with `timed` of how long it took.
    pub(crate) fn next(
        &mut self,
        scan: &Scan,
        lane: usize,
        recorder: &Recorder,
        timed: bool,
    ) -> Result<Option<Work>> {
        loop {
            let current = self.current(scan)?;
            if let Some(Open { segment, blocks, prefetched, on_dictionaries }) =
                self.open.get_mut(&lane)
            {
                // No more than a limit lets through, if all rows pass.
                let most = scan
                    .limit
                    .map_or(BATCH, |limit| BATCH.min((limit / BLOCK_ROWS as u64) as usize + 1));
                if *prefetched < LOW_WATER.min(most) {
                    let next = blocks.as_slice().iter().skip(*prefetched).take(most);
                    *prefetched += next.len();
                    self.prefetch.blocks(segment, next.copied());
                }
                if let Some(block) = blocks.next() {
                    *prefetched -= 1;
                    return Ok(Some(Work {
                        segment: Arc::clone(segment),
                        block,
                        current,
                        on_dictionaries: on_dictionaries.clone(),
                        prefetch: Arc::clone(&self.prefetch),
                    }));
                }
                self.open.remove(&lane);
            }
            let (mut clock, mut counters) =
                (Clock::start(timed), Counters::new(current.conditions.len()));
            let more = self.open_next(scan, lane, &current, timed, &mut counters)?;
            counters.prune = clock.lap();
            counters.fold_conditions(scan.conditions.len());
            recorder.update(|sum| sum.add(&counters));
            if !more {
                return Ok(None);
            }
        }
    }

    /// The filters as they are now. What was found out on dictionaries holds for those of then.
    fn current(&mut self, scan: &Scan) -> Result<Arc<CurrentFilters>> {
        if let Some(current) =
            self.current.as_ref().filter(|current| current.generation == scan.dynamic.generation())
        {
            return Ok(Arc::clone(current));
        }
        let current = Arc::new(CurrentFilters::of(scan)?);
        for open in self.open.values_mut() {
            open.on_dictionaries = open.on_dictionaries.with_passing(passing(scan, &current));
        }
        Ok(Arc::clone(self.current.insert(current)))
    }

    /// Opens the next segment of a lane that may match, of which no block may be left; false where
    /// there is none.
    fn open_next(
        &mut self,
        scan: &Scan,
        lane: usize,
        current: &Arc<CurrentFilters>,
        timed: bool,
        counters: &mut Counters,
    ) -> Result<bool> {
        let snapshot = scan.table.snapshot();
        let entries = snapshot.segments()?;
        let listed = self.segments.is_some();
        let segments = match &mut self.segments {
            Some(segments) => segments,
            None => {
                self.prefetch = Arc::new(Prefetch::new(&scan.conditions, scan.read_by_row()));
                let known = scan.known_rows.then(|| known_rows(&scan.conditions, snapshot));
                self.known = known.transpose()?.flatten();
                let mut kept = matching_segments(
                    &current.predicate,
                    &partitions(&current.conditions),
                    snapshot,
                    &entries,
                    counters,
                )?;
                let lanes = match &scan.order {
                    ScanOrder::Stored => {
                        kept.reverse();
                        vec![kept]
                    }
                    ScanOrder::Backwards => vec![kept],
                    ScanOrder::Merged(sorted) => {
                        let is_kept = |number: &&usize| kept.binary_search(number).is_ok();
                        let lane = |chain: &Vec<usize>| {
                            chain.iter().rev().filter(is_kept).copied().collect()
                        };
                        sorted.chains.iter().map(lane).collect()
                    }
                    ScanOrder::BestFirst(by) => {
                        let column = by.expression.as_column().and_then(|at| scan.columns.get(at));
                        let known = column
                            .map_or(Ok(Vec::new()), |column| snapshot.column_stats(column.id))?;
                        kept.sort_by_cached_key(|number| {
                            Reverse(best_of_segment(by, &known, *number))
                        });
                        vec![kept]
                    }
                };
                self.segments.insert(lanes)
            }
        };
        let Some(segments) = segments.get_mut(lane) else { return Ok(false) };
        let Some(number) = segments.pop() else { return Ok(false) };
        let Some(entry) = entries.get(number) else { return Ok(true) };
        // Filters may have found out more since the segments were listed.
        if listed
            && !scan.dynamic.is_empty()
            && !current.keeps(number, entry, snapshot, counters)?
        {
            return Ok(true);
        }
        let segment = snapshot.open_segment(entry)?;
        let (predicate, columns) = (&current.predicate, &scan.columns);
        let mut blocks = matching_blocks(predicate, &segment, number, columns, timed, counters)?;
        let known = of_segment(self.known.as_deref(), entry, &segment);
        leave_out(&mut blocks, known.as_deref(), &segment, (columns, timed), counters)?;
        let segment = OpenSegment::open(segment, number, &scan.columns)?.with_known(known);
        match &scan.order {
            order if order.is_backwards() => blocks.reverse(),
            ScanOrder::Stored | ScanOrder::Backwards | ScanOrder::Merged(_) => {}
            ScanOrder::BestFirst(by) => {
                blocks.sort_by_cached_key(|block| best_of_block(by, &segment.columns, *block))
            }
        }
        let on_dictionaries = OnDictionaries::new(scan.conditions.len(), passing(scan, current));
        let (segment, blocks) = (Arc::new(segment), blocks.into_iter());
        let open = Open { segment, blocks, prefetched: 0, on_dictionaries };
        self.open.insert(lane, open);
        if let Some(next) = segments.last().and_then(|number| entries.get(*number)) {
            snapshot.prefetch(next);
        }
        Ok(true)
    }
}

/// How many conditions may soon be others.
fn passing(scan: &Scan, current: &CurrentFilters) -> usize {
    current.conditions.len() - scan.conditions.len()
}
