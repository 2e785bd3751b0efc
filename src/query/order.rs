//! The first rows of an order (top-n).
//!
//! All threads share a threshold: the ranks, by the first two keys, of the worst row that would still be in the answer. Blocks
//! are visited in the order of their best rank, so that the threshold is good early, and a block whose best is worse is
//! not opened. Rows that pass the threshold are compared by all keys, as bytes; the other columns of the answer are
//! fetched for its rows alone.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType as ArrowType, SortOptions};

use super::filter::{Marks, narrow};
use super::run::{Context, Worker, each_slice};
use super::scan::ahead::Ahead;
use super::scan::{OpenBlock, Opener, Survivors, Work};
use super::slice::{Slice, take};
use super::stats::{Clock, Counters, Statistic};
use super::words::{is_words, ordered, to_words, unordered};
use super::{Fragment, OrderBy};
use crate::block::Stats;
use crate::error::{Error, Result};
use crate::expr::{Comparison, Expression, Operand, Predicate};
use crate::model::{Column, DataType, Scalar};
use crate::store::ColumnStats;

/// The most rows that an answer may have; a larger one is a sort.
pub(crate) const MAX_LIMIT: usize = 1 << 20;
/// So many candidates more than the answer has rows are kept before the worst are dropped: the sooner, the better the
/// threshold; but as many as the answer has, so that dropping does not cost more than finding.
fn spare(limit: usize) -> usize {
    limit.clamp(64, 4096)
}

/// A row that may be in the answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Sorts as the order asks.
    key: Box<[u8]>,
    /// Where it stands in the table: rows of one key come in that order.
    number: usize,
    block: usize,
    row: u32,
    /// Position in [`Survivors::segments`].
    segment: usize,
    ranks: Ranks,
}

/// Words that sort as the first two keys do, as far as they are known: rows whose ranks are above those of another come
/// after it.
type Ranks = (i64, i64);

/// Of rows that may be anything.
const ANY: i64 = i64::MIN;

/// The second key counts only where the first rank tells the first key: the extremes stand for null, too, or for anything.
fn pair(first: i64, second: i64) -> Ranks {
    if first == i64::MIN || first == i64::MAX { (first, ANY) } else { (first, second) }
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::Unsupported(error.to_string())
}

/// The columns of the first `limit` rows, in order.
///
/// Segments are opened in the order of their best ranks as the manifest knows them, one at first and then four times as many
/// each time, until the best of those that are left is worse than the rows found.
pub(crate) fn top(
    fragment: &Fragment,
    order: &[OrderBy],
    limit: usize,
    expressions: &[Expression],
    opener: &Opener<'_>,
    context: &Context<'_>,
) -> Result<Vec<ArrayRef>> {
    let threshold = Mutex::new((i64::MAX, i64::MAX));
    let (mut survivors, mut found) = (Survivors::default(), Vec::new());
    let mut clock = Clock::start(context.timed);
    let mut counters = Counters::new(fragment.conditions.len());
    let mut ranked = ranked_segments(order, opener, &mut counters)?;
    let mut wave = 1;
    loop {
        let worst = *threshold.lock().unwrap_or_else(PoisonError::into_inner);
        let promising = ranked.iter().take_while(|(rank, _)| limit > 0 && *rank <= worst).count();
        // Where nothing is known of any, there is nothing to wait for.
        let all = ranked.last().is_none_or(|(rank, _)| *rank == (ANY, ANY));
        let some: Vec<usize> =
            ranked.drain(..if all { promising } else { promising.min(wave) }).map(|(_, number)| number).collect();
        let before = survivors.work.len();
        opener.open(&some, &mut survivors, &mut counters)?;
        counters.prune += clock.lap();
        context.recorder.update(|sum| sum.add(&counters));
        counters = Counters::new(fragment.conditions.len());
        if some.is_empty() {
            break;
        }
        let blocks = best_first(order, &survivors, before);
        let make = || Top::new(order, limit, &threshold, &fragment.columns);
        for worker in each_slice(fragment, &survivors, &blocks, context, make)? {
            found.extend(worker.kept);
        }
        prune(&mut found, limit, &threshold);
        clock.lap();
        wave *= 4;
    }
    for (_, number) in ranked {
        opener.count_left(number, &mut counters);
    }
    context.recorder.update(|sum| sum.add(&counters));
    found.sort_unstable();
    found.truncate(limit);
    fetch(fragment, expressions, &survivors, &found, context)
}

/// The segments that may hold rows, each with the least ranks that its rows may have, the least first.
fn ranked_segments(order: &[OrderBy], opener: &Opener<'_>, counters: &mut Counters) -> Result<Vec<(Ranks, usize)>> {
    let (first, second) = (known(order.first(), opener)?, known(order.get(1), opener)?);
    let best = |known: &Option<Known<'_>>, number: usize| {
        known.as_ref().map_or(ANY, |(by, stats)| best_of_segment(by, stats, number))
    };
    let rank = |number: usize| (pair(best(&first, number), best(&second, number)), number);
    let mut ranked: Vec<(Ranks, usize)> = opener.matching(counters)?.into_iter().map(rank).collect();
    ranked.sort_unstable();
    Ok(ranked)
}

/// No row of the segment has a lower rank.
pub(crate) fn best_of_segment(by: &OrderBy, stats: &[Option<ColumnStats>], number: usize) -> i64 {
    match stats.get(number) {
        Some(Some(column)) => best_rank(by, &column.stats, &column.data_type),
        Some(None) => null_rank(by),
        None => ANY,
    }
}

/// A key that is a column, and what the manifest knows of it in each segment.
type Known<'a> = (&'a OrderBy, Vec<Option<ColumnStats>>);

fn known<'a>(by: Option<&'a OrderBy>, opener: &Opener<'_>) -> Result<Option<Known<'a>>> {
    match by.and_then(|by| Some((by, by.expression.as_column()?))) {
        // Nothing is known of the rows of others, so that none may be ranked.
        Some((by, at)) if is_ranked(&by.expression.data_type) => Ok(Some((by, opener.column_stats(at)?))),
        _ => Ok(None),
    }
}

/// Drops what cannot be in the answer, and tells the others.
fn prune(kept: &mut Vec<Candidate>, limit: usize, threshold: &Mutex<Ranks>) {
    if kept.len() < limit || limit == 0 {
        return;
    }
    kept.select_nth_unstable(limit - 1);
    kept.truncate(limit);
    if let Some(worst) = kept.last() {
        let mut threshold = threshold.lock().unwrap_or_else(PoisonError::into_inner);
        *threshold = worst.ranks.min(*threshold);
    }
}

struct Top<'a> {
    order: &'a [OrderBy],
    limit: usize,
    converter: RowConverter,
    /// The worst ranks that are worth a look.
    threshold: &'a Mutex<Ranks>,
    columns: &'a [Column],
    marks: Marks,
    kept: Vec<Candidate>,
}

impl<'a> Top<'a> {
    fn new(order: &'a [OrderBy], limit: usize, threshold: &'a Mutex<Ranks>, columns: &'a [Column]) -> Result<Self> {
        let field = |by: &OrderBy| {
            let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
            SortField::new_with_options(by.expression.data_type.clone(), options)
        };
        let converter = RowConverter::new(order.iter().map(field).collect()).map_err(failed)?;
        Ok(Top { order, limit, converter, threshold, columns, marks: Marks::default(), kept: Vec::new() })
    }

    /// What the first key must be to be worth a look, as a condition on a column: a little more than the rank allows, and
    /// never true of null, which a threshold leaves out unless nulls come first.
    fn worth(&self, limit: i64) -> Option<(usize, Predicate)> {
        let by = self.order.first().filter(|by| !by.nulls_first && limit < i64::MAX)?;
        let at = by.expression.as_column().filter(|_| is_ranked(&by.expression.data_type))?;
        let column = self.columns.get(at)?;
        let word = if by.descending { !limit } else { limit };
        let value = match column.data_type {
            DataType::Float64 => Scalar::Float(unordered(word)),
            DataType::Float32 | DataType::UInt64 | DataType::Bool => return None,
            _ => Scalar::Int(word.into()),
        };
        let comparison = if by.descending { Comparison::GreaterOrEqual } else { Comparison::LessOrEqual };
        let operand = Operand { column: column.id, data_type: column.data_type.clone() };
        Some((at, Predicate::Compare { operand, comparison, value }))
    }

    fn threshold(&self) -> Ranks {
        *self.threshold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker for Top<'_> {
    fn skips(&mut self, block: &OpenBlock<'_>) -> Option<Statistic> {
        let best = best_ranks(self.order, &block.segment.columns, block.work.block);
        (best > self.threshold()).then_some(Statistic::Threshold)
    }

    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let Some(first) = self.order.first() else { return Ok(()) };
        let limit = self.threshold();
        if let Some((at, predicate)) = self.worth(limit.0)
            && let Some(column) = self.columns.get(at)
        {
            narrow(&predicate, column, at, slice, &mut self.marks)?;
            if slice.len() == 0 {
                return Ok(());
            }
        }
        let first_key = slice.evaluate(&first.expression)?;
        let ranks = ranks(&first_key, first);
        let mut places: Vec<u32> = match &ranks {
            Some(ranks) => (0u32..).zip(ranks).filter(|(_, rank)| **rank <= limit.0).map(|(at, _)| at).collect(),
            None => (0..slice.len() as u32).collect(),
        };
        if places.is_empty() {
            return Ok(());
        }
        let others = self.order.iter().skip(1).map(|by| slice.evaluate(&by.expression));
        let others = others.collect::<Result<Vec<ArrayRef>>>()?;
        let next = others.first().zip(self.order.get(1)).and_then(|(key, by)| self::ranks(key, by));
        let of = |ranks: &Option<Vec<i64>>, place: u32| {
            ranks.as_ref().and_then(|ranks| ranks.get(place as usize)).copied().unwrap_or(ANY)
        };
        let both = |place: u32| pair(of(&ranks, place), of(&next, place));
        places.retain(|place| both(*place) <= limit);
        let mut keys = Vec::with_capacity(self.order.len());
        for key in std::iter::once(&first_key).chain(&others) {
            keys.push(take(key, &places)?);
        }
        let rows = self.converter.convert_columns(&keys).map_err(failed)?;
        let Work { segment, block } = slice.block.work;
        for (place, row) in places.iter().zip(rows.iter()) {
            let at = slice.selected().map_or(*place, |rows| rows.get(*place as usize).copied().unwrap_or(0));
            let row_at = at + slice.range.start as u32;
            self.kept.push(Candidate {
                key: row.as_ref().into(),
                number: slice.block.segment.number,
                block,
                row: row_at,
                segment,
                ranks: both(*place),
            });
        }
        if self.kept.len() >= self.limit
            && (limit.0 == i64::MAX || self.kept.len() > self.limit + spare(self.limit))
        {
            prune(&mut self.kept, self.limit, self.threshold);
        }
        Ok(())
    }
}

/// Words that sort as the key does, the first row of the order least; `None` for text and decimals.
fn ranks(key: &ArrayRef, by: &OrderBy) -> Option<Vec<i64>> {
    let turn = if by.descending { -1 } else { 0 };
    let mut ranks: Vec<i64> = match key.data_type() {
        ArrowType::Float64 => {
            key.as_primitive::<Float64Type>().values().iter().map(|v| ordered(*v) ^ turn).collect()
        }
        ArrowType::Float32 => {
            key.as_primitive::<Float32Type>().values().iter().map(|v| ordered(f64::from(*v)) ^ turn).collect()
        }
        ArrowType::UInt64 => to_words(key)?.iter().map(|v| v ^ i64::MIN ^ turn).collect(),
        _ => to_words(key)?.iter().map(|v| v ^ turn).collect(),
    };
    if let Some(nulls) = key.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        let null = null_rank(by);
        for (rank, valid) in ranks.iter_mut().zip(nulls.iter()) {
            if !valid {
                *rank = null;
            }
        }
    }
    Some(ranks)
}

/// Whether [`ranks`] knows keys of the type.
fn is_ranked(data_type: &ArrowType) -> bool {
    is_words(data_type) || matches!(data_type, ArrowType::UInt64 | ArrowType::Float32 | ArrowType::Float64)
}

fn null_rank(by: &OrderBy) -> i64 {
    if by.nulls_first { i64::MIN } else { i64::MAX }
}

/// No row of the block has lower ranks.
fn best_ranks(order: &[OrderBy], columns: &[Option<Arc<crate::segment::Column>>], block: usize) -> Ranks {
    let best = |at: usize| order.get(at).map_or(ANY, |by| best_of_block(by, columns, block));
    pair(best(0), best(1))
}

/// No row of the block has a lower rank.
pub(crate) fn best_of_block(by: &OrderBy, columns: &[Option<Arc<crate::segment::Column>>], block: usize) -> i64 {
    let Some(at) = by.expression.as_column() else { return ANY };
    if !is_ranked(&by.expression.data_type) {
        return ANY;
    }
    let Some(column) = columns.get(at).and_then(Option::as_deref) else { return null_rank(by) };
    match column.block_stats(block) {
        Some(stats) => best_rank(by, stats, column.data_type()),
        None => ANY,
    }
}

/// No row with such statistics, of a column stored in this type, has a lower rank.
fn best_rank(by: &OrderBy, stats: &Stats, stored: &DataType) -> i64 {
    if !is_ranked(&by.expression.data_type) || (stats.nulls > 0 && by.nulls_first) {
        return ANY;
    }
    if stats.nulls == stats.rows {
        return null_rank(by);
    }
    // Ranks are of the table's type, bounds of the stored one.
    if stored.to_arrow() != by.expression.data_type {
        return ANY;
    }
    let bound = if by.descending { &stats.max } else { &stats.min };
    let turn = if by.descending { -1 } else { 0 };
    match (bound.as_ref().map(|bound| &bound.value), &by.expression.data_type) {
        (Some(Scalar::Float(v)), _) => ordered(*v) ^ turn,
        (Some(Scalar::Int(v)), ArrowType::UInt64) => (*v as u64 as i64) ^ i64::MIN ^ turn,
        (Some(Scalar::Int(v)), ArrowType::Decimal128(..)) if *v == 0 => ANY,
        (Some(Scalar::Int(v)), data_type) if !matches!(data_type, ArrowType::Decimal128(..)) => {
            i64::try_from(*v).map_or(ANY, |v| v ^ turn)
        }
        _ => ANY,
    }
}

/// All blocks from one on, those first that may hold the first rows.
fn best_first(order: &[OrderBy], survivors: &Survivors, from: usize) -> Vec<Work> {
    let rank = |work: &Work| {
        let columns = survivors.segments.get(work.segment).map_or(&[][..], |segment| &segment.columns);
        best_ranks(order, columns, work.block)
    };
    let mut blocks: Vec<Work> = survivors.work.iter().skip(from).copied().collect();
    blocks.sort_by_cached_key(rank);
    blocks
}

/// The columns of the rows found.
fn fetch(
    fragment: &Fragment,
    expressions: &[Expression],
    survivors: &Survivors,
    found: &[Candidate],
    context: &Context<'_>,
) -> Result<Vec<ArrayRef>> {
    let mut counters = Counters::default();
    let mut by_block: Vec<(usize, usize, u32, u32)> =
        (0u32..).zip(found).map(|(at, c)| (c.segment, c.block, c.row, at)).collect();
    by_block.sort_unstable();
    let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::new(); expressions.len()];
    let read = expressions.iter().flat_map(|expression| expression.inputs.iter().copied());
    let ahead = Ahead::of(&[], read);
    for rows in by_block.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        if let Some((segment, block, ..)) = rows.first()
            && let Some(segment) = survivors.segments.get(*segment)
        {
            ahead.ask(segment, std::iter::once(*block));
        }
    }
    for rows in by_block.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let Some((segment, block, ..)) = rows.first() else { continue };
        let block = OpenBlock::of(survivors, &fragment.columns, Work { segment: *segment, block: *block })?;
        let places: Vec<u32> = rows.iter().map(|(_, _, row, _)| *row).collect();
        let mut columns: Vec<Option<ArrayRef>> = vec![None; fragment.columns.len()];
        for (expression, parts) in expressions.iter().zip(&mut parts) {
            let mut inputs = Vec::with_capacity(expression.inputs.len());
            for at in &expression.inputs {
                let slot = columns.get_mut(*at).ok_or_else(|| Error::InvalidInput("no such column".into()))?;
                inputs.push(match slot {
                    Some(known) => Arc::clone(known),
                    None => Arc::clone(slot.insert(block.gather(*at, &places)?)),
                });
            }
            parts.push(expression.evaluate(&inputs, places.len())?);
        }
        block.count_opened(&mut counters);
    }
    context.recorder.update(|sum| sum.add(&counters));
    // Where in the concatenated parts each row of the answer is.
    let mut places = vec![0u32; found.len()];
    for (place, (.., at)) in (0u32..).zip(&by_block) {
        if let Some(slot) = places.get_mut(*at as usize) {
            *slot = place;
        }
    }
    let finish = |(parts, expression): (Vec<ArrayRef>, &Expression)| {
        if parts.is_empty() {
            return Ok(new_empty_array(&expression.data_type));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
        take(&arrow_select::concat::concat(&parts).map_err(failed)?, &places)
    };
    parts.into_iter().zip(expressions).map(finish).collect()
}
