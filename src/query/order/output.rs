//! The rows of the answer, part by part: the columns of each part are fetched when it is asked for.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, new_empty_array};

use super::super::Fragment;
use super::super::context::Context;
use super::super::memory::Reservation;
use super::super::open::prefetch::Prefetch;
use super::super::open::{BlockRef, OpenBlock, Survivors};
use super::super::slice::take;
use super::super::stats::Counters;
use super::candidates::{Candidate, Held};
use super::runs::Runs;
use crate::error::{ArrowResult, Error, Result};
use crate::expr::Expression;

/// The fewest rows of a part that is not the last.
const PART_ROWS: usize = 1024;
/// Texts are stored in about so much less than they take.
const UNFOLDED: u64 = 4;

/// Where a row of the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    segment: u32,
    block: u32,
    row: u32,
}

/// The rows of the answer in order, and the memory reserved for them.
pub(super) struct Places<'a> {
    rows: Vec<Place>,
    _reservation: Reservation<'a>,
}

/// The rows from `skip` to `limit` of those in memory and in the runs.
pub(super) fn places<'a>(
    mut found: Held<'_>,
    runs: &Runs,
    skip: usize,
    limit: usize,
    context: &'a Context<'a>,
) -> Result<Places<'a>> {
    let most = limit.saturating_sub(skip).min(found.rows.len().saturating_add(runs.rows()));
    let bytes = (most * size_of::<Place>()).saturating_sub(context.limits.free);
    let mut reservation = Reservation::new(context);
    if matches!(reservation.grow(bytes), Err(Error::LimitExceeded(_))) {
        runs.add(&mut found)?;
        reservation.grow(bytes)?;
    }
    // Those in memory are not sorted up to the first that comes out, unless runs go between them.
    let mut at = if runs.is_empty() { skip } else { 0 };
    let mut rows = Vec::with_capacity(most);
    runs.merged(found.take_sorted(at), |Candidate { segment, block, row, .. }| {
        if at >= skip {
            rows.push(Place { segment, block, row });
        }
        at += 1;
    })?;
    Ok(Places { rows, _reservation: reservation })
}

/// The answer: what is left of it.
pub(crate) struct RowsOutput<'a> {
    fragment: &'a Fragment,
    expressions: &'a [Expression],
    survivors: Survivors,
    places: Places<'a>,
    /// Rows that have come out; `None` before the first part.
    done: Option<usize>,
    /// About how many bytes a row takes.
    row_bytes: usize,
    reservation: Reservation<'a>,
    context: &'a Context<'a>,
}

impl<'a> RowsOutput<'a> {
    pub(super) fn new(
        fragment: &'a Fragment,
        expressions: &'a [Expression],
        survivors: Survivors,
        places: Places<'a>,
        context: &'a Context<'a>,
    ) -> Self {
        let row_bytes = row_bytes(&survivors, expressions);
        let reservation = Reservation::new(context);
        let (done, fragment) = (None, fragment);
        RowsOutput {
            fragment,
            expressions,
            survivors,
            places,
            done,
            row_bytes,
            reservation,
            context,
        }
    }

    /// The columns of the next rows; `None` after the last. There is one part at least.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        let start = self.done.unwrap_or(0);
        let left = self.places.rows.get(start..).unwrap_or_default();
        if left.is_empty() && self.done.is_some() {
            return Ok(None);
        }
        if (self.context.cancelled)() {
            return Err(Error::Cancelled);
        }
        let limits = &self.context.limits;
        let fit = (limits.answer / self.row_bytes.max(1)).max(PART_ROWS);
        let part = left.get(..fit.min(left.len())).unwrap_or(left);
        let reserved = part.len().saturating_mul(self.row_bytes).saturating_sub(limits.free);
        self.reservation.resize(reserved)?;
        let (fragment, expressions) = (self.fragment, self.expressions);
        let columns = fetch(fragment, expressions, &self.survivors, part, self.context)?;
        let bytes: usize = columns.iter().map(|column| column.get_array_memory_size()).sum();
        // What texts share with others is not theirs alone.
        let bytes = bytes.min(limits.answer.saturating_mul(2));
        self.done = Some(start + part.len());
        self.row_bytes = self.row_bytes.max(bytes / part.len().max(1));
        Ok(Some(columns))
    }
}

/// About how many bytes a row takes with these expressions, by what is stored.
fn row_bytes(survivors: &Survivors, expressions: &[Expression]) -> usize {
    let mut read: Vec<usize> =
        expressions.iter().flat_map(|expression| expression.inputs.iter().copied()).collect();
    read.sort_unstable();
    read.dedup();
    let column = |at: &usize| {
        let blocks = survivors.blocks.iter().filter_map(|at_block| {
            let open = survivors.segments.get(at_block.segment)?;
            Some(open.columns.get(*at)?.as_deref()?.block_bytes(at_block.block))
        });
        blocks.sum::<u64>()
    };
    let stored: u64 = read.iter().map(column).sum();
    let row = stored.saturating_mul(UNFOLDED) / survivors.rows().max(1);
    usize::try_from(row).unwrap_or(usize::MAX).saturating_add(expressions.len() * 16)
}

/// The columns of some rows.
fn fetch(
    fragment: &Fragment,
    expressions: &[Expression],
    survivors: &Survivors,
    found: &[Place],
    context: &Context<'_>,
) -> Result<Vec<ArrayRef>> {
    let mut counters = Counters::default();
    let mut by_block: Vec<(Place, u32)> = found.iter().copied().zip(0u32..).collect();
    by_block.sort_unstable();
    let same_block =
        |a: &(Place, u32), b: &(Place, u32)| (a.0.segment, a.0.block) == (b.0.segment, b.0.block);
    let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::new(); expressions.len()];
    let read = expressions.iter().flat_map(|expression| expression.inputs.iter().copied());
    let prefetch = Prefetch::new(&[], read);
    for rows in by_block.chunk_by(same_block) {
        if let Some((place, _)) = rows.first()
            && let Some(segment) = survivors.segments.get(place.segment as usize)
        {
            prefetch.blocks(segment, std::iter::once(place.block as usize));
        }
    }
    for rows in by_block.chunk_by(same_block) {
        let Some((Place { segment, block, .. }, _)) = rows.first() else { continue };
        let at = BlockRef { segment: *segment as usize, block: *block as usize };
        let block = OpenBlock::open(survivors, &fragment.columns, at)?;
        let places: Vec<u32> = rows.iter().map(|(place, _)| place.row).collect();
        let mut columns: Vec<Option<ArrayRef>> = vec![None; fragment.columns.len()];
        for (expression, parts) in expressions.iter().zip(&mut parts) {
            let mut inputs = Vec::with_capacity(expression.inputs.len());
            for at in &expression.inputs {
                let slot = columns
                    .get_mut(*at)
                    .ok_or_else(|| Error::InvalidInput("no such column".into()))?;
                inputs.push(match slot {
                    Some(known) => Arc::clone(known),
                    None => {
                        let data_type = block.table_type(*at)?;
                        Arc::clone(slot.insert(block.gather(*at, &places, data_type)?))
                    }
                });
            }
            parts.push(expression.evaluate(&inputs, places.len())?);
        }
        block.count_opened(&mut counters);
    }
    context.recorder.update(|sum| sum.add(&counters));
    // Where in the concatenated parts each row of the answer is.
    let mut places = vec![0u32; found.len()];
    for (place, (_, at)) in (0u32..).zip(&by_block) {
        if let Some(slot) = places.get_mut(*at as usize) {
            *slot = place;
        }
    }
    let finish = |(parts, expression): (Vec<ArrayRef>, &Expression)| {
        if parts.is_empty() {
            return Ok(new_empty_array(&expression.data_type));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
        take(&arrow_select::concat::concat(&parts).or_unsupported()?, &places)
    };
    parts.into_iter().zip(expressions).map(finish).collect()
}
