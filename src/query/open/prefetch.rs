//! Prefetching: the disk is told what is about to be read.
//!
//! A touch of a mapped page that is not in memory waits for this one page. So each block of a
//! column is prefetched as a whole before it is opened, and the next blocks while earlier ones are
//! worked on: then a cold run waits for bandwidth, not for one round trip after the other. A
//! prefetch of what the page cache holds already costs a fiftieth of the time that reading takes.
//!
//! A touch of a mapping reads what the device is set to read around it, 128 KiB on one machine and
//! 8 MiB on another, of which a query of two columns in fifty needs little. So mappings are told
//! that they are read at random. The ends of 64 segments are prefetched before the first is opened,
//! then 16 blocks of the filter columns, while the blocks before are worked on. Blocks of the other
//! columns are prefetched where rows pass, or together with the filter columns while most blocks
//! have rows that pass. What was prefetched less than a second ago is not prefetched again.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{BlockRef, OpenSegment, Survivors};
use crate::query::Condition;

/// How many blocks are prefetched at a time.
pub(crate) const BATCH: usize = 16;
/// The next batch is prefetched when fewer prefetched blocks than this are left.
pub(crate) const LOW_WATER: usize = BATCH / 2;

/// Which columns of a block are prefetched.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// The columns of the conditions; all columns if there are no conditions.
    first: Vec<usize>,
    /// The columns of the output: prefetched while rows pass in most blocks.
    then: Vec<usize>,
    tested: AtomicUsize,
    passed: AtomicUsize,
}

impl Prefetch {
    /// For rows that meet the conditions, the columns of `output` are read, too.
    pub(crate) fn new(conditions: &[Condition], output: impl Iterator<Item = usize>) -> Self {
        let mut first: Vec<usize> =
            conditions.iter().flat_map(|c| c.expression.inputs.iter().copied()).collect();
        first.sort_unstable();
        first.dedup();
        let mut then: Vec<usize> = output.filter(|at| first.binary_search(at).is_err()).collect();
        then.sort_unstable();
        then.dedup();
        if first.is_empty() {
            std::mem::swap(&mut first, &mut then);
        }
        Prefetch { first, then, ..Prefetch::default() }
    }

    /// Prefetches blocks of a segment before any of their rows is tested.
    pub(crate) fn blocks(
        &self,
        segment: &OpenSegment,
        blocks: impl Iterator<Item = usize> + Clone,
    ) {
        for at in self.first.iter().chain(self.others()) {
            segment.prefetch(*at, blocks.clone());
        }
    }

    /// The other columns, if rows pass in at least half of the blocks.
    fn others(&self) -> &[usize] {
        let (passed, tested) =
            (self.passed.load(Ordering::Relaxed), self.tested.load(Ordering::Relaxed));
        if tested > 0 && passed * 2 >= tested { &self.then } else { &[] }
    }

    /// Prefetches the output's columns of a block in which a row passes.
    pub(crate) fn output(&self, segment: &OpenSegment, block: usize) {
        for at in &self.then {
            segment.prefetch(*at, std::iter::once(block));
        }
    }

    /// Notes whether a row of a block passed.
    pub(crate) fn note(&self, passed: bool) {
        if !self.then.is_empty() {
            self.tested.fetch_add(1, Ordering::Relaxed);
            self.passed.fetch_add(usize::from(passed), Ordering::Relaxed);
        }
    }
}

/// Blocks that any number of threads take one after the other.
pub(crate) struct BlockQueue<'a> {
    pub(crate) prefetch: Prefetch,
    survivors: &'a Survivors,
    blocks: &'a [BlockRef],
    next: AtomicUsize,
    /// How many were prefetched.
    prefetched: AtomicUsize,
}

impl<'a> BlockQueue<'a> {
    pub(crate) fn new(
        blocks: &'a [BlockRef],
        survivors: &'a Survivors,
        prefetch: Prefetch,
    ) -> Self {
        let (next, prefetched) = (AtomicUsize::new(0), AtomicUsize::new(0));
        BlockQueue { prefetch, survivors, blocks, next, prefetched }
    }

    /// The next block; blocks after it are prefetched when it is time.
    pub(crate) fn take(&self) -> Option<BlockRef> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let block = *self.blocks.get(at)?;
        let done = self.prefetched.load(Ordering::Relaxed);
        let to = self.blocks.len().min(done + BATCH);
        // Of two threads that see that it is time, one prefetches.
        let claim =
            |to| self.prefetched.compare_exchange(done, to, Ordering::Relaxed, Ordering::Relaxed);
        if at + LOW_WATER >= done && done < to && claim(to).is_ok() {
            let next = self.blocks.get(done..to).unwrap_or_default();
            for next in next.chunk_by(|a, b| a.segment == b.segment) {
                let segment = next.first().and_then(|at| self.survivors.segments.get(at.segment));
                if let Some(segment) = segment {
                    self.prefetch.blocks(segment, next.iter().map(|at| at.block));
                }
            }
        }
        Some(block)
    }

    /// Leaves nothing to be taken: after an error, the other threads end with their blocks.
    pub(crate) fn stop(&self) {
        self.next.store(usize::MAX / 2, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Predicate;
    use crate::query::tests::column;

    #[test]
    fn columns_that_decide_come_first_and_others_while_rows_pass() {
        let conditions = [Condition::new(column(1), Predicate::Unknown)];
        let prefetch = Prefetch::new(&conditions, [2, 1, 0, 2].into_iter());
        assert_eq!((&prefetch.first[..], &prefetch.then[..]), (&[1][..], &[0, 2][..]));
        assert!(prefetch.others().is_empty(), "nothing is known yet");
        prefetch.note(true);
        assert_eq!(prefetch.others(), [0, 2]);
        prefetch.note(false);
        prefetch.note(false);
        assert!(prefetch.others().is_empty());
        let all = Prefetch::new(&[], [2, 0].into_iter());
        assert_eq!((&all.first[..], &all.then[..]), (&[0, 2][..], &[][..]));
    }
}
