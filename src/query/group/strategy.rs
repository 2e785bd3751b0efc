//! The strategy by which a query groups its rows, chosen from dictionaries and zone maps before
//! rows are read.

use std::sync::Arc;

use arrow_array::ArrayRef;

use super::coding::CodedKey;
use super::interner::TextBudget;
use super::key_encoder::KeyEncoder;
use super::keys::Keys;
use super::mixed_radix::MixedRadix;
use super::packed::Packed;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::aggregate::{Accumulators, MAX_PENDING};
use crate::query::context::Context;
use crate::query::memory::Reservation;
use crate::query::open::Survivors;
use crate::query::{Aggregate, Fragment};

/// Up to this many groups, a direct index is used however few the rows.
const FEW: u64 = 1 << 12;

/// How rows become groups.
pub(super) enum Strategy {
    Direct(SlotKeys),
    Hashed(Arc<KeyEncoder>),
}

/// Keys that are small numbers, so that the number of a group is its slot.
#[derive(Clone)]
pub(crate) enum SlotKeys {
    /// Codes, as digits of one number.
    Radix(Arc<MixedRadix>),
    /// The numbers of the texts of one key, and the most texts that it may have.
    Texts(Arc<KeyEncoder>, u64),
}

impl SlotKeys {
    /// How many slots there are at most.
    pub(super) fn most(&self) -> u64 {
        match self {
            SlotKeys::Radix(radix) => radix.product,
            SlotKeys::Texts(_, most) => *most,
        }
    }

    /// How many columns they are.
    pub(super) fn len(&self) -> usize {
        match self {
            SlotKeys::Radix(radix) => radix.len(),
            SlotKeys::Texts(encoder, _) => encoder.len(),
        }
    }

    /// The columns of the keys of some slots.
    pub(super) fn columns(&self, slots: &[u64]) -> Result<Vec<ArrayRef>> {
        match self {
            SlotKeys::Radix(radix) => radix.keys(slots),
            SlotKeys::Texts(encoder, _) => {
                encoder.columns(&Keys::Narrow(slots.to_vec()), 0..slots.len())
            }
        }
    }
}

impl Strategy {
    /// Its name in reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Strategy::Direct(SlotKeys::Radix(radix)) if radix.product == 1 => "one group",
            Strategy::Direct(SlotKeys::Radix(_)) => "direct index",
            Strategy::Direct(SlotKeys::Texts(..)) => "direct index of numbered texts",
            Strategy::Hashed(encoder) if encoder.bits().is_some() => "hash table of packed codes",
            Strategy::Hashed(_) => "hash table of rows",
        }
    }
}

/// The strategy for a query.
pub(super) fn choose(
    fragment: &Fragment,
    keys: &[Expression],
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &Context<'_>,
    texts: Option<&Arc<TextBudget>>,
) -> Result<Strategy> {
    let encoder = key_encoder(fragment, keys, survivors, texts)?;
    let most = match &encoder {
        KeyEncoder::Radix(radix) => Some(radix.product),
        other => other.only_text().map(|text| text.most(survivors)),
    };
    let is_direct = match most {
        Some(most) => is_direct(most, aggregates, survivors, context)?,
        None => false,
    };
    Ok(match (encoder, most) {
        (KeyEncoder::Radix(radix), _) if is_direct => Strategy::Direct(SlotKeys::Radix(radix)),
        (encoder, Some(most)) if is_direct && most <= most_texts(context) => {
            Strategy::Direct(SlotKeys::Texts(Arc::new(encoder), most))
        }
        (encoder, _) => Strategy::Hashed(Arc::new(encoder)),
    })
}

/// The form that keys take in a hash table; with `texts`, texts may be numbers.
pub(super) fn key_encoder(
    fragment: &Fragment,
    keys: &[Expression],
    survivors: &Survivors,
    texts: Option<&Arc<TextBudget>>,
) -> Result<KeyEncoder> {
    let all = fragment.conditions.is_empty();
    let coded = keys.iter().map(|key| CodedKey::new(key, &fragment.columns, survivors, all));
    let coded: Vec<Option<CodedKey>> = coded.collect::<Result<_>>()?;
    let coded = match MixedRadix::new(keys, coded) {
        Ok(radix) => return Ok(KeyEncoder::Radix(Arc::new(radix))),
        Err(coded) => coded,
    };
    Ok(match Packed::new(keys, coded, survivors, texts) {
        Some(packed) => KeyEncoder::Packed(packed),
        None => KeyEncoder::from_bytes(keys)?,
    })
}

/// How many numbered texts may have slots in each thread: the slots of all threads are merged one
/// after the other.
fn most_texts(context: &Context<'_>) -> u64 {
    context.limits.direct.saturating_mul(4) / context.pool.current_num_threads().max(1) as u64
}

/// Whether a direct index of `product` groups is worth its memory, and there is that memory. For
/// few groups there always is, so that whether sums are those of decimals does not depend on
/// memory.
fn is_direct(
    product: u64,
    aggregates: &[Aggregate],
    survivors: &Survivors,
    context: &Context<'_>,
) -> Result<bool> {
    let rows: u64 = survivors.rows();
    if product == 1 {
        return Ok(true);
    }
    if product > context.limits.direct.min((rows * 2).max(FEW)) {
        return Ok(false);
    }
    let threads = context.pool.current_num_threads().min(survivors.blocks.len().max(1));
    let states = Accumulators::new(aggregates)?;
    let fits = || {
        Reservation::new(context).grow(states.bytes_a_group() * product as usize * threads).is_ok()
    };
    Ok(product <= MAX_PENDING as u64 || (!states.are_unbounded() && fits()))
}
