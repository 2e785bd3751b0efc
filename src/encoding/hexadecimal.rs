//! Hexadecimal text of equal, even length in one case, stored as numbers: hashes, keys, and
//! especially points in hexadecimal WKB, whose coordinates are doubles.
//!
//! ```text
//! text    01  01000020E6100000  00000000C00E7D52C0  000000039564440…     two digits a byte
//!         ╰┬╯ ╰───────┬──────╯  ╰───────┬────────╯
//! column   0          1                 2           …
//! ```
//!
//! The bytes of a value are split from its end into little-endian words of 8; the first word takes
//! the remaining 1 to 8 bytes. Each word's column is a stream of its own, of integers or of
//! doubles, whichever is smaller: the type of a point costs nothing, and its coordinates cost no
//! more than columns of doubles.

use std::ops::Range;

use super::floats::{self, Floats};
use super::ints::{self, Ints};
use super::kernels::dispatch::simd;
use super::strings::StringsOut;
use super::{Encoding, Options, Sink, Source};
use crate::error::Result;
use crate::limits::VECTOR;

/// The longest value, in bytes of two digits.
const MAX_BYTES: usize = 256;
/// Values on which both types of a column are tried.
const TRIAL: usize = 2 * VECTOR;

/// An encoded stream.
#[derive(Debug)]
pub struct Hexadecimal<'a> {
    rows: usize,
    upper: bool,
    bytes: usize,
    columns: Vec<Column<'a>>,
}

#[derive(Debug)]
enum Column<'a> {
    Ints(Ints<'a, u64>),
    Floats(Box<Floats<'a, f64>>),
}

/// The case and length that all values share.
#[derive(Clone, Copy, Debug)]
pub(super) struct HexLayout {
    upper: bool,
    bytes: usize,
}

const LOWER: u8 = 1;
const UPPER: u8 = 2;
const OTHER: u8 = 4;

/// The kind of digit that a byte is; 0 to 9 fit both cases. It has no branches.
#[inline(always)]
fn class(byte: u8) -> u8 {
    let is = |first: u8, count: u8| byte.wrapping_sub(first) < count;
    let (digit, lower, upper) = (is(b'0', 10), is(b'a', 6), is(b'A', 6));
    let other = !(digit | lower | upper);
    (u8::from(lower) * LOWER) | (u8::from(upper) * UPPER) | (u8::from(other) * OTHER)
}

/// The length and case that `values` share, if they do.
pub(super) fn find_layout(values: &[&[u8]]) -> Option<HexLayout> {
    let length = values.first()?.len();
    if length == 0 || length % 2 == 1 || length > 2 * MAX_BYTES {
        return None;
    }
    let mut classes = 0;
    for value in values {
        if value.len() != length {
            return None;
        }
        classes |= simd(
            #[inline(always)]
            || value.iter().fold(0, |classes, &byte| classes | class(byte)),
        );
        if classes & OTHER != 0 || classes == LOWER | UPPER {
            return None;
        }
    }
    Some(HexLayout { upper: classes == UPPER, bytes: length / 2 })
}

/// The range of bytes of each column in a value of `bytes` bytes.
fn column_bytes(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let head = (bytes - 1) % 8 + 1;
    std::iter::once(0..head).chain((head..bytes).step_by(8).map(|at| at..at + 8))
}

/// Appends `values`, which fit the layout.
pub(super) fn encode(layout: HexLayout, values: &[&[u8]], options: &Options, sink: &mut Sink) {
    sink.head().u8(Encoding::Hexadecimal as u8);
    sink.head().u8(u8::from(layout.upper));
    sink.head().u16(layout.bytes as u16);
    for place in column_bytes(layout.bytes) {
        let words: Vec<u64> =
            values.iter().map(|v| parse_word(&v[2 * place.start..2 * place.end])).collect();
        encode_column(&words, &options.child(), sink);
    }
}

fn encode_column(words: &[u64], options: &Options, sink: &mut Sink) {
    let cost = |encode: &dyn Fn(&[u64], &mut Sink)| {
        let mut trial = Sink::new();
        let middle = words.len().saturating_sub(TRIAL) / 2;
        encode(&words[middle..words.len().min(middle + TRIAL)], &mut trial);
        trial.len()
    };
    let as_ints = |words: &[u64], sink: &mut Sink| ints::encode(words, false, options, sink);
    let as_floats = |words: &[u64], sink: &mut Sink| {
        floats::encode::<f64>(bytemuck::cast_slice(words), options, sink)
    };
    let float = cost(&as_floats) < cost(&as_ints);
    sink.head().u8(u8::from(float));
    if float { as_floats(words, sink) } else { as_ints(words, sink) }
}

/// The little-endian number that up to sixteen digits represent.
fn parse_word(digits: &[u8]) -> u64 {
    match digits.as_chunks() {
        ([first, second], []) => parse_four(first) | parse_four(second) << 32,
        (eights, rest) => {
            let mut last = [b'0'; 8];
            last.iter_mut().zip(rest).for_each(|(place, digit)| *place = *digit);
            match eights {
                [first, ..] => parse_four(first) | parse_four(&last) << 32,
                [] => parse_four(&last),
            }
        }
    }
}

/// The four bytes that eight digits represent, all at a time.
#[inline]
fn parse_four(digits: &[u8; 8]) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let digits = u64::from_le_bytes(*digits);
    // A letter has bit 6, and its low half counts from 1.
    let halves = (digits & (0x0f * EACH)) + 9 * (digits >> 6 & EACH);
    // The first digit of two is the high half of their byte.
    let bytes = (halves << 4 | halves >> 8) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    (pairs | pairs >> 16) & 0xffff_ffff
}

impl<'a> Hexadecimal<'a> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let case = source.cursor.u8()?;
        let bytes = usize::from(source.cursor.u16()?);
        if case > 1 || bytes == 0 || bytes > MAX_BYTES {
            return Err(source
                .cursor
                .corrupt(format!("hexadecimal text of case {case} and {bytes} bytes")));
        }
        let mut columns = Vec::with_capacity(bytes.div_ceil(8));
        for _ in 0..bytes.div_ceil(8) {
            columns.push(match source.cursor.u8()? {
                0 => Column::Ints(source.child(|s| Ints::parse(s, rows))?),
                1 => Column::Floats(Box::new(source.child(|s| Floats::parse(s, rows))?)),
                kind => return Err(source.cursor.corrupt(format!("word column of kind {kind}"))),
            });
        }
        Ok(Hexadecimal { rows, upper: case == 1, bytes, columns })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        let width = 2 * self.bytes;
        out.check_space(width as u64 * rows.len() as u64)?;
        let first = out.data.len();
        out.push_equal_ends(width, rows.len());
        out.data.resize(first + width * rows.len(), 0);
        let (mut words, mut doubles) = (Vec::new(), Vec::new());
        let vectors =
            out.data[first..].chunks_mut(width * VECTOR).zip(rows.clone().step_by(VECTOR));
        for (text, start) in vectors {
            let vector = start..rows.end.min(start + VECTOR);
            for (column, place) in self.columns.iter().zip(column_bytes(self.bytes)) {
                let words = column.decode(vector.clone(), &mut words, &mut doubles)?;
                format_words(
                    words,
                    &mut text[2 * place.start..],
                    2 * place.len(),
                    width,
                    self.upper,
                );
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, row: usize) -> Result<Vec<u8>> {
        let mut text = vec![0; 2 * self.bytes];
        for (column, place) in self.columns.iter().zip(column_bytes(self.bytes)) {
            let word = match column {
                Column::Ints(ints) => ints.get(row)?,
                Column::Floats(floats) => floats.get(row)?.to_bits(),
            };
            format_words(
                &[word],
                &mut text[2 * place.start..],
                2 * place.len(),
                2 * self.bytes,
                self.upper,
            );
        }
        Ok(text)
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("hexadecimal(");
        for (i, column) in self.columns.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            match column {
                Column::Ints(ints) => ints.describe(out),
                Column::Floats(floats) => floats.describe(out),
            }
        }
        out.push(')');
    }
}

impl Column<'_> {
    fn decode<'o>(
        &self,
        rows: Range<usize>,
        words: &'o mut Vec<u64>,
        doubles: &'o mut Vec<f64>,
    ) -> Result<&'o [u64]> {
        match self {
            Column::Ints(ints) => {
                words.clear();
                ints.decode(rows, words)?;
                Ok(words)
            }
            Column::Floats(floats) => {
                doubles.clear();
                floats.decode(rows, doubles)?;
                Ok(bytemuck::cast_slice(doubles))
            }
        }
    }
}

/// Writes `digits` digits of each word, `width` bytes apart.
fn format_words(words: &[u64], text: &mut [u8], digits: usize, width: usize, upper: bool) {
    for (i, &word) in words.iter().enumerate() {
        let mut formatted = [0; 16];
        formatted[..8].copy_from_slice(&eight_digits(word as u32, upper).to_le_bytes());
        formatted[8..].copy_from_slice(&eight_digits((word >> 32) as u32, upper).to_le_bytes());
        let place = &mut text[i * width..];
        if digits == 16 {
            place[..16].copy_from_slice(&formatted);
        } else {
            place[..digits].copy_from_slice(&formatted[..digits]);
        }
    }
}

/// The digits of four bytes, the first in the lowest byte.
#[inline]
fn eight_digits(bytes: u32, upper: bool) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let spread = u64::from(bytes);
    let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (spread >> 4 & 0x000f_000f_000f_000f) | (spread & 0x000f_000f_000f_000f) << 8;
    let letters = (nibbles + 6 * ONES) >> 4 & ONES;
    let above_nine = u64::from(if upper { b'A' } else { b'a' } - b'0' - 10);
    nibbles + u64::from(b'0') * ONES + letters * above_nine
}
