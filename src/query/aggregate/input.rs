//! What aggregates add up: the values of an expression for the rows of a slice, in the form that
//! adds fastest.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::DataType as ArrowType;

use crate::block::{Reader, Stream, Validity};
use crate::encoding::bools::from_mask;
use crate::encoding::floats::{Corrected, Floats};
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::scaled::ScaledInts;
use crate::encoding::{Ints, Word};
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::expr::arithmetic::Computed;
use crate::model::Scalar;
use crate::query::slice::Slice;
use crate::query::words::{blank, is_words, to_words};
use crate::segment::scaled::ScaledDictionary;

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
    /// Booleans, whole numbers, dates, times; unsigned ones of 64 bits too.
    Words(ScalarBuffer<i64>),
    /// Doubles.
    Floats(ScalarBuffer<f64>),
    /// Doubles as the whole numbers that they are stored as.
    Decimals(Decimals),
    /// 128-bit decimals.
    Wide(ScalarBuffer<i128>),
    /// Anything else.
    Array(ArrayRef),
}

/// Decimal floats of some rows.
#[derive(Debug)]
pub(crate) struct Decimals {
    pub(crate) ints: ScaledInts,
    /// Values are `ints · 10^-exponent`.
    pub(crate) exponent: u8,
    /// Rows whose value is another one.
    pub(crate) exceptions: Vec<(usize, f64)>,
    /// No int is beyond this.
    pub(crate) most: u64,
}

impl Fetched {
    /// Makes what is not marked null. `sums`: values are only added up and counted.
    pub(crate) fn keep(&mut self, marks: &[u8], marked: &NullBuffer, sums: bool) {
        let both = NullBuffer::union(self.valid.as_ref(), Some(marked));
        let valid = std::mem::replace(&mut self.valid, both);
        let valid = valid.as_ref().filter(|_| !self.zeroed);
        match &mut self.values {
            Values::Floats(floats) if sums => {
                *floats = kept_of(floats, marks, valid);
                self.zeroed = true;
            }
            Values::Words(words) if sums => {
                *words = kept_of(words, marks, valid);
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
                        blank_unmarked(bytemuck::cast_slice_mut::<_, u32>(ints), marks)
                    }
                    ScaledInts::Wide(ints) => {
                        blank_unmarked(bytemuck::cast_slice_mut::<_, u64>(ints), marks)
                    }
                }
                decimals
                    .exceptions
                    .retain(|(row, _)| marks.get(*row).is_some_and(|mark| *mark != 0));
            }
            Values::Floats(_) => {}
            Values::Words(_) | Values::Wide(_) | Values::Array(_) => self.zeroed = false,
        }
    }
}

/// Rows that are marked by 1.
pub(crate) fn marked(marks: &[u8]) -> NullBuffer {
    NullBuffer::new(from_mask(marks))
}

/// The values, 0 where there is no mark or null.
fn kept_of<T: ArrowNativeType + bytemuck::Pod>(
    values: &[T],
    marks: &[u8],
    valid: Option<&NullBuffer>,
) -> ScalarBuffer<T> {
    let mut kept = values.to_vec();
    let words: &mut [u64] = bytemuck::cast_slice_mut(&mut kept);
    blank_unmarked(words, marks);
    blank(words, valid);
    kept.into()
}

/// Makes words without a mark 0.
fn blank_unmarked<T: Word>(words: &mut [T], marks: &[u8]) {
    // All bits of a marked one, none of another.
    let mask = |mark: u8| Word::sub(T::default(), T::from_u64(u64::from(mark)));
    simd(
        #[inline(always)]
        || words.iter_mut().zip(marks).for_each(|(word, mark)| *word = *word & mask(*mark)),
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
    if let Some(arithmetic) = expression.as_arithmetic() {
        return Ok(computed(arithmetic.compute(&slice.inputs(expression)?, slice.len())?, wanted));
    }
    Ok(values_of(slice.evaluate(expression)?, wanted))
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
pub(crate) fn values_of(array: ArrayRef, wanted: ValueUse) -> Fetched {
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

/// The whole numbers of a column of decimal doubles, where the block stores them so.
fn stored_decimals(at: usize, slice: &Slice<'_, '_>) -> Result<Option<Fetched>> {
    let Some(block) = slice.block.column(at)? else { return Ok(None) };
    if let Stream::Codes(codes) = block.reader().stream() {
        return coded_decimals(at, codes, slice);
    }
    let Stream::F64(Floats::Alp(alp)) = block.reader().stream() else { return Ok(None) };
    let Some(most) = largest(at, slice, alp.exponent) else { return Ok(None) };
    let WholeNumbers { ints, exceptions, valid } =
        WholeNumbers::of(&alp.stored, most, block.reader(), slice)?;
    let decimals = Decimals { ints, exponent: alp.exponent, exceptions, most };
    Ok(Some(Fetched { values: Values::Decimals(decimals), valid, zeroed: true }))
}

/// The whole numbers that stand for the doubles of a column on a grid of decimals and multiples of
/// a power of two; `None` of another column.
pub(crate) fn grid_words(at: usize, slice: &Slice<'_, '_>) -> Result<Option<WholeNumbers>> {
    let Some(block) = slice.block.column(at)? else { return Ok(None) };
    let Stream::F64(Floats::Dyadic(dyadic)) = block.reader().stream() else { return Ok(None) };
    let Some(most) = largest(at, slice, dyadic.exponent()) else { return Ok(None) };
    WholeNumbers::of(&dyadic.stored, 2 * most + 2, block.reader(), slice).map(Some)
}

/// What a slice's rows store in place of doubles.
#[derive(Debug)]
pub(crate) struct WholeNumbers {
    /// 0 where there is null.
    pub(crate) ints: ScaledInts,
    /// Rows whose value is another one.
    pub(crate) exceptions: Vec<(usize, f64)>,
    pub(crate) valid: Option<NullBuffer>,
}

impl WholeNumbers {
    /// None of the whole numbers is beyond `most`.
    fn of(
        stored: &Corrected<'_, f64>,
        most: u64,
        reader: &Reader<'_>,
        slice: &Slice<'_, '_>,
    ) -> Result<Self> {
        let mut exceptions = Vec::new();
        stored
            .exceptions
            .apply(&slice.range, |row, word| exceptions.push((row, f64::from_bits(word))))?;
        let valid = match reader.validity() {
            Validity::Stream(bools) => Some(NullBuffer::new(bools.decode(slice.range.clone())?)),
            _ => None,
        };
        let valid = valid.filter(|valid| valid.null_count() > 0);
        if let Some(valid) = &valid {
            exceptions.retain(|(row, _)| valid.is_valid(*row));
        }
        let ints = match i32::try_from(most) {
            Ok(_) => {
                ScaledInts::Narrow(bytemuck::cast_vec(whole::<u32>(stored, slice, valid.as_ref())?))
            }
            Err(_) => {
                ScaledInts::Wide(bytemuck::cast_vec(whole::<u64>(stored, slice, valid.as_ref())?))
            }
        };
        Ok(WholeNumbers { ints, exceptions, valid })
    }
}

/// The whole numbers of a slice's rows modulo the word's size, 0 where there is null.
fn whole<W: Word>(
    stored: &Corrected<'_, f64>,
    slice: &Slice<'_, '_>,
    valid: Option<&NullBuffer>,
) -> Result<Vec<W>> {
    let mut ints = Vec::with_capacity(slice.range.len());
    stored.ints.decode_narrow(slice.range.clone(), 0, true, &mut ints)?;
    blank(&mut ints, valid);
    Ok(ints)
}

/// The same of a column with a dictionary of decimals.
fn coded_decimals(
    at: usize,
    codes: &Ints<'_, u32>,
    slice: &Slice<'_, '_>,
) -> Result<Option<Fetched>> {
    let Some(stored) = slice.block.stored(at) else { return Ok(None) };
    let Some(dictionary) = stored.scaled_dictionary()? else { return Ok(None) };
    if dictionary.ints.len() <= 1 << u16::BITS {
        looked_up::<u16>(dictionary, codes, slice).map(Some)
    } else {
        looked_up::<u32>(dictionary, codes, slice).map(Some)
    }
}

fn looked_up<W: Word>(
    dictionary: &ScaledDictionary,
    codes: &Ints<'_, u32>,
    slice: &Slice<'_, '_>,
) -> Result<Fetched> {
    let mut room: Vec<W> = Vec::with_capacity(slice.range.len());
    codes.decode_narrow(slice.range.clone(), 0, false, &mut room)?;
    let (least, greatest) = simd(
        #[inline(always)]
        || extremes(&room),
    );
    if Word::to_u64(greatest) >= dictionary.ints.len() as u64 {
        return Err(Error::corrupt(0, "a code that its dictionary does not have"));
    }
    fn each<W: Word, V: Copy + Default>(room: &[W], values: &[V]) -> Vec<V> {
        room.iter()
            .map(|code| values.get(Word::to_u64(*code) as usize).copied().unwrap_or_default())
            .collect()
    }
    let ints = match &dictionary.ints {
        ScaledInts::Narrow(values) => ScaledInts::Narrow(each(&room, values)),
        ScaledInts::Wide(values) => ScaledInts::Wide(each(&room, values)),
    };
    let null = W::default();
    let valid = || {
        let marks: Vec<u8> = room.iter().map(|code| u8::from(*code != null)).collect();
        marked(&marks)
    };
    let valid = (least == null && !room.is_empty()).then(valid);
    let decimals = Decimals {
        ints,
        exponent: dictionary.exponent,
        exceptions: Vec::new(),
        most: dictionary.most,
    };
    Ok(Fetched { values: Values::Decimals(decimals), valid, zeroed: true })
}

/// The least and the greatest code, 0 of none.
#[inline(always)]
fn extremes<W: Word>(codes: &[W]) -> (W, W) {
    let first = codes.first().copied().unwrap_or_default();
    codes.iter().fold((first, first), |(least, most), code| (least.min(*code), most.max(*code)))
}

/// A bound of the block's whole numbers, unless it is too large to add them.
fn largest(at: usize, slice: &Slice<'_, '_>, exponent: u8) -> Option<u64> {
    let stats = slice.block.stored(at)?.block_stats(slice.block.at.block)?;
    let size = |bound: &Option<crate::block::Bound>| match bound.as_ref()?.value {
        Scalar::Float(v) => Some(v.abs()),
        _ => None,
    };
    let (min, max) = (size(&stats.min)?, size(&stats.max)?);
    if min.is_nan() || max.is_nan() {
        // It hides the greatest number.
        return None;
    }
    let most = min.max(max) * 10f64.powi(i32::from(exponent)) + 2.0;
    (most < (1u64 << 53) as f64).then_some(most as u64)
}
