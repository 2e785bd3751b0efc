//! Opening the segments and blocks that survive pruning.

use std::sync::Arc;

use super::{BlockRef, OpenSegment, Survivors, no_column_error};
use crate::error::Result;
use crate::expr::Predicate;
use crate::model::Column;
use crate::query::Condition;
use crate::query::prune::blocks::matching_blocks;
use crate::query::prune::segments::matching_segments;
use crate::query::stats::{Counters, Pruned, Statistic};
use crate::segment::Segment;
use crate::store::known_rows::{OfConditions, OfSegment};
use crate::store::{ColumnStats, SegmentEntry, Snapshot};

/// Rows are remembered for conditions whose text has at most this many bytes.
const MOST_TEXT: usize = 4096;

/// The segments of a table, to be opened for some columns of the rows that meet conditions.
pub(crate) struct Opener<'a> {
    columns: &'a [Column],
    conditions: &'a [Condition],
    snapshot: &'a Snapshot,
    pub(crate) entries: Arc<Vec<SegmentEntry>>,
    /// As for [`matching_blocks`].
    sized: bool,
    /// The rows that are known to meet the conditions.
    known: Option<Arc<OfConditions>>,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(
        columns: &'a [Column],
        conditions: &'a [Condition],
        snapshot: &'a Snapshot,
        sized: bool,
    ) -> Result<Self> {
        let entries = snapshot.segments()?;
        Ok(Opener { columns, conditions, snapshot, entries, sized, known: None })
    }

    /// The same, which leaves out blocks in which no row is known to meet the conditions.
    pub(crate) fn with_known_rows(self) -> Result<Self> {
        Ok(Opener { known: known_rows(self.conditions, self.snapshot)?, ..self })
    }

    /// Numbers of the segments that may hold rows that meet the conditions, in order.
    pub(crate) fn matching(&self, counters: &mut Counters) -> Result<Vec<usize>> {
        matching_segments(
            &predicate(self.conditions),
            &partitions(self.conditions),
            self.snapshot,
            &self.entries,
            counters,
        )
    }

    /// Adds those segments whose blocks may hold such rows.
    pub(crate) fn open(
        &self,
        numbers: &[usize],
        survivors: &mut Survivors,
        counters: &mut Counters,
    ) -> Result<()> {
        let predicate = predicate(self.conditions);
        let entries: Vec<&SegmentEntry> =
            numbers.iter().filter_map(|number| self.entries.get(*number)).collect();
        let opened = self.snapshot.open_segments(&entries);
        for ((number, entry), segment) in numbers.iter().zip(&entries).zip(opened) {
            let segment = segment?;
            let (columns, sized) = (self.columns, self.sized);
            let mut blocks =
                matching_blocks(&predicate, &segment, *number, columns, sized, counters)?;
            if blocks.is_empty() {
                continue;
            }
            let known = of_segment(self.known.as_deref(), entry, &segment);
            leave_out(&mut blocks, known.as_deref(), &segment, (columns, sized), counters)?;
            if !blocks.is_empty() {
                let at = survivors.segments.len();
                let refs = blocks.into_iter().map(|block| BlockRef { segment: at, block });
                survivors.blocks.extend(refs);
                let open = OpenSegment::open(segment, *number, self.columns)?;
                survivors.segments.push(Arc::new(open.with_known(known)));
            }
        }
        Ok(())
    }

    /// What the manifest knows of one of the columns, for each segment; `None` inside where
    /// that lacks it.
    pub(crate) fn column_stats(&self, at: usize) -> Result<Vec<Option<ColumnStats>>> {
        let column = self.columns.get(at).ok_or_else(|| no_column_error(at))?;
        self.snapshot.column_stats(column.id)
    }

    /// Notes a segment that a threshold rules out, after it was counted as matching.
    pub(crate) fn count_left(&self, number: usize, counters: &mut Counters) {
        let Some(entry) = self.entries.get(number) else { return };
        let blocks = entry.rows.div_ceil(u64::from(self.snapshot.options().block_rows.max(1)));
        let pruned = Pruned { segments: 1, blocks, rows: entry.rows, bytes: entry.length };
        counters.prune(Statistic::Threshold, None, pruned);
    }

    /// All that may hold such rows.
    pub(crate) fn survivors(&self, counters: &mut Counters) -> Result<Survivors> {
        let mut survivors = Survivors::default();
        self.open(&self.matching(counters)?, &mut survivors, counters)?;
        Ok(survivors)
    }
}

/// The rows that are known to meet conditions; `None` if these cannot be told from all others.
pub(crate) fn known_rows(
    conditions: &[Condition],
    snapshot: &Snapshot,
) -> Result<Option<Arc<OfConditions>>> {
    let texts = conditions.iter().map(|condition| condition.predicate.complete_text());
    let texts = texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty());
    let Some(mut texts) = texts else { return Ok(None) };
    // The order in which they were written changes nothing.
    texts.sort_unstable();
    let text = Some(texts.join("\n")).filter(|text| text.len() <= MOST_TEXT);
    text.map(|text| snapshot.known_rows(&text)).transpose()
}

/// The same of one segment.
pub(crate) fn of_segment(
    known: Option<&OfConditions>,
    entry: &SegmentEntry,
    segment: &Segment,
) -> Option<Arc<OfSegment>> {
    known?.of_segment(entry.key(), segment.blocks())
}

/// Leaves out the blocks in which no row is known to pass, and counts them as pruned, with the
/// bytes of their columns if these are `sized`.
pub(crate) fn leave_out(
    blocks: &mut Vec<usize>,
    known: Option<&OfSegment>,
    segment: &Segment,
    (columns, sized): (&[Column], bool),
    counters: &mut Counters,
) -> Result<()> {
    let Some(known) = known else { return Ok(()) };
    let mut empty = Vec::new();
    blocks.retain(|block| {
        let is_empty = known.rows(*block).is_some_and(<[u16]>::is_empty);
        if is_empty {
            empty.push(*block);
        }
        !is_empty
    });
    if empty.is_empty() {
        return Ok(());
    }
    let columns = columns.iter().filter(|_| sized).map(|column| segment.column(column.id));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    for block in empty {
        let range = segment.block_range(block);
        let bytes = columns.iter().flatten().map(|column| column.block_bytes(block)).sum();
        let pruned = Pruned { segments: 0, blocks: 1, rows: range.end - range.start, bytes };
        counters.prune(Statistic::KnownRows, None, pruned);
    }
    Ok(())
}

/// The predicate of all conditions together.
pub(crate) fn predicate(conditions: &[Condition]) -> Predicate {
    Predicate::And(conditions.iter().map(|condition| condition.predicate.clone()).collect())
}

/// What all conditions together say of partitions.
pub(crate) fn partitions(conditions: &[Condition]) -> Predicate {
    Predicate::And(conditions.iter().map(|condition| condition.partitions.clone()).collect())
}
