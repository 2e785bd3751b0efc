//! The bytes of a block → Arrow arrays, of any rows.
//!
//! This file parses blocks; `decode.rs` decodes ranges of rows, `gather.rs` single rows, and
//! `arrays.rs` makes Arrow arrays of decoded values.

mod arrays;
mod decode;
mod gather;

use std::ops::Range;

use arrow_array::ArrayRef;

pub(crate) use self::arrays::{CHARGED_BUFFER, null_array};
use super::writer::{ALL_NULL, ALL_VALID, BY_CODE, STREAM};
use crate::budget::Budget;
use crate::encoding::bools::Bools;
use crate::encoding::floats::Floats;
use crate::encoding::ints::Ints;
use crate::encoding::scaled::Scaled;
use crate::encoding::strings::Strings;
use crate::encoding::wide::Wide;
use crate::encoding::{Source, Word, buffer::ALIGN};
use crate::error::{Error, Result};
use crate::limits::MAX_BATCH_BYTES;
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
    /// All rows.
    AllValid,
    /// No row.
    AllNull,
    /// Rows whose bit is set.
    Stream(Bools<'a>),
    /// Rows whose code is not 0.
    ByCode,
}

impl Validity<'_> {
    /// Makes the words of null rows 0 where the block says by itself which those are.
    pub(crate) fn blank<T: Word>(&self, words: &mut [T], rows: Range<usize>) -> Result<()> {
        let Validity::Stream(valid) = self else { return Ok(()) };
        valid.each_unset(rows, |unset| {
            if let Some(words) = words.get_mut(unset) {
                words.fill(T::default());
            }
        })
    }
}

/// A parsed block: borrows the mapped bytes and decodes on demand.
#[derive(Debug)]
pub struct Reader<'a> {
    rows: usize,
    validity: Validity<'a>,
    stream: Stream<'a>,
    max_bytes: usize,
    budget: &'a Budget,
}

/// The decoded values of a column's dictionary in a segment; entry 0 is null.
pub(crate) type Dictionary = ArrayRef;

impl<'a> Reader<'a> {
    /// Parses a block of `rows` rows whose head has `head_len` bytes; the caller has verified the
    /// head. With `verify`, the checksums of the payload are verified too.
    pub fn parse(
        bytes: &'a [u8],
        head_len: usize,
        rows: usize,
        data_type: &DataType,
        verify: bool,
    ) -> Result<Self> {
        Reader::parse_within(bytes, head_len, rows, data_type, verify, Budget::UNLIMITED)
    }

    /// [`Reader::parse`], but what is decoded is charged to `budget`.
    pub(crate) fn parse_within(
        bytes: &'a [u8],
        head_len: usize,
        rows: usize,
        data_type: &DataType,
        verify: bool,
        budget: &'a Budget,
    ) -> Result<Self> {
        let outside = || Error::corrupt(0, "head is longer than its block");
        let head = bytes.get(..head_len).ok_or_else(outside)?;
        let payload = bytes.get(head_len.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        let mut source = Source::new(head, payload).verifying(verify).within(budget);
        let (validity, by_code) = match source.cursor.u8()? {
            ALL_VALID => (Validity::AllValid, false),
            ALL_NULL => (Validity::AllNull, false),
            STREAM => (Validity::Stream(source.child(|s| Bools::parse(s, rows))?), false),
            BY_CODE => (Validity::ByCode, true),
            other => return Err(source.cursor.corrupt(format!("validity kind {other}"))),
        };
        let stream = if matches!(validity, Validity::AllNull) {
            Stream::Null
        } else if by_code {
            Stream::Codes(Ints::parse(&mut source, rows)?)
        } else {
            parse_stream(&mut source, rows, data_type.physical())?
        };
        source.cursor.finish()?;
        Ok(Reader { rows, validity, stream, max_bytes: MAX_BATCH_BYTES, budget })
    }

    /// The same block, refusing to decode more than `max_bytes` bytes of text at once.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: usize) -> Self {
        Reader { max_bytes, ..self }
    }

    /// What decoding is charged to.
    pub(crate) fn budget(&self) -> &'a Budget {
        self.budget
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

    /// The floats as integers, where they are stored so.
    pub(crate) fn scaled(&self) -> Option<Scaled<'_, 'a>> {
        match &self.stream {
            Stream::F32(floats) => floats.scaled(),
            Stream::F64(floats) => floats.scaled(),
            _ => None,
        }
    }

    /// Words of 64 bits: whole numbers and times, or decimals that are stored so.
    pub(crate) fn longs(&self) -> Option<&Ints<'a, u64>> {
        match &self.stream {
            Stream::W64(ints) => Some(ints),
            Stream::Wide(wide) => wide.words(),
            _ => None,
        }
    }

    /// A description of the encoding tree, for `sty inspect`.
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
