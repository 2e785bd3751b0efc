//! The rows of a table that meet conditions, segment by segment: those that DELETE and UPDATE
//! change.

use std::collections::BTreeMap;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

use super::Condition;
use super::context::Context;
use super::fragment::RowSource;
use super::open::opener::Opener;
use super::open::{BlockRef, Survivors};
use super::slice::Slice;
use super::stats::Counters;
use super::walk::{Worker, each_slice};
use crate::error::Result;
use crate::model::Column;
use crate::store::Snapshot;

/// Segments whose rows are selected at a time: a bit for each of their rows is held.
const SEGMENTS_AT_A_TIME: usize = 64;

/// The selected rows of one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectedRows {
    /// How many there are, at least one.
    pub(crate) rows: u64,
    /// Of each block that has such rows, a bit for each row.
    blocks: BTreeMap<usize, BooleanBuffer>,
}

impl SelectedRows {
    /// The selected rows of a block; `None` if it has none.
    pub(crate) fn of_block(&self, block: usize) -> Option<&BooleanBuffer> {
        self.blocks.get(&block)
    }
}

/// Finds the rows that meet all conditions, in the order of the segments, and calls `found` with
/// the number of each segment that has such rows.
pub(crate) fn select(
    columns: &[Column],
    conditions: &[Condition],
    snapshot: &Snapshot,
    context: &Context<'_>,
    found: &mut dyn FnMut(usize, SelectedRows) -> Result<()>,
) -> Result<()> {
    let opener = Opener::new(columns, conditions, snapshot, false)?;
    let mut counters = Counters::new(conditions.len());
    let numbers = opener.matching(&mut counters)?;
    let source = RowSource { columns, conditions, read_by_row: Vec::new() };
    for some in numbers.chunks(SEGMENTS_AT_A_TIME) {
        let mut survivors = Survivors::default();
        opener.open(some, &mut survivors, &mut counters)?;
        context.recorder.update(|sum| sum.add(&std::mem::take(&mut counters)));
        let workers =
            each_slice(&source, &survivors, &survivors.blocks, context, || Ok(Marker::default()))?;
        let mut segments: BTreeMap<usize, SelectedRows> = BTreeMap::new();
        for (at, rows) in workers.into_iter().flat_map(Marker::finish) {
            let Some(open) = survivors.segments.get(at.segment) else { continue };
            let selected = segments.entry(open.number).or_default();
            selected.rows += rows.count_set_bits() as u64;
            selected.blocks.insert(at.block, rows);
        }
        segments.into_iter().try_for_each(|(number, selected)| found(number, selected))?;
    }
    Ok(())
}

/// Notes the rows that pass.
#[derive(Default)]
struct Marker {
    done: Vec<(BlockRef, BooleanBuffer)>,
    /// The block under work, with the bits of its first rows.
    current: Option<(BlockRef, BooleanBufferBuilder, usize)>,
}

impl Worker for Marker {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let at = slice.block.at;
        if self.current.as_ref().is_none_or(|(current, ..)| *current != at) {
            self.end_block();
            self.current =
                Some((at, BooleanBufferBuilder::new(slice.block.rows), slice.block.rows));
        }
        let Some((_, bits, _)) = &mut self.current else { return Ok(()) };
        let range = slice.range.clone();
        bits.append_n(range.start - bits.len(), false);
        match slice.selected() {
            None => bits.append_n(range.len(), true),
            Some(rows) => {
                bits.append_n(range.len(), false);
                rows.iter().for_each(|row| bits.set_bit(range.start + *row as usize, true));
            }
        }
        Ok(())
    }
}

impl Marker {
    fn end_block(&mut self) {
        if let Some((at, mut bits, rows)) = self.current.take() {
            bits.append_n(rows - bits.len(), false);
            self.done.push((at, bits.finish()));
        }
    }

    fn finish(mut self) -> Vec<(BlockRef, BooleanBuffer)> {
        self.end_block();
        self.done
    }
}
