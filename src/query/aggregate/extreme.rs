//! The least or greatest of numbers, times and booleans, as words that sort like the values.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;

use super::columns::{GroupMap, GroupStorage, SlotColumn};
use super::input::Values;
use super::kernels::{Groups, fold, neutralised};
use super::kind::{Batch, StateKind, wrong_kind_error};
use crate::encoding::kernels::dispatch::simd;
use crate::error::Result;
use crate::model::Scalar;
use crate::query::open::OpenBlock;
use crate::query::words::{from_words, is_words, ordered, unordered};

#[derive(Debug)]
pub(super) struct Extreme {
    best: SlotColumn<i64>,
    greatest: bool,
    input: ArrowType,
}

impl Extreme {
    /// Whether values of the type have such words.
    pub(super) fn takes(input: &ArrowType) -> bool {
        is_words(input) || matches!(input, ArrowType::UInt64 | ArrowType::Float64)
    }

    pub(super) fn new(greatest: bool, input: ArrowType) -> Self {
        let none = if greatest { i64::MIN } else { i64::MAX };
        Extreme { best: SlotColumn::new(none), greatest, input }
    }

    /// The bits in which an integer and its word differ: unsigned ones sort as signed words.
    fn flip(&self) -> i64 {
        if self.input == ArrowType::UInt64 { i64::MIN } else { 0 }
    }
}

impl StateKind for Extreme {
    fn only_adds(&self) -> bool {
        false
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn storage(&self) -> &dyn GroupStorage {
        &self.best
    }

    fn storage_mut(&mut self) -> &mut dyn GroupStorage {
        &mut self.best
    }

    fn update(
        &mut self,
        groups: Groups<'_>,
        values: &Values,
        valid: Option<&NullBuffer>,
    ) -> Result<()> {
        let (greatest, flip) = (self.greatest, self.flip());
        match values {
            Values::Words(values) => {
                keep_best(groups, values, valid, &mut self.best.slots, greatest, |v| v ^ flip);
            }
            Values::Floats(values) => {
                keep_best(groups, values, valid, &mut self.best.slots, greatest, ordered);
            }
            Values::Wide(_) | Values::Decimals(_) | Values::Array(_) => {
                return Err(wrong_kind_error());
            }
        }
        Ok(())
    }

    /// Not if the block has no value beyond what the group has.
    fn improves(&self, group: usize, column: usize, block: &OpenBlock<'_>) -> bool {
        let stored =
            block.stored(column).filter(|stored| stored.data_type().to_arrow() == self.input);
        let (Some(best), Some(stats)) =
            (self.best.slots.get(group), stored.and_then(|s| s.block_stats(block.at.block)))
        else {
            return true;
        };
        let bound = if self.greatest { &stats.max } else { &stats.min };
        let word = match bound.as_ref().map(|bound| &bound.value) {
            Some(Scalar::Int(value)) if is_words(&self.input) => i64::try_from(*value).ok(),
            Some(Scalar::Float(value)) => Some(ordered(*value)),
            _ => None,
        };
        let is_better = |word| if self.greatest { word > *best } else { word < *best };
        // Without a value yet, whether there are any has to be seen.
        *best == self.best.empty || word.is_none_or(is_better)
    }

    fn merge(&mut self, others: &Self, map: GroupMap<'_>) {
        match self.greatest {
            true => self.best.merge(&others.best, map, |a, b| *a = (*a).max(b)),
            false => self.best.merge(&others.best, map, |a, b| *a = (*a).min(b)),
        }
    }

    fn append(&mut self, others: &Self, at: &[u32]) {
        self.best.append(&others.best, at);
    }

    fn finish(&self, batch: &Batch<'_>) -> Result<ArrayRef> {
        let (words, nulls) = (batch.pick(&self.best.slots).into_iter(), batch.nulls());
        if self.input == ArrowType::Float64 {
            let values: ScalarBuffer<f64> = words.map(unordered).collect();
            return Ok(Arc::new(Float64Array::new(values, nulls)));
        }
        from_words(words.map(|word| word ^ self.flip()).collect(), nulls, &self.input)
    }
}

/// Keeps the best word of each group.
#[inline(always)]
fn keep_best<V: Copy>(
    groups: Groups<'_>,
    values: &[V],
    valid: Option<&NullBuffer>,
    best: &mut [i64],
    greatest: bool,
    word: impl Fn(V) -> i64,
) {
    if let Groups::Same { group, .. } = groups {
        let Some(slot) = best.get_mut(group) else { return };
        let neutral = if greatest { i64::MIN } else { i64::MAX };
        let words: Vec<u64> = match valid {
            Some(valid) => neutralised(values, valid, neutral as u64, |v| word(v) as u64),
            None => values.iter().map(|v| word(*v) as u64).collect(),
        };
        *slot = match greatest {
            true => simd(
                #[inline(always)]
                || words.iter().fold(*slot, |best, word| best.max(*word as i64)),
            ),
            false => simd(
                #[inline(always)]
                || words.iter().fold(*slot, |best, word| best.min(*word as i64)),
            ),
        };
        return;
    }
    match greatest {
        true => fold(groups, values, valid, best, |slot, v| *slot = (*slot).max(word(v))),
        false => fold(groups, values, valid, best, |slot, v| *slot = (*slot).min(word(v))),
    }
}
