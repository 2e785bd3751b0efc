//! Distinct values of groups: which pairs of a group and a value there are, beside the groups
//! themselves.
//!
//! Each input of which distinct values are counted has a set: a bit for each pair where the codes
//! of both are few, else a hash table with the pairs as keys, which moves to partitions and files
//! as groups do. When all rows have been seen, the pairs of a set, each there once, are counted by
//! group, and the counts are added to the groups' other states.

use std::sync::Arc;

use super::bits::{Bits, FEW_BITS};
use super::direct::Digits;
use super::key_encoder::Keying;
use super::keys::Keys;
use super::output::{PartitionsLeft, left};
use super::pair::{Pair, TableKeys};
use super::sieve::{Sieve, Sifter};
use super::spill::Spill;
use super::strategy::{Way, key_encoder};
use super::table::{Part, Table};
use super::worker::Hashed;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::aggregate::Accumulators;
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::{OpenBlock, Survivors};
use crate::query::slice::Slice;
use crate::query::stats::Statistic;
use crate::query::walk::Worker;
use crate::query::{Aggregate, Fragment};

/// Bits for a slot of a direct index.
const BITS_A_SLOT: u64 = 16;
/// Bits are worth their memory up to so many a row.
const BITS_A_ROW: u64 = 16;

/// The set of an input's distinct values.
pub(crate) struct Set {
    /// The aggregates that count them.
    pub(crate) aggregates: Vec<usize>,
    form: Form,
}

enum Form {
    /// Whether all rows come.
    Bits(Arc<Digits>, bool),
    /// With what tells rows that were seen before, if there is such.
    Hashed(Arc<TableKeys>, Option<Arc<Sieve>>),
}

/// The sets that aggregates need, and what is reserved for those that cannot be spilled, for all
/// threads.
pub(crate) fn sets<'a>(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    way: &Way,
    survivors: &Survivors,
    context: &'a Context<'a>,
) -> Result<(Vec<Set>, Reservation<'a>)> {
    let mut inputs: Vec<(&Expression, Vec<usize>)> = Vec::new();
    for (at, aggregate) in aggregates.iter().enumerate().filter(|(_, aggregate)| aggregate.distinct)
    {
        let Some(input) = &aggregate.input else { continue };
        match inputs.iter_mut().find(|(known, _)| known.is_same(input)) {
            Some((_, takers)) => takers.push(at),
            None => inputs.push((input, vec![at])),
        }
    }
    let threads = context.pool.current_num_threads().min(survivors.blocks.len().max(1));
    let rows = survivors.rows();
    let mut room = Room { context, rows, threads, reservation: Reservation::new(context) };
    let one = |(input, aggregates): (&Expression, Vec<usize>)| {
        let form = form(fragment, keys, input, way, survivors, &mut room)?;
        Ok(Set { aggregates, form })
    };
    let sets = inputs.into_iter().map(one).collect::<Result<_>>()?;
    Ok((sets, room.reservation))
}

/// Room for bits.
struct Room<'a> {
    context: &'a Context<'a>,
    rows: u64,
    threads: usize,
    reservation: Reservation<'a>,
}

impl Room<'_> {
    /// Whether so many bits for each thread are worth their memory, and there is that memory.
    fn has(&mut self, bits: u64) -> bool {
        if bits <= FEW_BITS {
            return true;
        }
        let most = self
            .context
            .limits
            .direct
            .saturating_mul(BITS_A_SLOT)
            .min(self.rows.saturating_mul(BITS_A_ROW));
        bits <= most && self.reservation.grow(Bits::memory_of(bits) * self.threads).is_ok()
    }
}

fn form(
    fragment: &Fragment,
    keys: &[Expression],
    input: &Expression,
    way: &Way,
    survivors: &Survivors,
    room: &mut Room<'_>,
) -> Result<Form> {
    let mut sieve = None;
    let group = match way {
        Way::Direct(digits) => {
            let all: Vec<Expression> = keys.iter().chain([input]).cloned().collect();
            if let Keying::Digits(pairs) = key_encoder(fragment, &all, survivors)?
                && pairs.product == digits.product.saturating_mul(pairs.last_domain())
                && room.has(pairs.product)
            {
                return Ok(Form::Bits(pairs, fragment.conditions.is_empty()));
            }
            let groups = (digits.product > 1).then(|| Arc::clone(digits));
            sieve = Sieve::of(input, groups.clone(), survivors, room.context).map(Arc::new);
            groups.map(|digits| Arc::new(Keying::Digits(digits)))
        }
        Way::Hashed(keying) => Some(Arc::clone(keying)),
    };
    let value = key_encoder(fragment, std::slice::from_ref(input), survivors)?;
    Ok(Form::Hashed(Arc::new(TableKeys::Pair(Pair::of(group, value))), sieve))
}

/// One thread's part of a set.
pub(crate) enum SetWorker<'a> {
    Bits(Bits),
    Hashed(Box<Hashed<'a>>, Option<Sifter<'a>>),
}

/// A thread's groups, and their distinct values.
pub(crate) struct WithSets<'a, W> {
    pub(crate) groups: W,
    /// Whether the groups are one, of which nothing else is asked.
    pub(crate) alone: bool,
    pub(crate) sets: Vec<SetWorker<'a>>,
}

impl Set {
    pub(crate) fn worker<'a>(
        &self,
        spill: &Arc<Spill>,
        context: &'a Context<'a>,
    ) -> Result<SetWorker<'a>> {
        Ok(match &self.form {
            Form::Bits(digits, all) => SetWorker::Bits(Bits::new(Arc::clone(digits), *all)),
            Form::Hashed(keys, sieve) => {
                let none = no_states(keys)?;
                let worker = Hashed::new(Arc::clone(keys), Arc::clone(spill), &none, context)?;
                let sifter = sieve.as_ref().map(|sieve| Sifter::new(Arc::clone(sieve), context));
                SetWorker::Hashed(Box::new(worker), sifter)
            }
        })
    }

    /// Calls `found` with keys of groups, each at most once a call, and how many values each of
    /// them has.
    pub(crate) fn counts<'a>(
        &self,
        workers: Vec<SetWorker<'a>>,
        spill: &Arc<Spill>,
        context: &'a Context<'a>,
        mut found: impl FnMut(Keys, Vec<u64>) -> Result<()>,
    ) -> Result<()> {
        let (mut bits, mut hashed) = (Vec::new(), Vec::new());
        for worker in workers {
            match worker {
                SetWorker::Bits(worker) => bits.push(worker),
                SetWorker::Hashed(worker, _) => hashed.push(*worker),
            }
        }
        let mut bits = bits.into_iter();
        if let Some(first) = bits.next() {
            let (groups, counts) = first.merged(bits).counts();
            found(Keys::Narrow(groups), counts)?;
        }
        let Form::Hashed(keys, _) = &self.form else { return Ok(()) };
        let TableKeys::Pair(pair) = &**keys else { return Ok(()) };
        let (held, parts) = left(hashed, context)?;
        let mut pairs =
            PartitionsLeft::new(Arc::clone(spill), context, no_states(keys)?, parts, held);
        while let Some(made) = pairs.step(|part| counted(pair, part))? {
            made.into_iter().try_for_each(|(groups, counts)| found(groups, counts))?;
        }
        Ok(())
    }
}

/// No pairs; there is nothing but their keys.
fn no_states<'a>(keys: &TableKeys) -> Result<Part<'a>> {
    Ok(Part { keys: keys.none(), states: Accumulators::new(&[])? })
}

/// The groups of pairs, each once, and how many of the pairs have a value.
fn counted(pair: &Pair, part: &Part<'_>) -> Result<(Keys, Vec<u64>)> {
    let (groups, values) = pair.groups(&part.keys)?;
    if pair.is_one_group() {
        return Ok((Keys::Narrow(vec![0]), vec![values as u64]));
    }
    let mut table = Table::like(&Part { keys: groups.none(), states: Accumulators::new(&[])? })?;
    table.merge(&Part { keys: groups, states: Accumulators::single(values)? })?;
    Ok((table.part.keys, table.part.states.rows))
}

impl<W: Worker> Worker for WithSets<'_, W> {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        self.groups.take(slice)?;
        self.sets.iter_mut().try_for_each(|set| set.take(slice))
    }

    fn skips(&mut self, block: &OpenBlock<'_>) -> Option<Statistic> {
        let all = self.sets.iter_mut().filter(|_| self.alone).map(|set| match set {
            SetWorker::Bits(bits) => bits.knows(block),
            SetWorker::Hashed(..) => None,
        });
        all.reduce(Option::and)?
    }

    fn account(&mut self) -> Result<()> {
        self.groups.account()?;
        self.sets.iter_mut().try_for_each(Worker::account)
    }
}

impl Worker for SetWorker<'_> {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        match self {
            SetWorker::Bits(bits) => bits.take(slice),
            SetWorker::Hashed(hashed, None) => hashed.take(slice),
            SetWorker::Hashed(hashed, Some(sifter)) => match sifter.new_rows(slice)? {
                None => hashed.take(slice),
                Some(rows) if rows.is_empty() => Ok(()),
                Some(rows) => {
                    let mut new = Slice::new(slice.block, slice.range.clone());
                    new.select(rows);
                    hashed.take(&mut new)
                }
            },
        }
    }

    fn account(&mut self) -> Result<()> {
        match self {
            SetWorker::Bits(_) => Ok(()),
            SetWorker::Hashed(hashed, sifter) => {
                sifter.iter_mut().for_each(Sifter::account);
                hashed.account()
            }
        }
    }
}
