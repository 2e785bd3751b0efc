//! Strings over small alphabets, bit-packed: identifiers, codes, numbers as text, UUIDs.
//!
//! Where all strings have the same length, each position has its own alphabet, so that a fixed
//! prefix or a dash costs nothing; otherwise all characters share one alphabet and lengths are
//! stored too.
//!
//! ```text
//! fixed    0 u8 · length u16 · n−1 u8 · n alphabets · length × index of alphabet u8 · buffer
//! varying  1 u8 · alphabet · lengths, starts, codes (see ragged)
//! alphabet = size−1 u8 · bytes, ascending
//! ```
//!
//! Characters are combined into groups (see [`super::symbols`]), each a code of a fixed width.
//! Codes follow the order of the text, the first in the lowest bits, and every vector starts at a
//! byte boundary. With varying lengths, the strings of a vector are concatenated and the last group
//! is padded with the first symbol.

use std::cell::OnceCell;
use std::ops::Range;

use super::ragged::{self, Ragged, Vector};
use super::strings::StringsOut;
use super::symbols::{
    Alphabet, BitWriter, Group, MAX_CHARS, MAX_CODES, load, look_up, pad, read_code,
};
use super::{Buffer, Compression, Cuts, Encoding, Options, Sink, Source};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// The longest strings that get an alphabet for each position.
const MAX_FIXED: usize = 256;
/// The largest alphabet of strings of varying length.
const MAX_ALPHABET: usize = 64;
/// Codes that are copied for their look-up at a time, so that a vector of long texts is not held
/// twice. A multiple of 8, so that each piece starts at a byte.
const PIECE: usize = 8192;

/// The alphabets of a block's values.
#[derive(Clone, Debug)]
pub(super) enum Alphabets {
    /// All values have the same length; one alphabet for each position.
    Fixed(Vec<Alphabet>),
    /// One alphabet for all characters.
    Varying(Alphabet),
}

/// The alphabets of `values`, if they are small.
pub(super) fn find_alphabets(values: &[&[u8]]) -> Option<Alphabets> {
    let length = values.first()?.len();
    if (1..=MAX_FIXED).contains(&length) && values.iter().all(|v| v.len() == length) {
        return find_fixed(values, length);
    }
    let mut seen = [false; 256];
    for value in values {
        value.iter().for_each(|&byte| seen[usize::from(byte)] = true);
    }
    let alphabet = Alphabet::of_seen(&seen);
    (2..=MAX_ALPHABET).contains(&alphabet.len()).then_some(Alphabets::Varying(alphabet))
}

fn find_fixed(values: &[&[u8]], length: usize) -> Option<Alphabets> {
    // A store to a byte does not wait for the one before, as setting a bit of a set would.
    let mut seen = vec![[false; 256]; length];
    for value in values {
        seen.iter_mut().zip(*value).for_each(|(seen, &byte)| seen[usize::from(byte)] = true);
    }
    let alphabets: Vec<Alphabet> = seen.iter().map(Alphabet::of_seen).collect();
    // There is nothing to gain where positions use most of the 256 bytes.
    let bits: u32 = Group::gather(alphabets.iter()).iter().map(|g| g.width).sum();
    (bits as usize <= 7 * length).then_some(Alphabets::Fixed(alphabets))
}

/// Appends `values`, whose characters are all in `alphabets`.
pub(super) fn encode(alphabets: &Alphabets, values: &[&[u8]], options: &Options, sink: &mut Sink) {
    sink.head().u8(Encoding::Packed as u8);
    match alphabets {
        Alphabets::Fixed(alphabets) => encode_fixed(alphabets, values, options, sink),
        Alphabets::Varying(alphabet) => encode_varying(alphabet, values, options, sink),
    }
}

fn encode_fixed(alphabets: &[Alphabet], values: &[&[u8]], options: &Options, sink: &mut Sink) {
    let mut distinct: Vec<&Alphabet> = Vec::new();
    let index = |alphabet| {
        distinct.iter().position(|&d| d == alphabet).unwrap_or_else(|| {
            distinct.push(alphabet);
            distinct.len() - 1
        }) as u8
    };
    let indices: Vec<u8> = alphabets.iter().map(index).collect();
    sink.head().u8(0);
    sink.head().u16(alphabets.len() as u16);
    sink.head().u8((distinct.len() - 1) as u8);
    distinct.iter().for_each(|alphabet| put_alphabet(alphabet, sink));
    sink.head().put(&indices);

    let groups = Group::gather(alphabets.iter());
    let addends: Vec<Vec<[u16; 256]>> = groups.iter().map(Group::addends).collect();
    let mut bits = BitWriter::default();
    for vector in values.chunks(VECTOR) {
        for value in vector {
            let mut rest = *value;
            for (group, addends) in groups.iter().zip(&addends) {
                let (chars, tail) = rest.split_at(group.chars());
                bits.push(code(chars, addends), group.width);
                rest = tail;
            }
        }
        bits.align();
    }
    let cuts = Cuts::Every(row_bits(&groups) * VECTOR / 8);
    sink.buffer(&bits.into_vec(), cuts, Compression::Packed, options);
}

fn encode_varying(alphabet: &Alphabet, values: &[&[u8]], options: &Options, sink: &mut Sink) {
    sink.head().u8(1);
    put_alphabet(alphabet, sink);
    let group = widest_group(alphabet);
    let addends = group.addends();
    let mut bits = BitWriter::default();
    let mut text = Vec::new();
    let (mut starts, mut start) = (Vec::with_capacity(values.len().div_ceil(VECTOR)), 0);
    for vector in values.chunks(VECTOR) {
        starts.push(start as u32);
        text.clear();
        vector.iter().for_each(|v| text.extend_from_slice(v));
        text.chunks(group.chars()).for_each(|chars| bits.push(code(chars, &addends), group.width));
        start = bits.align();
    }
    ragged::encode(values, &starts, &bits.into_vec(), Compression::Packed, options, sink);
}

#[inline]
fn code(characters: &[u8], addends: &[[u16; 256]]) -> u64 {
    characters.iter().zip(addends).map(|(&c, addends)| u64::from(addends[usize::from(c)])).sum()
}

fn put_alphabet(alphabet: &Alphabet, sink: &mut Sink) {
    sink.head().u8((alphabet.len() - 1) as u8);
    sink.head().put(alphabet.bytes());
}

fn take_alphabet(source: &mut Source<'_>) -> Result<Alphabet> {
    let size = usize::from(source.cursor.u8()?) + 1;
    let bytes = source.cursor.take(size)?;
    Alphabet::new(bytes).ok_or_else(|| source.cursor.corrupt("alphabet is not in order"))
}

fn row_bits(groups: &[Group]) -> usize {
    groups.iter().map(|g| g.width as usize).sum()
}

/// The group of as many characters of one alphabet as fit.
fn widest_group(alphabet: &Alphabet) -> Group {
    let chars =
        (1..=MAX_CHARS).rev().find(|&n| alphabet.len().pow(n as u32) <= MAX_CODES).unwrap_or(1);
    Group::new(vec![alphabet.clone(); chars])
}

/// An encoded stream.
#[derive(Debug)]
pub enum Packed<'a> {
    /// Strings of one length.
    Fixed(Fixed<'a>),
    /// Strings of varying length.
    Varying(Varying<'a>),
}

/// Strings of one length.
#[derive(Debug)]
pub struct Fixed<'a> {
    rows: usize,
    length: usize,
    groups: Vec<Group>,
    row_bits: usize,
    codes: Buffer<'a>,
    /// Distinct tables, and each group's index into them.
    tables: OnceCell<(Vec<Vec<u64>>, Vec<usize>)>,
}

/// Strings of varying length.
#[derive(Debug)]
pub struct Varying<'a> {
    group: Group,
    codes: Ragged<'a>,
    table: OnceCell<Vec<u64>>,
}

impl<'a> Packed<'a> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        match source.cursor.u8()? {
            0 => Fixed::parse(source, rows).map(Packed::Fixed),
            1 => Varying::parse(source, rows).map(Packed::Varying),
            shape => Err(source.cursor.corrupt(format!("packed strings of shape {shape}"))),
        }
    }

    pub(super) fn rows(&self) -> usize {
        match self {
            Packed::Fixed(fixed) => fixed.rows,
            Packed::Varying(varying) => varying.codes.rows(),
        }
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        match self {
            Packed::Fixed(fixed) => fixed.decode(rows, out),
            Packed::Varying(varying) => varying.decode(rows, out),
        }
    }

    pub(super) fn get(&self, row: usize) -> Result<Vec<u8>> {
        match self {
            Packed::Fixed(fixed) => fixed.get(row),
            Packed::Varying(varying) => varying.get(row),
        }
    }

    pub(super) fn describe(&self, out: &mut String) {
        match self {
            Packed::Fixed(fixed) => {
                out.push_str(&format!("packed({} chars, {} bit)", fixed.length, fixed.row_bits))
            }
            Packed::Varying(varying) => {
                let symbols = varying.group.alphabets.first().map_or(0, Alphabet::len);
                out.push_str(&format!("packed({symbols} symbols, "));
                varying.codes.describe(out);
                out.push(')');
            }
        }
    }
}

/// A group, prepared for the inner loop.
struct Step<'t> {
    table: &'t [u64],
    mask: usize,
    codes: usize,
    chars: usize,
    width: usize,
}

impl<'t> Step<'t> {
    fn new(group: &Group, table: &'t [u64]) -> Self {
        let width = group.width as usize;
        Step { table, mask: (1 << width) - 1, codes: group.codes, chars: group.chars(), width }
    }
}

impl<'a> Fixed<'a> {
    fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let length = usize::from(source.cursor.u16()?);
        if length == 0 || length > MAX_FIXED {
            return Err(source.cursor.corrupt(format!("packed strings of {length} characters")));
        }
        let n = usize::from(source.cursor.u8()?) + 1;
        let alphabets = (0..n).map(|_| take_alphabet(source)).collect::<Result<Vec<_>>>()?;
        let indices = source.cursor.take(length)?;
        let places: Option<Vec<&Alphabet>> =
            indices.iter().map(|&i| alphabets.get(usize::from(i))).collect();
        let places = places.ok_or_else(|| source.cursor.corrupt("no such alphabet"))?;
        let groups = Group::gather(places.into_iter());
        let row_bits = row_bits(&groups);
        let codes = source.buffer()?;
        if codes.len() != (rows * row_bits).div_ceil(8) {
            return Err(source.cursor.corrupt("packed strings have the wrong length"));
        }
        Ok(Fixed { rows, length, groups, row_bits, codes, tables: OnceCell::new() })
    }

    fn tables(&self) -> &(Vec<Vec<u64>>, Vec<usize>) {
        self.tables.get_or_init(|| {
            let (mut distinct, mut tables) = (Vec::<&Group>::new(), Vec::new());
            let index = |group| {
                distinct.iter().position(|&d| d == group).unwrap_or_else(|| {
                    distinct.push(group);
                    tables.push(group.table());
                    distinct.len() - 1
                })
            };
            let indices = self.groups.iter().map(index).collect();
            (tables, indices)
        })
    }

    fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        let total = self.length * rows.len();
        out.check_space(total as u64)?;
        let (tables, indices) = self.tables();
        let tables = indices.iter().filter_map(|&i| tables.get(i));
        let steps: Vec<Step<'_>> =
            self.groups.iter().zip(tables).map(|(group, table)| Step::new(group, table)).collect();
        let first = out.data.len();
        out.push_equal_ends(self.length, rows.len());
        out.data.resize(first + total + MAX_CHARS, 0);
        let mut padded = Vec::new();
        let mut sound = true;
        let vectors = rows.clone().step_by(VECTOR).map(|start| start..rows.end.min(start + VECTOR));
        for vector in vectors {
            let bits = vector.start * self.row_bits..vector.end * self.row_bits;
            pad(&self.codes.range(bits.start / 8..bits.end.div_ceil(8))?, &mut padded);
            let text = &mut out.data[first + (vector.start - rows.start) * self.length..];
            sound &= self.look_up(&steps, &padded, vector.len(), text);
        }
        out.data.truncate(first + total);
        if sound { Ok(()) } else { Err(unused_code()) }
    }

    /// Writes the text of `n` rows, the first at bit 0 of `padded`; returns whether all codes were
    /// valid.
    fn look_up(&self, steps: &[Step<'_>], padded: &[u8], n: usize, text: &mut [u8]) -> bool {
        let mut unused = false;
        let mut bit = 0;
        for row in 0..n {
            let text = &mut text[row * self.length..][..self.length + MAX_CHARS];
            let mut at = 0;
            for step in steps {
                let code = (load(padded, bit >> 3) >> (bit & 7)) as usize & step.mask;
                unused |= code >= step.codes;
                text[at..at + MAX_CHARS].copy_from_slice(&step.table[code].to_le_bytes());
                at += step.chars;
                bit += step.width;
            }
        }
        !unused
    }

    fn get(&self, row: usize) -> Result<Vec<u8>> {
        let mut bit = row * self.row_bits;
        let codes = self.codes.range(bit / 8..(bit + self.row_bits).div_ceil(8))?;
        bit %= 8;
        let mut text = Vec::with_capacity(self.length);
        for group in &self.groups {
            let characters =
                group.characters(read_code(&codes, bit, group.width)).ok_or_else(unused_code)?;
            text.extend_from_slice(&characters.to_le_bytes()[..group.chars()]);
            bit += group.width as usize;
        }
        Ok(text)
    }
}

impl<'a> Varying<'a> {
    fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let alphabet = take_alphabet(source)?;
        if !(2..=MAX_ALPHABET).contains(&alphabet.len()) {
            return Err(source.cursor.corrupt(format!("alphabet of {} symbols", alphabet.len())));
        }
        Ok(Varying {
            group: widest_group(&alphabet),
            codes: Ragged::parse(source, rows)?,
            table: OnceCell::new(),
        })
    }

    fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        let table = self.table.get_or_init(|| self.group.table());
        let (chars, width) = (self.group.chars(), self.group.width);
        let mut padded = Vec::new();
        self.codes.vectors(rows, |vector| {
            let groups = vector.total.div_ceil(chars as u64);
            let bytes = groups.saturating_mul(u64::from(width)).div_ceil(8);
            let stored = vector.bytes.len() as u64;
            if bytes > stored || vector.whole && bytes != stored {
                return Err(Vector::mismatch());
            }
            out.reserve(vector.rest, chars + MAX_CHARS)?;
            out.push_ends(vector.lengths);
            let (first, groups) = (out.data.len(), groups as usize);
            out.data.resize(first + groups * chars + MAX_CHARS, 0);
            let mut sound = true;
            for start in (0..groups).step_by(PIECE) {
                let n = PIECE.min(groups - start);
                let bytes = start / 8 * width as usize;
                let bytes = bytes..bytes + (n * width as usize).div_ceil(8);
                pad(vector.bytes.get(bytes).unwrap_or_default(), &mut padded);
                let text = &mut out.data[first + start * chars..];
                sound &= look_up(&self.group, table, &padded, n, text);
            }
            out.data.truncate(first + vector.total as usize);
            if sound { Ok(()) } else { Err(unused_code()) }
        })
    }

    fn get(&self, row: usize) -> Result<Vec<u8>> {
        let (place, codes) = self.codes.locate(row)?;
        let (chars, width) = (self.group.chars(), self.group.width as usize);
        let groups = place.start / chars..place.end.div_ceil(chars);
        if groups.end.saturating_mul(width).div_ceil(8) > codes.len() {
            return Err(Vector::mismatch());
        }
        let skip = place.start - groups.start * chars;
        let _charge = self.codes.budget().charge(groups.len() * chars)?;
        let mut text = Vec::with_capacity(groups.len() * chars);
        for group in groups {
            let code = read_code(&codes, group * width, self.group.width);
            let characters = self.group.characters(code).ok_or_else(unused_code)?;
            text.extend_from_slice(&characters.to_le_bytes()[..chars]);
        }
        text.drain(..skip);
        text.truncate(place.len());
        Ok(text)
    }
}

fn unused_code() -> Error {
    Error::corrupt(0, "packed strings hold a code that stands for nothing")
}
