//! Codes of several keys as the digits of one number.

use arrow_array::ArrayRef;
use arrow_schema::DataType as ArrowType;

use super::coding::Coding;
use crate::encoding::Word;
use crate::error::Result;
use crate::expr::Expression;
use crate::query::scan::Slice;

/// How the keys of a query become one number.
#[derive(Debug)]
pub(crate) struct Digits {
    codings: Vec<(Coding, ArrowType)>,
    /// The product of all domains: numbers are below it.
    pub(crate) product: u64,
}

impl Digits {
    /// The codings back if a key has none, or the numbers would not fit 64 bits.
    pub(crate) fn of(keys: &[Expression], codings: Vec<Option<Coding>>) -> Result<Self, Vec<Option<Coding>>> {
        let product =
            codings.iter().try_fold(1u64, |product, coding| product.checked_mul(coding.as_ref()?.domain()));
        let Some(product) = product else { return Err(codings) };
        let types = keys.iter().map(|key| key.data_type.clone());
        Ok(Digits { codings: codings.into_iter().flatten().zip(types).collect(), product })
    }

    /// Appends the number of each row of a slice to `out`, which is empty. `T` holds all numbers.
    pub(crate) fn write<T: Word>(&self, slice: &Slice<'_, '_>, out: &mut Vec<T>, room: &mut Room) -> Result<()> {
        for (i, (coding, _)) in self.codings.iter().enumerate() {
            let domain = coding.domain();
            if i == 0 {
                coding.write(slice, out)?;
            } else if domain <= 1 << 8 {
                append(out, digits(coding, slice, &mut room.bytes)?, domain);
            } else if domain <= 1 << 16 {
                append(out, digits(coding, slice, &mut room.shorts)?, domain);
            } else if domain <= 1 << 32 {
                append(out, digits(coding, slice, &mut room.words)?, domain);
            } else {
                append(out, digits(coding, slice, &mut room.longs)?, domain);
            }
        }
        if self.codings.is_empty() {
            out.resize(slice.len(), T::default());
        }
        Ok(())
    }

    /// The keys of numbers.
    pub(crate) fn keys(&self, numbers: &[u64]) -> Result<Vec<ArrayRef>> {
        let mut rest = numbers.to_vec();
        let mut keys = Vec::with_capacity(self.codings.len());
        for (i, (coding, data_type)) in self.codings.iter().enumerate().rev() {
            if i == 0 {
                keys.push(coding.values(&rest, data_type)?);
                break;
            }
            let domain = coding.domain();
            let codes: Vec<u64> = rest.iter().map(|number| number % domain).collect();
            rest.iter_mut().for_each(|number| *number /= domain);
            keys.push(coding.values(&codes, data_type)?);
        }
        keys.reverse();
        Ok(keys)
    }
}

/// Room for the digits of one key, each in the narrowest word that holds its codes.
#[derive(Debug, Default)]
pub(crate) struct Room {
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    longs: Vec<u64>,
}

fn digits<'r, D: Word>(coding: &Coding, slice: &Slice<'_, '_>, room: &'r mut Vec<D>) -> Result<&'r [D]> {
    room.clear();
    coding.write(slice, room)?;
    Ok(room)
}

/// Appends a digit to each number.
fn append<T: Word, D: Word>(numbers: &mut [T], digits: &[D], domain: u64) {
    let domain = T::from_u64(domain);
    for (number, digit) in numbers.iter_mut().zip(digits) {
        *number = Word::add(Word::mul(*number, domain), T::from_u64(Word::to_u64(*digit)));
    }
}
