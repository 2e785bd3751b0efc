//! Grouping from the choice of a strategy to the groups that come out.

use std::sync::{Arc, Mutex, PoisonError};

use super::interner::TextBudget;
use super::key_encoder::KeyEncoder;
use super::output::{GroupOutput, PartitionOutput, SlotOutput, gather};
use super::pair::TableKeys;
use super::sets::{DistinctSet, SetWorker, WithSets, sets};
use super::slots::Slots;
use super::spill::Spill;
use super::strategy::{SlotKeys, Strategy, choose};
use super::table::Part;
use super::texts::TextShare;
use super::worker::Hashed;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::query::aggregate::Accumulators;
use crate::query::context::Context;
use crate::query::fragment::FirstGroups;
use crate::query::memory::Reservation;
use crate::query::open::Survivors;
use crate::query::walk::each_slice;
use crate::query::{Aggregate, Fragment};

/// Groups the rows that pass the filter. The output yields the columns of keys and aggregates, of
/// the `first` groups only if these are given.
pub(crate) fn groups<'a>(
    fragment: &Fragment,
    first: Option<&'a FirstGroups>,
    keys: &'a [Expression],
    aggregates: &'a [Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<GroupOutput<'a>> {
    let texts = Arc::new(TextBudget::new(context.limits.texts));
    let before = context.recorder.mark();
    match groups_with(fragment, first, keys, aggregates, survivors, context, Some(&texts)) {
        // Keys of bytes can be spilled.
        Err(Error::LimitExceeded(_)) if texts.is_used() => {
            context.recorder.go_back(before);
            groups_with(fragment, first, keys, aggregates, survivors, context, None)
        }
        grouped => grouped,
    }
}

/// The same with texts as numbers, if they have a budget.
fn groups_with<'a>(
    fragment: &Fragment,
    first: Option<&'a FirstGroups>,
    keys: &'a [Expression],
    aggregates: &'a [Aggregate],
    survivors: &Survivors,
    context: &'a Context<'a>,
    texts: Option<&Arc<TextBudget>>,
) -> Result<GroupOutput<'a>> {
    let strategy = choose(fragment, keys, aggregates, survivors, context, texts)?;
    context.recorder.update(|sum| sum.grouping = Some(strategy.name()));
    let slots = reserved(&strategy, aggregates, survivors, context)?;
    let (sets, _held) = sets(fragment, keys, aggregates, &strategy, survivors, context, texts)?;
    let sets = Sets { sets: &sets, texts };
    match strategy {
        Strategy::Direct(slot_keys) => {
            let keys = (slot_keys, keys.is_empty());
            direct((fragment, first), keys, aggregates, (sets, slots), survivors, context)
        }
        Strategy::Hashed(encoder) => {
            hashed((fragment, first), encoder, aggregates, sets, survivors, context)
        }
    }
}

/// Distinct values that are counted, and the texts among them and the keys that are numbered.
#[derive(Clone, Copy)]
struct Sets<'s> {
    sets: &'s [DistinctSet],
    texts: Option<&'s Arc<TextBudget>>,
}

impl Sets<'_> {
    /// Groups beside a worker for each set.
    fn beside<'a, W>(
        &self,
        groups: W,
        alone: bool,
        spill: &Arc<Spill>,
        context: &'a Context<'a>,
    ) -> Result<WithSets<'a, W>> {
        let sets = self.sets.iter().map(|set| set.worker(spill, context)).collect::<Result<_>>()?;
        Ok(WithSets { groups, alone, sets, texts: TextShare::new(self.texts, context) })
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
    if let (Strategy::Direct(keys), true) =
        (strategy, aggregates.iter().any(|aggregate| aggregate.distinct))
    {
        let bytes = Accumulators::new(aggregates)?.bytes_a_group() * keys.most() as usize;
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
    (fragment, first): (&Fragment, Option<&'a FirstGroups>),
    (keys, alone): (SlotKeys, bool),
    aggregates: &'a [Aggregate],
    (sets, reserved): (Sets<'_>, Vec<Reservation<'a>>),
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<GroupOutput<'a>> {
    let spill = Arc::new(Spill::new(context.temp_dir));
    let reserved = Mutex::new(reserved);
    let reservation = || {
        let known = reserved.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.unwrap_or_else(|| Reservation::new(context))
    };
    let groups = || Slots::new(keys.clone(), aggregates, reservation());
    let only_sets = alone
        && aggregates.iter().all(|aggregate| aggregate.distinct && aggregate.filter.is_none());
    let make = || sets.beside(groups()?, only_sets, &spill, context);
    let done = each_slice(&fragment.row_source(), survivors, &survivors.blocks, context, make)?;
    let (slots, of_sets, texts) = unzip(done, sets.sets.len(), context);
    let mut slots = slots.into_iter();
    let one = slots.next().map_or_else(groups, Ok)?;
    let (mut states, mut reservation) = one.merged(slots)?;
    for (set, workers) in sets.sets.iter().zip(of_sets) {
        set.counts(workers, &spill, context, |groups, counts| {
            let groups: &Vec<u64> = (&groups).try_into()?;
            states.add_distinct(&set.aggregates, groups, &counts)
        })?;
    }
    if let SlotKeys::Texts(..) = keys {
        reservation.join(texts);
    }
    Ok(GroupOutput::Slots(SlotOutput {
        spill,
        keys,
        states,
        first,
        alone,
        done: 0,
        context,
        reservation,
    }))
}

fn hashed<'a>(
    (fragment, first): (&Fragment, Option<&'a FirstGroups>),
    encoder: Arc<KeyEncoder>,
    aggregates: &'a [Aggregate],
    sets: Sets<'_>,
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<GroupOutput<'a>> {
    let spill = Arc::new(Spill::new(context.temp_dir));
    let like = Part { keys: encoder.empty_keys(), states: Accumulators::new(aggregates)? };
    let table_keys = Arc::new(TableKeys::Group(Arc::clone(&encoder)));
    let groups = || Hashed::new(Arc::clone(&table_keys), Arc::clone(&spill), &like, context);
    let make = || sets.beside(groups()?, false, &spill, context);
    let done = each_slice(&fragment.row_source(), survivors, &survivors.blocks, context, make)?;
    let (mut hashed, of_sets, texts) = unzip(done, sets.sets.len(), context);
    for (set, workers) in sets.sets.iter().zip(of_sets) {
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
    let left = PartitionOutput::new(spill, context, like, parts, held).holding(texts);
    Ok(GroupOutput::Partitions(encoder, first, Box::new(left)))
}

/// The groups of all threads, for each set what all threads have seen, and what is reserved for
/// texts.
fn unzip<'a, W>(
    workers: Vec<WithSets<'a, W>>,
    sets: usize,
    context: &'a Context<'a>,
) -> (Vec<W>, Vec<Vec<SetWorker<'a>>>, Reservation<'a>) {
    let mut groups = Vec::with_capacity(workers.len());
    let mut of_sets: Vec<Vec<SetWorker<'a>>> = (0..sets).map(|_| Vec::new()).collect();
    let mut texts = Reservation::new(context);
    for worker in workers {
        groups.push(worker.groups);
        of_sets.iter_mut().zip(worker.sets).for_each(|(all, set)| all.push(set));
        texts.join(worker.texts.reservation);
    }
    (groups, of_sets, texts)
}
