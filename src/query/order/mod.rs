//! The first rows of an order (top-n).
//!
//! All threads share a threshold: the ranks, by the first two keys, of the worst row that would
//! still be in the answer. Text and decimals have no ranks, so for them the threshold keeps the
//! first key itself. Blocks are visited in the order of their best rank, so that the threshold is
//! good early, and a block whose best is worse is not opened. Rows that pass the threshold are
//! compared by all keys, as bytes; the other columns of the answer are fetched for its rows alone.

#[cfg(feature = "sql")]
pub(crate) mod chains;
pub(crate) mod ranks;
mod threshold;

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::SortOptions;

use self::ranks::{ANY, Ranks, best_of_segment, best_ranks, first_guess, pair};
use self::threshold::{Threshold, ranks_beside};
use super::context::Context;
use super::filter::{MaskBuilder, narrow};
use super::open::opener::Opener;
use super::open::prefetch::Prefetch;
use super::open::{BlockRef, OpenBlock, Survivors};
use super::prune::Verdict;
use super::slice::{Slice, take};
use super::stats::{Clock, Counters, Statistic};
use super::walk::{Worker, each_slice};
use super::words::{self, is_ranked, one_zero, ranks, unordered, wordless};
use super::{Fragment, OrderBy};
use crate::error::{ArrowResult, Error, Result};
use crate::expr::{Comparison, Expression, Operand, Predicate};
use crate::model::{Column, DataType, Scalar};
use crate::store::ColumnStats;

/// The most rows that an answer may have; a larger one is a sort.
pub(crate) const MAX_LIMIT: usize = 1 << 20;
/// How many candidates are kept beyond the rows of the answer before the worst are dropped. The
/// fewer, the sooner the threshold improves; but it is a quarter of the answer's rows where these
/// are many, so that dropping candidates does not cost more than finding them.
fn spare(limit: usize) -> usize {
    limit.clamp(64, (limit / 4).max(4096))
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

/// The columns of the first `limit` rows, in order.
///
/// Segments are opened in the order of their best ranks as the manifest knows them, one at first
/// and then four times as many each time, until the best of those that are left is worse than the
/// rows found.
pub(crate) fn top(
    fragment: &Fragment,
    order: &[OrderBy],
    limit: usize,
    expressions: &[Expression],
    opener: &Opener<'_>,
    context: &Context<'_>,
) -> Result<Vec<ArrayRef>> {
    let threshold = Mutex::new(Threshold::NONE);
    let (mut survivors, mut found) = (Survivors::default(), Vec::new());
    let mut clock = Clock::start(context.timed);
    let mut counters = Counters::new(fragment.conditions.len());
    let mut ranked = ranked_segments(order, opener, &mut counters)?;
    let mut wave = 1;
    loop {
        let worst = threshold.lock().unwrap_or_else(PoisonError::into_inner).ranks;
        let promising = ranked.iter().take_while(|(rank, _)| limit > 0 && *rank <= worst).count();
        // Where nothing is known of any, there is nothing to wait for.
        let all = ranked.last().is_none_or(|(rank, _)| *rank == (ANY, ANY));
        let some: Vec<usize> = ranked
            .drain(..if all { promising } else { promising.min(wave) })
            .map(|(_, number)| number)
            .collect();
        let before = survivors.blocks.len();
        opener.open(&some, &mut survivors, &mut counters)?;
        counters.prune += clock.lap();
        context.recorder.update(|sum| sum.add(&counters));
        counters = Counters::new(fragment.conditions.len());
        if some.is_empty() {
            break;
        }
        let blocks = best_first(order, &survivors, before);
        let make = || Top::new(order, limit, &threshold, &fragment.columns);
        for worker in each_slice(&fragment.row_source(), &survivors, &blocks, context, make)? {
            found.extend(worker.kept);
        }
        make()?.prune(&mut found)?;
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

/// The segments that may hold rows, each with the least ranks that its rows may have, the least
/// first.
fn ranked_segments(
    order: &[OrderBy],
    opener: &Opener<'_>,
    counters: &mut Counters,
) -> Result<Vec<(Ranks, usize)>> {
    let (first, second) = (known(order.first(), opener)?, known(order.get(1), opener)?);
    let best = |known: &Option<Known<'_>>, number: usize| {
        known.as_ref().map_or(ANY, |(by, stats)| best_of_segment(by, stats, number))
    };
    let rank = |number: usize| (pair(best(&first, number), best(&second, number)), number);
    let mut ranked: Vec<(Ranks, usize)> =
        opener.matching(counters)?.into_iter().map(rank).collect();
    ranked.sort_unstable();
    Ok(ranked)
}

/// A key that is a column, and what the manifest knows of it in each segment.
type Known<'a> = (&'a OrderBy, Vec<Option<ColumnStats>>);

fn known<'a>(by: Option<&'a OrderBy>, opener: &Opener<'_>) -> Result<Option<Known<'a>>> {
    match by.and_then(|by| Some((by, by.expression.as_column()?))) {
        // Nothing is known of the rows of others, so that none may be ranked.
        Some((by, at)) if is_ranked(&by.expression.data_type) => {
            Ok(Some((by, opener.column_stats(at)?)))
        }
        _ => Ok(None),
    }
}

struct Top<'a> {
    order: &'a [OrderBy],
    limit: usize,
    converter: RowConverter,
    /// The worst ranks that are worth a look.
    threshold: &'a Mutex<Threshold>,
    columns: &'a [Column],
    mask: MaskBuilder,
    kept: Vec<Candidate>,
}

impl<'a> Top<'a> {
    fn new(
        order: &'a [OrderBy],
        limit: usize,
        threshold: &'a Mutex<Threshold>,
        columns: &'a [Column],
    ) -> Result<Self> {
        let field = |by: &OrderBy| {
            let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
            SortField::new_with_options(by.expression.data_type.clone(), options)
        };
        let converter = RowConverter::new(order.iter().map(field).collect()).or_unsupported()?;
        Ok(Top {
            order,
            limit,
            converter,
            threshold,
            columns,
            mask: MaskBuilder::default(),
            kept: Vec::new(),
        })
    }

    /// What the first key must be to be worth a look, as a condition on a column: a little more
    /// than the threshold allows, and never true of null where that is not.
    fn worth(&self, limit: &Threshold, block: &OpenBlock<'_>) -> Option<(usize, Predicate)> {
        let by = self.order.first().filter(|_| !limit.is_none())?;
        let at = by.expression.as_column()?;
        let column = self.columns.get(at)?;
        if by.nulls_first {
            if matches!(limit.key, Some(None)) {
                return Some((at, Predicate::IsNull(column.id)));
            }
            let stats = block.stored(at).and_then(|column| column.block_stats(block.at.block));
            stats.filter(|stats| stats.nulls == 0)?;
        }
        let word = if by.descending { !limit.ranks.0 } else { limit.ranks.0 };
        let value = match column.data_type {
            _ if !is_ranked(&by.expression.data_type) => limit.key.clone()??,
            DataType::Float64 => Scalar::Float(match unordered(word) {
                // Both zeros are.
                0.0 if by.descending => -0.0,
                value => value,
            }),
            DataType::Float32 | DataType::UInt64 | DataType::Bool => return None,
            _ => Scalar::Int(word.into()),
        };
        let comparison =
            if by.descending { Comparison::GreaterOrEqual } else { Comparison::LessOrEqual };
        let operand = Operand { column: column.id, data_type: column.data_type.clone() };
        Some((at, Predicate::Compare { operand, comparison, value }))
    }

    fn threshold(&self) -> Threshold {
        self.threshold.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops what cannot be in the answer, and tells the others.
    fn prune(&self, kept: &mut Vec<Candidate>) -> Result<()> {
        let (Some(last), Some(by)) = (self.limit.checked_sub(1), self.order.first()) else {
            return Ok(());
        };
        if kept.len() <= last {
            return Ok(());
        }
        kept.select_nth_unstable(last);
        kept.truncate(self.limit);
        let Some(worst) = kept.last() else { return Ok(()) };
        let mut found = Threshold { ranks: worst.ranks, key: None };
        if !is_ranked(&by.expression.data_type) {
            let parser = self.converter.parser();
            let key = self.converter.convert_rows([parser.parse(&worst.key)]).or_unsupported()?;
            found.key = key.first().and_then(wordless);
            if found.key.is_none() {
                return Ok(());
            }
        }
        self.threshold.lock().unwrap_or_else(PoisonError::into_inner).lower(found, by);
        Ok(())
    }
}

impl Worker for Top<'_> {
    fn skips(&mut self, block: &OpenBlock<'_>) -> Option<Statistic> {
        let limit = self.threshold();
        let best = best_ranks(self.order, &block.segment.columns, block.at.block);
        let is_worse = best > limit.ranks
            || self
                .worth(&limit, block)
                .is_some_and(|(_, predicate)| block.judge(&predicate) == Verdict::Never);
        is_worse.then_some(Statistic::Threshold)
    }

    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        let Some(first) = self.order.first() else { return Ok(()) };
        let limit = self.threshold();
        if let Some((at, predicate)) = self.worth(&limit, slice.block)
            && let Some(column) = self.columns.get(at)
        {
            narrow(&predicate, column, at, slice, &mut self.mask)?;
            if slice.len() == 0 {
                return Ok(());
            }
        }
        let first_key = slice.evaluate(&first.expression)?;
        let is_ranked = is_ranked(&first.expression.data_type);
        let ranks = match &limit.key {
            Some(key) if !is_ranked => ranks_beside(&first_key, key, first),
            _ => ranks(&first_key, first.descending, first.nulls_first),
        };
        let mut places: Vec<u32> = match &ranks {
            Some(ranks) => (0u32..)
                .zip(ranks)
                .filter(|(_, rank)| **rank <= limit.ranks.0)
                .map(|(at, _)| at)
                .collect(),
            None => (0..slice.len() as u32).collect(),
        };
        if places.is_empty() {
            return Ok(());
        }
        let others = self.order.iter().skip(1).map(|by| slice.evaluate(&by.expression));
        let others = others.collect::<Result<Vec<ArrayRef>>>()?;
        let next = others
            .first()
            .zip(self.order.get(1))
            .and_then(|(key, by)| words::ranks(key, by.descending, by.nulls_first));
        let of = |ranks: &Option<Vec<i64>>, place: u32| {
            ranks.as_ref().and_then(|ranks| ranks.get(place as usize)).copied().unwrap_or(ANY)
        };
        let both = |place: u32| pair(of(&ranks, place), of(&next, place));
        places.retain(|place| both(*place) <= limit.ranks);
        let mut keys = Vec::with_capacity(self.order.len());
        for key in std::iter::once(&first_key).chain(&others) {
            keys.push(one_zero(&take(key, &places)?));
        }
        let rows = self.converter.convert_columns(&keys).or_unsupported()?;
        let BlockRef { segment, block } = slice.block.at;
        for (place, row) in places.iter().zip(rows.iter()) {
            let at = slice
                .selected()
                .map_or(*place, |rows| rows.get(*place as usize).copied().unwrap_or(0));
            let row_at = at + slice.range.start as u32;
            self.kept.push(Candidate {
                key: row.as_ref().into(),
                number: slice.block.segment.number,
                block,
                row: row_at,
                segment,
                ranks: if is_ranked { both(*place) } else { (0, of(&next, *place)) },
            });
        }
        if self.kept.len() >= self.limit
            && (limit.is_none() || self.kept.len() > self.limit + spare(self.limit))
        {
            let mut kept = std::mem::take(&mut self.kept);
            self.prune(&mut kept)?;
            self.kept = kept;
        }
        Ok(())
    }
}

/// All blocks from one on, those first that may hold the first rows.
fn best_first(order: &[OrderBy], survivors: &Survivors, from: usize) -> Vec<BlockRef> {
    let rank = |at: &BlockRef| {
        let columns =
            survivors.segments.get(at.segment).map_or(&[][..], |segment| &segment.columns);
        (best_ranks(order, columns, at.block), first_guess(order, columns, at.block))
    };
    let mut blocks: Vec<BlockRef> = survivors.blocks.iter().skip(from).copied().collect();
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
    let prefetch = Prefetch::new(&[], read);
    for rows in by_block.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        if let Some((segment, block, ..)) = rows.first()
            && let Some(segment) = survivors.segments.get(*segment)
        {
            prefetch.blocks(segment, std::iter::once(*block));
        }
    }
    for rows in by_block.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let Some((segment, block, ..)) = rows.first() else { continue };
        let block = OpenBlock::open(
            survivors,
            &fragment.columns,
            BlockRef { segment: *segment, block: *block },
        )?;
        let places: Vec<u32> = rows.iter().map(|(_, _, row, _)| *row).collect();
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
        take(&arrow_select::concat::concat(&parts).or_unsupported()?, &places)
    };
    parts.into_iter().zip(expressions).map(finish).collect()
}
