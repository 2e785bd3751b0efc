//! The selection mask: which rows of a slice pass so far, as one byte a row or, where few are left,
//! as a list of rows; conditions on codes and whole numbers leave fewer.
//!
//! A condition looks at all rows of a slice in the narrowest words that hold them; if few rows are
//! left, at those only; and if it holds for nothing but the outliers of a frame, only at its
//! patches.

mod sets;
mod tables;
mod texts;

use self::tables::Table;
use super::decimals::DecimalRange;
use super::range::WordRange;
use super::texts::TextScratch;
use crate::block::{Stream, Validity};
use crate::encoding::kernels::occurrences::occurrences;
use crate::encoding::scaled::StoredInts;
use crate::encoding::{Ints, Word};
use crate::error::{Error, Result};
use crate::expr::{Sample, SamplePart};
use crate::query::slice::{Slice, list};

/// If fewer than one row in this many is left, rows are fetched one by one.
const FEW: usize = 32;
/// Fetching the code of one row takes as long as comparing this many bytes of unpacked codes.
const FETCH: usize = 128;

/// Builds the selection mask of a slice: `state`, `mask` and `rows`. The rest is scratch.
#[derive(Debug, Default)]
pub(crate) struct MaskBuilder {
    state: State,
    /// One byte a row, 1 while it passes.
    mask: Vec<u8>,
    /// The rows that are left, rising, counted from the start of the slice.
    rows: Vec<u32>,
    bytes: Vec<u8>,
    shorts: Vec<u16>,
    words: Vec<u32>,
    longs: Vec<u64>,
    texts: TextScratch,
    /// Sets of numbers as far as blocks need them, one byte for each.
    tables: Vec<Table>,
    /// The mask as it was before a negated range is tested.
    before: Vec<u8>,
}

/// Which representation of the mask is current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// All rows: nothing was tested.
    #[default]
    All,
    /// One byte a row.
    Mask,
    /// A list of rows.
    Rows,
}

impl MaskBuilder {
    /// Begins with the rows that are selected in a slice.
    pub(super) fn begin(&mut self, slice: &Slice<'_, '_>) {
        let rows = slice.range.len();
        self.state = if let Some(mask) = slice.mask() {
            mask.clone_into(&mut self.mask);
            State::Mask
        } else if let Some(selected) = slice.selected().filter(|few| few.len() * FEW < rows) {
            selected.clone_into(&mut self.rows);
            State::Rows
        } else if let Some(selected) = slice.selected() {
            self.mask.clear();
            self.mask.resize(rows, 0);
            for row in selected {
                self.mask.get_mut(*row as usize).into_iter().for_each(|byte| *byte = 1);
            }
            State::Mask
        } else {
            State::All
        };
    }

    /// How many of `all` rows are left; few rows are listed from now on.
    pub(crate) fn left(&mut self, all: usize) -> usize {
        match self.state {
            State::All => all,
            State::Rows => self.rows.len(),
            State::Mask => {
                let left = occurrences(&self.mask, 1) as usize;
                if left * FEW < all {
                    list(&self.mask, &mut self.rows);
                    self.state = State::Rows;
                }
                left
            }
        }
    }

    /// Selects the `left` rows that are left in a slice.
    pub(crate) fn select(&mut self, slice: &mut Slice<'_, '_>, left: usize) {
        match self.state {
            State::All => {}
            State::Mask => slice.select_mask(&self.mask, left),
            State::Rows => slice.select(self.rows.clone()),
        }
    }

    /// Rows of a sample.
    pub(crate) fn sampled(&mut self, slice: &Slice<'_, '_>, sample: &Sample) {
        let segment = slice.block.segment;
        let first = segment.segment.block_range(slice.block.at.block).start;
        let rows = first + slice.range.start as u64..first + slice.range.end as u64;
        if sample.part(segment.number, rows.clone()) == SamplePart::None {
            self.rows.clear();
            self.state = State::Rows;
        } else if self.state == State::Rows {
            let of = |row: u32| rows.start + u64::from(row)..rows.start + u64::from(row) + 1;
            self.rows.retain(|row| sample.part(segment.number, of(*row)) != SamplePart::None);
        } else {
            self.ensure_mask(slice);
            sample.mask(segment.number, rows, &mut self.mask);
        }
    }

    /// Rows whose dictionary code lies from `low` to `high`.
    pub(crate) fn codes(
        &mut self,
        slice: &Slice<'_, '_>,
        at: usize,
        low: u32,
        high: u32,
    ) -> Result<()> {
        let Some(codes) = codes_of(slice, at)?.filter(|_| low <= high) else {
            return self.all(slice, low == 0 && low <= high);
        };
        let most =
            slice.block.stored(at).and_then(|c| c.record().dictionary).map_or(0, |d| d.values);
        let range = WordRange {
            base: 0,
            span: u64::from(most),
            low: u64::from(low),
            high: u64::from(high),
            outside: false,
        };
        self.range(slice, codes, &range)
    }

    /// Rows whose value lies in a range.
    pub(crate) fn words(
        &mut self,
        slice: &Slice<'_, '_>,
        at: usize,
        range: &WordRange,
    ) -> Result<()> {
        let block = slice.block.column(at)?;
        let Some(reader) = block.map(|block| block.reader()).filter(|_| !range.is_empty()) else {
            return self.all(slice, false);
        };
        match reader.stream() {
            Stream::W8(ints) => self.range(slice, ints, range)?,
            Stream::W16(ints) => self.range(slice, ints, range)?,
            Stream::W32(ints) => self.range(slice, ints, range)?,
            _ => match reader.longs() {
                Some(ints) => self.range(slice, ints, range)?,
                None => return Err(Error::InvalidInput("a range of no whole numbers".into())),
            },
        }
        self.only_valid(slice, reader.validity())
    }

    /// Rows whose float lies in a range.
    pub(crate) fn decimals(
        &mut self,
        slice: &Slice<'_, '_>,
        at: usize,
        decimals: &DecimalRange,
    ) -> Result<()> {
        let block = slice.block.column(at)?;
        let Some(reader) = block.map(|block| block.reader()) else {
            return self.all(slice, false);
        };
        let Some(scaled) = reader.scaled() else {
            return Err(Error::InvalidInput("a range of what are no scaled integers".into()));
        };
        // Exceptions pass if they have so far and their value does.
        let mut own = Vec::new();
        scaled.each_exception(&slice.range, |row, value| {
            own.push((row as u32, self.has(row) && decimals.holds(value)));
        })?;
        if !decimals.range.is_empty() {
            match scaled.ints {
                StoredInts::Singles(ints) => self.range(slice, ints, &decimals.range)?,
                StoredInts::Doubles(ints) => self.range(slice, ints, &decimals.range)?,
            }
        } else {
            self.all(slice, false)?;
        }
        self.correct(&own);
        self.only_valid(slice, reader.validity())
    }

    /// Whether a row has passed so far.
    fn has(&self, row: usize) -> bool {
        match self.state {
            State::All => true,
            State::Mask => self.mask.get(row).is_some_and(|byte| *byte != 0),
            State::Rows => self.rows.binary_search(&(row as u32)).is_ok(),
        }
    }

    /// Makes single rows pass, or not.
    fn correct(&mut self, own: &[(u32, bool)]) {
        for (row, passes) in own {
            if self.state == State::Rows {
                match (self.rows.binary_search(row), passes) {
                    (Ok(at), false) => drop(self.rows.remove(at)),
                    (Err(at), true) => self.rows.insert(at, *row),
                    _ => {}
                }
            } else if let Some(byte) = self.mask.get_mut(*row as usize) {
                *byte = u8::from(*passes);
            }
        }
    }

    fn only_valid(&mut self, slice: &Slice<'_, '_>, validity: &Validity<'_>) -> Result<()> {
        match validity {
            Validity::Stream(bools) if self.state == State::Rows => {
                let valid = bools.decode(slice.range.clone())?;
                self.rows.retain(|row| valid.value(*row as usize));
            }
            Validity::Stream(bools) => bools.each_unset(slice.range.clone(), |unset| {
                if let Some(mask) = self.mask.get_mut(unset) {
                    mask.fill(0);
                }
            })?,
            Validity::AllNull => self.all(slice, false)?,
            Validity::AllValid | Validity::ByCode => {}
        }
        Ok(())
    }

    fn range<W: Word>(
        &mut self,
        slice: &Slice<'_, '_>,
        ints: &Ints<'_, W>,
        range: &WordRange,
    ) -> Result<()> {
        if range.outside && (self.state != State::Rows || range.low > range.high) {
            return self.outside(slice, ints, range);
        }
        let (rows, base, span) = (slice.range.clone(), range.base as u64, range.high - range.low);
        // Values of 8 to 32 bits count by their sign only where they are made wider.
        let signed = range.base < 0;
        if range.low == 0 && range.high >= range.span {
            return self.all(slice, !range.outside);
        }
        let bounds = (
            i128::from(range.base) + i128::from(range.low),
            i128::from(range.base) + i128::from(range.high),
        );
        if self.state == State::Rows {
            let all = ints
                .packed_bits()
                .map_or(usize::MAX, |bits| rows.len() * bits.div_ceil(8) as usize);
            if self.rows.len() * FETCH > all {
                self.mask.resize(rows.len(), 0);
                if ints.select_range(rows, bounds, signed, false, &mut self.mask)? {
                    let passing = u8::from(!range.outside);
                    let mask = &self.mask;
                    self.rows.retain(|row| mask.get(*row as usize) == Some(&passing));
                    return Ok(());
                }
            }
            let distance = |v: W| {
                if signed { Word::to_i64(v) as u64 } else { Word::to_u64(v) }.wrapping_sub(base)
            };
            let inside = |v| distance(v).wrapping_sub(range.low) <= span;
            return self.keep(slice, ints, |v| inside(v) != range.outside);
        }
        if range.is_of_outliers(ints, signed) {
            return self.outliers(slice, ints, range);
        }
        let has_mask = self.state == State::Mask;
        self.mask.resize(rows.len(), 0);
        if ints.select_range(rows.clone(), bounds, signed, has_mask, &mut self.mask)? {
            self.state = State::Mask;
            return Ok(());
        }
        if range.span <= u64::from(u8::MAX) {
            self.bytes.clear();
            ints.decode_narrow(rows, base, signed, &mut self.bytes)?;
            within(self.state, &mut self.mask, &self.bytes, range.low, span);
        } else if range.span <= u64::from(u16::MAX) {
            self.shorts.clear();
            ints.decode_narrow(rows, base, signed, &mut self.shorts)?;
            within(self.state, &mut self.mask, &self.shorts, range.low, span);
        } else if range.span <= u64::from(u32::MAX) {
            self.words.clear();
            ints.decode_narrow(rows, base, signed, &mut self.words)?;
            within(self.state, &mut self.mask, &self.words, range.low, span);
        } else {
            self.longs.clear();
            ints.decode_narrow(rows, base, signed, &mut self.longs)?;
            within(self.state, &mut self.mask, &self.longs, range.low, span);
        }
        self.state = State::Mask;
        Ok(())
    }

    /// Leaves the rows whose value does not lie in a range, unless few rows are left.
    fn outside<W: Word>(
        &mut self,
        slice: &Slice<'_, '_>,
        ints: &Ints<'_, W>,
        range: &WordRange,
    ) -> Result<()> {
        if range.low > range.high {
            self.ensure_mask(slice);
            return Ok(());
        }
        self.ensure_mask(slice);
        std::mem::swap(&mut self.mask, &mut self.before);
        self.state = State::All;
        self.range(slice, ints, &WordRange { outside: false, ..*range })?;
        let MaskBuilder { state, mask, rows, before, .. } = self;
        match state {
            State::Rows => {
                std::mem::swap(mask, before);
                for row in rows {
                    if let Some(byte) = mask.get_mut(*row as usize) {
                        *byte = 0;
                    }
                }
            }
            State::All | State::Mask => {
                mask.iter_mut().zip(before).for_each(|(byte, before)| *byte = *before & !*byte);
            }
        }
        self.state = State::Mask;
        Ok(())
    }

    /// A range in which only outliers may lie.
    fn outliers<W: Word>(
        &mut self,
        slice: &Slice<'_, '_>,
        ints: &Ints<'_, W>,
        range: &WordRange,
    ) -> Result<()> {
        let MaskBuilder { state, mask, rows, .. } = self;
        let low = W::from_u64((range.base as u64).wrapping_add(range.low));
        rows.clear();
        ints.outliers_in_range(
            slice.range.clone(),
            low,
            W::from_u64(range.high - range.low),
            |row| {
                if *state == State::All || mask.get(row).is_some_and(|byte| *byte != 0) {
                    rows.push(row as u32);
                }
            },
        )?;
        *state = State::Rows;
        Ok(())
    }

    /// Keeps those of the listed rows whose value passes.
    fn keep<W: Word>(
        &mut self,
        slice: &Slice<'_, '_>,
        ints: &Ints<'_, W>,
        passes: impl Fn(W) -> bool,
    ) -> Result<()> {
        let start = slice.range.start as u32;
        let rows: Vec<u32> = self.rows.iter().map(|row| start + row).collect();
        let mut values = Vec::with_capacity(rows.len());
        ints.gather(&rows, &mut values)?;
        let mut values = values.into_iter();
        self.rows.retain(|_| values.next().is_some_and(&passes));
        Ok(())
    }

    /// The condition `holds` for all rows, or for none.
    fn all(&mut self, slice: &Slice<'_, '_>, holds: bool) -> Result<()> {
        match (self.state, holds) {
            (_, false) => {
                self.rows.clear();
                self.state = State::Rows;
            }
            (_, true) => self.ensure_mask(slice),
        }
        Ok(())
    }

    /// Makes a mask, in which all rows pass, if nothing was tested.
    fn ensure_mask(&mut self, slice: &Slice<'_, '_>) {
        if self.state == State::All {
            self.mask.clear();
            self.mask.resize(slice.range.len(), 1);
            self.state = State::Mask;
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

/// Ands the mask with `low ≤ value ≤ low + span`.
fn within<T: Word>(state: State, mask: &mut Vec<u8>, values: &[T], low: u64, span: u64) {
    let (low, span) = (T::from_u64(low), T::from_u64(span));
    and_mask(state, mask, values, move |value| u8::from(Word::sub(value, low) <= span));
}

/// Ands the mask, if there is one, with what `passes` says of each value.
#[inline(always)]
fn and_mask<T: Word>(state: State, mask: &mut Vec<u8>, values: &[T], passes: impl Fn(T) -> u8) {
    if state == State::Mask {
        for (byte, value) in mask.iter_mut().zip(values) {
            *byte &= passes(*value);
        }
    } else {
        mask.resize(values.len(), 0);
        for (byte, value) in mask.iter_mut().zip(values) {
            *byte = passes(*value);
        }
    }
}
