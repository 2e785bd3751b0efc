//! The first rows of an order (top-n).
//!
//! All threads share a threshold: the ranks, by the first two keys, of the worst row that would
//! still be in the answer. Texts and decimals of more than 18 digits have no ranks, so for them the
//! threshold keeps the first key itself. Blocks are visited in the order of their best rank, so
//! that the threshold is good early, and a block whose best is worse is not opened. Rows that pass
//! the threshold are compared by their ranks, and by all keys, as bytes, where the ranks do not say
//! all; the other columns of the answer are fetched for its rows alone. Rows that may be in the
//! answer and do not fit into memory are spilled in sorted runs.

mod candidates;
#[cfg(feature = "sql")]
pub(crate) mod chains;
mod output;
pub(crate) mod ranks;
mod runs;
mod threshold;

use std::sync::{Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, SortField};
use arrow_schema::SortOptions;

use self::candidates::{At, Candidate, Held};
pub(crate) use self::output::RowsOutput;
use self::output::places;
use self::ranks::{ANY, Ranks, best_of_segment, best_ranks, first_guess, pair, say_all};
use self::runs::Runs;
use self::threshold::{Threshold, ranks_beside};
use super::context::Context;
use super::filter::{MaskBuilder, narrow};
use super::open::opener::Opener;
use super::open::{BlockRef, OpenBlock, Survivors};
use super::prune::Verdict;
use super::slice::{Slice, take};
use super::stats::{Clock, Counters, Statistic};
use super::walk::{Worker, each_slice};
use super::words::{self, is_ranked, one_zero, ranks, unordered, wordless};
use super::{Fragment, OrderBy, Output};
use crate::error::{ArrowResult, Error, Result};
use crate::expr::{Comparison, Operand, Predicate};
use crate::model::{Column, DataType, Scalar};
use crate::store::ColumnStats;

/// The most rows that are held for an answer; for more, a sort is faster and spills.
pub(crate) const MAX_LIMIT: usize = 1 << 20;
/// How many candidates are kept beyond the rows of the answer before the worst are dropped. The
/// fewer, the sooner the threshold improves; but it is a quarter of the answer's rows where these
/// are many, so that dropping candidates does not cost more than finding them.
fn spare(limit: usize) -> usize {
    limit.clamp(64, (limit / 4).max(4096))
}

/// The first `limit` rows in order, without the first `skip` of them.
///
/// Segments are opened in the order of their best ranks as the manifest knows them, one at first
/// and then four times as many each time, until the best of those that are left is worse than the
/// rows found.
pub(crate) fn top<'a>(
    fragment: &'a Fragment,
    opener: &Opener<'_>,
    context: &'a Context<'a>,
) -> Result<RowsOutput<'a>> {
    let Output::Top { order, limit, skip, expressions } = &fragment.output else {
        return Err(Error::InvalidInput("the fragment has no order".into()));
    };
    let (limit, skip) = (*limit, *skip);
    let threshold = Mutex::new(Threshold::NONE);
    let runs = Runs::new(limit, context);
    let (mut survivors, mut found) = (Survivors::default(), Held::new(context));
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
        let (held, keys) = (|| Held::new(context), (order.as_slice(), limit));
        let make = || Top::new(keys, &fragment.columns, &threshold, &runs, held());
        for worker in each_slice(&fragment.row_source(), &survivors, &blocks, context, make)? {
            found.join(worker.held);
        }
        let mut all = Top::new(keys, &fragment.columns, &threshold, &runs, found)?;
        all.prune()?;
        if !runs.is_empty() {
            all.spill()?;
        }
        found = all.held;
        clock.lap();
        wave *= 4;
    }
    for (_, number) in ranked {
        opener.count_left(number, &mut counters);
        context.recorder.pass(opener.entries.get(number).map_or(0, |entry| entry.rows));
    }
    let (bytes, files) = runs.spilled();
    counters.spilled_bytes += bytes;
    counters.spill_files += files;
    context.recorder.update(|sum| sum.add(&counters));
    let places = places(found, &runs, skip, limit, context)?;
    Ok(RowsOutput::new(fragment, expressions, survivors, places, context))
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

struct Top<'a, 'h> {
    order: &'a [OrderBy],
    limit: usize,
    converter: RowConverter,
    /// The worst ranks that are worth a look.
    threshold: &'a Mutex<Threshold>,
    columns: &'a [Column],
    mask: MaskBuilder,
    held: Held<'h>,
    runs: &'a Runs,
}

impl<'a, 'h> Top<'a, 'h> {
    fn new(
        (order, limit): (&'a [OrderBy], usize),
        columns: &'a [Column],
        threshold: &'a Mutex<Threshold>,
        runs: &'a Runs,
        held: Held<'h>,
    ) -> Result<Self> {
        let field = |by: &OrderBy| {
            let options = SortOptions { descending: by.descending, nulls_first: by.nulls_first };
            SortField::new_with_options(by.expression.data_type.clone(), options)
        };
        let converter = RowConverter::new(order.iter().map(field).collect()).or_unsupported()?;
        let mask = MaskBuilder::default();
        Ok(Top { order, limit, converter, threshold, columns, mask, held, runs })
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
        let operand = Operand::of(column);
        Some((at, Predicate::Compare { operand, comparison, value }))
    }

    fn threshold(&self) -> Threshold {
        self.threshold.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops what cannot be in the answer, and tells the others.
    fn prune(&mut self) -> Result<()> {
        if self.held.rows.len() < self.limit {
            return Ok(());
        }
        self.held.keep_first(self.limit)?;
        self.held.rows.last().map_or(Ok(()), |worst| self.tell(worst))
    }

    /// Tells the others which row is the worst that would still be in the answer.
    fn tell(&self, worst: &Candidate) -> Result<()> {
        let Some(by) = self.order.first() else { return Ok(()) };
        let mut found = Threshold { ranks: worst.ranks, key: None };
        if !is_ranked(&by.expression.data_type) {
            let parser = self.converter.parser();
            let key = self.converter.convert_rows([parser.parse(&worst.key)]).or_unsupported()?;
            let next = key.get(1).zip(self.order.get(1));
            let next = next.and_then(|(key, by)| words::ranks(key, by.descending, by.nulls_first));
            found.ranks = (0, next.and_then(|next| next.first().copied()).unwrap_or(ANY));
            found.key = key.first().and_then(wordless);
            if found.key.is_none() {
                return Ok(());
            }
        }
        self.threshold.lock().unwrap_or_else(PoisonError::into_inner).lower(found, by);
        Ok(())
    }

    /// Puts the rows found so far into a temporary file.
    fn spill(&mut self) -> Result<()> {
        match self.runs.add(&mut self.held)? {
            Some(worst) => self.tell(&worst),
            None => Ok(()),
        }
    }

    /// Reserves memory for more rows, where need be by dropping or spilling others. False if there
    /// is none, because other threads hold it.
    fn make_room(&mut self, rows: usize, keys: usize) -> Result<bool> {
        if !self.held.rows.is_empty() && self.runs.is_wanted() {
            self.spill()?;
        }
        if self.reserve(rows, keys)? {
            return Ok(true);
        }
        // Dropping a few is not worth the search for them.
        if self.held.rows.len() > self.limit + self.limit / 4 {
            self.prune()?;
        } else {
            self.spill()?;
        }
        if self.reserve(rows, keys)? {
            return Ok(true);
        }
        self.spill()?;
        let reserved = self.reserve(rows, keys)?;
        if !reserved {
            self.runs.want();
        }
        Ok(reserved)
    }

    fn reserve(&mut self, rows: usize, keys: usize) -> Result<bool> {
        match self.held.reserve(rows, keys) {
            Ok(()) => Ok(true),
            Err(Error::LimitExceeded(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Worker for Top<'_, '_> {
    fn skips(&mut self, block: &OpenBlock<'_>) -> Result<Option<Statistic>> {
        let limit = self.threshold();
        let best = best_ranks(self.order, &block.segment.columns, block.at.block);
        let is_worse = best > limit.ranks
            || self
                .worth(&limit, block)
                .is_some_and(|(_, predicate)| block.judge(&predicate) == Verdict::Never);
        Ok(is_worse.then_some(Statistic::Threshold))
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
        // What the ranks do not say.
        let all_ranked = self.order.iter().all(|by| words::is_ranked(&by.expression.data_type));
        let says_all = |place: u32| all_ranked && say_all(both(place), self.order.len());
        let with_key: Vec<u32> = places.iter().copied().filter(|place| !says_all(*place)).collect();
        let mut keys = Vec::with_capacity(self.order.len());
        for key in std::iter::once(&first_key).chain(&others) {
            keys.push(one_zero(&take(key, &with_key)?));
        }
        let rows = self.converter.convert_columns(&keys).or_unsupported()?;
        let reserved = self.make_room(places.len(), rows.size())?;
        let BlockRef { segment, block } = slice.block.at;
        let mut rows = rows.iter();
        for place in &places {
            let at = slice
                .selected()
                .map_or(*place, |rows| rows.get(*place as usize).copied().unwrap_or(0));
            let row_at = at + slice.range.start as u32;
            let ranks = if is_ranked { both(*place) } else { (0, ANY) };
            let key = if says_all(*place) { None } else { rows.next() };
            let key = key.map_or_else(Box::default, |row| row.as_ref().into());
            let number = slice.block.segment.number as u32;
            let at = At { number, block: block as u32, row: row_at, segment: segment as u32 };
            self.held.push(Candidate::new(key, ranks, at));
        }
        if !reserved {
            return self.spill();
        }
        let rows = self.held.rows.len();
        if rows >= self.limit && (limit.is_none() || rows > self.limit + spare(self.limit)) {
            self.prune()?;
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
