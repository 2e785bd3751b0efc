//! Reads single rows, without decoding the block if the encoding allows it.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer as ArrowBuffer, NullBuffer};

use super::arrays::{Charged, fixed, look_up, null_array, views};
use super::{Dictionary, Reader, Stream, Validity};
use crate::encoding::ints::Ints;
use crate::encoding::strings::{Strings, StringsOut};
use crate::error::{ArrowResult, Error, Result};
use crate::limits::VECTOR;
use crate::model::DataType;

impl Reader<'_> {
    /// Single rows as an array of the stored type, without decoding the block if the encoding
    /// allows it.
    pub fn gather(
        &self,
        rows: &[u32],
        data_type: &DataType,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef> {
        if let Some(row) = rows.iter().find(|row| **row as usize >= self.rows) {
            return Err(Error::InvalidInput(format!("row {row} of a block of {}", self.rows)));
        }
        if !self.is_light() {
            return self.gather_by_vector(rows, data_type, dictionary);
        }
        let nulls = match &self.validity {
            Validity::AllValid | Validity::ByCode => None,
            Validity::AllNull => return Ok(null_array(rows.len(), data_type)),
            Validity::Stream(bools) => {
                let valid = rows
                    .iter()
                    .map(|row| bools.get(*row as usize))
                    .collect::<Result<Vec<bool>>>()?;
                Some(NullBuffer::from(valid))
            }
        };
        match &self.stream {
            Stream::Null => Ok(null_array(rows.len(), data_type)),
            Stream::Bool(s) => {
                let values =
                    rows.iter().map(|row| s.get(*row as usize)).collect::<Result<Vec<bool>>>()?;
                Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
            }
            Stream::W8(s) => {
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::W16(s) => {
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::W32(s) => {
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::W64(s) => {
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::F32(s) => {
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::F64(s) => {
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::Wide(_) if *data_type == DataType::Int64 => {
                let s = self.integers()?;
                gather_fixed(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::Wide(s) => {
                fixed(ArrowBuffer::from_vec(get_each(rows, |row| s.get(row))?), data_type, nulls)
            }
            Stream::Bytes(s) => self.gather_texts(s, rows, data_type, nulls),
            Stream::Codes(s) => {
                let dictionary = dictionary.ok_or_else(|| {
                    Error::corrupt(0, "dictionary codes in a column without a dictionary")
                })?;
                look_up(
                    gather_values(rows, |out| s.gather(rows, out), |row| s.get(row))?,
                    dictionary,
                )
            }
        }
    }

    /// Whether a row can be read without decoding those before it.
    fn is_light(&self) -> bool {
        match &self.stream {
            Stream::Null | Stream::Bool(_) | Stream::Bytes(_) => true,
            Stream::Wide(s) => s.words().is_none_or(Ints::is_light),
            Stream::W8(s) => s.is_light(),
            Stream::W16(s) => s.is_light(),
            Stream::W32(s) | Stream::Codes(s) => s.is_light(),
            Stream::W64(s) => s.is_light(),
            Stream::F32(s) => s.is_light(),
            Stream::F64(s) => s.is_light(),
        }
    }

    /// About how many rows are decoded in the time that reading a single row takes.
    pub fn rows_per_fetch(&self) -> usize {
        let by_vector = match &self.stream {
            _ if matches!(self.validity, Validity::Stream(_)) => false,
            Stream::Null | Stream::Bool(_) | Stream::Wide(_) => false,
            Stream::Bytes(s) => !s.is_light(),
            Stream::W8(s) => s.gathers_by_vector(),
            Stream::W16(s) => s.gathers_by_vector(),
            Stream::W32(s) | Stream::Codes(s) => s.gathers_by_vector(),
            Stream::W64(s) => s.gathers_by_vector(),
            Stream::F32(s) => s.gathers_by_vector(),
            Stream::F64(s) => s.gathers_by_vector(),
        };
        if by_vector { 3 } else { 32 }
    }

    /// Texts of single rows. Where reading one decodes those before it in its vector, neighbouring
    /// rows of a vector are decoded together.
    fn gather_texts(
        &self,
        strings: &Strings<'_>,
        rows: &[u32],
        data_type: &DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let (mut out, mut vector) = (StringsOut::with_limit(self.max_bytes), StringsOut::new());
        out.charge_to(self.budget)?;
        vector.charge_to(self.budget)?;
        for near in rows.chunk_by(|a, b| *a as usize / VECTOR == *b as usize / VECTOR) {
            let (first, most) = (near.first().copied(), near.iter().max().copied());
            let start = first.map_or(0, |row| row as usize / VECTOR * VECTOR);
            let together = near.len() > 1 && !strings.is_light();
            if together {
                vector.clear();
                strings.decode(start..most.map_or(start, |row| row as usize + 1), &mut vector)?;
            }
            for row in near {
                match together {
                    true => out.push(vector.value(*row as usize - start))?,
                    false => out.push(&strings.get(*row as usize)?)?,
                }
            }
        }
        let charge = out.take_charge();
        views(&out.ends, Charged { data: out.data, charge }, data_type, nulls)
    }

    /// As `gather`, decoding each vector once for all neighbouring rows in it.
    fn gather_by_vector(
        &self,
        rows: &[u32],
        data_type: &DataType,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef> {
        let mut parts: Vec<ArrayRef> = Vec::new();
        for near in rows.chunk_by(|a, b| *a as usize / VECTOR == *b as usize / VECTOR) {
            let start = near.first().map_or(0, |row| *row as usize / VECTOR * VECTOR);
            let end = near.iter().max().map_or(start, |row| *row as usize + 1);
            let vector = self.decode(start..end, data_type, dictionary)?;
            let indices: UInt32Array = near.iter().map(|row| row - start as u32).collect();
            parts.push(arrow_select::take::take(&vector, &indices, None).or_corrupt()?);
        }
        match parts.as_slice() {
            [] => Ok(null_array(0, data_type)),
            [only] => Ok(Arc::clone(only)),
            _ => {
                let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
                arrow_select::concat::concat(&parts).or_corrupt()
            }
        }
    }
}

/// Fixed-width values of single rows.
fn gather_fixed<T: ArrowNativeType>(
    rows: &[u32],
    all: impl FnOnce(&mut Vec<T>) -> Result<()>,
    get: impl Fn(usize) -> Result<T>,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fixed(ArrowBuffer::from_vec(gather_values(rows, all, get)?), data_type, nulls)
}

/// Single values: read by one call to `all` if their rows are ascending, else each by `get`.
fn gather_values<T>(
    rows: &[u32],
    all: impl FnOnce(&mut Vec<T>) -> Result<()>,
    get: impl Fn(usize) -> Result<T>,
) -> Result<Vec<T>> {
    if !rows.is_sorted_by(|a, b| a < b) {
        return get_each(rows, get);
    }
    let mut values = Vec::with_capacity(rows.len());
    all(&mut values)?;
    Ok(values)
}

fn get_each<T>(rows: &[u32], get: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(|row| get(*row as usize)).collect()
}
