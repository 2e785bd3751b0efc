//! Grouping from the choice of a strategy to the groups that come out.

use std::sync::{Arc, Mutex, PoisonError};

use super::key_encoder::KeyEncoder;
use super::mixed_radix::MixedRadix;
use super::output::{GroupOutput, PartitionOutput, SlotOutput, gather};
use super::pair::TableKeys;
use super::sets::{DistinctSet, SetWorker, WithSets, sets};
use super::slots::Slots;
use super::spill::Spill;
use super::strategy::{Strategy, choose};
use super::table::Part;
use super::worker::Hashed;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::aggregate::Accumulators;
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::Survivors;
use crate::query::walk::each_slice;
use crate::query::{Aggregate, Fragment};

/// Groups the rows that pass. The keys and aggregates come out of what is given back.
pub(crate) fn groups<'a>(
    fragment: &'a Fragment,
    keys: &'a [Expression],
    aggregates: &'a [Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<GroupOutput<'a>> {
    let strategy = choose(fragment, keys, aggregates, survivors, context)?;
    context.recorder.update(|sum| sum.grouping = Some(strategy.name()));
    let slots = reserved(&strategy, aggregates, survivors, context)?;
    let (sets, _held) = sets(fragment, keys, aggregates, &strategy, survivors, context)?;
    match strategy {
        Strategy::Direct(radix) => {
            let alone = keys.is_empty();
            direct(fragment, radix, alone, aggregates, (&sets, slots), survivors, context)
        }
        Strategy::Hashed(encoder) => {
            hashed(fragment, encoder, aggregates, &sets, survivors, context)
        }
    }
}

/// Memory for the slots of each thread, before distinct values beside them take it.
fn reserved<'a>(
    strategy: &Strategy,
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<Vec<Reservation<'a>>> {
    let mut all = Vec::new();
    if let (Strategy::Direct(radix), true) =
        (strategy, aggregates.iter().any(|aggregate| aggregate.distinct))
    {
        let bytes = Accumulators::new(aggregates)?.bytes_a_group() * radix.product as usize;
        for _ in 0..context.pool.current_num_threads().min(survivors.blocks.len().max(1)) {
            let mut one = Reservation::new(context);
            // Few groups are made even where their memory is refused.
            let _ = one.grow(bytes);
            all.push(one);
        }
    }
    Ok(all)
}

fn direct<'a>(
    fragment: &'a Fragment,
    radix: Arc<MixedRadix>,
    alone: bool,
    aggregates: &'a [Aggregate],
    (sets, reserved): (&[DistinctSet], Vec<Reservation<'a>>),
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<GroupOutput<'a>> {
    let spill = Arc::new(Spill::new(context.temp_dir));
    let reserved = Mutex::new(reserved);
    let reservation = || {
        let known = reserved.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.unwrap_or_else(|| Reservation::new(context))
    };
    let groups = || Slots::new(Arc::clone(&radix), aggregates, reservation());
    let only_sets = alone
        && aggregates.iter().all(|aggregate| aggregate.distinct && aggregate.filter.is_none());
    let make = || {
        Ok(WithSets { groups: groups()?, alone: only_sets, sets: workers(sets, &spill, context)? })
    };
    let done = each_slice(&fragment.row_source(), survivors, &survivors.blocks, context, make)?;
    let (slots, of_sets) = unzip(done, sets.len());
    let mut slots = slots.into_iter();
    let first = slots.next().map_or_else(groups, Ok)?;
    let (mut states, reservation) = first.merged(slots)?;
    for (set, workers) in sets.iter().zip(of_sets) {
        set.counts(workers, &spill, context, |groups, counts| {
            let groups: &Vec<u64> = (&groups).try_into()?;
            states.add_distinct(&set.aggregates, groups, &counts)
        })?;
    }
    Ok(GroupOutput::Slots(SlotOutput {
        spill,
        radix,
        states,
        alone,
        done: 0,
        context,
        reservation,
    }))
}

fn hashed<'a>(
    fragment: &'a Fragment,
    encoder: Arc<KeyEncoder>,
    aggregates: &'a [Aggregate],
    sets: &[DistinctSet],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<GroupOutput<'a>> {
    let spill = Arc::new(Spill::new(context.temp_dir));
    let like = Part { keys: encoder.empty_keys(), states: Accumulators::new(aggregates)? };
    let table_keys = Arc::new(TableKeys::Group(Arc::clone(&encoder)));
    let groups = || Hashed::new(Arc::clone(&table_keys), Arc::clone(&spill), &like, context);
    let make =
        || Ok(WithSets { groups: groups()?, alone: false, sets: workers(sets, &spill, context)? });
    let done = each_slice(&fragment.row_source(), survivors, &survivors.blocks, context, make)?;
    let (mut hashed, of_sets) = unzip(done, sets.len());
    for (set, workers) in sets.iter().zip(of_sets) {
        let Some(into) = hashed.first_mut() else { break };
        set.counts(workers, &spill, context, |keys, counts| {
            let mut part = Part { keys, states: like.states.empty_like()? };
            part.states.grow(counts.len());
            let groups: Vec<u64> = (0..counts.len() as u64).collect();
            part.states.add_distinct(&set.aggregates, &groups, &counts)?;
            into.add(&part)
        })?;
    }
    let (held, parts) = gather(hashed, context)?;
    let left = PartitionOutput::new(spill, context, like, parts, held);
    Ok(GroupOutput::Partitions(encoder, Box::new(left)))
}

/// A worker for each set.
fn workers<'a>(
    sets: &[DistinctSet],
    spill: &Arc<Spill>,
    context: &'a Context<'a>,
) -> Result<Vec<SetWorker<'a>>> {
    sets.iter().map(|set| set.worker(spill, context)).collect()
}

/// The groups of all threads, and for each set what all threads have seen.
fn unzip<'a, W>(workers: Vec<WithSets<'a, W>>, sets: usize) -> (Vec<W>, Vec<Vec<SetWorker<'a>>>) {
    let mut groups = Vec::with_capacity(workers.len());
    let mut of_sets: Vec<Vec<SetWorker<'a>>> = (0..sets).map(|_| Vec::new()).collect();
    for worker in workers {
        groups.push(worker.groups);
        of_sets.iter_mut().zip(worker.sets).for_each(|(all, set)| all.push(set));
    }
    (groups, of_sets)
}
