//! Makes Arrow arrays of decoded values and dictionary codes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, IntervalMonthDayNanoArray, NullArray, UInt32Array, make_array,
};
use arrow_buffer::{Buffer as ArrowBuffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use bytes::Bytes;

use super::Dictionary;
use crate::budget::Charge;
use crate::encoding::bools::from_mask;
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::kernels::views::{text_views, view};
use crate::error::{ArrowResult, Error, Result};
use crate::model::{DataType, interval};

/// An array of `rows` nulls.
pub(crate) fn null_array(rows: usize, data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        other => arrow_array::new_null_array(&other.to_arrow(), rows),
    }
}

/// A fixed-width array over a buffer of values; intervals come as the numbers that are stored.
pub(super) fn fixed(
    values: ArrowBuffer,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let arrow = data_type.to_arrow();
    let width = arrow.primitive_width().unwrap_or(1);
    let rows = values.len() / width;
    if let DataType::Decimal { precision, scale } = data_type {
        check_digits(&values, *precision, *scale)?;
    }
    if *data_type == DataType::Interval {
        let numbers = values.typed_data::<i128>().iter();
        let intervals: Vec<_> = numbers.map(|number| interval::from_number(*number)).collect();
        return Ok(Arc::new(IntervalMonthDayNanoArray::new(intervals.into(), nulls)));
    }
    let data = ArrayData::builder(arrow).len(rows).add_buffer(values).nulls(nulls).build();
    Ok(make_array(data.or_corrupt()?))
}

/// Refuses decimals that arrow (59) panics at when it writes them as text: such with more digits
/// than their type has, if all of these are after the point and some are zeros that are not stored.
fn check_digits(values: &ArrowBuffer, precision: u8, scale: i8) -> Result<()> {
    if i16::from(scale) <= i16::from(precision) {
        return Ok(());
    }
    let most = 10_u128.pow(u32::from(precision));
    match values.typed_data::<i128>().iter().find(|value| value.unsigned_abs() >= most) {
        Some(value) => {
            Err(Error::corrupt(0, format!("{value} is no decimal({precision},{scale})")))
        }
        None => Ok(()),
    }
}

/// The size in bytes from which a decoded buffer keeps its charge until it is dropped. Smaller
/// buffers are bounded by the rows of a slice, and the operator that keeps them counts them.
pub(crate) const CHARGED_BUFFER: usize = 4 << 20;

/// Decoded bytes with their charge.
pub(super) struct Charged {
    pub(super) data: Vec<u8>,
    pub(super) charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl From<Charged> for ArrowBuffer {
    fn from(bytes: Charged) -> ArrowBuffer {
        match bytes.charge.bytes() >= CHARGED_BUFFER {
            true => ArrowBuffer::from(Bytes::from_owner(bytes)),
            false => ArrowBuffer::from_vec(bytes.data),
        }
    }
}

/// Text or binary views over concatenated values with the given ends. Text is checked to be UTF-8,
/// because mapped bytes are not trusted.
pub(super) fn views(
    ends: &[u32],
    data: Charged,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data: ArrowBuffer = data.into();
    if data_type.is_text() {
        return match text_views(ends, data, nulls) {
            Some(texts) => Ok(Arc::new(texts)),
            None => Err(Error::corrupt(0, "text that is not UTF-8, or that ends outside its data")),
        };
    }
    let mut views: Vec<u128> = Vec::with_capacity(ends.len());
    let mut start = 0usize;
    for &end in ends {
        let value = data
            .get(start..end as usize)
            .ok_or_else(|| Error::corrupt(0, "bytes that end outside their data"))?;
        views.push(view(value, start as u32));
        start = end as usize;
    }
    Ok(Arc::new(BinaryViewArray::try_new(views.into(), vec![data], nulls).or_corrupt()?))
}

/// The dictionary's values at `codes`.
pub(super) fn look_up(codes: Vec<u32>, dictionary: &Dictionary) -> Result<ArrayRef> {
    let greatest = simd(
        #[inline(always)]
        || codes.iter().fold(0, |most, code| most.max(*code)),
    );
    if greatest as usize >= dictionary.len() {
        let what = format!("code {greatest} in a dictionary of {} values", dictionary.len());
        return Err(Error::corrupt(0, what));
    }
    if let Some(array) = look_up_words(&codes, dictionary) {
        return Ok(array);
    }
    take(dictionary, UInt32Array::from(codes))
}

/// [`look_up`] for values of 8 bytes where only code 0 is null; `None` for other dictionaries.
fn look_up_words(codes: &[u32], dictionary: &Dictionary) -> Option<ArrayRef> {
    let null = dictionary.nulls().is_some_and(|nulls| nulls.is_null(0) && nulls.null_count() == 1);
    if dictionary.data_type().primitive_width() != Some(8) || !null {
        return None;
    }
    let data = dictionary.to_data();
    let values =
        ScalarBuffer::<u64>::new(data.buffers().first()?.clone(), data.offset(), data.len());
    let words: Vec<u64> =
        codes.iter().map(|code| values.get(*code as usize).copied().unwrap_or_default()).collect();
    let has_null = codes.iter().copied().min() == Some(0);
    let nulls = has_null.then(|| {
        let valid: Vec<u8> = codes.iter().map(|code| u8::from(*code != 0)).collect();
        NullBuffer::new(from_mask(&valid))
    });
    let built = ArrayData::builder(dictionary.data_type().clone())
        .len(words.len())
        .add_buffer(ArrowBuffer::from_vec(words))
        .nulls(nulls)
        .build();
    built.ok().map(make_array)
}

/// The values at these indices; string views share the bytes.
pub(super) fn take(values: &ArrayRef, indices: UInt32Array) -> Result<ArrayRef> {
    arrow_select::take::take(values, &indices, None).or_corrupt()
}
