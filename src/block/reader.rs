//! The bytes of a block → Arrow arrays, any rows of it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, NullArray, StringViewArray, UInt32Array,
    make_array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer as ArrowBuffer, NullBuffer, ScalarBuffer,
};
use arrow_data::{ArrayData, ByteView};

use super::writer::{ALL_NULL, ALL_VALID, BY_CODE, STREAM};
use crate::encoding::bools::{Bools, of_marks};
use crate::encoding::floats::Floats;
use crate::encoding::ints::Ints;
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::strings::{Strings, StringsOut};
use crate::encoding::wide::Wide;
use crate::encoding::{Source, Word, buffer::ALIGN};
use crate::error::{Error, Result};
use crate::limits::{MAX_BATCH_BYTES, VECTOR};
use crate::model::{DataType, Physical, WordWidth};

/// The values of a block, still encoded.
#[derive(Debug)]
pub enum Stream<'a> {
    /// No values.
    Null,
    /// Booleans.
    Bool(Bools<'a>),
    /// 8-bit words.
    W8(Ints<'a, u8>),
    /// 16-bit words.
    W16(Ints<'a, u16>),
    /// 32-bit words.
    W32(Ints<'a, u32>),
    /// 64-bit words.
    W64(Ints<'a, u64>),
    /// binary32.
    F32(Floats<'a, f32>),
    /// binary64.
    F64(Floats<'a, f64>),
    /// Decimals.
    Wide(Wide<'a>),
    /// Text and bytes.
    Bytes(Strings<'a>),
    /// Codes into the segment's dictionary; 0 is null.
    Codes(Ints<'a, u32>),
}

/// Which rows have a value.
#[derive(Debug)]
pub enum Validity<'a> {
    /// All.
    All,
    /// None.
    Nothing,
    /// Those whose bit is set.
    Stream(Bools<'a>),
    /// Those whose code is not 0.
    ByCode,
}

/// A parsed block: borrows the mapped bytes, decodes what it is asked for.
#[derive(Debug)]
pub struct Reader<'a> {
    rows: usize,
    validity: Validity<'a>,
    stream: Stream<'a>,
    most_bytes: usize,
}

/// The values of a dictionary column's segment, decoded once; entry 0 is null.
pub type Dictionary = ArrayRef;

impl<'a> Reader<'a> {
    /// Parses a block of `rows` rows whose head is `head_len` bytes; the caller has checked the
    /// head. With `verify` the checksums of its payload are compared too.
    pub fn parse(
        bytes: &'a [u8],
        head_len: usize,
        rows: usize,
        data_type: &DataType,
        verify: bool,
    ) -> Result<Self> {
        let outside = || Error::corrupt(0, "head is longer than its block");
        let head = bytes.get(..head_len).ok_or_else(outside)?;
        let payload = bytes.get(head_len.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        let mut source = Source::new(head, payload).verifying(verify);
        let (validity, by_code) = match source.cursor.u8()? {
            ALL_VALID => (Validity::All, false),
            ALL_NULL => (Validity::Nothing, false),
            STREAM => (Validity::Stream(source.child(|s| Bools::parse(s, rows))?), false),
            BY_CODE => (Validity::ByCode, true),
            other => return Err(source.cursor.corrupt(format!("validity kind {other}"))),
        };
        let stream = if matches!(validity, Validity::Nothing) {
            Stream::Null
        } else if by_code {
            Stream::Codes(Ints::parse(&mut source, rows)?)
        } else {
            parse_stream(&mut source, rows, data_type.physical())?
        };
        source.cursor.finish()?;
        Ok(Reader { rows, validity, stream, most_bytes: MAX_BATCH_BYTES })
    }

    /// The same block, refusing to decode more than so many bytes of text at once.
    #[must_use]
    pub fn with_most_bytes(self, most_bytes: usize) -> Self {
        Reader { most_bytes, ..self }
    }

    /// Rows of the block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which rows have a value.
    pub fn validity(&self) -> &Validity<'a> {
        &self.validity
    }

    /// The encoded values.
    pub fn stream(&self) -> &Stream<'a> {
        &self.stream
    }

    /// The encoding tree in words, for `sty inspect`.
    pub fn describe(&self) -> String {
        let mut out = String::new();
        match &self.stream {
            Stream::Null => out.push_str("null"),
            Stream::Bool(s) => s.describe(&mut out),
            Stream::W8(s) => s.describe(&mut out),
            Stream::W16(s) => s.describe(&mut out),
            Stream::W32(s) => s.describe(&mut out),
            Stream::W64(s) => s.describe(&mut out),
            Stream::F32(s) => s.describe(&mut out),
            Stream::F64(s) => s.describe(&mut out),
            Stream::Wide(s) => s.describe(&mut out),
            Stream::Bytes(s) => s.describe(&mut out),
            Stream::Codes(s) => {
                out.push_str("dictionary(");
                s.describe(&mut out);
                out.push(')');
            }
        }
        out
    }

    /// The rows `rows` (starting at a multiple of 1,024) as an Arrow array of the stored type.
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
            Validity::All | Validity::ByCode => None,
            Validity::Nothing => return Ok(nothing(rows.len(), data_type)),
            Validity::Stream(bools) => Some(NullBuffer::new(bools.decode(rows.clone())?)),
        };
        match &self.stream {
            Stream::Null => Ok(nothing(rows.len(), data_type)),
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
            Stream::Wide(s) => {
                let mut out = Vec::with_capacity(rows.len());
                s.decode(rows, &mut out)?;
                fixed(ArrowBuffer::from_vec(out), data_type, nulls)
            }
            Stream::Bytes(Strings::Constant { value, .. }) => {
                // All rows share the one value.
                let value = views(&[value.len() as u32], value.to_vec(), data_type, None)?;
                take(&value, UInt32Array::new(vec![0; rows.len()].into(), nulls))
            }
            Stream::Bytes(s) => {
                let mut out = StringsOut::with_limit(self.most_bytes);
                s.decode(rows, &mut out)?;
                views(&out.ends, out.data, data_type, nulls)
            }
            Stream::Codes(s) => {
                let mut codes = Vec::with_capacity(rows.len());
                s.decode(rows, &mut codes)?;
                let dictionary = dictionary.ok_or_else(|| {
                    Error::corrupt(0, "dictionary codes in a column without a dictionary")
                })?;
                look_up(codes, dictionary)
            }
        }
    }
}

impl Reader<'_> {
    /// Single rows as an array of the stored type, without decoding the block where the encoding
    /// allows.
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
            Validity::All | Validity::ByCode => None,
            Validity::Nothing => return Ok(nothing(rows.len(), data_type)),
            Validity::Stream(bools) => {
                let valid = rows
                    .iter()
                    .map(|row| bools.get(*row as usize))
                    .collect::<Result<Vec<bool>>>()?;
                Some(NullBuffer::from(valid))
            }
        };
        match &self.stream {
            Stream::Null => Ok(nothing(rows.len(), data_type)),
            Stream::Bool(s) => {
                let values =
                    rows.iter().map(|row| s.get(*row as usize)).collect::<Result<Vec<bool>>>()?;
                Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
            }
            Stream::W8(s) => {
                gathered(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::W16(s) => {
                gathered(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::W32(s) => {
                gathered(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::W64(s) => {
                gathered(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::F32(s) => {
                gathered(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::F64(s) => {
                gathered(rows, |out| s.gather(rows, out), |row| s.get(row), data_type, nulls)
            }
            Stream::Wide(s) => {
                fixed(ArrowBuffer::from_vec(each(rows, |row| s.get(row))?), data_type, nulls)
            }
            Stream::Bytes(s) => {
                let (mut data, mut ends) = (Vec::new(), Vec::with_capacity(rows.len()));
                for row in rows {
                    data.extend_from_slice(&s.get(*row as usize)?);
                    let end = u32::try_from(data.len());
                    ends.push(
                        end.map_err(|_| {
                            Error::LimitExceeded("texts of over 4 GiB at once".into())
                        })?,
                    );
                }
                views(&ends, data, data_type, nulls)
            }
            Stream::Codes(s) => {
                let dictionary = dictionary.ok_or_else(|| {
                    Error::corrupt(0, "dictionary codes in a column without a dictionary")
                })?;
                look_up(fetched(rows, |out| s.gather(rows, out), |row| s.get(row))?, dictionary)
            }
        }
    }
}

impl Reader<'_> {
    /// Whether a row is fetched without those before it.
    fn is_light(&self) -> bool {
        match &self.stream {
            Stream::Null | Stream::Bool(_) | Stream::Wide(_) | Stream::Bytes(_) => true,
            Stream::W8(s) => s.is_light(),
            Stream::W16(s) => s.is_light(),
            Stream::W32(s) | Stream::Codes(s) => s.is_light(),
            Stream::W64(s) => s.is_light(),
            Stream::F32(s) => s.is_light(),
            Stream::F64(s) => s.is_light(),
        }
    }

    /// How many rows are decoded in the time that fetching one takes, about.
    pub fn rows_a_fetch(&self) -> usize {
        let by_vector = match &self.stream {
            _ if matches!(self.validity, Validity::Stream(_)) => false,
            Stream::Null | Stream::Bool(_) | Stream::Wide(_) | Stream::Bytes(_) => false,
            Stream::W8(s) => s.gathers_by_vector(),
            Stream::W16(s) => s.gathers_by_vector(),
            Stream::W32(s) | Stream::Codes(s) => s.gathers_by_vector(),
            Stream::W64(s) => s.gathers_by_vector(),
            Stream::F32(s) => s.gathers_by_vector(),
            Stream::F64(s) => s.gathers_by_vector(),
        };
        if by_vector { 3 } else { 32 }
    }

    /// Rows of which those next to each other are in one vector are fetched by decoding it once.
    fn gather_by_vector(
        &self,
        rows: &[u32],
        data_type: &DataType,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef> {
        let failed = |e: arrow_schema::ArrowError| Error::corrupt(0, e.to_string());
        let mut parts: Vec<ArrayRef> = Vec::new();
        for near in rows.chunk_by(|a, b| *a as usize / VECTOR == *b as usize / VECTOR) {
            let start = near.first().map_or(0, |row| *row as usize / VECTOR * VECTOR);
            let end = near.iter().max().map_or(start, |row| *row as usize + 1);
            let vector = self.decode(start..end, data_type, dictionary)?;
            let places: UInt32Array = near.iter().map(|row| row - start as u32).collect();
            parts.push(arrow_select::take::take(&vector, &places, None).map_err(failed)?);
        }
        match parts.as_slice() {
            [] => Ok(nothing(0, data_type)),
            [only] => Ok(Arc::clone(only)),
            _ => {
                let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
                arrow_select::concat::concat(&parts).map_err(failed)
            }
        }
    }
}

/// Fixed-width values of single rows.
fn gathered<T: ArrowNativeType>(
    rows: &[u32],
    all: impl FnOnce(&mut Vec<T>) -> Result<()>,
    get: impl Fn(usize) -> Result<T>,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fixed(ArrowBuffer::from_vec(fetched(rows, all, get)?), data_type, nulls)
}

/// Single values: all by one call where their rows rise, else each by itself.
fn fetched<T>(
    rows: &[u32],
    all: impl FnOnce(&mut Vec<T>) -> Result<()>,
    get: impl Fn(usize) -> Result<T>,
) -> Result<Vec<T>> {
    if !rows.is_sorted_by(|a, b| a < b) {
        return each(rows, get);
    }
    let mut values = Vec::with_capacity(rows.len());
    all(&mut values)?;
    Ok(values)
}

fn each<T>(rows: &[u32], get: impl Fn(usize) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(|row| get(*row as usize)).collect()
}

fn parse_stream<'a>(
    source: &mut Source<'a>,
    rows: usize,
    physical: Physical,
) -> Result<Stream<'a>> {
    Ok(match physical {
        Physical::Null => Stream::Null,
        Physical::Bool => Stream::Bool(Bools::parse(source, rows)?),
        Physical::Word { width: WordWidth::W8, .. } => Stream::W8(Ints::parse(source, rows)?),
        Physical::Word { width: WordWidth::W16, .. } => Stream::W16(Ints::parse(source, rows)?),
        Physical::Word { width: WordWidth::W32, .. } => Stream::W32(Ints::parse(source, rows)?),
        Physical::Word { width: WordWidth::W64, .. } => Stream::W64(Ints::parse(source, rows)?),
        Physical::Float32 => Stream::F32(Floats::parse(source, rows)?),
        Physical::Float64 => Stream::F64(Floats::parse(source, rows)?),
        Physical::Wide => Stream::Wide(Wide::parse(source, rows)?),
        Physical::Bytes => Stream::Bytes(Strings::parse(source, rows)?),
    })
}

/// `rows` nulls of the type.
pub fn nothing(rows: usize, data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        other => arrow_array::new_null_array(&other.to_arrow(), rows),
    }
}

fn words<W: Word + arrow_buffer::ArrowNativeType>(
    stream: &Ints<'_, W>,
    rows: Range<usize>,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let mut out: Vec<W> = Vec::with_capacity(rows.len());
    stream.decode(rows, &mut out)?;
    fixed(ArrowBuffer::from_vec(out), data_type, nulls)
}

/// A fixed-width array over a buffer of its values.
fn fixed(values: ArrowBuffer, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let arrow = data_type.to_arrow();
    let width = arrow.primitive_width().unwrap_or(1);
    let rows = values.len() / width;
    let data = ArrayData::builder(arrow).len(rows).add_buffer(values).nulls(nulls).build();
    Ok(make_array(data.map_err(|e| Error::corrupt(0, e.to_string()))?))
}

/// Text or binary views over concatenated values, the ends of which are given; text is checked to
/// be UTF-8, for mapped bytes are never trusted.
fn views(
    ends: &[u32],
    data: Vec<u8>,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let bad = |what: &str| Error::corrupt(0, what.to_string());
    let mut views: Vec<u128> = Vec::with_capacity(ends.len());
    let mut start = 0usize;
    for &end in ends {
        let value =
            data.get(start..end as usize).ok_or_else(|| bad("string ends outside its data"))?;
        views.push(view(value, start as u32));
        start = end as usize;
    }
    let buffers = vec![ArrowBuffer::from_vec(data)];
    let (views, failed) = (views.into(), |e: arrow_schema::ArrowError| bad(&e.to_string()));
    Ok(match data_type {
        DataType::Utf8 => {
            Arc::new(StringViewArray::try_new(views, buffers, nulls).map_err(failed)?) as ArrayRef
        }
        _ => Arc::new(BinaryViewArray::try_new(views, buffers, nulls).map_err(failed)?),
    })
}

/// Arrow's 16-byte view of a value at `offset` of the only buffer: short values inline, long ones
/// by reference.
fn view(value: &[u8], offset: u32) -> u128 {
    let len = value.len() as u32;
    if value.len() <= 12 {
        let mut bytes = [0u8; 16];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..4 + value.len()].copy_from_slice(value);
        return u128::from_le_bytes(bytes);
    }
    let prefix = value.first_chunk::<4>().map_or(0, |p| u32::from_le_bytes(*p));
    ByteView { length: len, prefix, buffer_index: 0, offset }.as_u128()
}

/// The dictionary's values at `codes`.
fn look_up(codes: Vec<u32>, dictionary: &Dictionary) -> Result<ArrayRef> {
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

/// The same for values of 8 bytes, where nothing but code 0 is null; `None` for others.
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
        let marks: Vec<u8> = codes.iter().map(|code| u8::from(*code != 0)).collect();
        NullBuffer::new(of_marks(&marks))
    });
    let built = ArrayData::builder(dictionary.data_type().clone())
        .len(words.len())
        .add_buffer(ArrowBuffer::from_vec(words))
        .nulls(nulls)
        .build();
    built.ok().map(make_array)
}

/// The values at these places, without a copy of their bytes.
fn take(values: &ArrayRef, places: UInt32Array) -> Result<ArrayRef> {
    arrow_select::take::take(values, &places, None).map_err(|e| Error::corrupt(0, e.to_string()))
}
