//! The least or greatest of numbers, times and booleans, as words that sort like the values: of 64
//! bits, and for decimals of 128.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;
use bytemuck::Pod;

use super::columns::{GroupMap, GroupStorage, SlotColumn};
use super::input::Values;
use super::kernels::{Groups, fold, neutralised};
use super::kind::{Batch, StateKind, wrong_kind_error};
use super::totals::{Numbers, Totals};
use crate::encoding::kernels::dispatch::simd;
use crate::error::Result;
use crate::model::Scalar;
use crate::query::open::OpenBlock;
use crate::query::words::{from_words, is_words, ordered, unordered};

/// Of numbers and times of up to 64 bits, and of booleans.
pub(super) type WordExtreme = Extreme<i64>;
/// Of decimals.
pub(super) type WideExtreme = Extreme<i128>;

#[derive(Debug)]
pub(super) struct Extreme<T> {
    best: SlotColumn<T>,
    greatest: bool,
    input: ArrowType,
}

/// Whether values of the type have words of 64 bits.
pub(super) fn has_words(input: &ArrowType) -> bool {
    is_words(input) || matches!(input, ArrowType::UInt64 | ArrowType::Float64)
}

/// The groups of some rows, their values, and which of them count.
type Rows<'a> = (Groups<'a>, &'a Values, Option<&'a NullBuffer>);

/// A word that sorts like the values of some types.
pub(super) trait SortWord: Pod + Default + Ord + Debug + From<i64> {
    const LEAST: Self;
    const GREATEST: Self;

    /// Keeps the best word of each group.
    fn update(states: &mut Extreme<Self>, rows: Rows<'_>) -> Result<()>;

    /// The word of a bound of stored values.
    fn of_bound(bound: &Scalar, input: &ArrowType) -> Option<Self>;

    /// The values of words.
    fn array(words: Vec<Self>, nulls: Option<NullBuffer>, input: &ArrowType) -> Result<ArrayRef>;
}

impl SortWord for i64 {
    const LEAST: i64 = i64::MIN;
    const GREATEST: i64 = i64::MAX;

    fn update(states: &mut WordExtreme, (groups, values, valid): Rows<'_>) -> Result<()> {
        let (greatest, flip) = (states.greatest, flip(&states.input));
        let best = &mut states.best.slots;
        match values {
            Values::Words(values) => {
                keep_best(groups, values, valid, best, greatest, |v| v ^ flip);
            }
            Values::Floats(values) => keep_best(groups, values, valid, best, greatest, ordered),
            Values::Wide(_) | Values::Decimals(_) | Values::Codes(_) | Values::Array(_) => {
                return Err(wrong_kind_error());
            }
        }
        Ok(())
    }

    fn of_bound(bound: &Scalar, input: &ArrowType) -> Option<i64> {
        match bound {
            Scalar::Int(value) if is_words(input) => i64::try_from(*value).ok(),
            Scalar::Int(value) if *input == ArrowType::UInt64 => {
                Some(u64::try_from(*value).ok()? as i64 ^ flip(input))
            }
            Scalar::Float(value) => Some(ordered(*value)),
            _ => None,
        }
    }

    fn array(words: Vec<i64>, nulls: Option<NullBuffer>, input: &ArrowType) -> Result<ArrayRef> {
        let words = words.into_iter();
        if *input == ArrowType::Float64 {
            let values: ScalarBuffer<f64> = words.map(unordered).collect();
            return Ok(Arc::new(Float64Array::new(values, nulls)));
        }
        from_words(words.map(|word| word ^ flip(input)).collect(), nulls, input)
    }
}

impl SortWord for i128 {
    const LEAST: i128 = i128::MIN;
    const GREATEST: i128 = i128::MAX;

    fn update(states: &mut WideExtreme, (groups, values, valid): Rows<'_>) -> Result<()> {
        let best = &mut states.best.slots;
        match (values, states.greatest) {
            (Values::Words(values), greatest) => {
                keep_best(groups, values, valid, best, greatest, |v| v);
            }
            (Values::Wide(values), true) => {
                fold(groups, values, valid, best, |slot, v| *slot = (*slot).max(v));
            }
            (Values::Wide(values), false) => {
                fold(groups, values, valid, best, |slot, v| *slot = (*slot).min(v));
            }
            (Values::Floats(_) | Values::Decimals(_) | Values::Codes(_) | Values::Array(_), _) => {
                return Err(wrong_kind_error());
            }
        }
        Ok(())
    }

    fn of_bound(bound: &Scalar, _input: &ArrowType) -> Option<i128> {
        if let Scalar::Int(value) = bound { Some(*value) } else { None }
    }

    fn array(words: Vec<i128>, nulls: Option<NullBuffer>, input: &ArrowType) -> Result<ArrayRef> {
        Ok(Arc::new(Decimal128Array::new(words.into(), nulls).with_data_type(input.clone())))
    }
}

/// The bits in which an integer and its word differ: unsigned ones sort as signed words.
fn flip(input: &ArrowType) -> i64 {
    if *input == ArrowType::UInt64 { i64::MIN } else { 0 }
}

impl<T: SortWord> Extreme<T> {
    pub(super) fn new(greatest: bool, input: ArrowType) -> Self {
        let none = if greatest { T::LEAST } else { T::GREATEST };
        Extreme { best: SlotColumn::new(none), greatest, input }
    }

    /// The word of the number that is the best of some.
    fn bound_of(&self, numbers: &Numbers) -> Option<T> {
        let (least, greatest) = numbers.bounds?;
        let bound = if self.greatest { greatest } else { least };
        T::of_bound(&Scalar::Int(bound.into()), &self.input)
    }
}

impl<T: SortWord> StateKind for Extreme<T> {
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
        T::update(self, (groups, values, valid))
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
        let word = bound.as_ref().and_then(|bound| T::of_bound(&bound.value, &self.input));
        let is_better = |word| if self.greatest { word > *best } else { word < *best };
        // Without a value yet, whether there are any has to be seen.
        *best == self.best.empty || word.is_none_or(is_better)
    }

    fn takes(&self, totals: &Totals) -> bool {
        totals.values() == 0
            || totals.numbers.is_some_and(|numbers| self.bound_of(&numbers).is_some())
    }

    fn add_totals(&mut self, group: usize, numbers: &Numbers) {
        if let (Some(word), Some(slot)) = (self.bound_of(numbers), self.best.slots.get_mut(group)) {
            *slot = if self.greatest { word.max(*slot) } else { word.min(*slot) };
        }
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
        T::array(batch.pick(&self.best.slots), batch.nulls(), &self.input)
    }
}

/// Keeps the best word of each group.
#[inline(always)]
fn keep_best<V: Copy, T: SortWord>(
    groups: Groups<'_>,
    values: &[V],
    valid: Option<&NullBuffer>,
    best: &mut [T],
    greatest: bool,
    word: impl Fn(V) -> i64,
) {
    if let Groups::Same { group, .. } = groups {
        let Some(slot) = best.get_mut(group) else { return };
        if valid.map_or(values.is_empty(), |valid| valid.null_count() == valid.len()) {
            return;
        }
        let neutral = if greatest { i64::MIN } else { i64::MAX };
        let words: Vec<u64> = match valid {
            Some(valid) => neutralised(values, valid, neutral as u64, |v| word(v) as u64),
            None => values.iter().map(|v| word(*v) as u64).collect(),
        };
        *slot = match greatest {
            true => (*slot).max(T::from(simd(
                #[inline(always)]
                || words.iter().fold(neutral, |best, word| best.max(*word as i64)),
            ))),
            false => (*slot).min(T::from(simd(
                #[inline(always)]
                || words.iter().fold(neutral, |best, word| best.min(*word as i64)),
            ))),
        };
        return;
    }
    match greatest {
        true => fold(groups, values, valid, best, |slot, v| *slot = (*slot).max(word(v).into())),
        false => fold(groups, values, valid, best, |slot, v| *slot = (*slot).min(word(v).into())),
    }
}
