//! What a fragment reads: the segments and blocks that survive pruning, open, and slices of their
//! rows.
//!
//! Where this stands on the road of a query: between `prune`, which judges statistics, and
//! `filter`, `group` and `aggregate`, which look at values. A slice is what one thread works on at
//! a time, small enough that the decoded columns stay in its second-level cache; a column is
//! decoded at most once for a slice, and only for selected rows. `ahead` asks the disk for what
//! comes next; `counting` tells what was read.

pub(crate) mod ahead;
mod counting;

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, new_null_array};

use self::counting::Decoded;
use super::aggregate::DictionaryDecimals;
use super::filter::OnCodes;
use super::group::{CodeMap, CodeMaps};
use super::prune::partitions::ruled_out_by_partition;
use super::prune::{Cause, Evidence, Verdict, ruled_out, verdict};
use super::stats::{Counters, Pruned, Statistic};
use super::{Condition, Fragment};
use crate::error::{Error, Result};
use crate::expr::{Expression, Predicate};
use crate::model::{Column, ColumnId};
use crate::segment::reader::Block;
use crate::segment::{self, Segment};
use crate::store::{ColumnStats, SegmentEntry, Snapshot};

/// Rows of a slice.
pub(crate) const SLICE_ROWS: usize = 8192;

/// A segment with the columns that a fragment reads.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    /// Its place in the table.
    pub(crate) number: usize,
    /// `None` where the segment lacks the column: all its rows are null.
    pub(crate) columns: Vec<Option<Arc<segment::Column>>>,
    /// For each condition: what it is on the dictionary of its column, once somebody has asked.
    pub(crate) on_codes: Vec<OnceLock<OnCodes>>,
    /// For each column: the doubles of its dictionary as whole numbers, if they are decimals, once
    /// somebody has asked.
    pub(crate) decimals: Vec<OnceLock<Option<DictionaryDecimals>>>,
    /// What grouping keys are for the numbers that stand for values.
    pub(crate) code_maps: CodeMaps,
    /// What was counted as read: the segment, then each column's dictionary, then each block of
    /// each column.
    counted: Vec<AtomicBool>,
}

impl OpenSegment {
    /// Finds the columns of `columns` in a segment.
    pub(crate) fn open(
        segment: Arc<Segment>,
        number: usize,
        columns: &[Column],
        conditions: usize,
    ) -> Result<Self> {
        let columns: Vec<_> =
            columns.iter().map(|column| segment.column(column.id)).collect::<Result<_>>()?;
        columns.iter().flatten().for_each(|column| column.prefetch_dictionary());
        Ok(OpenSegment {
            on_codes: (0..conditions).map(|_| OnceLock::new()).collect(),
            decimals: columns.iter().map(|_| OnceLock::new()).collect(),
            code_maps: CodeMaps::default(),
            counted: (0..=columns.len() * (segment.blocks() + 1))
                .map(|_| AtomicBool::new(false))
                .collect(),
            segment,
            number,
            columns,
        })
    }

    /// Asks the disk for blocks of a column.
    pub(crate) fn ask(&self, at: usize, blocks: impl Iterator<Item = usize>) {
        if let Some(column) = self.columns.get(at).and_then(Option::as_deref) {
            column.prefetch(blocks);
        }
    }
}

/// One block to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Position in [`Survivors::segments`].
    pub(crate) segment: usize,
    pub(crate) block: usize,
}

/// Everything that pruning has left.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    pub(crate) segments: Vec<OpenSegment>,
    /// In the order in which the segments were opened.
    pub(crate) work: Vec<Work>,
}

/// The segments of a table, to be opened for a fragment.
pub(crate) struct Opener<'a> {
    fragment: &'a Fragment,
    snapshot: &'a Snapshot,
    pub(crate) entries: Arc<Vec<SegmentEntry>>,
    /// As for [`matching_blocks`].
    sized: bool,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(fragment: &'a Fragment, snapshot: &'a Snapshot, sized: bool) -> Result<Self> {
        Ok(Opener { fragment, snapshot, entries: snapshot.segments()?, sized })
    }

    /// Numbers of the segments that may hold rows that meet the conditions, in order.
    pub(crate) fn matching(&self, counters: &mut Counters) -> Result<Vec<usize>> {
        let conditions = &self.fragment.conditions;
        matching_segments(
            &predicate(conditions),
            &partitions(conditions),
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
        let Fragment { columns, conditions, .. } = self.fragment;
        let predicate = predicate(conditions);
        let entries: Vec<&SegmentEntry> =
            numbers.iter().filter_map(|number| self.entries.get(*number)).collect();
        for (number, segment) in numbers.iter().zip(self.snapshot.open_segments(&entries)) {
            let segment = segment?;
            let blocks = matching_blocks(&predicate, &segment, columns, self.sized, counters)?;
            if !blocks.is_empty() {
                let at = survivors.segments.len();
                survivors.work.extend(blocks.into_iter().map(|block| Work { segment: at, block }));
                survivors.segments.push(OpenSegment::open(
                    segment,
                    *number,
                    columns,
                    conditions.len(),
                )?);
            }
        }
        Ok(())
    }

    /// What the manifest knows of a column of the fragment, for each segment; `None` inside where
    /// that lacks it.
    pub(crate) fn column_stats(&self, at: usize) -> Result<Vec<Option<ColumnStats>>> {
        let column = self.fragment.columns.get(at).ok_or_else(|| no_column(at))?;
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

/// The predicate of all conditions together.
pub(crate) fn predicate(conditions: &[Condition]) -> Predicate {
    Predicate::And(conditions.iter().map(|condition| condition.predicate.clone()).collect())
}

/// What all conditions together say of partitions.
pub(crate) fn partitions(conditions: &[Condition]) -> Predicate {
    Predicate::And(conditions.iter().map(|condition| condition.partitions.clone()).collect())
}

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
                none => none.insert(Manifest::of_chunk(predicate, snapshot, chunk, start)?),
            };
            if manifest.keeps(predicate, at, entry, counters) {
                kept.push(at);
            }
        }
        start = end;
    }
    Ok(kept)
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
pub(crate) struct Manifest {
    block_rows: u64,
    /// The first of the segments.
    start: usize,
    /// Of each segment; `None` inside where it lacks the column.
    known: HashMap<ColumnId, Vec<Option<ColumnStats>>>,
}

impl Manifest {
    /// Of all segments.
    #[cfg(feature = "sql")]
    pub(crate) fn of(predicate: &Predicate, snapshot: &Snapshot) -> Result<Self> {
        let known = columns_of(predicate)
            .into_iter()
            .map(|column| Ok((column, snapshot.column_stats(column)?)));
        let block_rows = u64::from(snapshot.options().block_rows.max(1));
        Ok(Manifest { block_rows, start: 0, known: known.collect::<Result<_>>()? })
    }

    /// Of the segments of one chunk.
    fn of_chunk(
        predicate: &Predicate,
        snapshot: &Snapshot,
        chunk: usize,
        start: usize,
    ) -> Result<Self> {
        let columns = columns_of(predicate).into_iter();
        let known =
            columns.map(|column| Ok((column, snapshot.column_stats_of_chunk(column, chunk)?)));
        let block_rows = u64::from(snapshot.options().block_rows.max(1));
        Ok(Manifest { block_rows, start, known: known.collect::<Result<_>>()? })
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

/// Numbers of the blocks that the segment's zone maps do not rule out. How many bytes of `columns`
/// need not be read is counted where the columns will be opened anyway, and with `sized` also where
/// no block is left.
pub(crate) fn matching_blocks(
    predicate: &Predicate,
    segment: &Segment,
    columns: &[Column],
    sized: bool,
    counters: &mut Counters,
) -> Result<Vec<usize>> {
    let mut known: HashMap<ColumnId, Option<Arc<segment::Column>>> = HashMap::new();
    for column in columns_of(predicate) {
        known.insert(column, segment.column(column)?);
    }
    let of = |id: ColumnId| known.get(&id).map(Option::as_deref);
    let judged: Vec<_> = (0..segment.blocks())
        .map(|b| ruled_out(predicate, rows_of(segment, b), &mut evidence(segment, b, of)))
        .collect();
    let kept: Vec<usize> =
        judged.iter().enumerate().filter(|(_, out)| out.is_none()).map(|(b, _)| b).collect();
    if kept.len() == judged.len() {
        return Ok(kept);
    }
    let sizes = match sized || !kept.is_empty() {
        true => {
            columns.iter().map(|column| segment.column(column.id)).collect::<Result<Vec<_>>>()?
        }
        false => Vec::new(),
    };
    for (b, out) in judged.into_iter().enumerate() {
        let Some((part, cause)) = out else { continue };
        let statistic = match cause {
            Cause::Bounds => Statistic::ZoneBounds,
            Cause::Nulls => Statistic::ZoneNulls,
        };
        let bytes = sizes.iter().flatten().map(|column| column.block_bytes(b)).sum();
        counters.prune(
            statistic,
            Some(part),
            Pruned { segments: 0, blocks: 1, rows: rows_of(segment, b), bytes },
        );
    }
    Ok(kept)
}

fn rows_of(segment: &Segment, b: usize) -> u64 {
    let range = segment.block_range(b);
    range.end - range.start
}

/// What the zone maps of block `b` say of a predicate; `column` gives the segment's columns, `None`
/// inside where it lacks one.
pub(crate) fn judge<'a>(
    predicate: &Predicate,
    segment: &Segment,
    b: usize,
    column: impl Fn(ColumnId) -> Option<Option<&'a segment::Column>>,
) -> Verdict {
    verdict(predicate, rows_of(segment, b), &mut evidence(segment, b, column))
}

/// The zone maps of block `b`.
fn evidence<'a>(
    segment: &Segment,
    b: usize,
    column: impl Fn(ColumnId) -> Option<Option<&'a segment::Column>>,
) -> impl FnMut(ColumnId) -> Option<Evidence<'a>> {
    let rows = rows_of(segment, b);
    move |id| match column(id)? {
        Some(column) => Some(Evidence {
            data_type: Cow::Borrowed(column.data_type()),
            stats: Cow::Borrowed(column.block_stats(b)?),
        }),
        None => Some(Evidence::absent(rows)),
    }
}

fn columns_of(predicate: &Predicate) -> Vec<ColumnId> {
    let mut columns = Vec::new();
    predicate.for_each_column(&mut |column| columns.push(column));
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// A block under work: each column is opened, and verified, when it is first asked for.
pub(crate) struct OpenBlock<'a> {
    pub(crate) work: Work,
    pub(crate) segment: &'a OpenSegment,
    pub(crate) rows: usize,
    /// The columns as the table knows them.
    table: &'a [Column],
    columns: Vec<OnceCell<Option<Block<'a>>>>,
    /// What was found out about expressions over the block, by their addresses.
    memos: RefCell<Vec<(usize, Memo)>>,
    decoded: Cell<Decoded>,
}

/// Something about an expression that holds for all rows of a block.
#[derive(Clone, Debug)]
pub(crate) enum Memo {
    /// Its code, if it is one for all rows.
    Folded(Option<u64>),
    /// Its codes for the whole numbers that stand for a column's values.
    Codes(Option<Arc<CodeMap>>),
}

impl Memo {
    pub(crate) fn is_folded(&self) -> bool {
        matches!(self, Memo::Folded(_))
    }

    pub(crate) fn is_codes(&self) -> bool {
        matches!(self, Memo::Codes(_))
    }
}

impl<'a> OpenBlock<'a> {
    pub(crate) fn new(segment: &'a OpenSegment, table: &'a [Column], work: Work) -> Self {
        let range = segment.segment.block_range(work.block);
        let rows = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let columns = table.iter().map(|_| OnceCell::new()).collect();
        OpenBlock {
            work,
            segment,
            rows,
            table,
            columns,
            memos: RefCell::default(),
            decoded: Cell::default(),
        }
    }

    /// How many columns the fragment has.
    pub(crate) fn columns(&self) -> usize {
        self.table.len()
    }

    /// What is known of an expression, of the kind that `is_it` tells, found out by `make` the
    /// first time.
    pub(crate) fn memo(
        &self,
        of: &Expression,
        is_it: fn(&Memo) -> bool,
        make: impl FnOnce() -> Memo,
    ) -> Memo {
        let address = std::ptr::from_ref(of) as usize;
        let find = |(known, memo): &&(usize, Memo)| *known == address && is_it(memo);
        if let Some((_, memo)) = self.memos.borrow().iter().find(find) {
            return memo.clone();
        }
        let memo = make();
        self.memos.borrow_mut().push((address, memo.clone()));
        memo
    }

    /// Of what is to be read.
    pub(crate) fn of(survivors: &'a Survivors, table: &'a [Column], work: Work) -> Result<Self> {
        let segment = survivors.segments.get(work.segment);
        let segment = segment
            .ok_or_else(|| Error::InvalidInput(format!("no open segment {}", work.segment)))?;
        Ok(OpenBlock::new(segment, table, work))
    }

    /// The encoded values of a column; `None` where all are null.
    pub(crate) fn column(&self, at: usize) -> Result<Option<&Block<'a>>> {
        let slot = self.columns.get(at).ok_or_else(|| no_column(at))?;
        if slot.get().is_none() {
            let _ =
                slot.set(self.stored(at).map(|column| column.block(self.work.block)).transpose()?);
        }
        Ok(slot.get().and_then(Option::as_ref))
    }

    /// The type of a column in the table.
    pub(crate) fn table_type(&self, at: usize) -> Option<arrow_schema::DataType> {
        self.table.get(at).map(|column| column.data_type.to_arrow())
    }

    /// How the segment stores a column; `None` where it lacks it.
    pub(crate) fn stored(&self, at: usize) -> Option<&'a segment::Column> {
        self.segment.columns.get(at).and_then(Option::as_deref)
    }

    /// What zone maps say of a predicate over the fragment's columns.
    pub(crate) fn judge(&self, predicate: &Predicate) -> Verdict {
        let of = |id: ColumnId| {
            let at = self.table.iter().position(|column| column.id == id)?;
            Some(self.stored(at))
        };
        judge(predicate, &self.segment.segment, self.work.block, of)
    }

    /// Some rows of a column in the table's type; `rows` starts at a multiple of 1,024.
    pub(crate) fn decode(&self, at: usize, rows: Range<usize>) -> Result<ArrayRef> {
        let column = self.table.get(at).ok_or_else(|| no_column(at))?;
        let Some(block) = self.column(at)? else {
            return Ok(new_null_array(&column.data_type.to_arrow(), rows.len()));
        };
        let array = block.decode_as(rows, &column.data_type)?;
        self.count_decoded(at, &array, array.len(), 0);
        Ok(array)
    }

    /// How many rows of a column are decoded in the time that fetching one takes, about.
    pub(crate) fn rows_per_fetch(&self, at: usize) -> Result<usize> {
        Ok(self.column(at)?.map_or(1, |block| block.reader().rows_per_fetch()))
    }

    /// Single rows of a column in the table's type.
    pub(crate) fn gather(&self, at: usize, rows: &[u32]) -> Result<ArrayRef> {
        let column = self.table.get(at).ok_or_else(|| no_column(at))?;
        let Some(block) = self.column(at)? else {
            return Ok(new_null_array(&column.data_type.to_arrow(), rows.len()));
        };
        let array = block.gather(rows, &column.data_type)?;
        self.count_decoded(at, &array, 0, rows.len());
        Ok(array)
    }
}

fn no_column(at: usize) -> Error {
    Error::InvalidInput(format!("the fragment has no column {at}"))
}
