//! Planes: codes `(value - base) / factor` split into bytes, the bytes of one weight stored
//! together and entropy-coded (zstd's Huffman stage), for skewed columns whose order has no
//! pattern.
//!
//! ```text
//! head: │ base u64 │ factor u64 │ planes u8 │ planes, the highest weight first │
//! plane: │ kind u8 │ …
//!   kind 1 to 16: the number of distinct bytes, which are listed; several rows to a byte, or
//!                 no rows if there is only one
//!   kind 0:       one byte per row
//!   kind 255:     groups u16, then a buffer each: the bytes regrouped by the plane above
//! ```
//!
//! Few distinct bytes are numbered, and several rows are written as the digits of one byte. The
//! Huffman coder needs at least one bit per symbol; in this form a rare high byte costs no more
//! than its entropy, and zstd finds no accidental matches. In codes of two planes, the low byte
//! depends on the high one: where it saves 1 %, low bytes are sorted (stably) by the high byte and
//! each group gets its own code table, which approaches the joint entropy.

use std::cell::{Cell, OnceCell};
use std::ops::Range;

use super::choose::Facts;
use super::factor::Factor;
use super::{Buffer, Compression, Cuts, Encoding, Options, Sink, Source, Word};
use crate::budget::{Budget, Charge};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// The most distinct bytes that share a byte with other rows.
const FEW: usize = 16;
const RAW: u8 = 0;
const GROUPED: u8 = 255;
/// Neighbouring groups are merged until they have this many bytes.
const GROUP_BYTES: usize = 1024;
/// Bits that a group costs besides its entropy: descriptor and code table.
const GROUP_BITS: f64 = 8.0 * 90.0;

/// How many digits to base `symbols` fit in a byte.
fn digits(symbols: usize) -> usize {
    match symbols {
        0 | 1 => 0,
        2 => 8,
        3 => 5,
        4 => 4,
        5 | 6 => 3,
        7..=FEW => 2,
        _ => 1,
    }
}

/// Appends a stream of planes of at least one value.
pub(super) fn encode<W: Word>(values: &[W], facts: &Facts<W>, options: &Options, sink: &mut Sink) {
    let sample: Vec<W> =
        super::choose::sample(values.len()).map(|i| Word::sub(values[i], facts.min)).collect();
    let factor = Factor::find(values, facts, &sample);
    let largest = Word::to_u64(factor.divide(Word::sub(facts.max, facts.min)));
    let planes = (64 - largest.leading_zeros()).div_ceil(8) as usize;
    sink.head().u8(Encoding::Planes as u8);
    sink.head().u64(Word::to_u64(facts.min));
    sink.head().u64(Word::to_u64(factor.value()));
    sink.head().u8(planes as u8);
    let mut above: Vec<u8> = Vec::new();
    let mut plane = Vec::with_capacity(values.len());
    for weight in (0..planes).rev() {
        plane.clear();
        let byte =
            |v: &W| (Word::to_u64(factor.divide(Word::sub(*v, facts.min))) >> (8 * weight)) as u8;
        plane.extend(values.iter().map(byte));
        let grouped = planes == 2 && weight == 0 && grouping_pays(&above, &plane);
        if grouped {
            encode_grouped(&above, &plane, options, sink)
        } else {
            encode_plane(&plane, options, sink)
        }
        std::mem::swap(&mut above, &mut plane);
    }
}

fn histogram(plane: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for &byte in plane {
        counts[usize::from(byte)] += 1;
    }
    counts
}

fn entropy_bits(counts: &[u32]) -> f64 {
    let rows: u32 = counts.iter().sum();
    let bits = |&n: &u32| f64::from(n) * (f64::from(rows) / f64::from(n)).log2();
    counts.iter().filter(|&&n| n > 0).map(bits).sum()
}

fn encode_plane(plane: &[u8], options: &Options, sink: &mut Sink) {
    let counts = histogram(plane);
    let symbols: Vec<u8> = (0..=255u8).filter(|&byte| counts[usize::from(byte)] > 0).collect();
    if symbols.len() > FEW {
        sink.head().u8(RAW);
        sink.buffer(plane, Cuts::Every(VECTOR), Compression::Entropy, options);
        return;
    }
    sink.head().u8(symbols.len() as u8);
    sink.head().put(&symbols);
    let per = digits(symbols.len());
    if per == 0 {
        return;
    }
    let mut rank = [0u8; 256];
    for (i, &symbol) in symbols.iter().enumerate() {
        rank[usize::from(symbol)] = i as u8;
    }
    let mut bytes = Vec::with_capacity(plane.len().div_ceil(per) + plane.len() / VECTOR);
    for vector in plane.chunks(VECTOR) {
        let byte = |rows: &[u8]| {
            rows.iter()
                .rev()
                .fold(0u8, |byte, &b| byte * symbols.len() as u8 + rank[usize::from(b)])
        };
        bytes.extend(vector.chunks(per).map(byte));
    }
    sink.buffer(&bytes, Cuts::Every(VECTOR.div_ceil(per)), Compression::Entropy, options);
}

/// Whether sorting `low` by `high` saves more than 1 % of both.
fn grouping_pays(high: &[u8], low: &[u8]) -> bool {
    let highs = histogram(high);
    let mut joint = vec![[0u32; 256]; 256];
    for (&h, &l) in high.iter().zip(low) {
        joint[usize::from(h)][usize::from(l)] += 1;
    }
    let alone = entropy_bits(&histogram(low));
    let groups: f64 =
        joint.iter().zip(highs).filter(|(_, n)| *n > 0).map(|(g, _)| entropy_bits(g)).sum();
    let heads =
        (low.len() / GROUP_BYTES).min(highs.iter().filter(|&&n| n > 0).count()) as f64 * GROUP_BITS;
    let distinct = histogram(low).iter().filter(|&&n| n > 0).count();
    distinct > FEW && groups + heads < alone - 0.01 * (alone + entropy_bits(&highs))
}

/// The start of every group of rows with the same high byte.
fn group_starts(high: &[u8]) -> [u32; 256] {
    let mut start = 0;
    histogram(high).map(|n| {
        let this = start;
        start += n;
        this
    })
}

fn encode_grouped(high: &[u8], low: &[u8], options: &Options, sink: &mut Sink) {
    let mut next = group_starts(high);
    let mut sorted = vec![0u8; low.len()];
    for (&h, &l) in high.iter().zip(low) {
        let at = &mut next[usize::from(h)];
        sorted[*at as usize] = l;
        *at += 1;
    }
    // `next` now has the ends of the groups.
    let (mut cuts, mut last) = (Vec::new(), 0);
    for end in next.map(|end| end as usize) {
        if end - last >= GROUP_BYTES {
            cuts.push(last..end);
            last = end;
        }
    }
    if last < low.len() {
        cuts.push(last..low.len());
    }
    sink.head().u8(GROUPED);
    sink.head().u16(cuts.len() as u16);
    for cut in cuts {
        sink.buffer(&sorted[cut], Cuts::Every(VECTOR), Compression::Entropy, options);
    }
}

/// A stream of byte planes.
#[derive(Debug)]
pub struct Planes<'a, W: Word> {
    rows: usize,
    base: W,
    factor: W,
    /// The highest weight first.
    planes: Vec<Plane<'a>>,
}

#[derive(Debug)]
enum Plane<'a> {
    Raw(Buffer<'a>),
    Few {
        symbols: &'a [u8],
        packed: Option<Buffer<'a>>,
    },
    Grouped {
        groups: Vec<Buffer<'a>>,
        in_row_order: OnceCell<(Vec<u8>, Charge)>,
        /// How many single rows have been asked for.
        singles: Cell<usize>,
        budget: &'a Budget,
    },
}

/// How many single rows of a block are looked up before all are brought in row order.
pub(super) const MANY_SINGLES: usize = 8;

impl<'a, W: Word> Planes<'a, W> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let (base, factor) = (W::from_u64(source.cursor.u64()?), W::from_u64(source.cursor.u64()?));
        let count = source.cursor.u8()?;
        if usize::from(count) > W::BYTES {
            return Err(source
                .cursor
                .corrupt(format!("{count} planes for values of {} bytes", W::BYTES)));
        }
        let mut planes = Vec::with_capacity(usize::from(count));
        for i in 0..count {
            planes.push(Plane::parse(source, rows, i > 0)?);
        }
        Ok(Planes { rows, base, factor, planes })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of planes.
    pub fn count(&self) -> usize {
        self.planes.len()
    }

    /// Whether bytes of a plane are grouped by those above them.
    #[cfg(test)]
    pub(super) fn has_grouped(&self) -> bool {
        self.planes.iter().any(|plane| matches!(plane, Plane::Grouped { .. }))
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        let from = out.len();
        out.resize(from + rows.len(), W::default());
        let out = out.get_mut(from..).unwrap_or_default();
        let (mut bytes, shift) = (Vec::with_capacity(rows.len()), W::from_u64(256));
        for (i, plane) in self.planes.iter().enumerate() {
            bytes.clear();
            self.decode_plane(i, plane, rows.clone(), &mut bytes)?;
            for (code, &byte) in out.iter_mut().zip(&bytes) {
                *code = Word::add(Word::mul(*code, shift), W::from_u64(u64::from(byte)));
            }
        }
        for code in out {
            *code = Word::add(self.base, Word::mul(self.factor, *code));
        }
        Ok(())
    }

    pub(super) fn get(&self, row: usize) -> Result<W> {
        let mut code = 0u64;
        let vector = row - row % VECTOR;
        let mut bytes = Vec::new();
        for (i, plane) in self.planes.iter().enumerate() {
            bytes.clear();
            let single = match plane {
                Plane::Grouped { groups, in_row_order, singles, budget }
                    if in_row_order.get().is_none() && singles.get() < MANY_SINGLES =>
                {
                    singles.set(singles.get() + 1);
                    let _room = budget.charge(self.rows)?;
                    Some(grouped_byte(&self.above(i)?, groups, row)?)
                }
                _ => {
                    self.decode_plane(i, plane, vector..row + 1, &mut bytes)?;
                    bytes.last().copied()
                }
            };
            code = code << 8 | u64::from(single.unwrap_or(0));
        }
        Ok(Word::add(self.base, Word::mul(self.factor, W::from_u64(code))))
    }

    /// The bytes of all rows in the plane above plane `i`.
    fn above(&self, i: usize) -> Result<Vec<u8>> {
        let mut high = Vec::with_capacity(self.rows);
        if let Some((above, plane)) = i.checked_sub(1).and_then(|i| Some((i, self.planes.get(i)?)))
        {
            self.decode_plane(above, plane, 0..self.rows, &mut high)?;
        }
        Ok(high)
    }

    /// Appends the bytes of plane `i` for `rows`, whose start is the start of a vector.
    fn decode_plane(
        &self,
        i: usize,
        plane: &Plane<'a>,
        rows: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match plane {
            Plane::Raw(bytes) => out.extend_from_slice(&bytes.range(rows)?),
            Plane::Few { symbols, packed: None } => {
                out.resize(out.len() + rows.len(), symbols.first().copied().unwrap_or(0));
            }
            Plane::Few { symbols, packed: Some(packed) } => {
                unpack_digits(symbols, packed, rows, out)?
            }
            Plane::Grouped { groups, in_row_order, budget, .. } => {
                if in_row_order.get().is_none() {
                    // The plane above lives as long as this call, the result as the block.
                    let _above = budget.charge(self.rows)?;
                    let charge = budget.charge(self.rows)?;
                    let _ = in_row_order.set((ungroup(&self.above(i)?, groups)?, charge));
                }
                out.extend_from_slice(
                    in_row_order.get().and_then(|(bytes, _)| bytes.get(rows)).unwrap_or_default(),
                );
            }
        }
        Ok(())
    }
}

impl<'a> Plane<'a> {
    fn parse(source: &mut Source<'a>, rows: usize, below: bool) -> Result<Self> {
        match source.cursor.u8()? {
            RAW => Ok(Plane::Raw(buffer_of(source, rows)?)),
            GROUPED if below => {
                let n = source.cursor.u16()?;
                if n > 256 {
                    return Err(source.cursor.corrupt(format!("{n} groups of bytes")));
                }
                let groups = (0..n).map(|_| source.buffer()).collect::<Result<Vec<_>>>()?;
                if groups.iter().map(Buffer::len).sum::<usize>() != rows {
                    return Err(source.cursor.corrupt("groups do not add up to the rows"));
                }
                source.count_words(rows, 1)?;
                let (in_row_order, budget) = (OnceCell::new(), source.budget());
                Ok(Plane::Grouped { groups, in_row_order, singles: Cell::new(0), budget })
            }
            n if usize::from(n) <= FEW => {
                let symbols = source.cursor.take(usize::from(n))?;
                let packed = match digits(symbols.len()) {
                    0 => None,
                    per => Some(buffer_of(source, few_len(rows, per))?),
                };
                Ok(Plane::Few { symbols, packed })
            }
            kind => Err(source.cursor.corrupt(format!("plane of kind {kind}"))),
        }
    }
}

fn buffer_of<'a>(source: &mut Source<'a>, len: usize) -> Result<Buffer<'a>> {
    let buffer = source.buffer()?;
    if buffer.len() == len {
        Ok(buffer)
    } else {
        Err(source.cursor.corrupt(format!("plane of {} bytes instead of {len}", buffer.len())))
    }
}

/// Bytes of `rows` rows when `per` rows share a byte; every vector starts with a new byte.
fn few_len(rows: usize, per: usize) -> usize {
    rows / VECTOR * VECTOR.div_ceil(per) + (rows % VECTOR).div_ceil(per)
}

fn unpack_digits(
    symbols: &[u8],
    packed: &Buffer<'_>,
    rows: Range<usize>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let per = digits(symbols.len());
    let mut table = [[0u8; 8]; 256];
    for (byte, entry) in table.iter_mut().enumerate() {
        let mut rest = byte;
        for digit in entry.iter_mut().take(per) {
            *digit = symbols.get(rest % symbols.len()).copied().unwrap_or(0);
            rest /= symbols.len();
        }
    }
    let bytes = packed.range(few_len(rows.start, per)..few_len(rows.end, per))?;
    let mut left = rows.len();
    for vector in bytes.chunks(VECTOR.div_ceil(per)) {
        // Eight bytes are written at a time; the first `per` are kept.
        let mut unpacked = [0u8; VECTOR + 16];
        let mut at = 0;
        for &byte in vector {
            if let Some(place) = unpacked.get_mut(at..at + 8) {
                place.copy_from_slice(&table[usize::from(byte)]);
            }
            at += per;
        }
        out.extend_from_slice(unpacked.get(..left.min(VECTOR)).unwrap_or_default());
        left = left.saturating_sub(VECTOR);
    }
    Ok(())
}

/// The byte of a single row among bytes that are grouped by the plane above: its group begins after
/// all rows with a lesser byte above, and earlier rows of the group come first.
fn grouped_byte(high: &[u8], groups: &[Buffer<'_>], row: usize) -> Result<u8> {
    let short = || Error::corrupt(0, "groups of bytes are too short");
    let (before, of_row) = (high.get(..row), high.get(row).copied());
    let (before, of_row) = before.zip(of_row).ok_or_else(short)?;
    let mut at = count(high, |byte| byte < of_row) + count(before, |byte| byte == of_row);
    for group in groups {
        if at < group.len() {
            return group.range(at..at + 1)?.first().copied().ok_or_else(short);
        }
        at -= group.len();
    }
    Err(short())
}

/// How many bytes pass a test. Sums of single bytes are vectorised.
fn count(bytes: &[u8], passes: impl Fn(u8) -> bool) -> usize {
    let some = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(passes(*byte))).sum::<u8>();
    bytes.chunks(usize::from(u8::MAX)).map(|bytes| usize::from(some(bytes))).sum()
}

/// Restores the row order of bytes that are grouped by the plane above.
fn ungroup(high: &[u8], groups: &[Buffer<'_>]) -> Result<Vec<u8>> {
    let mut sorted = Vec::with_capacity(high.len());
    for group in groups {
        sorted.extend_from_slice(&group.bytes()?);
    }
    let mut next = group_starts(high);
    let mut low = Vec::with_capacity(high.len());
    for &h in high {
        let at = &mut next[usize::from(h)];
        low.push(
            *sorted
                .get(*at as usize)
                .ok_or_else(|| Error::corrupt(0, "groups of bytes are too short"))?,
        );
        *at += 1;
    }
    Ok(low)
}
