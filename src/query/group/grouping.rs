//! Grouping from the choice of a way to the groups that come out.

use std::sync::{Arc, Mutex, PoisonError};

use super::coding::Coding;
use super::direct::Digits;
use super::keying::Keying;
use super::keys::Keys;
use super::packed::Packed;
use super::rest::{PartitionsLeft, Rest, SlotsLeft, left};
use super::sets::{Set, SetWorker, WithSets, sets};
use super::slots::Slots;
use super::spill::Spill;
use super::table::Part;
use super::value_counts::{WithCounts, value_counts};
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
pub(super) enum Way {
    Direct(Arc<Digits>),
    Hashed(Arc<Keying>),
}

impl Way {
    /// Its name in reports.
    fn name(&self) -> &'static str {
        match self {
            Way::Direct(digits) if digits.product == 1 => "one group",
            Way::Direct(_) => "direct index",
            Way::Hashed(keying) if keying.bits().is_some() => "hash table of packed codes",
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
    let slots = reserved(&way, aggregates, survivors, context)?;
    let (sets, _held) = sets(fragment, keys, aggregates, &way, survivors, context)?;
    match way {
        Way::Direct(digits) => {
            let alone = keys.is_empty();
            direct(fragment, digits, alone, aggregates, (&sets, slots), survivors, context)
        }
        Way::Hashed(keying) => hashed(fragment, keying, aggregates, &sets, survivors, context),
    }
}

/// Memory for the slots of each thread, before distinct values beside them take it.
fn reserved<'a>(
    way: &Way,
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Vec<Reservation<'a>>> {
    let mut all = Vec::new();
    if let (Way::Direct(digits), true) =
        (way, aggregates.iter().any(|aggregate| aggregate.distinct))
    {
        let bytes = Accumulators::new(aggregates)?.bytes_a_group() * digits.product as usize;
        for _ in 0..context.pool.current_num_threads().min(survivors.work.len().max(1)) {
            let mut one = Reservation::new(context);
            // Few groups are had in any memory.
            let _ = one.grow(bytes);
            all.push(one);
        }
    }
    Ok(all)
}

fn way(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<Way> {
    Ok(match keying(fragment, keys, survivors)? {
        Keying::Digits(digits) if is_direct(digits.product, aggregates, survivors, context)? => {
            Way::Direct(digits)
        }
        keying => Way::Hashed(Arc::new(keying)),
    })
}

/// The form that keys take in a hash table.
pub(super) fn keying(
    fragment: &Fragment,
    keys: &[Expression],
    survivors: &Survivors,
) -> Result<Keying> {
    let all = fragment.conditions.is_empty();
    let codings = keys.iter().map(|key| Coding::of(key, &fragment.columns, survivors, all));
    let codings: Vec<Option<Coding>> = codings.collect::<Result<_>>()?;
    let codings = match Digits::of(keys, codings) {
        Ok(digits) => return Ok(Keying::Digits(Arc::new(digits))),
        Err(codings) => codings,
    };
    Ok(match Packed::of(keys, codings) {
        Some(packed) => Keying::Packed(packed),
        None => Keying::of_bytes(keys)?,
    })
}

/// Whether a direct index of so many groups is worth its memory, and there is that memory. Of few
/// groups there is, so that whether sums are those of decimals does not depend on memory.
fn is_direct(
    product: u64,
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<bool> {
    let rows: u64 = survivors.segments.iter().map(|s| s.segment.rows()).sum();
    if product == 1 {
        return Ok(true);
    }
    if product > context.limits.direct.min((rows * 2).max(FEW)) {
        return Ok(false);
    }
    let threads = context.pool.current_num_threads().min(survivors.work.len().max(1));
    let states = Accumulators::new(aggregates)?;
    let fits = || {
        Reservation::new(context).grow(states.bytes_a_group() * product as usize * threads).is_ok()
    };
    Ok(product <= MAX_PENDING as u64 || (!states.hold_texts() && fits()))
}

fn direct<'a>(
    fragment: &'a Fragment,
    digits: Arc<Digits>,
    alone: bool,
    aggregates: &'a [Aggregate],
    (sets, reserved): (&[Set], Vec<Reservation<'a>>),
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Rest<'a>> {
    let spill = Arc::new(Spill::new(context.temp_dir));
    let reserved = Mutex::new(reserved);
    let reservation = || {
        let known = reserved.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.unwrap_or_else(|| Reservation::new(context))
    };
    let value_counts =
        if alone { value_counts(fragment, aggregates, survivors)? } else { Vec::new() };
    let groups = || {
        let slots = Slots::new(Arc::clone(&digits), aggregates, reservation())?;
        WithCounts::new(slots, &value_counts, context)
    };
    let only_sets = alone
        && aggregates.iter().all(|aggregate| aggregate.distinct && aggregate.filter.is_none());
    let make = || {
        Ok(WithSets { groups: groups()?, alone: only_sets, sets: workers(sets, &spill, context)? })
    };
    let done = each_slice(fragment, survivors, &survivors.work, context, make)?;
    let (slots, of_sets) = taken_apart(done, sets.len());
    let mut slots = slots.into_iter();
    let first = slots.next().map_or_else(groups, Ok)?;
    let (mut states, reservation) = first.merged(slots, &value_counts, aggregates)?;
    for (set, workers) in sets.iter().zip(of_sets) {
        set.counts(workers, &spill, context, |groups, counts| {
            if let Keys::Narrow(groups) = groups {
                states.add_distinct(&set.aggregates, &groups, &counts);
            }
            Ok(())
        })?;
    }
    Ok(Rest::Slots(SlotsLeft { spill, digits, states, alone, done: 0, context, reservation }))
}

fn hashed<'a>(
    fragment: &'a Fragment,
    keying: Arc<Keying>,
    aggregates: &'a [Aggregate],
    sets: &[Set],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Rest<'a>> {
    let spill = Arc::new(Spill::new(context.temp_dir));
    let like = Part { keys: keying.none(), states: Accumulators::new(aggregates)? };
    let groups = || Hashed::new(Arc::clone(&keying), Arc::clone(&spill), &like, context);
    let make =
        || Ok(WithSets { groups: groups()?, alone: false, sets: workers(sets, &spill, context)? });
    let done = each_slice(fragment, survivors, &survivors.work, context, make)?;
    let (mut hashed, of_sets) = taken_apart(done, sets.len());
    for (set, workers) in sets.iter().zip(of_sets) {
        let Some(into) = hashed.first_mut() else { break };
        set.counts(workers, &spill, context, |keys, counts| {
            let mut part = Part { keys, states: like.states.none()? };
            part.states.grow(counts.len());
            let groups: Vec<u64> = (0..counts.len() as u64).collect();
            part.states.add_distinct(&set.aggregates, &groups, &counts);
            into.add(&part)
        })?;
    }
    let (held, parts) = left(hashed, context)?;
    let left = PartitionsLeft::new(spill, context, like, parts, held);
    Ok(Rest::Partitions(keying, Box::new(left)))
}

/// A worker for each set.
fn workers<'a>(
    sets: &[Set],
    spill: &Arc<Spill>,
    context: &'a Context<'a>,
) -> Result<Vec<SetWorker<'a>>> {
    sets.iter().map(|set| set.worker(spill, context)).collect()
}

/// The groups of all threads, and for each set what all threads have seen.
fn taken_apart<'a, W>(
    workers: Vec<WithSets<'a, W>>,
    sets: usize,
) -> (Vec<W>, Vec<Vec<SetWorker<'a>>>) {
    let mut groups = Vec::with_capacity(workers.len());
    let mut of_sets: Vec<Vec<SetWorker<'a>>> = (0..sets).map(|_| Vec::new()).collect();
    for worker in workers {
        groups.push(worker.groups);
        of_sets.iter_mut().zip(worker.sets).for_each(|(all, set)| all.push(set));
    }
    (groups, of_sets)
}
