//! Distinct values of groups: which pairs of a group and a value there are, beside the groups
//! themselves.
//!
//! Each input whose distinct values are counted has a set: a bit for each pair where the codes of
//! both are few; for texts of one group the table that numbers them; else a hash table with the
//! pairs as keys, which moves to partitions and files as groups do. When all rows have been seen,
//! the pairs of a set, each there once, are counted by group, and the counts are added to the
//! groups' other states.
//!
//! So other aggregates cost what they always do, inputs may be many, and no values of a group are
//! carried through a table. As among keys, there is one zero, and NaN is a value. FILTER turns what
//! it leaves out into null. Where nothing but distinct values of one group is asked for, some
//! blocks are not read (`bits`, `texts`): without conditions, those of segments with a dictionary,
//! which are counted from it alone, as it holds just the values that occur; and those whose zone
//! map has only values that were seen before.

use std::sync::Arc;

use super::bits::{Bits, FEW_BITS};
use super::interner::TextBudget;
use super::key_encoder::{KeyEncoder, KeyScratch};
use super::keys::{Keys, wrong_form_error};
use super::mixed_radix::MixedRadix;
use super::output::{PartitionOutput, gather};
use super::pair::{Pair, TableKeys};
use super::spill::Spill;
use super::strategy::{SlotKeys, Strategy, key_encoder};
use super::table::{Part, Table};
use super::texts::{TextKey, TextShare};
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
/// The most bits for a row that are worth their memory.
const BITS_A_ROW: u64 = 16;

/// The set of an input's distinct values.
pub(crate) struct DistinctSet {
    /// The aggregates that count them.
    pub(crate) aggregates: Vec<usize>,
    kind: SetKind,
}

enum SetKind {
    /// Whether all rows come.
    Bits(Arc<MixedRadix>, bool),
    /// The texts of one group, and whether all rows come. A text gets its number at its first row,
    /// or with all of its dictionary.
    Texts(Arc<KeyEncoder>, bool),
    Hashed(Arc<TableKeys>),
}

/// The sets that aggregates need, and what is reserved for those that cannot be spilled, for all
/// threads.
pub(crate) fn sets<'a>(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    strategy: &Strategy,
    survivors: &Survivors,
    context: &'a Context<'a>,
    texts: Option<&'a Arc<TextBudget>>,
) -> Result<(Vec<DistinctSet>, Reservation<'a>)> {
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
    let reservation = Reservation::new(context);
    let mut budget = BitBudget { context, rows, threads, reservation, texts };
    let one = |(input, aggregates): (&Expression, Vec<usize>)| {
        let kind = kind(fragment, keys, input, strategy, survivors, &mut budget)?;
        Ok(DistinctSet { aggregates, kind })
    };
    let sets = inputs.into_iter().map(one).collect::<Result<_>>()?;
    Ok((sets, budget.reservation))
}

/// How many bits may be taken, and bytes of texts.
struct BitBudget<'a> {
    context: &'a Context<'a>,
    rows: u64,
    threads: usize,
    reservation: Reservation<'a>,
    /// Of texts that are numbered.
    texts: Option<&'a Arc<TextBudget>>,
}

impl BitBudget<'_> {
    /// Whether `bits` bits for each thread are worth their memory, and the memory is there.
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

fn kind(
    fragment: &Fragment,
    keys: &[Expression],
    input: &Expression,
    strategy: &Strategy,
    survivors: &Survivors,
    budget: &mut BitBudget<'_>,
) -> Result<SetKind> {
    let group = match strategy {
        Strategy::Direct(SlotKeys::Radix(radix)) => {
            let all: Vec<Expression> = keys.iter().chain([input]).cloned().collect();
            if let KeyEncoder::Radix(pairs) = key_encoder(fragment, &all, survivors, None)?
                && pairs.product == radix.product.saturating_mul(pairs.last_domain())
                && budget.has(pairs.product)
            {
                return Ok(SetKind::Bits(pairs, fragment.conditions.is_empty()));
            }
            (radix.product > 1).then(|| Arc::new(KeyEncoder::Radix(Arc::clone(radix))))
        }
        Strategy::Direct(SlotKeys::Texts(encoder, _)) | Strategy::Hashed(encoder) => {
            Some(Arc::clone(encoder))
        }
    };
    let value = key_encoder(fragment, std::slice::from_ref(input), survivors, budget.texts)?;
    if group.is_none()
        && let Some(text) = value.only_text()
    {
        if !fragment.conditions.is_empty() {
            text.number_only_selected();
        }
        return Ok(SetKind::Texts(Arc::new(value), fragment.conditions.is_empty()));
    }
    Ok(SetKind::Hashed(Arc::new(TableKeys::Pair(Pair::new(group, value)))))
}

/// One thread's part of a set.
pub(crate) enum SetWorker<'a> {
    Bits(Box<Bits>),
    Texts(Box<Numbering>),
    Hashed(Box<Hashed<'a>>),
}

/// Numbers texts, for nothing but how many there are.
pub(crate) struct Numbering {
    encoder: Arc<KeyEncoder>,
    /// Whether all rows come.
    all: bool,
    keys: Keys,
    scratch: KeyScratch,
}

impl Numbering {
    /// What says that no row of a block has a text without a number: all that a dictionary has get
    /// theirs at once where all rows come.
    fn knows(&mut self, block: &OpenBlock<'_>) -> Result<Option<Statistic>> {
        let text = self.encoder.only_text().filter(|_| self.all);
        let known = text.map(|text| text.number_dictionary(block)).transpose()?;
        Ok(known.filter(|known| *known).map(|_| Statistic::Dictionary))
    }
}

/// A thread's groups, and their distinct values.
pub(crate) struct WithSets<'a, W> {
    pub(crate) groups: W,
    /// Whether there is one group, and nothing but distinct values is asked for.
    pub(crate) alone: bool,
    pub(crate) sets: Vec<SetWorker<'a>>,
    /// Of the texts that are numbered, this thread's share.
    pub(crate) texts: TextShare<'a>,
}

impl DistinctSet {
    pub(crate) fn worker<'a>(
        &self,
        spill: &Arc<Spill>,
        context: &'a Context<'a>,
    ) -> Result<SetWorker<'a>> {
        Ok(match &self.kind {
            SetKind::Bits(radix, all) => {
                SetWorker::Bits(Box::new(Bits::new(Arc::clone(radix), *all)))
            }
            SetKind::Texts(encoder, all) => SetWorker::Texts(Box::new(Numbering {
                encoder: Arc::clone(encoder),
                all: *all,
                keys: encoder.empty_keys(),
                scratch: KeyScratch::default(),
            })),
            SetKind::Hashed(keys) => {
                let none = no_states(keys)?;
                let worker = Hashed::new(Arc::clone(keys), Arc::clone(spill), &none, context)?;
                SetWorker::Hashed(Box::new(worker))
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
                SetWorker::Bits(worker) => bits.push(*worker),
                SetWorker::Texts(_) => {}
                SetWorker::Hashed(worker) => hashed.push(*worker),
            }
        }
        let mut bits = bits.into_iter();
        if let Some(first) = bits.next() {
            let (groups, counts) = first.merged(bits).counts();
            found(Keys::Narrow(groups), counts)?;
        }
        let keys = match &self.kind {
            SetKind::Bits(..) => return Ok(()),
            SetKind::Texts(encoder, _) => {
                let texts = encoder.only_text().map_or(0, TextKey::len);
                return found(Keys::Narrow(vec![0]), vec![texts as u64]);
            }
            SetKind::Hashed(keys) => keys,
        };
        let TableKeys::Pair(pair) = &**keys else { return Err(wrong_form_error()) };
        let (held, parts) = gather(hashed, context)?;
        let mut pairs =
            PartitionOutput::new(Arc::clone(spill), context, no_states(keys)?, parts, held);
        while let Some(made) = pairs.step(|part| counted(pair, part))? {
            made.into_iter().try_for_each(|(groups, counts)| found(groups, counts))?;
        }
        Ok(())
    }
}

/// No pairs; there is nothing but their keys.
fn no_states<'a>(keys: &TableKeys) -> Result<Part<'a>> {
    Ok(Part { keys: keys.empty_keys(), states: Accumulators::new(&[])? })
}

/// The groups of pairs, each once, and how many of the pairs have a value.
fn counted(pair: &Pair, part: &Part<'_>) -> Result<(Keys, Vec<u64>)> {
    let (groups, values) = pair.groups(&part.keys)?;
    if pair.is_one_group() {
        return Ok((Keys::Narrow(vec![0]), vec![values as u64]));
    }
    let mut table =
        Table::like(&Part { keys: groups.empty_like(), states: Accumulators::new(&[])? })?;
    table.merge(&Part { keys: groups, states: Accumulators::single(values)? })?;
    Ok((table.part.keys, table.part.states.rows))
}

impl<W: Worker> Worker for WithSets<'_, W> {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        self.groups.take(slice)?;
        self.sets.iter_mut().try_for_each(|set| set.take(slice))
    }

    fn skips(&mut self, block: &OpenBlock<'_>) -> Result<Option<Statistic>> {
        if !self.alone {
            return Ok(None);
        }
        let mut all = None;
        for set in &mut self.sets {
            let knows = match set {
                SetWorker::Bits(bits) => bits.knows(block),
                SetWorker::Texts(texts) => texts.knows(block)?,
                SetWorker::Hashed(_) => None,
            };
            if knows.is_none() {
                return Ok(None);
            }
            all = knows;
        }
        Ok(all)
    }

    fn take_block(&mut self, block: &OpenBlock<'_>) -> Result<bool> {
        Ok(self.sets.is_empty() && self.groups.take_block(block)?)
    }

    fn account(&mut self) -> Result<()> {
        self.texts.account()?;
        self.groups.account()?;
        self.sets.iter_mut().try_for_each(Worker::account)
    }
}

impl Worker for SetWorker<'_> {
    fn take(&mut self, slice: &mut Slice<'_, '_>) -> Result<()> {
        match self {
            SetWorker::Bits(bits) => bits.take(slice),
            SetWorker::Texts(it) => it.encoder.write(slice, &mut it.keys, &mut it.scratch),
            SetWorker::Hashed(hashed) => hashed.take(slice),
        }
    }

    fn account(&mut self) -> Result<()> {
        match self {
            SetWorker::Bits(_) | SetWorker::Texts(_) => Ok(()),
            SetWorker::Hashed(hashed) => hashed.account(),
        }
    }
}
