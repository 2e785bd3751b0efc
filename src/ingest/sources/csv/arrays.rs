//! Turns parsed values into Arrow arrays.

use std::sync::Arc;

use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BinaryArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::model::{DataType, TimeUnit};

/// A bitmap to which single bits are appended.
#[derive(Default)]
pub(super) struct BitmapBuilder {
    pub(super) words: Vec<u64>,
    word: u64,
    pub(super) len: usize,
    pub(super) ones: usize,
}

impl BitmapBuilder {
    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        self.word |= u64::from(bit) << (self.len % 64);
        self.ones += usize::from(bit);
        self.len += 1;
        if self.len.is_multiple_of(64) {
            self.words.push(self.word);
            self.word = 0;
        }
    }

    pub(super) fn finish(mut self) -> BooleanBuffer {
        self.words.push(self.word);
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len)
    }
}

pub(super) fn array<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

fn narrowed<T: ArrowPrimitiveType, V: Copy>(
    values: &[V],
    nulls: Option<NullBuffer>,
    f: fn(V) -> T::Native,
) -> ArrayRef {
    array::<T>(values.iter().map(|v| f(*v)).collect(), nulls)
}

pub(super) fn int_array(
    data_type: &DataType,
    values: Vec<i64>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    match data_type {
        DataType::Int8 => narrowed::<Int8Type, _>(&values, nulls, |v| v as i8),
        DataType::Int16 => narrowed::<Int16Type, _>(&values, nulls, |v| v as i16),
        DataType::Int32 => narrowed::<Int32Type, _>(&values, nulls, |v| v as i32),
        DataType::Time { unit } => match unit {
            TimeUnit::Second => narrowed::<Time32SecondType, _>(&values, nulls, |v| v as i32),
            TimeUnit::Millisecond => {
                narrowed::<Time32MillisecondType, _>(&values, nulls, |v| v as i32)
            }
            TimeUnit::Microsecond => array::<Time64MicrosecondType>(values, nulls),
            TimeUnit::Nanosecond => array::<Time64NanosecondType>(values, nulls),
        },
        DataType::Timestamp { unit, zone } => {
            let values = ScalarBuffer::from(values);
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => timestamps::<TimestampSecondType>(values, nulls, zone),
                TimeUnit::Millisecond => {
                    timestamps::<TimestampMillisecondType>(values, nulls, zone)
                }
                TimeUnit::Microsecond => {
                    timestamps::<TimestampMicrosecondType>(values, nulls, zone)
                }
                TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(values, nulls, zone),
            }
        }
        _ => array::<Int64Type>(values, nulls),
    }
}

fn timestamps<T: arrow_array::types::ArrowTimestampType>(
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    zone: Option<Arc<str>>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_timezone_opt(zone))
}

pub(super) fn uint_array(
    data_type: &DataType,
    values: Vec<u64>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    match data_type {
        DataType::UInt8 => narrowed::<UInt8Type, _>(&values, nulls, |v| v as u8),
        DataType::UInt16 => narrowed::<UInt16Type, _>(&values, nulls, |v| v as u16),
        DataType::UInt32 => narrowed::<UInt32Type, _>(&values, nulls, |v| v as u32),
        _ => array::<UInt64Type>(values, nulls),
    }
}

pub(super) fn bytes_array(
    data_type: &DataType,
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, usize> {
    let (offsets, bytes) = (ScalarBuffer::from(offsets), Buffer::from_vec(bytes));
    let bounds = OffsetBuffer::new(offsets.clone());
    if *data_type == DataType::Binary {
        return Ok(Arc::new(BinaryArray::new(bounds, bytes, nulls)));
    }
    match StringArray::try_new(bounds, bytes.clone(), nulls) {
        Ok(array) => Ok(Arc::new(array)),
        Err(_) => {
            let value = |pair: &[i32]| match *pair {
                [start, end] => bytes.get(start as usize..end as usize).unwrap_or_default(),
                _ => &[],
            };
            Err(offsets
                .windows(2)
                .position(|pair| std::str::from_utf8(value(pair)).is_err())
                .unwrap_or(0))
        }
    }
}
