//! The values of one block before encoding: gathered from Arrow arrays into one contiguous run,
//! with null slots filled by the previous value, which is cheap under every encoding.
//!
//! The filled slot also lies between minimum and maximum, so that measuring needs no branch.

use arrow_array::cast::AsArray;
use arrow_array::types::{IntervalMonthDayNanoType, UInt32Type};
use arrow_array::{Array, ArrayRef, DictionaryArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::DataType as ArrowType;

use crate::encoding::Word;
use crate::error::{Error, Result};
use crate::model::{DataType, Physical, WordWidth, interval};

/// Contiguous values of one physical type; null slots hold a neighbour.
#[derive(Debug)]
pub(crate) enum Values<'a> {
    /// Only nulls, for a column without a type.
    Null,
    /// Booleans.
    Bool(BooleanBuffer),
    /// 8-bit words.
    W8(Vec<u8>),
    /// 16-bit words.
    W16(Vec<u16>),
    /// 32-bit words.
    W32(Vec<u32>),
    /// 64-bit words.
    W64(Vec<u64>),
    /// binary32.
    F32(Vec<f32>),
    /// binary64.
    F64(Vec<f64>),
    /// Decimals, and intervals as numbers.
    Wide(Vec<i128>),
    /// Text and bytes.
    Bytes(Vec<&'a [u8]>),
}

/// The values of some rows, and their validity.
#[derive(Debug)]
pub(crate) struct Gathered<'a> {
    /// Rows, nulls included.
    pub rows: usize,
    /// One value per row.
    pub values: Values<'a>,
    /// `None` when every row has a value.
    pub validity: Option<BooleanBuffer>,
}

impl Gathered<'_> {
    /// Rows without a value.
    pub(crate) fn nulls(&self) -> usize {
        self.validity.as_ref().map_or(0, |v| self.rows - v.count_set_bits())
    }

    /// Whether row `i` has a value.
    pub(crate) fn is_valid(&self, i: usize) -> bool {
        self.validity.as_ref().is_none_or(|v| v.value(i))
    }
}

/// A run of rows of one array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    /// The array, in a layout that [`canonical`] accepts.
    pub array: &'a ArrayRef,
    /// First row.
    pub start: usize,
    /// Rows.
    pub len: usize,
}

/// The Arrow type to which an array of type `arrow` must be cast before [`gather`] can read it as
/// `data_type`; `None` if no cast is needed.
pub(crate) fn canonical(arrow: &ArrowType, data_type: &DataType) -> Option<ArrowType> {
    if let ArrowType::Dictionary(key, values) = arrow
        && **key == ArrowType::UInt32
        && !matches!(data_type.physical(), Physical::Null | Physical::Bool | Physical::Wide)
    {
        return canonical(values, data_type);
    }
    let readable = match data_type {
        DataType::Utf8 | DataType::Uuid => {
            matches!(arrow, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
        }
        DataType::Binary => {
            matches!(arrow, ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView)
        }
        other => *arrow == other.to_arrow(),
    };
    (!readable).then(|| data_type.to_arrow())
}

/// An array of codes with their values, in the layout that [`canonical`] accepts.
pub(crate) fn coded(array: &ArrayRef) -> Option<&DictionaryArray<UInt32Type>> {
    array.as_dictionary_opt::<UInt32Type>()
}

/// Gathers `pieces` of one column of type `data_type`.
pub(crate) fn gather<'a>(data_type: &DataType, pieces: &[Piece<'a>]) -> Result<Gathered<'a>> {
    let rows = pieces.iter().map(|p| p.len).sum();
    let validity = gather_validity(pieces, rows);
    let valid = validity.as_ref();
    let values = match data_type.physical() {
        Physical::Null => Values::Null,
        Physical::Bool => Values::Bool(gather_bools(pieces, rows)),
        Physical::Word { width: WordWidth::W8, .. } => {
            Values::W8(gather_fixed(pieces, rows, valid)?)
        }
        Physical::Word { width: WordWidth::W16, .. } => {
            Values::W16(gather_fixed(pieces, rows, valid)?)
        }
        Physical::Word { width: WordWidth::W32, .. } => {
            Values::W32(gather_fixed(pieces, rows, valid)?)
        }
        Physical::Word { width: WordWidth::W64, .. } => {
            Values::W64(gather_fixed(pieces, rows, valid)?)
        }
        Physical::Float32 => Values::F32(gather_fixed(pieces, rows, valid)?),
        Physical::Float64 => Values::F64(gather_fixed(pieces, rows, valid)?),
        Physical::Wide if *data_type == DataType::Interval => {
            Values::Wide(gather_intervals(pieces, rows, valid)?)
        }
        Physical::Wide => Values::Wide(gather_fixed(pieces, rows, valid)?),
        Physical::Bytes => Values::Bytes(gather_bytes(pieces, rows, valid)?),
    };
    Ok(Gathered { rows, values, validity })
}

fn gather_validity(pieces: &[Piece<'_>], rows: usize) -> Option<BooleanBuffer> {
    if pieces.iter().all(|p| p.array.logical_null_count() == 0) {
        return None;
    }
    let mut out = BooleanBufferBuilder::new(rows);
    for piece in pieces {
        match piece.array.logical_nulls() {
            Some(nulls) => out.append_buffer(&nulls.inner().slice(piece.start, piece.len)),
            None => out.append_n(piece.len, true),
        }
    }
    let validity = out.finish();
    (validity.count_set_bits() < rows).then_some(validity)
}

fn gather_bools(pieces: &[Piece<'_>], rows: usize) -> BooleanBuffer {
    let mut out = BooleanBufferBuilder::new(rows);
    for piece in pieces {
        match piece.array.as_boolean_opt() {
            Some(array) => out.append_buffer(&array.values().slice(piece.start, piece.len)),
            None => out.append_n(piece.len, false),
        }
    }
    out.finish()
}

/// Fixed-width values, whatever the array's logical type.
fn gather_fixed<T: arrow_buffer::ArrowNativeType + bytemuck::Pod>(
    pieces: &[Piece<'_>],
    rows: usize,
    validity: Option<&BooleanBuffer>,
) -> Result<Vec<T>> {
    let mut out: Vec<T> = Vec::with_capacity(rows);
    for piece in pieces {
        let coded = coded(piece.array);
        let data = coded.map_or(piece.array, |coded| coded.values()).to_data();
        let wrong = || {
            Error::InvalidInput(format!("array of type {} in a column of words", data.data_type()))
        };
        if data.data_type().primitive_width() != Some(size_of::<T>()) {
            return Err(wrong());
        }
        let values = data.buffer::<T>(0);
        match coded {
            Some(coded) => {
                // Under a null, any key may stand.
                let value = |key: usize| values.get(key).copied().unwrap_or(T::zeroed());
                out.extend(keys(coded, piece).map(value));
            }
            None => {
                let values = values.get(piece.start..piece.start + piece.len).ok_or_else(wrong)?;
                out.extend_from_slice(values);
            }
        }
    }
    if let Some(validity) = validity {
        fill_nulls(&mut out, validity);
    }
    Ok(out)
}

/// Intervals as the numbers that are stored.
fn gather_intervals(
    pieces: &[Piece<'_>],
    rows: usize,
    validity: Option<&BooleanBuffer>,
) -> Result<Vec<i128>> {
    let mut out = Vec::with_capacity(rows);
    for piece in pieces {
        let array = piece.array.as_primitive_opt::<IntervalMonthDayNanoType>();
        let values = array
            .and_then(|array| array.values().get(piece.start..piece.start.checked_add(piece.len)?));
        let values = values.ok_or_else(|| {
            let found = piece.array.data_type();
            Error::InvalidInput(format!("array of type {found} in a column of intervals"))
        })?;
        out.extend(values.iter().map(|value| interval::to_number(*value)));
    }
    if let Some(validity) = validity {
        fill_nulls(&mut out, validity);
    }
    Ok(out)
}

fn gather_bytes<'a>(
    pieces: &[Piece<'a>],
    rows: usize,
    validity: Option<&BooleanBuffer>,
) -> Result<Vec<&'a [u8]>> {
    let mut out: Vec<&'a [u8]> = Vec::with_capacity(rows);
    for piece in pieces {
        match coded(piece.array) {
            Some(coded) => extend_bytes(coded.values(), keys(coded, piece), &mut out)?,
            None => extend_bytes(piece.array, piece.start..piece.start + piece.len, &mut out)?,
        }
    }
    if let Some(validity) = validity {
        fill_nulls(&mut out, validity);
    }
    Ok(out)
}

/// The keys of some rows of an array of codes.
fn keys<'a>(
    coded: &'a DictionaryArray<UInt32Type>,
    piece: &Piece<'_>,
) -> impl Iterator<Item = usize> + 'a {
    let keys = coded.keys().values().iter().skip(piece.start).take(piece.len);
    keys.map(|key| *key as usize)
}

/// Appends the values of an array at some places; those that it does not have, which stand under
/// nulls, are empty.
fn extend_bytes<'a>(
    array: &'a ArrayRef,
    places: impl Iterator<Item = usize>,
    out: &mut Vec<&'a [u8]>,
) -> Result<()> {
    let places = places.map(|place| Some(place).filter(|place| *place < array.len()));
    match array.data_type() {
        ArrowType::Utf8 => {
            let array = array.as_string::<i32>();
            out.extend(places.map(|place| place.map_or(&[][..], |i| array.value(i).as_bytes())));
        }
        ArrowType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            out.extend(places.map(|place| place.map_or(&[][..], |i| array.value(i).as_bytes())));
        }
        ArrowType::Utf8View => {
            let array = array.as_string_view();
            out.extend(places.map(|place| place.map_or(&[][..], |i| array.value(i).as_bytes())));
        }
        ArrowType::Binary => {
            let array = array.as_binary::<i32>();
            out.extend(places.map(|place| place.map_or(&[][..], |i| array.value(i))));
        }
        ArrowType::LargeBinary => {
            let array = array.as_binary::<i64>();
            out.extend(places.map(|place| place.map_or(&[][..], |i| array.value(i))));
        }
        ArrowType::BinaryView => {
            let array = array.as_binary_view();
            out.extend(places.map(|place| place.map_or(&[][..], |i| array.value(i))));
        }
        other => {
            return Err(Error::InvalidInput(format!("array of type {other} in a column of bytes")));
        }
    }
    Ok(())
}

/// Null slots take the value before them; those before the first value take the first value.
fn fill_nulls<T: Copy>(values: &mut [T], validity: &BooleanBuffer) {
    let Some(first) = validity.set_indices().next() else { return };
    let mut last = values[first];
    for (i, value) in values.iter_mut().enumerate() {
        if validity.value(i) {
            last = *value;
        } else {
            *value = last;
        }
    }
}

/// The integer that a word represents.
pub(super) fn to_number<W: Word>(word: W, signed: bool) -> i128 {
    if signed { i128::from(word.to_i64()) } else { i128::from(word.to_u64()) }
}
