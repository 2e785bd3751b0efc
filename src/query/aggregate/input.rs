//! What aggregates add up: the values of an expression for the rows of a slice, in the form that
//! adds fastest.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;

use crate::encoding::Word;
use crate::encoding::bools::from_mask;
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::scaled::ScaledInts;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::expr::arithmetic::Computed;
use crate::query::slice::Slice;
use crate::query::words::{blank, is_words, to_words};
use crate::segment::Column;
use crate::segment::scaled::Decimals;

/// Values of the selected rows of a slice.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) values: Values,
    /// Which are not null; `None` if all are.
    pub(crate) valid: Option<NullBuffer>,
    /// Whether null rows hold 0, so that sums need not leave them out.
    pub(crate) zeroed: bool,
}

/// The forms of values.
#[derive(Debug)]
pub(crate) enum Values {
    /// Booleans, whole numbers, dates, times; unsigned ones of 64 bits too, and the integers that
    /// stand for decimals where all of a block fit.
    Words(ScalarBuffer<i64>),
    /// Doubles.
    Floats(ScalarBuffer<f64>),
    /// Doubles as the whole numbers that they are stored as.
    Decimals(Decimals),
    /// 128-bit decimals.
    Wide(ScalarBuffer<i128>),
    /// Texts or bytes as codes of the sorted dictionary of a segment, null's being 0.
    Codes(Coded),
    /// Anything else.
    Array(ArrayRef),
}

/// Codes of the dictionary of a segment.
#[derive(Debug)]
pub(crate) struct Coded {
    pub(crate) codes: Vec<u32>,
    /// Every code's value.
    pub(crate) dictionary: ArrayRef,
    /// The number of the segment among those of the query.
    pub(crate) segment: usize,
}

impl Fetched {
    /// Makes what is not selected null. `sums`: values are only added up and counted.
    pub(crate) fn keep(&mut self, mask: &[u8], selected: &NullBuffer, sums: bool) {
        let both = NullBuffer::union(self.valid.as_ref(), Some(selected));
        let valid = std::mem::replace(&mut self.valid, both);
        let valid = valid.as_ref().filter(|_| !self.zeroed);
        match &mut self.values {
            Values::Floats(floats) if sums => {
                *floats = kept_of(floats, mask, valid);
                self.zeroed = true;
            }
            Values::Words(words) if sums => {
                *words = kept_of(words, mask, valid);
                self.zeroed = true;
                return;
            }
            _ if !self.zeroed => return,
            _ => {}
        }
        match &mut self.values {
            Values::Decimals(decimals) => {
                match &mut decimals.ints {
                    ScaledInts::Narrow(ints) => {
                        blank_unmasked(bytemuck::cast_slice_mut::<_, u32>(ints), mask)
                    }
                    ScaledInts::Wide(ints) => {
                        blank_unmasked(bytemuck::cast_slice_mut::<_, u64>(ints), mask)
                    }
                }
                decimals
                    .exceptions
                    .retain(|(row, _)| mask.get(*row).is_some_and(|byte| *byte != 0));
            }
            Values::Floats(_) => {}
            Values::Words(_) | Values::Wide(_) | Values::Codes(_) | Values::Array(_) => {
                self.zeroed = false
            }
        }
    }
}

/// A mask of bytes as one of bits.
pub(crate) fn mask_bits(mask: &[u8]) -> NullBuffer {
    NullBuffer::new(from_mask(mask))
}

/// The values, 0 where a row is not selected or null.
fn kept_of<T: ArrowNativeType + bytemuck::Pod>(
    values: &[T],
    mask: &[u8],
    valid: Option<&NullBuffer>,
) -> ScalarBuffer<T> {
    let mut kept = values.to_vec();
    let words: &mut [u64] = bytemuck::cast_slice_mut(&mut kept);
    blank_unmasked(words, mask);
    blank(words, valid);
    kept.into()
}

/// Makes the words of rows that are not selected 0.
fn blank_unmasked<T: Word>(words: &mut [T], mask: &[u8]) {
    // All bits for a 1, none for a 0.
    let all_bits = |byte: u8| Word::sub(T::default(), T::from_u64(u64::from(byte)));
    simd(
        #[inline(always)]
        || words.iter_mut().zip(mask).for_each(|(word, byte)| *word = *word & all_bits(*byte)),
    );
}

/// What will be done with values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueUse {
    /// They are only added up and counted.
    pub(crate) sums: bool,
    /// Doubles may come as whole numbers.
    pub(crate) decimals: bool,
}

/// Fetches an expression's values.
pub(crate) fn fetch(
    expression: &Expression,
    slice: &Slice<'_, '_>,
    wanted: ValueUse,
) -> Result<Fetched> {
    if wanted.sums
        && wanted.decimals
        && slice.selected().is_none()
        && let Some(at) = expression.as_column()
        && let Some(fetched) = stored_decimals(at, slice)?
    {
        return Ok(fetched);
    }
    if let Some(arithmetic) = slice.arithmetic(expression) {
        let inputs = expression.inputs.iter().map(|at| slice.integers(*at));
        let inputs: Vec<ArrayRef> = inputs.collect::<Result<_>>()?;
        return Ok(computed(arithmetic.compute(&inputs, slice.len())?, wanted));
    }
    let array = match expression.as_column() {
        Some(at) if slice.block.integer_bounds(at).is_some() => slice.integers(at)?,
        _ => slice.evaluate(expression)?,
    };
    Ok(values_of(array, wanted))
}

fn computed((values, valid): (Computed, Option<NullBuffer>), wanted: ValueUse) -> Fetched {
    let valid = valid.filter(|valid| valid.null_count() > 0);
    let valid_words = valid.as_ref().filter(|_| wanted.sums);
    let values = match values {
        Computed::Floats(mut floats) => {
            blank(bytemuck::cast_slice_mut::<_, u64>(&mut floats), valid_words);
            Values::Floats(floats.into())
        }
        Computed::Ints(mut ints) => {
            blank(bytemuck::cast_slice_mut::<_, u64>(&mut ints), valid_words);
            Values::Words(ints.into())
        }
    };
    Fetched { values, zeroed: wanted.sums && valid.is_some(), valid }
}

/// Fetches an expression's values for those of the selected rows that `keep`; the others count as
/// null, and cannot fail.
pub(crate) fn fetch_kept(
    expression: &Expression,
    slice: &Slice<'_, '_>,
    keep: &NullBuffer,
    wanted: ValueUse,
) -> Result<Fetched> {
    let place = |at: usize| slice.selected().map_or(Some(at as u32), |rows| rows.get(at).copied());
    let mut kept = Slice::new(slice.block, slice.range.clone());
    kept.select(keep.valid_indices().filter_map(place).collect());
    let mut next = 0u32;
    let mut place = |keep: bool| {
        next += u32::from(keep);
        keep.then(|| next - 1)
    };
    let places: UInt32Array = keep.iter().map(&mut place).collect();
    let array = match kept.len() {
        0 => new_null_array(&expression.data_type, places.len()),
        _ => arrow_select::take::take(&kept.evaluate(expression)?, &places, None)
            .map_err(|error| Error::corrupt(0, error.to_string()))?,
    };
    Ok(values_of(array, wanted))
}

/// An array's values.
pub(super) fn values_of(array: ArrayRef, wanted: ValueUse) -> Fetched {
    let valid = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let values = match array.data_type() {
        ArrowType::Float64 => {
            let floats = array.as_primitive::<Float64Type>().values();
            if let Some(valid) = valid.as_ref().filter(|_| wanted.sums) {
                let mut kept = floats.to_vec();
                blank(bytemuck::cast_slice_mut::<_, u64>(&mut kept), Some(valid));
                return Fetched {
                    values: Values::Floats(kept.into()),
                    valid: Some(valid.clone()),
                    zeroed: true,
                };
            }
            Values::Floats(floats.clone())
        }
        ArrowType::Decimal128(..) => {
            Values::Wide(array.as_primitive::<Decimal128Type>().values().clone())
        }
        data_type if is_words(data_type) || *data_type == ArrowType::UInt64 => {
            match to_words(&array) {
                Some(words) if wanted.sums && valid.is_some() => {
                    let mut kept = words.to_vec();
                    blank(bytemuck::cast_slice_mut::<_, u64>(&mut kept), valid.as_ref());
                    return Fetched { values: Values::Words(kept.into()), valid, zeroed: true };
                }
                Some(words) => Values::Words(words),
                None => Values::Array(array),
            }
        }
        _ => Values::Array(array),
    };
    Fetched { values, valid, zeroed: false }
}

/// The codes of a column of texts or bytes, where its segment has a dictionary and many rows are
/// selected.
pub(super) fn fetch_codes(at: usize, slice: &Slice<'_, '_>) -> Result<Option<Fetched>> {
    if !slice.selects_many() {
        return Ok(None);
    }
    let Some((codes, values)) = slice.text_codes(at)? else { return Ok(None) };
    let Some(dictionary) = slice.block.stored(at).map(Column::dictionary).transpose()?.flatten()
    else {
        return Ok(None);
    };
    if dictionary.len() < values {
        return Err(Error::corrupt(0, "a dictionary of fewer values than it says"));
    }
    let valid = NullBuffer::from_iter(codes.iter().map(|code| *code > 0));
    let valid = Some(valid).filter(|valid| valid.null_count() > 0);
    let dictionary = Arc::clone(&dictionary);
    let values = Values::Codes(Coded { codes, dictionary, segment: slice.block.at.segment });
    Ok(Some(Fetched { values, valid, zeroed: false }))
}

/// The integers of a column of decimal doubles, where the block stores them or its dictionary has
/// them.
fn stored_decimals(at: usize, slice: &Slice<'_, '_>) -> Result<Option<Fetched>> {
    let Some(block) = slice.block.column(at)? else { return Ok(None) };
    let decimals = block.decimals(slice.range.clone())?;
    Ok(decimals.map(|(decimals, valid)| Fetched {
        values: Values::Decimals(decimals),
        valid,
        zeroed: true,
    }))
}
