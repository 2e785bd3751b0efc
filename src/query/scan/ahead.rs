//! Asking the disk for what is about to be read.
//!
//! A mapping reads nothing that was not asked for, and a touch of what is not there waits for one
//! page. So each block of a column is asked for as a whole before it is opened, and those of the
//! next blocks while earlier ones are worked on: then a cold run waits for bandwidth, not for one
//! round trip after the other. What the page cache holds already costs a fiftieth of the time that
//! reading it takes.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{OpenSegment, Survivors, Work};
use crate::query::Condition;

/// How many blocks are asked for at a time.
pub(crate) const AHEAD: usize = 16;
/// The next ones are asked for when fewer than so many are left.
pub(crate) const LEAST: usize = AHEAD / 2;

/// Which columns of a block are worth reading ahead.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Those that decide which rows pass; all, where nothing does.
    first: Vec<usize>,
    /// Those of the rows that pass: read ahead while rows do in most blocks.
    then: Vec<usize>,
    tested: AtomicUsize,
    passed: AtomicUsize,
}

impl Ahead {
    /// Of `columns` columns, of which those of `output` are read where rows meet the conditions.
    pub(crate) fn of(conditions: &[Condition], output: impl Iterator<Item = usize>) -> Self {
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
        Ahead { first, then, ..Ahead::default() }
    }

    /// Asks for some blocks of a segment, before it is known which of their rows pass.
    pub(crate) fn ask(&self, segment: &OpenSegment, blocks: impl Iterator<Item = usize> + Clone) {
        for at in self.first.iter().chain(self.others()) {
            segment.ask(*at, blocks.clone());
        }
    }

    /// The other columns, if rows pass in at least half of the blocks.
    fn others(&self) -> &[usize] {
        let (passed, tested) =
            (self.passed.load(Ordering::Relaxed), self.tested.load(Ordering::Relaxed));
        if tested > 0 && passed * 2 >= tested { &self.then } else { &[] }
    }

    /// Asks for the other columns of a block, of which a row passes.
    pub(crate) fn ask_others(&self, segment: &OpenSegment, block: usize) {
        for at in &self.then {
            segment.ask(*at, std::iter::once(block));
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

/// Blocks that are taken one after the other, by any number of threads.
pub(crate) struct Walk<'a> {
    pub(crate) ahead: Ahead,
    survivors: &'a Survivors,
    blocks: &'a [Work],
    /// How many were asked for.
    asked: AtomicUsize,
}

impl<'a> Walk<'a> {
    pub(crate) fn over(blocks: &'a [Work], survivors: &'a Survivors, ahead: Ahead) -> Self {
        Walk { ahead, survivors, blocks, asked: AtomicUsize::new(0) }
    }

    /// The block at a place of the walk; the next ones are asked for when it is time.
    pub(crate) fn take(&self, at: usize) -> Option<Work> {
        let work = *self.blocks.get(at)?;
        let asked = self.asked.load(Ordering::Relaxed);
        let to = self.blocks.len().min(asked + AHEAD);
        // Of two who see that it is time, one asks.
        let claim =
            |to| self.asked.compare_exchange(asked, to, Ordering::Relaxed, Ordering::Relaxed);
        if at + LEAST >= asked && asked < to && claim(to).is_ok() {
            for next in self
                .blocks
                .get(asked..to)
                .unwrap_or_default()
                .chunk_by(|a, b| a.segment == b.segment)
            {
                if let Some(segment) =
                    next.first().and_then(|work| self.survivors.segments.get(work.segment))
                {
                    self.ahead.ask(segment, next.iter().map(|work| work.block));
                }
            }
        }
        Some(work)
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
        let ahead = Ahead::of(&conditions, [2, 1, 0, 2].into_iter());
        assert_eq!((&ahead.first[..], &ahead.then[..]), (&[1][..], &[0, 2][..]));
        assert!(ahead.others().is_empty(), "nothing is known yet");
        ahead.note(true);
        assert_eq!(ahead.others(), [0, 2]);
        ahead.note(false);
        ahead.note(false);
        assert!(ahead.others().is_empty());
        let all = Ahead::of(&[], [2, 0].into_iter());
        assert_eq!((&all.first[..], &all.then[..]), (&[0, 2][..], &[][..]));
    }
}
