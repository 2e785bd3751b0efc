//! Streams of byte strings (text, binary): the closed set of their encodings, and the choice among
//! them.
//!
//! | encoding | for | parts |
//! | --- | --- | --- |
//! | plain | anything; LZ4 or zstd on top | lengths, starts, bytes |
//! | constant | one value | the value |
//! | FSST | text | symbol table, lengths, starts, codes |
//! | packed | small alphabets, by position where all have one length | alphabets, codes |
//! | hexadecimal | hexadecimal text of one length, as numbers | a stream for every 8 bytes |
//! | front | sorted values | lengths of common prefixes, suffixes in one of the others |
//!
//! The choice is made on a sample: each encoding that can hold the block's values encodes it, and
//! the smallest wins, with a handicap for those that are slow to read.

use std::ops::Range;

use super::front::Front;
use super::fsst::Fsst;
use super::hexadecimal::Hexadecimal;
use super::packed::Packed;
use super::plain_strings::Plain;
use super::strings_choice::{StringEncoder, choose};
use super::{Encoding, Options, Sink, Source};
use crate::budget::{Budget, Charge};
use crate::error::{Error, Result};
use crate::limits::{MAX_BATCH_BYTES, MAX_CHUNK_BYTES, MAX_VALUE_BYTES, VECTOR};

/// An encoded stream of byte strings, borrowing the block's bytes.
#[derive(Debug)]
pub enum Strings<'a> {
    /// Unencoded bytes.
    Plain(Plain<'a>),
    /// One value for all rows.
    Constant {
        /// Rows of the stream.
        rows: usize,
        /// The value.
        value: &'a [u8],
    },
    /// Codes for frequent sequences of bytes.
    Fsst(Fsst<'a>),
    /// Small alphabets.
    Packed(Packed<'a>),
    /// Hexadecimal text as numbers.
    Hexadecimal(Hexadecimal<'a>),
    /// Common prefixes and suffixes.
    Front(Front<'a>),
}

/// Decoded byte strings: their bytes back to back, and where each ends.
#[derive(Debug)]
pub struct StringsOut {
    /// The bytes of all values.
    pub data: Vec<u8>,
    /// For each value the offset in `data` just after its last byte; a value starts where its
    /// predecessor ends.
    pub ends: Vec<u32>,
    /// The most bytes that `data` may hold.
    limit: usize,
    /// Covers `data`.
    charge: Charge,
}

impl PartialEq for StringsOut {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data && self.ends == other.ends
    }
}

impl Default for StringsOut {
    fn default() -> Self {
        Self::with_limit(MAX_BATCH_BYTES)
    }
}

impl StringsOut {
    /// An empty output.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty output that refuses more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        let limit = limit.min(MAX_BATCH_BYTES);
        StringsOut { data: Vec::new(), ends: Vec::new(), limit, charge: Charge::default() }
    }

    /// From now on, bytes are charged to a budget before there is memory for them.
    pub(crate) fn charge_to(&mut self, budget: &Budget) -> Result<()> {
        self.charge = budget.charge(self.data.capacity())?;
        Ok(())
    }

    /// The charge of the bytes, for who takes them.
    pub(crate) fn take_charge(&mut self) -> Charge {
        std::mem::take(&mut self.charge)
    }

    /// Values decoded so far.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes the values and keeps the memory.
    pub fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }

    /// One value.
    pub fn value(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.data[start..self.ends[index] as usize]
    }

    /// All values in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.value(i))
    }

    /// Appends a value.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<()> {
        self.check_space(value.len() as u64)?;
        self.data.extend_from_slice(value);
        self.ends.push(self.data.len() as u32);
        Ok(())
    }

    /// Refuses `bytes` more bytes if the batch could not hold them.
    pub(crate) fn check_space(&mut self, bytes: u64) -> Result<()> {
        let all = (self.data.len() as u64).saturating_add(bytes);
        if all > self.limit as u64 {
            return Err(Error::LimitExceeded(format!(
                "{all} bytes of strings in one batch, {} fit; read fewer rows at a time",
                self.limit
            )));
        }
        self.charge.grow((all as usize).saturating_sub(self.charge.bytes()))
    }

    /// [`StringsOut::check_space`] for `bytes`, and memory for them all and for `more` at once.
    pub(super) fn reserve(&mut self, bytes: u64, more: usize) -> Result<()> {
        self.check_space(bytes)?;
        self.data.reserve(bytes as usize + more);
        Ok(())
    }

    /// Appends the ends of values of these lengths, whose bytes come next. The caller has checked
    /// their sum.
    pub(super) fn push_ends(&mut self, lengths: &[u32]) {
        let mut end = self.data.len() as u32;
        self.ends.extend(lengths.iter().map(|&length| {
            end = end.wrapping_add(length);
            end
        }));
    }

    /// Appends the ends of `values` values of `length` bytes each, whose bytes come next.
    pub(super) fn push_equal_ends(&mut self, length: usize, values: usize) {
        let first = self.data.len() + length;
        self.ends.extend((0..values).map(|i| (first + i * length) as u32));
    }
}

/// Appends `values` to the sink under the smallest encoding that the options allow. Refuses values
/// that one block cannot hold.
pub fn encode(values: &[&[u8]], options: &Options, sink: &mut Sink) -> Result<()> {
    check_sizes(values)?;
    if matches!(options.force, None | Some(Encoding::Constant)) && is_constant(values) {
        sink.head().u8(Encoding::Constant as u8);
        sink.head().blob(values.first().copied().unwrap_or_default());
        return Ok(());
    }
    let forced = options.force.and_then(|encoding| StringEncoder::new(encoding, values, values));
    forced.unwrap_or_else(|| choose(values, options)).encode(values, options, sink);
    Ok(())
}

fn is_constant(values: &[&[u8]]) -> bool {
    values.first().is_some_and(|first| values.iter().all(|v| v == first))
}

/// Refuses values, vectors and blocks that are too large for their length fields.
fn check_sizes(values: &[&[u8]]) -> Result<()> {
    let mut total = 0u64;
    for vector in values.chunks(VECTOR) {
        let longest = vector.iter().map(|v| v.len()).max().unwrap_or(0);
        let bytes: u64 = vector.iter().map(|v| v.len() as u64).sum();
        total += bytes;
        let refuse = |what: &str, bytes: u64, most: u64| {
            Err(Error::LimitExceeded(format!(
                "{what} of {bytes} bytes; at most {most} can be stored"
            )))
        };
        if longest > MAX_VALUE_BYTES {
            return refuse("a value", longest as u64, MAX_VALUE_BYTES as u64);
        }
        if bytes > MAX_CHUNK_BYTES as u64 {
            return refuse("1,024 neighbouring values", bytes, MAX_CHUNK_BYTES as u64);
        }
        if total > u64::from(u32::MAX) {
            return refuse("a block of strings", total, u64::from(u32::MAX));
        }
    }
    Ok(())
}

impl<'a> Strings<'a> {
    /// Parses the stream of `rows` values at the source's position.
    pub fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        match Encoding::from_u8(source.cursor.u8()?)? {
            Encoding::Plain => Ok(Strings::Plain(Plain::parse(source, rows)?)),
            Encoding::Constant => {
                Ok(Strings::Constant { rows, value: source.cursor.blob(MAX_VALUE_BYTES)? })
            }
            Encoding::Fsst => Ok(Strings::Fsst(Fsst::parse(source, rows)?)),
            Encoding::Packed => Ok(Strings::Packed(Packed::parse(source, rows)?)),
            Encoding::Hexadecimal => Ok(Strings::Hexadecimal(Hexadecimal::parse(source, rows)?)),
            Encoding::Front => Ok(Strings::Front(Front::parse(source, rows)?)),
            other => Err(source.cursor.corrupt(format!("{} cannot hold strings", other.name()))),
        }
    }

    /// How many values the stream has.
    pub fn rows(&self) -> usize {
        match self {
            Strings::Plain(plain) => plain.rows(),
            Strings::Fsst(fsst) => fsst.rows(),
            Strings::Packed(packed) => packed.rows(),
            Strings::Hexadecimal(hexadecimal) => hexadecimal.rows(),
            Strings::Front(front) => front.rows(),
            Strings::Constant { rows, .. } => *rows,
        }
    }

    /// Whether a value can be read without decoding those before it in its vector.
    pub(crate) fn is_light(&self) -> bool {
        match self {
            Strings::Constant { .. } | Strings::Packed(_) | Strings::Hexadecimal(_) => true,
            Strings::Plain(_) | Strings::Fsst(_) | Strings::Front(_) => false,
        }
    }

    /// The encoding at the top.
    pub fn encoding(&self) -> Encoding {
        match self {
            Strings::Plain(_) => Encoding::Plain,
            Strings::Constant { .. } => Encoding::Constant,
            Strings::Fsst(_) => Encoding::Fsst,
            Strings::Packed(_) => Encoding::Packed,
            Strings::Hexadecimal(_) => Encoding::Hexadecimal,
            Strings::Front(_) => Encoding::Front,
        }
    }

    /// Appends the values of `rows` (whose start is a multiple of [`VECTOR`]) to `out`. An error
    /// leaves `out` as it was.
    pub fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        check_range(&rows, self.rows())?;
        if !rows.start.is_multiple_of(VECTOR) {
            return Err(Error::InvalidInput(format!("row {} does not start a vector", rows.start)));
        }
        let (bytes, values) = (out.data.len(), out.ends.len());
        let result = self.decode_unchecked(rows, out);
        if result.is_err() {
            out.data.truncate(bytes);
            out.ends.truncate(values);
        }
        result
    }

    fn decode_unchecked(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        match self {
            Strings::Plain(plain) => plain.decode(rows, out),
            Strings::Fsst(fsst) => fsst.decode(rows, out),
            Strings::Packed(packed) => packed.decode(rows, out),
            Strings::Hexadecimal(hexadecimal) => hexadecimal.decode(rows, out),
            Strings::Front(front) => front.decode(rows, out),
            Strings::Constant { value, .. } => {
                let total = value.len() as u64 * rows.len() as u64;
                out.check_space(total)?;
                out.push_equal_ends(value.len(), rows.len());
                out.data.reserve(total as usize);
                rows.for_each(|_| out.data.extend_from_slice(value));
                Ok(())
            }
        }
    }

    /// Appends the lengths in bytes of the values of `rows` (whose start is a multiple of
    /// [`VECTOR`]), where they are stored beside the values; else nothing, and false.
    pub(crate) fn lengths(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<bool> {
        check_range(&rows, self.rows())?;
        match self {
            Strings::Plain(plain) => plain.lengths(rows, out)?,
            Strings::Fsst(fsst) => fsst.lengths(rows, out)?,
            Strings::Constant { value, .. } => {
                out.resize(out.len() + rows.len(), value.len() as u32);
            }
            Strings::Front(front) => return front.lengths(rows, out),
            Strings::Packed(_) | Strings::Hexadecimal(_) => return Ok(false),
        }
        Ok(true)
    }

    /// The value of one row; decodes at most one vector.
    pub fn get(&self, row: usize) -> Result<Vec<u8>> {
        check_range(&(row..row.saturating_add(1)), self.rows())?;
        match self {
            Strings::Plain(plain) => plain.get(row),
            Strings::Fsst(fsst) => fsst.get(row),
            Strings::Packed(packed) => packed.get(row),
            Strings::Hexadecimal(hexadecimal) => hexadecimal.get(row),
            Strings::Front(front) => front.get(row),
            Strings::Constant { value, .. } => Ok(value.to_vec()),
        }
    }

    /// Appends a short description for `sty inspect`, such as `fsst(frame 5 bit)`.
    pub fn describe(&self, out: &mut String) {
        match self {
            Strings::Plain(plain) => plain.describe(out),
            Strings::Fsst(fsst) => fsst.describe(out),
            Strings::Packed(packed) => packed.describe(out),
            Strings::Hexadecimal(hexadecimal) => hexadecimal.describe(out),
            Strings::Front(front) => front.describe(out),
            Strings::Constant { .. } => out.push_str("constant"),
        }
    }
}

fn check_range(rows: &Range<usize>, all: usize) -> Result<()> {
    if rows.start > rows.end || rows.end > all {
        return Err(Error::InvalidInput(format!(
            "rows {}..{} of a stream of {all}",
            rows.start, rows.end
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "strings_tests.rs"]
mod tests;
