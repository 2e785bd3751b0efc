//! Frame of reference: `base + factor · code`, codes bit-packed in vectors of 1,024, outliers
//! patched.
//!
//! ```text
//! head: │ base u64 │ factor u64 │ width u8 │ buffer: packed codes │ n u32 │
//!       │ n > 0: positions, highs │
//! ```
//!
//! The factor is the greatest common divisor of the distances from the minimum, so that
//! microseconds that are whole seconds cost no more than seconds. The window of 2^width codes is
//! placed where most values are; a value outside keeps its low `width` bits in place and its
//! remaining bits (arithmetically shifted, so that values just below the window stay small) in a
//! list of patches, sorted by row.

mod select;

use std::cell::OnceCell;
use std::ops::Range;

use super::choose::{self, Facts, Scope};
use super::factor::{self, Factor};
use super::kernels::bitpack;
use super::kernels::dispatch::simd;
use super::{Buffer, Compression, Cuts, Encoding, Ints, Sink, Source, Word};
use crate::budget::{Budget, Charge};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// From this many rows of a vector on, gathering decodes the whole vector, because its patches are
/// then applied without matching them to rows.
const DECODE_ROWS: usize = 32;
/// A patch cursor looks for its next patch among this many before it searches all the rest.
const SEARCH_AHEAD: usize = 64;
/// Bits that a patch costs besides the bits above the width: its position and some overhead.
const PATCH_BITS: f64 = 13.0;
/// Bits of a frame's head, and of the heads of its patches.
const HEAD_BITS: f64 = 8.0 * 60.0;
const PATCH_HEAD_BITS: f64 = 8.0 * 100.0;

/// Bits that a code needs.
fn bit_width(code: u64) -> u32 {
    64 - code.leading_zeros()
}

/// The window of codes that costs the fewest bits per value, with values outside it patched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// First code of the window.
    start: u64,
    width: u32,
    /// Bits a value, patches included.
    pub(super) bits: f64,
}

impl Window {
    /// The best window for sorted words, whose distances from the first are divided by their
    /// common factor.
    pub(super) fn from_sorted_words<W: Word>(sorted: &[W]) -> Self {
        let first = sorted.first().copied().unwrap_or_default();
        let offset = |v: W| Word::to_u64(v) - Word::to_u64(first);
        let common = sorted.iter().try_fold(0, |g, &v| match factor::gcd(g, offset(v)) {
            1 => Err(1),
            g => Ok(g),
        });
        let factor = common.unwrap_or_else(|g| g).max(1);
        let codes: Vec<u64> = sorted.iter().map(|&v| offset(v) / factor).collect();
        Self::from_sorted_codes(&codes, bit_width(codes.last().copied().unwrap_or(0)), true)
    }

    /// The best window for a sorted sample of codes; `full` is the bit width of the largest code
    /// of the whole stream. `patches` says whether patches are allowed.
    fn from_sorted_codes(codes: &[u64], full: u32, patches: bool) -> Self {
        let mut best = Window { start: 0, width: full, bits: f64::from(full) };
        if !patches {
            return best;
        }
        for width in (0..full).rev() {
            let (inside, start) = densest_window(codes, width);
            let outside = codes.len() - inside;
            if outside * 4 > codes.len() {
                break;
            }
            let share = (outside as f64 + 0.5) / codes.len() as f64;
            let bits = f64::from(width) + share * (PATCH_BITS + f64::from(full - width));
            if bits < best.bits {
                best = Window { start, width, bits };
            }
        }
        best
    }
}

/// The most sorted codes that a window of 2^width (width < 64) can hold, and the first of them.
fn densest_window(codes: &[u64], width: u32) -> (usize, u64) {
    let (mut best, mut end) = ((0, 0), 0);
    for (i, &start) in codes.iter().enumerate() {
        while codes.get(end).is_some_and(|&code| (code - start) >> width == 0) {
            end += 1;
        }
        if end - i > best.0 {
            best = (end - i, start);
        }
        if end == codes.len() {
            break;
        }
    }
    best
}

/// The parameters under which a stream will be encoded, and their estimated cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramePlan<W> {
    min: W,
    factor: Factor<W>,
    window: Window,
    /// Bits of the largest code counted from the minimum: the width that needs no patches.
    pub(super) full: u32,
    /// Estimated bits of the whole stream.
    pub(super) bits: f64,
}

impl<W: Word> FramePlan<W> {
    /// A plan from the facts and a sample; `patches` says whether patches are allowed.
    pub(super) fn new(values: &[W], facts: &Facts<W>, patches: bool) -> Self {
        let mut offsets: Vec<W> =
            choose::sample(values.len()).map(|i| Word::sub(values[i], facts.min)).collect();
        let factor = Factor::find(values, facts, &offsets);
        offsets.sort_unstable();
        let codes: Vec<u64> =
            offsets.iter().map(|&offset| Word::to_u64(factor.divide(offset))).collect();
        let full = bit_width(Word::to_u64(factor.divide(Word::sub(facts.max, facts.min))));
        let window = Window::from_sorted_codes(&codes, full, patches);
        let rows = values.len() as f64;
        let plain = f64::from(full) * rows + HEAD_BITS;
        let patched = window.bits * rows + HEAD_BITS + PATCH_HEAD_BITS;
        if window.width < full && patched < plain {
            return FramePlan { min: facts.min, factor, window, full, bits: patched };
        }
        FramePlan {
            min: facts.min,
            factor,
            window: Window { start: 0, width: full, bits: f64::from(full) },
            full,
            bits: plain,
        }
    }

    fn unpatched(self) -> Self {
        FramePlan {
            window: Window { start: 0, width: self.full, bits: f64::from(self.full) },
            ..self
        }
    }

    fn base(&self) -> W {
        Word::add(self.min, Word::mul(self.factor.value(), W::from_u64(self.window.start)))
    }
}

/// Packed codes and patches.
struct Packed<W> {
    bytes: Vec<u8>,
    positions: Vec<u32>,
    highs: Vec<W>,
}

/// Appends a frame-of-reference stream.
pub(super) fn encode<W: Word>(values: &[W], plan: FramePlan<W>, scope: Scope, sink: &mut Sink) {
    let (mut plan, mut packed) = (plan, pack(values, &plan));
    let saved = values.len() as f64 * f64::from(plan.full - plan.window.width);
    if packed.highs.len() as f64 * PATCH_BITS > saved {
        // The sample misled: there are more outliers than it showed.
        plan = plan.unpatched();
        packed = pack(values, &plan);
    }
    let width = plan.window.width;
    sink.head().u8(Encoding::Frame as u8);
    sink.head().u64(Word::to_u64(plan.base()));
    sink.head().u64(Word::to_u64(plan.factor.value()));
    sink.head().u8(width as u8);
    sink.buffer(
        &packed.bytes,
        Cuts::Every(bitpack::vector_len(width)),
        Compression::Packed,
        &scope.options,
    );
    sink.head().count(packed.positions.len());
    if !packed.positions.is_empty() {
        let scope = scope.child(&[Encoding::Planes, Encoding::RunLength]);
        choose::encode(&packed.positions, false, scope, sink);
        choose::encode(&packed.highs, true, scope, sink);
    }
}

fn pack<W: Word>(values: &[W], plan: &FramePlan<W>) -> Packed<W> {
    let width = plan.window.width;
    let start = W::from_u64(plan.window.start);
    let mask = W::from_u64(if width == 0 { 0 } else { u64::MAX >> (64 - width) });
    let mut out = Packed {
        bytes: Vec::with_capacity(bitpack::packed_len(width, values.len())),
        positions: Vec::new(),
        highs: Vec::new(),
    };
    let mut codes = [W::default(); VECTOR];
    for (number, vector) in values.chunks(VECTOR).enumerate() {
        let mut seen = W::default();
        for (code, &v) in codes.iter_mut().zip(vector) {
            *code = Word::sub(plan.factor.divide(Word::sub(v, plan.min)), start);
            seen = seen | *code;
        }
        let codes = codes.get_mut(..vector.len()).unwrap_or_default();
        if seen & mask != seen {
            for (i, code) in
                codes.iter_mut().enumerate().filter(|(_, code)| **code & mask != **code)
            {
                out.positions.push((number * VECTOR + i) as u32);
                out.highs.push(W::from_u64((Word::to_i64(*code) >> width) as u64));
                *code = *code & mask;
            }
        }
        bitpack::pack(codes, width, &mut out.bytes);
    }
    out
}

/// A frame-of-reference stream.
#[derive(Debug)]
pub struct Frame<'a, W: Word> {
    rows: usize,
    base: W,
    factor: W,
    width: u32,
    codes: Buffer<'a>,
    patches: Option<Patches<'a, W>>,
}

#[derive(Debug)]
struct Patches<'a, W: Word> {
    /// Rows of the stream.
    rows: usize,
    positions: Ints<'a, u32>,
    highs: Ints<'a, W>,
    decoded: OnceCell<(Vec<u32>, Vec<W>, Charge)>,
    budget: &'a Budget,
}

impl<'a, W: Word> Frame<'a, W> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let (base, factor) = (W::from_u64(source.cursor.u64()?), W::from_u64(source.cursor.u64()?));
        let width = u32::from(source.cursor.u8()?);
        if width > W::BITS {
            return Err(source
                .cursor
                .corrupt(format!("codes of {width} bits for values of {}", W::BITS)));
        }
        let codes = source.buffer()?;
        if codes.len() != bitpack::packed_len(width, rows) {
            return Err(source.cursor.corrupt("packed codes have the wrong length"));
        }
        let n = source.cursor.u32()? as usize;
        if n > rows || (n > 0 && width == W::BITS) {
            return Err(source.cursor.corrupt(format!("{n} patches for {rows} rows")));
        }
        let patches = if n == 0 { None } else { Some(Patches::parse(source, n, rows)?) };
        Ok(Frame { rows, base, factor, width, codes, patches })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bits of a packed code.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The number of values outside the window.
    pub fn patch_count(&self) -> usize {
        self.patches.as_ref().map_or(0, |patches| patches.positions.rows())
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        self.decode_narrow(rows, 0, out)
    }

    /// Appends `value - bias` of `rows` modulo 2^BITS of `N`, which is no wider.
    pub(super) fn decode_narrow<N: Word>(
        &self,
        rows: Range<usize>,
        bias: u64,
        out: &mut Vec<N>,
    ) -> Result<()> {
        let from = out.len();
        let start = rows.start / VECTOR * bitpack::vector_len(self.width);
        // A range that ends inside a full vector needs that whole vector.
        let end_row = rows.end.next_multiple_of(VECTOR).min(self.rows);
        let bytes = self.codes.range(start..bitpack::packed_len(self.width, end_row))?;
        let base = N::from_u64(Word::to_u64(self.base).wrapping_sub(bias));
        let factor = N::from_u64(Word::to_u64(self.factor));
        if !bitpack::unpack(&bytes, self.width, end_row - rows.start, base, factor, out) {
            return Err(Error::corrupt(0, "packed codes are too short"));
        }
        out.truncate(from + rows.len());
        match &self.patches {
            Some(patches) => patches.each(rows, |at, high| {
                if let Some(value) = out.get_mut(from + at) {
                    *value = Word::add(*value, N::from_u64(Word::to_u64(self.scaled(high))));
                }
            }),
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, row: usize) -> Result<W> {
        let vector = bitpack::vector_len(self.width);
        let start = row / VECTOR * vector;
        let bytes = self.codes.range(start..(start + vector).min(self.codes.len()))?;
        let code = bitpack::get(&bytes, self.width, self.rows, row)
            .ok_or_else(|| Error::corrupt(0, "packed codes are too short"))?;
        let value = Word::add(self.base, Word::mul(self.factor, W::from_u64(code)));
        match &self.patches {
            Some(patches) => Ok(Word::add(value, self.scaled(patches.high_of(row)?))),
            None => Ok(value),
        }
    }

    /// Appends the values of single rows, in ascending order.
    pub(super) fn gather(&self, rows: &[u32], out: &mut Vec<W>) -> Result<()> {
        let mut scratch = Vec::new();
        let mut patches = self.patches.as_ref().map(Patches::cursor).transpose()?;
        for near in rows.chunk_by(|a, b| *a as usize / VECTOR == *b as usize / VECTOR) {
            let start = near.first().map_or(0, |row| *row as usize / VECTOR * VECTOR);
            if near.len() < DECODE_ROWS {
                self.gather_few(start, near, patches.as_mut(), out)?;
                continue;
            }
            scratch.clear();
            self.decode(start..self.rows.min(start + VECTOR), &mut scratch)?;
            let value =
                |row: &u32| scratch.get(*row as usize % VECTOR).copied().unwrap_or_default();
            out.extend(near.iter().map(value));
        }
        Ok(())
    }

    /// Appends the values of some rows of the vector that begins at `start`; `patches` has not
    /// passed them yet.
    fn gather_few(
        &self,
        start: usize,
        rows: &[u32],
        patches: Option<&mut PatchCursor<'_, W>>,
        out: &mut Vec<W>,
    ) -> Result<()> {
        let (from, vector) = (out.len(), bitpack::vector_len(self.width));
        let place = start / VECTOR * vector;
        let bytes = self.codes.range(place..(place + vector).min(self.codes.len()))?;
        let affine = |code: u64| Word::add(self.base, Word::mul(self.factor, W::from_u64(code)));
        if !bitpack::gather(&bytes, self.width, self.rows, rows, affine, out) {
            return Err(Error::corrupt(0, "packed codes are too short"));
        }
        let (Some(patches), Some(first), Some(last)) = (patches, rows.first(), rows.last()) else {
            return Ok(());
        };
        let mut values = rows.iter().zip(out.iter_mut().skip(from)).peekable();
        patches.each(*first..*last + 1, |row, high| {
            while values.next_if(|(before, _)| **before < row).is_some() {}
            if let Some((_, value)) = values.next_if(|(other, _)| **other == row) {
                *value = Word::add(*value, self.scaled(high));
            }
        });
        Ok(())
    }

    /// What a patch adds to the value.
    fn scaled(&self, high: W) -> W {
        let shifted = Word::to_u64(high).checked_shl(self.width).unwrap_or(0);
        Word::mul(self.factor, W::from_u64(shifted))
    }
}

/// Visits patches in the order of their rows.
struct PatchCursor<'p, W> {
    positions: &'p [u32],
    highs: &'p [W],
    next: usize,
}

impl<W: Word> PatchCursor<'_, W> {
    /// Calls `put` with the row and the high part of each patch in `rows`, which must come after
    /// those of earlier calls.
    #[inline(always)]
    fn each(&mut self, rows: Range<u32>, mut put: impl FnMut(u32, W)) {
        let rest = self.positions.get(self.next..).unwrap_or_default();
        // The next one is usually near.
        let near = rest
            .get(..SEARCH_AHEAD)
            .filter(|near| near.last().is_some_and(|last| *last >= rows.start));
        self.next += near.unwrap_or(rest).partition_point(|row| *row < rows.start);
        while let (Some(row), Some(high)) =
            (self.positions.get(self.next), self.highs.get(self.next))
            && *row < rows.end
        {
            put(*row, *high);
            self.next += 1;
        }
    }
}

impl<'a, W: Word> Patches<'a, W> {
    fn parse(source: &mut Source<'a>, n: usize, rows: usize) -> Result<Self> {
        // Kept once decoded, as run-length keeps its runs.
        source.count_words(n, size_of::<u32>() + W::BYTES)?;
        let positions = source.child(|source| Ints::parse(source, n))?;
        let highs = source.child(|source| Ints::parse(source, n))?;
        let budget = source.budget();
        Ok(Patches { rows, positions, highs, decoded: OnceCell::new(), budget })
    }

    /// All positions and high parts, decoded once.
    fn decoded(&self) -> Result<(&[u32], &[W])> {
        if self.decoded.get().is_none() {
            let rows = self.positions.rows();
            let charge = self.budget.charge(rows * (size_of::<u32>() + W::BYTES))?;
            let (mut positions, mut highs) = (Vec::new(), Vec::new());
            self.positions.decode(0..rows, &mut positions)?;
            self.highs.decode(0..self.highs.rows(), &mut highs)?;
            let rises = simd(
                #[inline(always)]
                || {
                    positions
                        .iter()
                        .zip(positions.iter().skip(1))
                        .fold(true, |rises, (a, b)| rises & (a < b))
                },
            );
            if !rises || positions.last().is_some_and(|last| *last as usize >= self.rows) {
                let what = "positions of patches are not ascending rows of their block";
                return Err(Error::corrupt(0, what));
            }
            let _ = self.decoded.set((positions, highs, charge));
        }
        Ok(self.decoded.get().map_or((&[], &[]), |(positions, highs, _)| (positions, highs)))
    }

    /// A cursor before the first patch.
    fn cursor(&self) -> Result<PatchCursor<'_, W>> {
        let (positions, highs) = self.decoded()?;
        Ok(PatchCursor { positions, highs, next: 0 })
    }

    /// Calls `put` with the index in `rows` and the high part of each patch there.
    fn each(&self, rows: Range<usize>, mut put: impl FnMut(usize, W)) -> Result<()> {
        self.cursor()?.each(rows.start as u32..rows.end as u32, |row, high| {
            put(row as usize - rows.start, high)
        });
        Ok(())
    }

    /// The high part of a row, or zero if it has no patch.
    fn high_of(&self, row: usize) -> Result<W> {
        let (positions, highs) = self.decoded()?;
        let found = positions.binary_search_by_key(&row, |&position| position as usize);
        Ok(found.ok().and_then(|i| highs.get(i)).copied().unwrap_or_default())
    }
}
