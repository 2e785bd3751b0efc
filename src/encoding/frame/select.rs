//! Range predicates evaluated on packed codes: neither base nor factor is applied to them, and they
//! are not widened.

use std::ops::Range;

use super::{Frame, Patches};
use crate::encoding::Word;
use crate::encoding::kernels::bitpack::{self, by_lane};
use crate::encoding::kernels::dispatch::simd;
use crate::encoding::word::limits;
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// Reading the code of one patched row takes as long as unpacking this many codes.
const CODES_PER_PATCH: usize = 64;

/// A range of values, as words and as codes.
#[derive(Clone, Copy, Debug)]
struct ValueRange<W> {
    low: W,
    /// The highest value minus the lowest, so that signed ranges need one unsigned comparison.
    span: W,
    /// The first and the last code that stand for such values without a patch, if there are any.
    codes: Option<(u64, u64)>,
}

impl<W: Word> ValueRange<W> {
    fn contains(&self, value: W) -> bool {
        Word::sub(value, self.low) <= self.span
    }
}

impl<W: Word> Frame<'_, W> {
    /// The least and the greatest value that a code may stand for without a patch; `None` if the
    /// greatest overflows the word.
    fn bounds(&self, signed: bool) -> Option<(i128, i128)> {
        let base = if signed {
            i128::from(Word::to_i64(self.base))
        } else {
            i128::from(Word::to_u64(self.base))
        };
        let codes = if self.width == 0 { 0 } else { u64::MAX >> (64 - self.width) };
        let top = base
            .checked_add(i128::from(codes).checked_mul(i128::from(Word::to_u64(self.factor)))?)?;
        let most = if signed { (1i128 << (W::BITS - 1)) - 1 } else { (1i128 << W::BITS) - 1 };
        (top <= most).then_some((base, top))
    }

    /// Sets the mask to 1 for rows whose value lies from `low` to `high`, and to 0 for the others;
    /// with `refine`, only rows whose mask is 1 are tested. `signed` says how values compare.
    /// Returns false, and leaves the mask alone, where codes do not sort as values do.
    pub(in crate::encoding) fn select_range(
        &self,
        rows: Range<usize>,
        (low, high): (i128, i128),
        signed: bool,
        refine: bool,
        mask: &mut [u8],
    ) -> Result<bool> {
        let (Some((base, top)), factor) =
            (self.bounds(signed), i128::from(Word::to_u64(self.factor)))
        else {
            return Ok(false);
        };
        let (least, most) = limits::<W>(signed);
        let (low, high) = (low.max(least), high.min(most));
        if factor == 0 || low > high {
            return Ok(false);
        }
        let codes = (low <= top && high >= base).then(|| {
            let first = (low - base).max(0) as u64;
            let last = (high.min(top) - base) as u64;
            (first.div_ceil(factor as u64), last / factor as u64)
        });
        let wanted = ValueRange {
            low: W::from_u64(low as u64),
            span: W::from_u64((high - low) as u64),
            codes: codes.filter(|(first, last)| first <= last),
        };
        by_lane!(self.width, select_vectors::<W>(self, rows, &wanted, refine, mask)).map(|()| true)
    }

    /// Whether only patched rows may have a value from `low` to `high`, and they are so few that
    /// testing each is faster than unpacking all codes. `signed` says how values compare.
    pub(in crate::encoding) fn only_patched(&self, low: i128, high: i128, signed: bool) -> bool {
        if self.patch_count() * CODES_PER_PATCH > self.rows {
            return false;
        }
        let Some((base, top)) = self.bounds(signed) else { return false };
        high < base || low > top
    }

    /// Calls `found` with the index in `rows` of each patched row whose value lies from `low` to
    /// `low + span`.
    pub(in crate::encoding) fn patched_in_range(
        &self,
        rows: Range<usize>,
        low: W,
        span: W,
        mut found: impl FnMut(usize),
    ) -> Result<()> {
        let Some(patches) = &self.patches else { return Ok(()) };
        let vector = bitpack::vector_len(self.width);
        let codes = W::from_u64(if self.width == 0 { 0 } else { u64::MAX >> (64 - self.width) });
        let above = Word::mul(self.factor, codes);
        let fits =
            Word::to_u64(self.factor).checked_mul(Word::to_u64(codes)) == Some(Word::to_u64(above));
        let mut sound = true;
        let mut open: Option<(usize, std::borrow::Cow<'_, [u8]>)> = None;
        patches.each(rows.clone(), |at, high| {
            // The value is `distance` above `low` plus at most `above`, all modulo 2^BITS.
            let distance = Word::sub(Word::add(self.base, self.scaled(high)), low);
            if fits && distance > span && Word::sub(W::default(), distance) > above {
                return;
            }
            let row = rows.start + at;
            let start = row / VECTOR * vector;
            if open.as_ref().is_none_or(|(opened, _)| *opened != start) {
                open = self
                    .codes
                    .range(start..(start + vector).min(self.codes.len()))
                    .ok()
                    .map(|b| (start, b));
            }
            let code = open
                .as_ref()
                .and_then(|(_, bytes)| bitpack::get(bytes, self.width, self.rows, row));
            sound &= code.is_some();
            let more = Word::mul(self.factor, W::from_u64(code.unwrap_or(0)));
            if Word::add(distance, more) <= span {
                found(at);
            }
        })?;
        if sound { Ok(()) } else { Err(Error::corrupt(0, "packed codes are too short")) }
    }
}

/// [`Frame::select_range`] for codes that fit lanes of type `L`.
fn select_vectors<W: Word, L: Word>(
    frame: &Frame<'_, W>,
    rows: Range<usize>,
    wanted: &ValueRange<W>,
    refine: bool,
    mask: &mut [u8],
) -> Result<()> {
    let vector = bitpack::vector_len(frame.width);
    let mut lanes = [L::default(); VECTOR];
    let mut patches = frame.patches.as_ref().map(Patches::cursor).transpose()?;
    let mut patched: Vec<(usize, u8)> = Vec::new();
    for (start, mask) in rows.clone().step_by(VECTOR).zip(mask.chunks_mut(VECTOR)) {
        let from = start / VECTOR * vector;
        let bytes = frame.codes.range(from..(from + vector).min(frame.codes.len()))?;
        if !bitpack::unpack_vector(&bytes, frame.width, frame.rows - start, &mut lanes) {
            return Err(Error::corrupt(0, "packed codes are too short"));
        }
        // Patched rows are tested by their values, since their codes are incomplete.
        let rows = start as u32..(start + mask.len()) as u32;
        let holds = |row: u32, high: W| {
            let code = lanes.get(row as usize - start).map_or(0, |code| Word::to_u64(*code));
            let value = Word::add(frame.base, Word::mul(frame.factor, W::from_u64(code)));
            u8::from(wanted.contains(Word::add(value, frame.scaled(high))))
        };
        patched.clear();
        if let Some(patches) = patches.as_mut().filter(|_| refine) {
            patches.each(rows.clone(), |row, high| {
                let at = row as usize - start;
                patched.push((at, holds(row, high) & mask.get(at).copied().unwrap_or(0)));
            });
        }
        select_codes(&lanes, wanted.codes, refine, mask);
        for (at, selected) in &patched {
            if let Some(slot) = mask.get_mut(*at) {
                *slot = *selected;
            }
        }
        if let Some(patches) = patches.as_mut().filter(|_| !refine) {
            patches.each(rows, |row, high| {
                if let Some(slot) = mask.get_mut(row as usize - start) {
                    *slot = holds(row, high);
                }
            });
        }
    }
    Ok(())
}

/// Selects the rows whose codes lie from the first to the last of `wanted`; no row if it is `None`.
fn select_codes<L: Word>(
    codes: &[L; VECTOR],
    wanted: Option<(u64, u64)>,
    refine: bool,
    mask: &mut [u8],
) {
    let Some((first, last)) = wanted else { return mask.fill(0) };
    let (first, span) = (L::from_u64(first), L::from_u64(last - first));
    let passes = |code: &L| u8::from(Word::sub(*code, first) <= span);
    simd(
        #[inline(always)]
        || match refine {
            true => mask.iter_mut().zip(codes).for_each(|(slot, code)| *slot &= passes(code)),
            false => mask.iter_mut().zip(codes).for_each(|(slot, code)| *slot = passes(code)),
        },
    );
}
