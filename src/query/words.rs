//! Arrow arrays as 64-bit words and back: the form in which keys are coded and whole numbers are
//! summed and compared. Words that sort as keys do are their ranks, of rows and of blocks.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DECIMAL64_MAX_PRECISION, DataType as ArrowType};

use super::fragment::OrderBy;
use crate::block::Stats;
use crate::encoding::Word;
use crate::error::{ArrowResult, Error, Result};
use crate::model::{DataType, Physical, Scalar, WordWidth};
use crate::segment;

/// The values of a boolean or of whole numbers, dates, times or timestamps of at most 64 bits,
/// sign- or zero-extended; what null slots hold is arbitrary. `None` for other types.
pub(crate) fn to_words(array: &ArrayRef) -> Option<ScalarBuffer<i64>> {
    let data_type = DataType::from_arrow(array.data_type())?;
    Some(match data_type.physical() {
        Physical::Bool => array.as_boolean().values().iter().map(i64::from).collect(),
        Physical::Word { width: WordWidth::W8, signed: true } => extend::<i8>(array, i64::from)?,
        Physical::Word { width: WordWidth::W8, signed: false } => extend::<u8>(array, i64::from)?,
        Physical::Word { width: WordWidth::W16, signed: true } => extend::<i16>(array, i64::from)?,
        Physical::Word { width: WordWidth::W16, signed: false } => extend::<u16>(array, i64::from)?,
        Physical::Word { width: WordWidth::W32, signed: true } => extend::<i32>(array, i64::from)?,
        Physical::Word { width: WordWidth::W32, signed: false } => extend::<u32>(array, i64::from)?,
        Physical::Word { width: WordWidth::W64, .. } => {
            let data = array.to_data();
            ScalarBuffer::new(data.buffers().first()?.clone(), data.offset(), data.len())
        }
        _ => return None,
    })
}

fn extend<T: ArrowNativeType>(
    array: &ArrayRef,
    wide: impl Fn(T) -> i64,
) -> Option<ScalarBuffer<i64>> {
    let data = array.to_data();
    let values = ScalarBuffer::<T>::new(data.buffers().first()?.clone(), data.offset(), data.len());
    Some(values.iter().map(|v| wide(*v)).collect())
}

/// An array of a type that [`to_words`] takes, of the low bits of `words`, or of decimals.
pub(crate) fn from_words(
    words: Vec<i64>,
    nulls: Option<NullBuffer>,
    data_type: &ArrowType,
) -> Result<ArrayRef> {
    if *data_type == ArrowType::Boolean {
        return Ok(Arc::new(BooleanArray::new(words.iter().map(|w| *w != 0).collect(), nulls)));
    }
    let len = words.len();
    let buffer = match data_type.primitive_width() {
        Some(1) => Buffer::from_iter(words.iter().map(|w| *w as i8)),
        Some(2) => Buffer::from_iter(words.iter().map(|w| *w as i16)),
        Some(4) => Buffer::from_iter(words.iter().map(|w| *w as i32)),
        Some(8) => Buffer::from_vec(words),
        Some(16) => Buffer::from_iter(words.iter().map(|w| i128::from(*w))),
        _ => return Err(Error::InvalidInput(format!("{data_type} is not made of words"))),
    };
    let data =
        ArrayData::builder(data_type.clone()).len(len).add_buffer(buffer).nulls(nulls).build();
    Ok(make_array(data.or_corrupt()?))
}

/// Whether [`to_words`] takes the type, and keeps its order as signed words.
pub(crate) fn is_words(data_type: &ArrowType) -> bool {
    let physical = DataType::from_arrow(data_type).map(|t| t.physical());
    matches!(physical, Some(Physical::Bool | Physical::Word { .. }))
        && *data_type != ArrowType::UInt64
}

/// The first value of an array of texts, bytes or decimals, or null; `None` of other types.
pub(crate) fn wordless(array: &ArrayRef) -> Option<Option<Scalar>> {
    if array.is_empty() {
        return None;
    }
    let value = match array.data_type() {
        ArrowType::Utf8View => Scalar::Bytes(array.as_string_view().value(0).as_bytes().into()),
        ArrowType::BinaryView => Scalar::Bytes(array.as_binary_view().value(0).into()),
        ArrowType::Decimal128(..) => Scalar::Int(array.as_primitive::<Decimal128Type>().value(0)),
        _ => return None,
    };
    Some(array.is_valid(0).then_some(value))
}

/// A double as a word that sorts by total order.
pub(crate) fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The double of a word of [`ordered`].
pub(crate) fn unordered(word: i64) -> f64 {
    f64::from_bits((word ^ ((word >> 63) as u64 >> 1) as i64) as u64)
}

/// Words that sort as the key does, the first row of the order least; `None` for texts, and for
/// decimals of more than 18 digits.
pub(crate) fn ranks(key: &ArrayRef, descending: bool, nulls_first: bool) -> Option<Vec<i64>> {
    let turn = if descending { -1 } else { 0 };
    let mut ranks: Vec<i64> = match key.data_type() {
        ArrowType::Float64 => key
            .as_primitive::<Float64Type>()
            .values()
            .iter()
            .map(|v| float_rank(*v) ^ turn)
            .collect(),
        ArrowType::Float32 => key
            .as_primitive::<Float32Type>()
            .values()
            .iter()
            .map(|v| float_rank((*v).into()) ^ turn)
            .collect(),
        ArrowType::UInt64 => to_words(key)?.iter().map(|v| v ^ i64::MIN ^ turn).collect(),
        ArrowType::Decimal128(digits, _) if *digits <= MAX_DIGITS => {
            key.as_primitive::<Decimal128Type>().values().iter().map(|v| *v as i64 ^ turn).collect()
        }
        _ => to_words(key)?.iter().map(|v| v ^ turn).collect(),
    };
    if let Some(nulls) = key.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
        let null = null_rank(nulls_first);
        for (rank, valid) in ranks.iter_mut().zip(nulls.iter()) {
            if !valid {
                *rank = null;
            }
        }
    }
    Some(ranks)
}

/// By total order, but zeros are equal.
pub(crate) fn float_rank(value: f64) -> i64 {
    ordered(if value == 0.0 { 0.0 } else { value })
}

/// Decimals of up to 18 digits fit into a word.
const MAX_DIGITS: u8 = DECIMAL64_MAX_PRECISION;

/// Whether [`ranks`] knows keys of the type.
pub(crate) fn is_ranked(data_type: &ArrowType) -> bool {
    match data_type {
        ArrowType::UInt64 | ArrowType::Float32 | ArrowType::Float64 => true,
        ArrowType::Decimal128(digits, _) => *digits <= MAX_DIGITS,
        other => is_words(other),
    }
}

/// The rank of null, which the last value may have, too.
pub(crate) fn null_rank(nulls_first: bool) -> i64 {
    if nulls_first { i64::MIN } else { i64::MAX }
}

/// The rank of rows of which nothing is known.
pub(crate) const ANY: i64 = i64::MIN;

/// No row of the block has a lower rank.
pub(crate) fn best_of_block(
    by: &OrderBy,
    columns: &[Option<Arc<segment::Column>>],
    block: usize,
) -> i64 {
    let Some(at) = by.expression.as_column() else { return ANY };
    if !is_ranked(&by.expression.data_type) {
        return ANY;
    }
    let Some(column) = columns.get(at).and_then(Option::as_deref) else {
        return null_rank(by.nulls_first);
    };
    match column.block_stats(block) {
        Some(stats) => best_rank(by, stats, column.data_type()),
        None => ANY,
    }
}

/// No row with such statistics, of a column stored in this type, has a lower rank.
pub(crate) fn best_rank(by: &OrderBy, stats: &Stats, stored: &DataType) -> i64 {
    if !is_ranked(&by.expression.data_type) || (stats.nulls > 0 && by.nulls_first) {
        return ANY;
    }
    if stats.nulls == stats.rows {
        return null_rank(by.nulls_first);
    }
    // Ranks are of the table's type, bounds of the stored one.
    if stored.to_arrow() != by.expression.data_type {
        return ANY;
    }
    let bound = if by.descending { &stats.max } else { &stats.min };
    let turn = if by.descending { -1 } else { 0 };
    match (bound.as_ref().map(|bound| &bound.value), &by.expression.data_type) {
        (Some(Scalar::Float(v)), _) => float_rank(*v) ^ turn,
        (Some(Scalar::Int(v)), ArrowType::UInt64) => (*v as u64 as i64) ^ i64::MIN ^ turn,
        (Some(Scalar::Int(v)), _) => i64::try_from(*v).map_or(ANY, |v| v ^ turn),
        _ => ANY,
    }
}

/// Floats as keys of groups: there is one zero, which is positive.
pub(crate) fn one_zero(array: &ArrayRef) -> ArrayRef {
    fn one<T: ArrowPrimitiveType>(array: &ArrayRef, is: fn(T::Native) -> bool) -> ArrayRef {
        Arc::new(
            array.as_primitive::<T>().unary::<_, T>(|v| if is(v) { T::default_value() } else { v }),
        )
    }
    if !has_negative_zero(array) {
        return Arc::clone(array);
    }
    match array.data_type() {
        ArrowType::Float32 => one::<Float32Type>(array, |v| v == 0.0 && v.is_sign_negative()),
        ArrowType::Float64 => one::<Float64Type>(array, |v| v == 0.0 && v.is_sign_negative()),
        _ => Arc::clone(array),
    }
}

/// Whether there is a zero whose sign [`one_zero`] takes.
pub(crate) fn has_negative_zero(array: &ArrayRef) -> bool {
    match array.data_type() {
        ArrowType::Float32 => {
            array.as_primitive::<Float32Type>().values().iter().any(|v| v.to_bits() == 1 << 31)
        }
        ArrowType::Float64 => {
            array.as_primitive::<Float64Type>().values().iter().any(|v| v.to_bits() == 1 << 63)
        }
        _ => false,
    }
}

/// Makes what null rows hold 0.
pub(crate) fn blank<T: Word>(words: &mut [T], valid: Option<&NullBuffer>) {
    let Some(valid) = valid.filter(|valid| valid.null_count() > 0) else { return };
    let chunks = valid.inner().bit_chunks();
    for (words, bits) in words.chunks_mut(64).zip(chunks.iter_padded()) {
        if bits.count_zeros() <= FEW_NULLS {
            let mut null = !bits;
            while let Some(word) = words.get_mut(null.trailing_zeros() as usize) {
                *word = T::default();
                null &= null - 1;
            }
            continue;
        }
        for (i, word) in words.iter_mut().enumerate() {
            *word = Word::mul(*word, T::from_u64(bits >> i & 1));
        }
    }
}

/// Nulls among 64 rows up to which each is sought.
const FEW_NULLS: u32 = 16;

/// The rows for which a boolean is true; none where all are null.
pub(crate) fn truth(condition: &ArrayRef) -> NullBuffer {
    if *condition.data_type() == ArrowType::Null {
        return NullBuffer::new_null(condition.len());
    }
    let booleans = condition.as_boolean();
    NullBuffer::new(match booleans.nulls() {
        Some(nulls) => booleans.values() & nulls.inner(),
        None => booleans.values().clone(),
    })
}
