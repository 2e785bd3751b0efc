//! Doubles of a column as scaled integers: those that a block stores, or those of the segment's
//! dictionary, looked up by code.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_buffer::NullBuffer;

use crate::block::{Reader, Stats, Stream, Validity};
use crate::encoding::bools::from_mask;
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::scaled::{Scaled, ScaledInts, Scaling};
use crate::encoding::{Ints, Word};
use crate::error::{Error, Result};

/// The scaled integer of each code; code 0, null, has 0.
#[derive(Debug)]
pub struct ScaledDictionary {
    /// In the order of the codes.
    ints: ScaledInts,
    /// Values are the doubles nearest to `ints · 10^-exponent`.
    pub(crate) exponent: u8,
    /// The greatest absolute value of the integers.
    most: u64,
}

impl ScaledDictionary {
    /// `None` if some value of the dictionary is no decimal.
    pub(super) fn new(dictionary: &ArrayRef) -> Option<Self> {
        let values = dictionary.as_primitive_opt::<Float64Type>()?;
        let values = values.values().get(1..)?;
        let exponent =
            values.iter().try_fold(0, |most, v| Scaling::decimals_of(*v, most, false))?;
        let scaling = Scaling::quotients(exponent, false);
        let ints = std::iter::once(Some(0)).chain(values.iter().map(|v| scaling.int(*v)));
        let ints: Vec<i64> = ints.collect::<Option<_>>()?;
        let most = ints.iter().map(|int| int.unsigned_abs()).max().unwrap_or(0);
        Some(ScaledDictionary { ints: ScaledInts::new(ints, most), exponent, most })
    }

    /// The integers of the codes of some rows.
    fn look_up<W: Word>(
        &self,
        codes: &Ints<'_, u32>,
        rows: Range<usize>,
    ) -> Result<(Decimals, Option<NullBuffer>)> {
        let mut decoded: Vec<W> = Vec::with_capacity(rows.len());
        codes.decode_narrow(rows, 0, false, &mut decoded)?;
        let (least, greatest) = simd(
            #[inline(always)]
            || extremes(&decoded),
        );
        if Word::to_u64(greatest) >= self.ints.len() as u64 {
            return Err(Error::corrupt(0, "a code that its dictionary does not have"));
        }
        let ints = match &self.ints {
            ScaledInts::Narrow(values) => ScaledInts::Narrow(each(&decoded, values)),
            ScaledInts::Wide(values) => ScaledInts::Wide(each(&decoded, values)),
        };
        let null = W::default();
        let valid = || {
            let marks: Vec<u8> = decoded.iter().map(|code| u8::from(*code != null)).collect();
            NullBuffer::new(from_mask(&marks))
        };
        let valid = (least == null && !decoded.is_empty()).then(valid);
        let (exponent, most) = (self.exponent, self.most);
        Ok((Decimals { ints, exponent, exceptions: Vec::new(), most }, valid))
    }
}

/// Decimal doubles of some rows of a block.
#[derive(Debug)]
pub(crate) struct Decimals {
    /// 0 where there is null.
    pub(crate) ints: ScaledInts,
    /// Values are `ints · 10^-exponent`.
    pub(crate) exponent: u8,
    /// Rows whose value is another one, counted from the first row.
    pub(crate) exceptions: Vec<(usize, f64)>,
    /// No integer is beyond this.
    pub(crate) most: u64,
}

/// The decimals of some rows of a block, whose start is a multiple of 1,024, and which of them are
/// not null, if not all are. `None` if the doubles are no decimals, or their integers may be too
/// large.
pub(super) fn decimals(
    reader: &Reader<'_>,
    stats: Option<&Stats>,
    dictionary: Option<&ScaledDictionary>,
    rows: Range<usize>,
) -> Result<Option<(Decimals, Option<NullBuffer>)>> {
    if let Stream::Codes(codes) = reader.stream() {
        let Some(dictionary) = dictionary else { return Ok(None) };
        return match dictionary.ints.len() <= 1 << u16::BITS {
            true => dictionary.look_up::<u16>(codes, rows),
            false => dictionary.look_up::<u32>(codes, rows),
        }
        .map(Some);
    }
    let Some(scaled) = reader.scaled().filter(|scaled| !scaled.scaling.is_single()) else {
        return Ok(None);
    };
    let Some(exponent) = scaled.scaling.exponent() else { return Ok(None) };
    let bounds = stats.and_then(Stats::doubles);
    let Some(bounds) = bounds.and_then(|(min, max)| scaled.scaling.bounds(min, max)) else {
        return Ok(None);
    };
    let most = bounds.start().unsigned_abs().max(bounds.end().unsigned_abs());
    let validity = reader.validity();
    let ints = match i32::try_from(most) {
        Ok(_) => ScaledInts::Narrow(bytemuck::cast_vec(ints::<u32>(&scaled, validity, &rows)?)),
        Err(_) => ScaledInts::Wide(bytemuck::cast_vec(ints::<u64>(&scaled, validity, &rows)?)),
    };
    let valid = match validity {
        Validity::Stream(bools) => Some(NullBuffer::new(bools.decode(rows.clone())?)),
        _ => None,
    };
    let valid = valid.filter(|valid| valid.null_count() > 0);
    let mut exceptions = Vec::new();
    scaled.each_exception(&rows, |row, value| exceptions.push((row, value)))?;
    if let Some(valid) = &valid {
        exceptions.retain(|(row, _)| valid.is_valid(*row));
    }
    Ok(Some((Decimals { ints, exponent, exceptions, most }, valid)))
}

/// The integers of some rows modulo the word's size, 0 where there is null.
fn ints<W: Word>(
    scaled: &Scaled<'_, '_>,
    validity: &Validity<'_>,
    rows: &Range<usize>,
) -> Result<Vec<W>> {
    let mut ints = Vec::with_capacity(rows.len());
    scaled.decode(rows.clone(), 0, &mut ints)?;
    validity.blank(&mut ints, rows.clone())?;
    Ok(ints)
}

fn each<W: Word, V: Copy + Default>(codes: &[W], values: &[V]) -> Vec<V> {
    let value = |code: &W| values.get(Word::to_u64(*code) as usize).copied().unwrap_or_default();
    codes.iter().map(value).collect()
}

/// The least and the greatest code, 0 of none.
#[inline(always)]
fn extremes<W: Word>(codes: &[W]) -> (W, W) {
    let first = codes.first().copied().unwrap_or_default();
    codes.iter().fold((first, first), |(least, most), code| (least.min(*code), most.max(*code)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Float64Array;

    use super::*;

    #[test]
    fn only_decimals() {
        let of = |values: Vec<f64>| {
            let values: Float64Array =
                std::iter::once(None).chain(values.into_iter().map(Some)).collect();
            ScaledDictionary::new(&(Arc::new(values) as ArrayRef))
                .map(|found| (found.ints, found.exponent))
        };
        assert_eq!(
            of(vec![-2.5, 1.0, 7.25]),
            Some((ScaledInts::Narrow(vec![0, -250, 100, 725]), 2))
        );
        let wide = vec![0, -(1 << 40), 3];
        assert_eq!(of(vec![-((1u64 << 40) as f64), 3.0]), Some((ScaledInts::Wide(wide), 0)));
        for other in [f64::NAN, f64::INFINITY, -0.0, 1.0 / 3.0, 1e300] {
            assert_eq!(of(vec![1.5, other]), None, "{other}");
        }
    }
}
