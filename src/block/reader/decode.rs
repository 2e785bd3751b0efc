//! Decodes a range of rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, UInt32Array};
use arrow_buffer::{ArrowNativeType, Buffer as ArrowBuffer, NullBuffer};

use super::arrays::{Charged, fixed, look_up, null_array, take, views};
use super::{Dictionary, Reader, Stream, Validity};
use crate::encoding::Word;
use crate::encoding::bools::from_mask;
use crate::encoding::ints::Ints;
use crate::encoding::strings::{Strings, StringsOut};
use crate::error::{Error, Result};
use crate::model::DataType;

impl Reader<'_> {
    /// The rows `rows` (starting at a multiple of 1,024) as an Arrow array of the stored type.
    /// Decimals that are stored in 64 bits come as integers of 64 bits, too.
    pub fn decode(
        &self,
        rows: Range<usize>,
        data_type: &DataType,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(Error::InvalidInput(format!("rows {rows:?} of a block of {}", self.rows)));
        }
        let nulls = match &self.validity {
            Validity::AllValid | Validity::ByCode => None,
            Validity::AllNull => return Ok(null_array(rows.len(), data_type)),
            Validity::Stream(bools) => Some(NullBuffer::new(bools.decode(rows.clone())?)),
        };
        match &self.stream {
            Stream::Null => Ok(null_array(rows.len(), data_type)),
            Stream::Bool(s) => Ok(Arc::new(BooleanArray::new(s.decode(rows)?, nulls))),
            Stream::W8(s) => words(s, rows, data_type, nulls),
            Stream::W16(s) => words(s, rows, data_type, nulls),
            Stream::W32(s) => words(s, rows, data_type, nulls),
            Stream::W64(s) => words(s, rows, data_type, nulls),
            Stream::F32(s) => {
                let mut out = Vec::with_capacity(rows.len());
                s.decode(rows, &mut out)?;
                fixed(ArrowBuffer::from_vec(out), data_type, nulls)
            }
            Stream::F64(s) => {
                let mut out = Vec::with_capacity(rows.len());
                s.decode(rows, &mut out)?;
                fixed(ArrowBuffer::from_vec(out), data_type, nulls)
            }
            Stream::Wide(_) if *data_type == DataType::Int64 => {
                words(self.integers()?, rows, data_type, nulls)
            }
            Stream::Wide(s) => {
                let mut out = Vec::with_capacity(rows.len());
                s.decode(rows, &mut out)?;
                fixed(ArrowBuffer::from_vec(out), data_type, nulls)
            }
            Stream::Bytes(Strings::Constant { value, .. }) => {
                // All rows share one copy of the value.
                let data =
                    Charged { charge: self.budget.charge(value.len())?, data: value.to_vec() };
                let value = views(&[data.data.len() as u32], data, data_type, None)?;
                take(&value, UInt32Array::new(vec![0; rows.len()].into(), nulls))
            }
            Stream::Bytes(s) => {
                let mut out = StringsOut::with_limit(self.max_bytes);
                out.charge_to(self.budget)?;
                s.decode(rows, &mut out)?;
                let charge = out.take_charge();
                views(&out.ends, Charged { data: out.data, charge }, data_type, nulls)
            }
            Stream::Codes(s) => look_up(codes(s, rows)?, known(dictionary)?),
        }
    }

    /// The stored integers of decimals.
    pub(super) fn integers(&self) -> Result<&Ints<'_, u64>> {
        let wider = || Error::InvalidInput("decimals of more than 64 bits as integers".into());
        self.longs().ok_or_else(wider)
    }

    /// [`Reader::decode`], but codes stay codes: of a block that has them, a dictionary array over
    /// the segment's dictionary.
    pub fn decode_coded(
        &self,
        rows: Range<usize>,
        data_type: &DataType,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef> {
        let Stream::Codes(s) = &self.stream else {
            return self.decode(rows, data_type, dictionary);
        };
        if rows.start > rows.end || rows.end > self.rows {
            return Err(Error::InvalidInput(format!("rows {rows:?} of a block of {}", self.rows)));
        }
        let codes = codes(s, rows)?;
        let valid: Vec<u8> = codes.iter().map(|code| u8::from(*code != 0)).collect();
        let nulls = NullBuffer::new(from_mask(&valid));
        let keys = UInt32Array::new(codes.into(), Some(nulls).filter(|n| n.null_count() > 0));
        let coded = DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(known(dictionary)?));
        coded.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::corrupt(0, e.to_string()))
    }
}

fn codes(stream: &Ints<'_, u32>, rows: Range<usize>) -> Result<Vec<u32>> {
    let mut codes = Vec::with_capacity(rows.len());
    stream.decode(rows, &mut codes)?;
    Ok(codes)
}

fn known(dictionary: Option<&Dictionary>) -> Result<&Dictionary> {
    dictionary.ok_or_else(|| Error::corrupt(0, "dictionary codes in a column without a dictionary"))
}

fn words<W: Word + ArrowNativeType>(
    stream: &Ints<'_, W>,
    rows: Range<usize>,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let mut out: Vec<W> = Vec::with_capacity(rows.len());
    stream.decode(rows, &mut out)?;
    fixed(ArrowBuffer::from_vec(out), data_type, nulls)
}
