//! Grouping from the choice of a way to the groups that come out.

use std::sync::Arc;

use rayon::prelude::*;

use super::coding::Coding;
use super::direct::Digits;
use super::keying::Keying;
use super::packed::Packed;
use super::partitions::Partition;
use super::rest::{PartitionsLeft, Rest, SlotsLeft, together};
use super::slots::Slots;
use super::spill::Spill;
use super::table::Part;
use super::worker::Hashed;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::aggregate::{Accumulators, MAX_PENDING};
use crate::query::memory::Reservation;
use crate::query::run::{Context, each_slice};
use crate::query::scan::Survivors;
use crate::query::{Aggregate, Fragment};

/// A direct index of so few groups is made whatever the rows.
const FEW: u64 = 1 << 12;

/// How rows become groups.
enum Way {
    Direct(Digits),
    Hashed(Keying),
}

impl Way {
    /// Its name in reports.
    fn name(&self) -> &'static str {
        match self {
            Way::Direct(digits) if digits.product == 1 => "one group",
            Way::Direct(_) => "direct index",
            Way::Hashed(Keying::Digits(_) | Keying::Packed(_)) => "hash table of packed codes",
            Way::Hashed(_) => "hash table of rows",
        }
    }
}

/// Groups the rows that pass. The keys and aggregates come out of what is given back.
pub(crate) fn groups<'a>(
    fragment: &'a Fragment,
    keys: &'a [Expression],
    aggregates: &'a [Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Rest<'a>> {
    let way = way(fragment, keys, aggregates, survivors, context)?;
    context.recorder.update(|sum| sum.grouping = Some(way.name()));
    match way {
        Way::Direct(digits) => direct(fragment, digits, keys.is_empty(), aggregates, survivors, context),
        Way::Hashed(keying) => hashed(fragment, keying, aggregates, survivors, context),
    }
}

fn way(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<Way> {
    let all = fragment.conditions.is_empty();
    let codings = keys.iter().map(|key| Coding::of(key, &fragment.columns, survivors, all));
    let codings: Vec<Option<Coding>> = codings.collect::<Result<_>>()?;
    let codings = match Digits::of(keys, codings) {
        Ok(digits) => {
            let direct = is_direct(digits.product, aggregates, survivors, context)?;
            return Ok(if direct { Way::Direct(digits) } else { Way::Hashed(Keying::Digits(digits)) });
        }
        Err(codings) => codings,
    };
    Ok(Way::Hashed(match Packed::of(keys, codings) {
        Some(packed) => Keying::Packed(packed),
        None => Keying::of_bytes(keys)?,
    }))
}

/// Whether a direct index of so many groups is worth its memory, and there is that memory. Of few groups there is, so that
/// whether sums are those of decimals does not depend on memory.
fn is_direct(product: u64, aggregates: &[Aggregate], survivors: &Survivors, context: &Context<'_>) -> Result<bool> {
    let rows: u64 = survivors.segments.iter().map(|s| s.segment.rows()).sum();
    if product == 1 {
        return Ok(true);
    }
    if product > context.limits.direct.min((rows * 2).max(FEW)) {
        return Ok(false);
    }
    let threads = context.pool.current_num_threads().min(survivors.work.len().max(1));
    let states = Accumulators::new(aggregates)?;
    let fits = || Reservation::new(context).grow(states.bytes_a_group() * product as usize * threads).is_ok();
    Ok(product <= MAX_PENDING as u64 || (!states.hold_texts() && fits()))
}

fn direct<'a>(
    fragment: &'a Fragment,
    digits: Digits,
    alone: bool,
    aggregates: &'a [Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Rest<'a>> {
    let digits = Arc::new(digits);
    let make = || Slots::new(Arc::clone(&digits), aggregates, Reservation::new(context));
    let mut workers = each_slice(fragment, survivors, &survivors.work, context, make)?.into_iter();
    let first = workers.next().map_or_else(make, Ok)?;
    let (states, reservation) = first.merged(workers);
    Ok(Rest::Slots(SlotsLeft { digits, states, alone, done: 0, context, reservation }))
}

fn hashed<'a>(
    fragment: &'a Fragment,
    keying: Keying,
    aggregates: &'a [Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Rest<'a>> {
    let (keying, spill) = (Arc::new(keying), Arc::new(Spill::new(context.temp_dir)));
    let like = Part { keys: keying.none(), states: Accumulators::new(aggregates)? };
    let make = || Hashed::new(Arc::clone(&keying), Arc::clone(&spill), &like, context);
    let mut workers = each_slice(fragment, survivors, &survivors.work, context, make)?;
    let mut held = Reservation::new(context);
    let groups: usize = workers.iter().map(|worker| worker.table.len()).sum();
    let left = if groups <= context.limits.serial && workers.iter().all(|worker| worker.partitions.is_none()) {
        one_by_one(workers, &mut held)?
    } else {
        context.pool.install(|| workers.par_iter_mut().try_for_each(Hashed::empty_table))?;
        let mut all = Vec::with_capacity(workers.len());
        for worker in workers {
            let (partitions, reservation) = worker.into_partitions();
            held.join(reservation);
            all.extend(partitions);
        }
        together(all)
    };
    Ok(Rest::Partitions(Box::new(PartitionsLeft::new(keying, spill, context, like, left, held))))
}

/// The groups of all threads as one partition: merging few takes less time than partitioning them.
fn one_by_one<'a>(workers: Vec<Hashed<'a>>, held: &mut Reservation<'a>) -> Result<Vec<Partition<'a>>> {
    let mut parts = Vec::with_capacity(workers.len());
    for worker in workers {
        let (part, reservation) = worker.into_table();
        held.join(reservation);
        parts.push(part);
    }
    parts.retain(|part| part.len() > 0);
    Ok(if parts.is_empty() { Vec::new() } else { vec![Partition { level: 0, parts, places: Vec::new() }] })
}
