//! Codes of rows: what all kinds of coded keys share.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType as ArrowType;

use crate::encoding::Word;
use crate::encoding::kernels::dispatch::simd;
use crate::error::{ArrowResult, Error, Result};
use crate::query::slice::Slice;
use crate::query::words::to_words;

/// Codes that rows of a block may have.
pub(crate) enum CodesOfBlock {
    /// From one to another.
    Range(u64, u64),
    /// Those of the segment's dictionary: null's, then some that each occur in the segment.
    Dictionary(Arc<[u32]>),
}

/// Keeps what is selected.
pub(super) fn compact<T: Word>(codes: &mut Vec<T>, slice: &Slice<'_, '_>) {
    let Some(selected) = slice.selected() else { return };
    for (to, from) in selected.iter().enumerate() {
        codes[to] = codes[*from as usize];
    }
    codes.truncate(selected.len());
}

/// Damaged or mistaken zone maps must not lead outside of the groups.
pub(super) fn check_domain<T: Word>(codes: &[T], domain: u64) -> Result<()> {
    let greatest = simd(
        #[inline(always)]
        || codes.iter().fold(T::default(), |most, code| most.max(*code)),
    );
    if Word::to_u64(greatest) < domain || codes.is_empty() {
        return Ok(());
    }
    Err(out_of_bounds_error())
}

pub(super) fn out_of_bounds_error() -> Error {
    Error::corrupt(0, "a value lies outside the bounds of its zone map")
}

pub(super) fn from_codes(codes: &[u64], low: i64, nulls: bool) -> Vec<i64> {
    let bias = low.wrapping_sub(i64::from(nulls));
    codes.iter().map(|code| bias.wrapping_add(*code as i64)).collect()
}

/// Codes that are positions in an array.
pub(super) fn narrow(codes: &[u64]) -> Vec<u32> {
    codes.iter().map(|code| u32::try_from(*code).unwrap_or(u32::MAX)).collect()
}

/// Words of an array of whole numbers, or of floats without fractions.
pub(super) fn words_of(array: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    use arrow_array::cast::AsArray;
    match array.data_type() {
        ArrowType::Float32 => {
            let floats = array.as_primitive::<arrow_array::types::Float32Type>();
            Some(floats.values().iter().map(|v| *v as i64).collect())
        }
        ArrowType::Float64 => {
            let floats = array.as_primitive::<arrow_array::types::Float64Type>();
            Some(floats.values().iter().map(|v| *v as i64).collect())
        }
        _ => to_words(array),
    }
}

pub(super) fn is_float(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Float32 | ArrowType::Float64)
}

/// Doubles in a type of floats that has them all.
pub(super) fn as_floats(doubles: Float64Array, data_type: &ArrowType) -> Result<ArrayRef> {
    arrow_cast::cast(&doubles, data_type).or_corrupt()
}

pub(super) fn unknown_code_error() -> Error {
    Error::corrupt(0, "a code that its dictionary does not have")
}

/// How many codes the values of an inclusive range need, unless they are too many to count.
pub(super) fn domain(range: &Range<i64>, nulls: bool) -> Option<u64> {
    (range.end as u64).wrapping_sub(range.start as u64).checked_add(1 + u64::from(nulls))
}
