//! How many rows of a table meet conditions, about: a few slices of the blocks that survive pruning
//! are filtered. And which values few rows have.
//!
//! Where this stands on the road of a query: planners ask before anything runs. What a sample says
//! of conditions holds for any of them, also for those that depend on each other.

use arrow_array::ArrayRef;

use super::Condition;
use super::filter::{Filter, MaskBuilder, OnDictionaries};
use super::open::opener::Opener;
use super::open::prefetch::Prefetch;
use super::open::{BlockRef, OpenBlock, PerSegment, Survivors};
use super::slice::SLICE_ROWS;
use super::stats::{Counters, Tally};
use super::walk::FilteredBlock;
use crate::error::Result;
use crate::limits::VECTOR;
use crate::model::Column;
use crate::store::Snapshot;

/// The most segments that are opened.
const SEGMENTS: usize = 8;
/// The most blocks that are looked at, and the rows of each.
const BLOCKS: usize = 16;
const ROWS: usize = 2 * VECTOR;
/// The most blocks that are searched for keys.
const KEY_BLOCKS: usize = 4;
/// A table of no more blocks than this is filtered as a whole.
const SMALL: usize = 2;

/// About how many rows meet all conditions: at least one if any block may hold such rows.
pub(crate) fn estimated_rows(
    columns: &[Column],
    conditions: &[Condition],
    snapshot: &Snapshot,
) -> Result<f64> {
    let opener = Opener::new(columns, conditions, snapshot, false)?;
    let mut counters = Counters::new(conditions.len());
    let numbers = opener.matching(&mut counters)?;
    let of_entry = |number: &usize| opener.entries.get(*number).map_or(0, |entry| entry.rows);
    let rows: u64 = numbers.iter().map(of_entry).sum();
    if conditions.is_empty() || rows == 0 {
        return Ok(rows as f64);
    }
    let some = spread(&numbers, SEGMENTS);
    let opened: u64 = some.iter().map(of_entry).sum();
    let mut survivors = Survivors::default();
    opener.open(&some, &mut survivors, &mut counters)?;
    let block_rows = |at: &BlockRef| {
        let range = survivors.segments.get(at.segment).map(|s| s.segment.block_range(at.block));
        range.map_or(0, |range| range.end - range.start)
    };
    let left: u64 = survivors.blocks.iter().map(block_rows).sum();
    let is_small = snapshot.segments()?.len() == 1 && survivors.blocks.len() <= SMALL;
    let (on_dictionaries, prefetch) = (PerSegment::new(&survivors), Prefetch::default());
    let (mut seen, mut passed) = (0, 0);
    for (number, at) in spread(&survivors.blocks, BLOCKS).into_iter().enumerate() {
        let rows = usize::try_from(block_rows(&at)).unwrap_or(usize::MAX);
        let starts: Vec<usize> = match is_small {
            true => (0..rows).step_by(SLICE_ROWS).collect(),
            false => vec![start(number, rows)],
        };
        let most = if is_small { SLICE_ROWS } else { ROWS };
        let block = OpenBlock::open(&survivors, columns, at)?;
        let rows_of = |start: &usize| rows.min(start + most) - start;
        seen += starts.iter().map(rows_of).sum::<usize>();
        // None of them lasts: a large dictionary is not evaluated for a few rows.
        let known =
            on_dictionaries.get_or_init(at.segment, || OnDictionaries::new(0, conditions.len()));
        let Some(known) = known else { continue };
        let filter = Filter { conditions, columns, on_dictionaries: known };
        passed += passing(block, &filter, &prefetch, &starts, most)?;
    }
    let share = (passed as f64).max(0.5) / (seen as f64).max(1.0);
    Ok((left as f64 * share * (rows as f64 / (opened as f64).max(1.0))).max(1.0))
}

/// The values of a column in all rows that meet all conditions, if they are at most `most` and in
/// no more than [`KEY_BLOCKS`] blocks: all rows of these are filtered.
pub(crate) fn few_values(
    columns: &[Column],
    conditions: &[Condition],
    snapshot: &Snapshot,
    at: usize,
    most: usize,
) -> Result<Option<Vec<ArrayRef>>> {
    let opener = Opener::new(columns, conditions, snapshot, false)?;
    let mut counters = Counters::new(conditions.len());
    let numbers = opener.matching(&mut counters)?;
    if numbers.len() > KEY_BLOCKS {
        return Ok(None);
    }
    let mut survivors = Survivors::default();
    opener.open(&numbers, &mut survivors, &mut counters)?;
    if survivors.blocks.len() > KEY_BLOCKS {
        return Ok(None);
    }
    let (on_dictionaries, prefetch) = (PerSegment::new(&survivors), Prefetch::default());
    let (mut values, mut count, mut mask) = (Vec::new(), 0, MaskBuilder::default());
    let mut tally = Tally::new(conditions.len(), false);
    for block_at in &survivors.blocks {
        let block = OpenBlock::open(&survivors, columns, *block_at)?;
        let known = on_dictionaries
            .get_or_init(block_at.segment, || OnDictionaries::new(conditions.len(), 0));
        let Some(known) = known else { return Ok(None) };
        let filter = Filter { conditions, columns, on_dictionaries: known };
        let filtered = FilteredBlock::new(block, &filter, &prefetch, &mut tally)?;
        let Some(filtered) = filtered else { continue };
        let rows = filtered.block.rows;
        for start in (0..rows).step_by(SLICE_ROWS) {
            let range = start..rows.min(start + SLICE_ROWS);
            let Some(slice) = filtered.slice(range, &mut mask, &mut tally)? else { continue };
            count += slice.len();
            if count > most {
                return Ok(None);
            }
            values.push(slice.array(at)?);
        }
        filtered.block.segment.segment.check()?;
    }
    Ok(Some(values))
}

/// How many rows of some ranges of a block meet all conditions.
fn passing<'a>(
    block: OpenBlock<'a>,
    filter: &Filter<'a>,
    prefetch: &'a Prefetch,
    starts: &[usize],
    most: usize,
) -> Result<usize> {
    let rows = block.rows;
    let mut tally = Tally::new(filter.conditions.len(), false);
    let Some(filtered) = FilteredBlock::new(block, filter, prefetch, &mut tally)? else {
        return Ok(0);
    };
    let (mut mask, mut passed) = (MaskBuilder::default(), 0);
    for start in starts {
        let slice = filtered.slice(*start..rows.min(start + most), &mut mask, &mut tally)?;
        passed += slice.map_or(0, |slice| slice.len());
    }
    filtered.block.segment.segment.check()?;
    Ok(passed)
}

/// Where the rows of a block that are looked at begin: at another place in each block.
fn start(number: usize, rows: usize) -> usize {
    let places = (rows.saturating_sub(ROWS) / VECTOR).max(1);
    number.wrapping_mul(0x9E37_79B1) % places * VECTOR
}

/// At most `most` items, evenly spread.
fn spread<T: Clone>(items: &[T], most: usize) -> Vec<T> {
    let step = items.len().div_ceil(most).max(1);
    items.iter().skip(step / 2).step_by(step).cloned().collect()
}
