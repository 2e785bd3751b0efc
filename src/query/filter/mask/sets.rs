//! Sets of dictionary codes, and of whole numbers.

use super::tables::{TABLE, table};
use super::{MaskBuilder, State, and_mask, codes_of};
use crate::block::Stream;
use crate::encoding::{Ints, Word};
use crate::error::{Error, Result};
use crate::expr::IntegerSet;
use crate::query::filter::range::WordRange;
use crate::query::slice::Slice;

impl MaskBuilder {
    /// Rows whose dictionary code is in a set.
    pub(crate) fn code_set(&mut self, slice: &Slice<'_, '_>, at: usize, set: &[u8]) -> Result<()> {
        let holds_null = set.first().is_some_and(|holds| *holds != 0);
        let Some(codes) = codes_of(slice, at)? else { return self.all(slice, holds_null) };
        let holds = |code: u32| set.get(code as usize).copied().unwrap_or(0);
        if self.state == State::Rows {
            return self.keep(slice, codes, |code| holds(code) != 0);
        }
        if self.runs(slice, codes, holds)? {
            return Ok(());
        }
        if set.len() <= 1 << u8::BITS {
            self.bytes.clear();
            codes.decode_narrow(slice.range.clone(), 0, false, &mut self.bytes)?;
            and_mask(self.state, &mut self.mask, &self.bytes, |code| holds(u32::from(code)));
        } else {
            self.words.clear();
            codes.decode(slice.range.clone(), &mut self.words)?;
            and_mask(self.state, &mut self.mask, &self.words, holds);
        }
        self.state = State::Mask;
        Ok(())
    }

    /// Rows whose value is in a set. `all` has the bounds of the block's values.
    pub(crate) fn set(
        &mut self,
        slice: &Slice<'_, '_>,
        at: usize,
        all: &WordRange,
        set: &IntegerSet,
    ) -> Result<()> {
        let block = slice.block.column(at)?;
        let Some(reader) = block.map(|block| block.reader()) else {
            return self.all(slice, false);
        };
        match reader.stream() {
            Stream::W8(ints) => self.members(slice, ints, all, set)?,
            Stream::W16(ints) => self.members(slice, ints, all, set)?,
            Stream::W32(ints) => self.members(slice, ints, all, set)?,
            _ => match reader.longs() {
                Some(ints) => self.members(slice, ints, all, set)?,
                None => return Err(Error::InvalidInput("a set of no whole numbers".into())),
            },
        }
        self.only_valid(slice, reader.validity())
    }

    /// Asks each run once where values are stored as runs; false, with nothing done, where they are
    /// not.
    fn runs<W: Word>(
        &mut self,
        slice: &Slice<'_, '_>,
        ints: &Ints<'_, W>,
        passes: impl Fn(W) -> u8,
    ) -> Result<bool> {
        let refine = self.state == State::Mask;
        self.mask.resize(slice.range.len(), 0);
        let done = ints.select_runs(slice.range.clone(), refine, &mut self.mask, passes)?;
        if done {
            self.state = State::Mask;
        }
        Ok(done)
    }

    fn members<W: Word>(
        &mut self,
        slice: &Slice<'_, '_>,
        ints: &Ints<'_, W>,
        all: &WordRange,
        set: &IntegerSet,
    ) -> Result<()> {
        let (rows, base, signed) = (slice.range.clone(), all.base as u64, all.base < 0);
        let first = set.place(all.base);
        let holds = |distance: u64| set.at(first.wrapping_add(distance));
        let wide = |v: W| if signed { Word::to_i64(v) as u64 } else { Word::to_u64(v) };
        let member = |v: W| holds(wide(v).wrapping_sub(base));
        if self.state == State::Rows {
            return self.keep(slice, ints, |v| member(v) != 0);
        }
        if self.runs(slice, ints, member)? {
            return Ok(());
        }
        if all.span <= u64::from(u8::MAX) {
            self.bytes.clear();
            ints.decode_narrow(rows, base, signed, &mut self.bytes)?;
            let table = table(&mut self.tables, set, first, all.span);
            let holds = |v: u8| table.get(usize::from(v)).copied().unwrap_or(0);
            and_mask(self.state, &mut self.mask, &self.bytes, holds);
        } else if all.span <= u64::from(u16::MAX) {
            self.shorts.clear();
            ints.decode_narrow(rows, base, signed, &mut self.shorts)?;
            if all.span < TABLE {
                let table = table(&mut self.tables, set, first, all.span);
                let holds = |v: u16| table.get(usize::from(v)).copied().unwrap_or(0);
                and_mask(self.state, &mut self.mask, &self.shorts, holds);
            } else {
                and_mask(self.state, &mut self.mask, &self.shorts, |v| holds(v.into()));
            }
        } else if all.span <= u64::from(u32::MAX) {
            self.words.clear();
            ints.decode_narrow(rows, base, signed, &mut self.words)?;
            and_mask(self.state, &mut self.mask, &self.words, |v| holds(v.into()));
        } else {
            self.longs.clear();
            ints.decode_narrow(rows, base, signed, &mut self.longs)?;
            and_mask(self.state, &mut self.mask, &self.longs, holds);
        }
        self.state = State::Mask;
        Ok(())
    }
}
