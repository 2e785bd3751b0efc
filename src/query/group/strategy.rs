//! The strategy by which a query groups its rows, chosen from dictionaries and zone maps before
//! rows are read.

use std::sync::Arc;

use super::coding::CodedKey;
use super::key_encoder::KeyEncoder;
use super::mixed_radix::MixedRadix;
use super::packed::Packed;
use super::texts::TextBudget;
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
    Direct(Arc<MixedRadix>),
    Hashed(Arc<KeyEncoder>),
}

impl Strategy {
    /// Its name in reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Strategy::Direct(radix) if radix.product == 1 => "one group",
            Strategy::Direct(_) => "direct index",
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
    Ok(match key_encoder(fragment, keys, survivors, texts)? {
        KeyEncoder::Radix(radix) if is_direct(radix.product, aggregates, survivors, context)? => {
            Strategy::Direct(radix)
        }
        encoder => Strategy::Hashed(Arc::new(encoder)),
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
    Ok(match Packed::new(keys, coded, texts.map(|texts| (survivors, texts))) {
        Some(packed) => KeyEncoder::Packed(packed),
        None => KeyEncoder::from_bytes(keys)?,
    })
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
