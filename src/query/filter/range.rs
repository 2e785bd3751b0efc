//! Conditions that are ranges of whole numbers.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;

use crate::block::Stream;
use crate::encoding::scaled::StoredInts;
use crate::encoding::{Ints, Word};
use crate::expr::{Comparison, Operand, Predicate};
use crate::model::{Column, DataType, Physical, Scalar};
use crate::query::open::OpenBlock;
use crate::query::words::{is_words, ordered, to_words};
use crate::segment::open_block::Block;

/// Values from `low` to `high`, or all others, in a block whose values lie from `base` to
/// `base + span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordRange {
    /// Least value of the block.
    pub(crate) base: i64,
    /// Distance of the greatest value of the block from it.
    pub(crate) span: u64,
    /// Least distance that passes.
    pub(crate) low: u64,
    /// Greatest distance that passes; below `low` if none does.
    pub(crate) high: u64,
    /// Whether the other values pass in their place.
    pub(crate) outside: bool,
}

impl WordRange {
    /// The range that a predicate is, if it is exactly one on a column of whole numbers stored as
    /// they are.
    pub(crate) fn new(
        predicate: &Predicate,
        column: &Column,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Option<Self> {
        let (base, top) = block_bounds(column, at, block)?;
        let (inside, outside) = match predicate {
            Predicate::Not(inner) => (bounds(inner, column)?, true),
            Predicate::Compare { operand, comparison: Comparison::NotEqual, value } => {
                (exactly(operand, value, column)?, true)
            }
            predicate => (bounds(predicate, column)?, false),
        };
        let range = WordRange::between(inside.0, inside.1, base, top);
        Some(WordRange { outside, ..range })
    }

    /// Whether no value passes.
    pub(super) fn is_empty(&self) -> bool {
        self.low > self.high && !self.outside
    }

    /// All values of a block of whole numbers stored as they are.
    pub(super) fn all(column: &Column, at: usize, block: &OpenBlock<'_>) -> Option<Self> {
        let (base, top) = block_bounds(column, at, block)?;
        Some(WordRange::between(base.into(), top.into(), base, top))
    }

    /// What looking at all rows of a block costs: 1 for words of a byte.
    pub(super) fn cost(&self, block: Option<&Block<'_>>) -> f64 {
        let Some(reader) = block.map(Block::reader) else { return self.cost_of::<u64>(None) };
        match reader.stream() {
            Stream::W8(ints) => self.cost_of(Some(ints)),
            Stream::W16(ints) => self.cost_of(Some(ints)),
            Stream::W32(ints) | Stream::Codes(ints) => self.cost_of(Some(ints)),
            _ => match reader.scaled().map(|scaled| scaled.ints) {
                Some(StoredInts::Singles(ints)) => self.cost_of(Some(ints)),
                Some(StoredInts::Doubles(ints)) => self.cost_of(Some(ints)),
                None => self.cost_of(reader.longs()),
            },
        }
    }

    fn cost_of<W: Word>(&self, ints: Option<&Ints<'_, W>>) -> f64 {
        let decoding = ints.map_or(1.0, Ints::decoding_cost);
        decoding
            * match self.span {
                _ if ints.is_some_and(|ints| self.is_of_outliers(ints, self.base < 0)) => 0.125,
                0..=0xff => 1.0,
                0x100..=0xffff => 2.0,
                0x1_0000..=0xffff_ffff => 4.0,
                _ => 8.0,
            }
    }

    /// Whether none but outliers of the stream may lie in the range.
    pub(super) fn is_of_outliers<W: Word>(&self, ints: &Ints<'_, W>, signed: bool) -> bool {
        let base = i128::from(self.base);
        ints.only_outliers(base + i128::from(self.low), base + i128::from(self.high), signed)
    }

    /// Values from `low` to `high` of a block whose values lie from `base` to `top`.
    pub(crate) fn between(low: i128, high: i128, base: i64, top: i64) -> Self {
        let distance =
            |v: i128| v.saturating_sub(i128::from(base)).clamp(0, i128::from(u64::MAX)) as u64;
        let span = distance(i128::from(top));
        if high < i128::from(base) || low > i128::from(top) || low > high {
            return WordRange { base, span, low: 1, high: 0, outside: false };
        }
        let (low, high) = (distance(low), distance(high).min(span));
        WordRange { base, span, low, high, outside: false }
    }
}

/// The least and the greatest value of a block of whole numbers stored as they are.
fn block_bounds(column: &Column, at: usize, block: &OpenBlock<'_>) -> Option<(i64, i64)> {
    let stored = block.stored(at)?;
    let same = *stored.data_type() == column.data_type
        || (stored.data_type().is_integer() && column.data_type.is_integer());
    if !same || !matches!(stored.data_type().physical(), Physical::Word { .. } | Physical::Wide) {
        return None;
    }
    let reader = block.column(at).ok()??.reader();
    if !matches!(reader.stream(), Stream::W8(_) | Stream::W16(_) | Stream::W32(_))
        && reader.longs().is_none()
    {
        return None;
    }
    stored.block_stats(block.at.block)?.integers()
}

/// The inclusive range of dictionary codes for which a comparison is true; it is empty where the
/// first is above the last. `None` where the predicate is not one, or the column has no dictionary.
pub(super) fn codes(
    predicate: &Predicate,
    column: &Column,
    at: usize,
    block: &OpenBlock<'_>,
) -> Option<(u32, u32)> {
    let stored = block.stored(at).filter(|stored| *stored.data_type() == column.data_type)?;
    let (operand, comparison, value) = match predicate {
        Predicate::Compare { operand, comparison, value } => (operand, comparison, value),
        Predicate::IsNull(id) if *id == column.id && stored.record().dictionary.is_some() => {
            return Some((0, 0));
        }
        _ => return None,
    };
    if !operand.is(column) {
        return None;
    }
    let dictionary = stored.dictionary().ok()??;
    // Values rise from code 1 on; code 0 is null.
    let (below, upto) = match value {
        Scalar::Float(value) if column.data_type == DataType::Float64 => {
            let normal = |v: f64| if v == 0.0 { 0.0 } else { v };
            let values = dictionary.as_primitive_opt::<Float64Type>()?.values().get(1..)?;
            let value = normal(*value);
            let order = |v: &f64| normal(*v).total_cmp(&value);
            (
                values.partition_point(|v| order(v).is_lt()),
                values.partition_point(|v| order(v).is_le()),
            )
        }
        Scalar::Int(value) if is_words(dictionary.data_type()) => {
            let words = to_words(&dictionary)?;
            let words = words.get(1..)?;
            let value = i64::try_from(*value).ok()?;
            (words.partition_point(|v| *v < value), words.partition_point(|v| *v <= value))
        }
        Scalar::Bytes(value) if column.data_type.is_text() => {
            let texts = dictionary.as_string_view_opt()?;
            let before = |is_before: &dyn Fn(&[u8]) -> bool| {
                let (mut low, mut high) = (0, texts.len() - 1);
                while low < high {
                    let middle = low.midpoint(high);
                    match is_before(texts.value(middle + 1).as_bytes()) {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                low
            };
            (before(&|text| *text < **value), before(&|text| *text <= **value))
        }
        _ => return None,
    };
    let all = dictionary.len() - 1;
    let (first, last) = match comparison {
        Comparison::Equal => (below + 1, upto),
        Comparison::Less => (1, below),
        Comparison::LessOrEqual => (1, upto),
        Comparison::Greater => (upto + 1, all),
        Comparison::GreaterOrEqual => (below + 1, all),
        Comparison::NotEqual => return None,
    };
    Some((u32::try_from(first).ok()?, u32::try_from(last).ok()?))
}

/// The inclusive range of words of [`ordered`] for which a comparison with a constant is true,
/// where −0.0 is 0.0.
pub(super) fn ordered_range(comparison: Comparison, value: f64) -> Option<(i64, i64)> {
    let word = ordered(value + 0.0);
    Some(match comparison {
        Comparison::Equal => (word, word),
        Comparison::Less => (i64::MIN, word.saturating_sub(1)),
        Comparison::LessOrEqual => (i64::MIN, word),
        Comparison::Greater => (word.saturating_add(1), i64::MAX),
        Comparison::GreaterOrEqual => (word, i64::MAX),
        Comparison::NotEqual => return None,
    })
}

/// The range of one whole number, if a column is compared with one as it is stored.
fn exactly(operand: &Operand, value: &Scalar, column: &Column) -> Option<(i128, i128)> {
    let Scalar::Int(value) = value else { return None };
    let same = operand.is(column);
    same.then_some((*value, *value))
}

/// The inclusive range of values for which the predicate is true.
fn bounds(predicate: &Predicate, column: &Column) -> Option<(i128, i128)> {
    match predicate {
        Predicate::Compare { operand, comparison, value } => {
            let (value, _) = exactly(operand, value, column)?;
            Some(match comparison {
                Comparison::Equal => (value, value),
                Comparison::Less => (i128::MIN, value.saturating_sub(1)),
                Comparison::LessOrEqual => (i128::MIN, value),
                Comparison::Greater => (value.saturating_add(1), i128::MAX),
                Comparison::GreaterOrEqual => (value, i128::MAX),
                Comparison::NotEqual => return None,
            })
        }
        Predicate::And(all) if !all.is_empty() => {
            all.iter().try_fold((i128::MIN, i128::MAX), |(low, high), part| {
                let (a, b) = bounds(part, column)?;
                Some((low.max(a), high.min(b)))
            })
        }
        _ => None,
    }
}
