//! Marks: one byte a row, 1 while it passes; conditions on codes and whole numbers and them together.

use arrow_buffer::NullBuffer;

use super::decimals::DecimalRange;
use super::range::WordRange;
use crate::block::{self, Stream, Validity};
use crate::encoding::floats::Floats;
use crate::encoding::{Ints, Word};
use crate::error::{Error, Result};
use crate::query::scan::Slice;

/// Rows to decode for which fetching one takes as long.
const FEW: usize = 128;

/// The marks of a slice, and room to decode codes into.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Empty while nothing was tested.
    marks: Vec<u8>,
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    longs: Vec<u64>,
}

impl Marks {
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
    }

    /// How many of the rows that were tested have passed.
    pub(crate) fn left(&self) -> usize {
        const LANES: usize = 32;
        // So few at a time that each lane's sum fits a byte: as quick as looking whether any is set.
        let sum = |marks: &[u8]| {
            let (rows, rest) = marks.as_chunks::<LANES>();
            let mut lanes = [0u8; LANES];
            for row in rows {
                lanes.iter_mut().zip(row).for_each(|(sum, mark)| *sum = sum.wrapping_add(*mark));
            }
            lanes.iter().chain(rest).map(|sum| usize::from(*sum)).sum::<usize>()
        };
        self.marks.chunks(LANES * 255).map(sum).sum()
    }

    /// The rows that have passed; `None` if nothing was tested.
    pub(crate) fn rows(&self) -> Option<Vec<u32>> {
        if self.marks.is_empty() {
            return None;
        }
        let mut rows = Vec::new();
        for (number, eight) in self.marks.chunks(8).enumerate() {
            if eight.iter().fold(0, |any, mark| any | mark) == 0 {
                continue;
            }
            for (i, mark) in eight.iter().enumerate() {
                if *mark != 0 {
                    rows.push((number * 8 + i) as u32);
                }
            }
        }
        Some(rows)
    }

    /// Rows whose dictionary code lies from `low` to `high`.
    pub(crate) fn codes(&mut self, slice: &Slice<'_, '_>, at: usize, low: u32, high: u32) -> Result<()> {
        if low > high {
            return self.nulls(slice, false);
        }
        let Some(codes) = codes_of(slice, at)? else { return self.nulls(slice, low == 0) };
        let most = slice.block.stored(at).and_then(|c| c.record().dictionary).map_or(0, |d| d.values);
        let span = u64::from(high - low);
        if most <= u32::from(u8::MAX) {
            self.bytes.clear();
            codes.decode_narrow(slice.range.clone(), 0, false, &mut self.bytes)?;
            within(&mut self.marks, &self.bytes, u64::from(low), span);
        } else if most <= u32::from(u16::MAX) {
            self.shorts.clear();
            codes.decode_narrow(slice.range.clone(), 0, false, &mut self.shorts)?;
            within(&mut self.marks, &self.shorts, u64::from(low), span);
        } else {
            self.words.clear();
            codes.decode(slice.range.clone(), &mut self.words)?;
            within(&mut self.marks, &self.words, u64::from(low), span);
        }
        Ok(())
    }

    /// Rows whose dictionary code is in a set.
    pub(crate) fn code_set(&mut self, slice: &Slice<'_, '_>, at: usize, set: &[u8]) -> Result<()> {
        let holds_null = set.first().is_some_and(|holds| *holds != 0);
        let Some(codes) = codes_of(slice, at)? else { return self.nulls(slice, holds_null) };
        self.words.clear();
        codes.decode(slice.range.clone(), &mut self.words)?;
        let holds = |code: &u32| set.get(*code as usize).copied().unwrap_or(0);
        if self.marks.is_empty() {
            self.marks.extend(self.words.iter().map(holds));
        } else {
            self.marks.iter_mut().zip(&self.words).for_each(|(mark, code)| *mark &= holds(code));
        }
        Ok(())
    }

    /// Rows whose value lies in a range.
    pub(crate) fn words(&mut self, slice: &Slice<'_, '_>, at: usize, range: &WordRange) -> Result<()> {
        let block = slice.block.column(at)?;
        let Some(reader) = block.map(|block| block.reader()).filter(|_| range.low <= range.high) else {
            return self.nulls(slice, false);
        };
        match reader.stream() {
            Stream::W8(ints) => self.range(slice, ints, range)?,
            Stream::W16(ints) => self.range(slice, ints, range)?,
            Stream::W32(ints) => self.range(slice, ints, range)?,
            Stream::W64(ints) => self.range(slice, ints, range)?,
            _ => return Err(Error::InvalidInput("a range of what are no whole numbers".into())),
        }
        self.only_valid(slice, reader.validity())
    }

    /// Rows whose decimal lies in a range.
    pub(crate) fn decimals(&mut self, slice: &Slice<'_, '_>, at: usize, decimals: &DecimalRange) -> Result<()> {
        let block = slice.block.column(at)?;
        let Some(reader) = block.map(|block| block.reader()) else { return self.nulls(slice, false) };
        let Stream::F64(Floats::Alp(alp)) = reader.stream() else {
            return Err(Error::InvalidInput("a range of what are no decimals".into()));
        };
        let left: usize = self.marks.iter().map(|mark| usize::from(*mark)).sum();
        if !self.marks.is_empty() && left * FEW < self.marks.len() {
            return self.few_decimals(slice, reader, decimals);
        }
        // Rows with a value of their own keep the mark that they had.
        let mut own = Vec::new();
        alp.exceptions.apply(&slice.range, |row, word| {
            let mark = self.marks.get(row).copied().unwrap_or(1);
            own.push((row, mark & u8::from(decimals.holds(f64::from_bits(word)))));
        })?;
        if decimals.range.low <= decimals.range.high {
            self.range(slice, &alp.ints, &decimals.range)?;
        } else {
            self.nulls(slice, false)?;
        }
        for (row, mark) in own {
            if let Some(slot) = self.marks.get_mut(row) {
                *slot = mark;
            }
        }
        self.only_valid(slice, reader.validity())
    }

    /// The same where so few rows are left that fetching each is quicker than decoding all.
    fn few_decimals(
        &mut self,
        slice: &Slice<'_, '_>,
        reader: &block::Reader<'_>,
        decimals: &DecimalRange,
    ) -> Result<()> {
        let Stream::F64(floats) = reader.stream() else { return Ok(()) };
        for (at, mark) in self.marks.iter_mut().enumerate().filter(|(_, mark)| **mark != 0) {
            let row = slice.range.start + at;
            let valid = match reader.validity() {
                Validity::Stream(bools) => bools.get(row)?,
                Validity::Nothing => false,
                Validity::All | Validity::ByCode => true,
            };
            *mark = u8::from(valid && decimals.holds(floats.get(row)?));
        }
        Ok(())
    }

    fn only_valid(&mut self, slice: &Slice<'_, '_>, validity: &Validity<'_>) -> Result<()> {
        match validity {
            Validity::Stream(bools) => self.only(&NullBuffer::new(bools.decode(slice.range.clone())?)),
            Validity::Nothing => self.nulls(slice, false)?,
            Validity::All | Validity::ByCode => {}
        }
        Ok(())
    }

    fn range<W: Word>(&mut self, slice: &Slice<'_, '_>, ints: &Ints<'_, W>, range: &WordRange) -> Result<()> {
        let (rows, base, span) = (slice.range.clone(), range.base as u64, range.high - range.low);
        // Values of 8 to 32 bits count by their sign only where they are made wider.
        let signed = range.base < 0;
        if range.span <= u64::from(u8::MAX) {
            self.bytes.clear();
            ints.decode_narrow(rows, base, signed, &mut self.bytes)?;
            within(&mut self.marks, &self.bytes, range.low, span);
        } else if range.span <= u64::from(u16::MAX) {
            self.shorts.clear();
            ints.decode_narrow(rows, base, signed, &mut self.shorts)?;
            within(&mut self.marks, &self.shorts, range.low, span);
        } else if range.span <= u64::from(u32::MAX) {
            self.words.clear();
            ints.decode_narrow(rows, base, signed, &mut self.words)?;
            within(&mut self.marks, &self.words, range.low, span);
        } else {
            self.longs.clear();
            ints.decode_narrow(rows, base, signed, &mut self.longs)?;
            within(&mut self.marks, &self.longs, range.low, span);
        }
        Ok(())
    }

    /// All rows are null, of which the condition `holds` or not.
    fn nulls(&mut self, slice: &Slice<'_, '_>, holds: bool) -> Result<()> {
        if !holds || self.marks.is_empty() {
            self.marks.clear();
            self.marks.resize(slice.range.len(), u8::from(holds));
        }
        Ok(())
    }

    fn only(&mut self, valid: &NullBuffer) {
        let chunks = valid.inner().bit_chunks();
        for (marks, word) in self.marks.chunks_mut(64).zip(chunks.iter_padded()) {
            if word != u64::MAX {
                marks.iter_mut().enumerate().for_each(|(i, mark)| *mark &= (word >> i & 1) as u8);
            }
        }
    }
}

fn codes_of<'s>(slice: &'s Slice<'_, '_>, at: usize) -> Result<Option<&'s Ints<'s, u32>>> {
    let Some(block) = slice.block.column(at)? else { return Ok(None) };
    match block.reader().stream() {
        Stream::Codes(codes) => Ok(Some(codes)),
        // All rows are null.
        _ => Ok(None),
    }
}

/// Ands the marks with `low ≤ value ≤ low + span`.
fn within<T: Word>(marks: &mut Vec<u8>, values: &[T], low: u64, span: u64) {
    let (low, span) = (T::from_u64(low), T::from_u64(span));
    let inside = |value: &T| u8::from(Word::sub(*value, low) <= span);
    if marks.is_empty() {
        marks.extend(values.iter().map(inside));
    } else {
        for (mark, value) in marks.iter_mut().zip(values) {
            *mark &= inside(value);
        }
    }
}
