//! Front coding: how many bytes each value has in common with the one before it, and the bytes
//! after these. For the values of a dictionary, which are sorted, and any column that is (Witten,
//! Moffat, Bell: *Managing Gigabytes*, 1999).
//!
//! ```text
//! prefix lengths, a stream of u32 · suffixes, a stream of byte strings that is not front-coded
//! ```
//!
//! It starts again at each vector, whose first prefix length is 0.

use std::ops::Range;

use super::ints::{self, Ints};
use super::strings::{Strings, StringsOut};
use super::strings_choice::StringEncoder;
use super::{Encoding, Options, Sink, Source};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::limits::{MAX_CHUNK_BYTES, MAX_VALUE_BYTES, VECTOR};

/// Common prefixes are worth a stream of their lengths where they are this share of the bytes.
const WORTH: f64 = 0.125;

/// An encoded stream.
#[derive(Debug)]
pub struct Front<'a> {
    prefixes: Ints<'a, u32>,
    suffixes: Box<Strings<'a>>,
    budget: &'a Budget,
}

/// Splits each value into the length of the prefix that it shares with the value before it in its
/// vector, and the bytes after that prefix.
pub(super) fn split<'v>(values: &[&'v [u8]]) -> (Vec<u32>, Vec<&'v [u8]>) {
    let (mut prefixes, mut suffixes) = (Vec::new(), Vec::new());
    for vector in values.chunks(VECTOR) {
        let mut last: &[u8] = &[];
        for value in vector {
            let common = common_prefix(last, value);
            prefixes.push(common as u32);
            suffixes.push(&value[common..]);
            last = value;
        }
    }
    (prefixes, suffixes)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let mut common = 0;
    for (a, b) in a_words.iter().zip(b_words) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return common + differ.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let rest = a[common..].iter().zip(&b[common..]);
    common + rest.take_while(|(a, b)| a == b).count()
}

/// Whether shared prefixes are long enough to try front coding.
pub(super) fn may_pay(prefixes: &[u32], values: &[&[u8]]) -> bool {
    let common: u64 = prefixes.iter().map(|prefix| u64::from(*prefix)).sum();
    let all: u64 = values.iter().map(|value| value.len() as u64).sum();
    common as f64 >= all as f64 * WORTH && common > 0
}

/// Appends `values`, their suffixes by an encoder for such.
pub(super) fn encode(inner: &StringEncoder, values: &[&[u8]], options: &Options, sink: &mut Sink) {
    let (prefixes, suffixes) = split(values);
    sink.head().u8(Encoding::Front as u8);
    ints::encode(&prefixes, false, &options.child(), sink);
    inner.encode(&suffixes, options, sink);
}

impl<'a> Front<'a> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let prefixes = source.child(|source| Ints::parse(source, rows))?;
        let suffixes = source.child(|source| Strings::parse(source, rows))?;
        if let Strings::Front(_) = suffixes {
            return Err(source.cursor.corrupt("the suffixes of front coding are front-coded"));
        }
        Ok(Front { prefixes, suffixes: Box::new(suffixes), budget: source.budget() })
    }

    pub(super) fn rows(&self) -> usize {
        self.prefixes.rows()
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        let mut prefixes = Vec::with_capacity(rows.len());
        self.prefixes.decode(rows.clone(), &mut prefixes)?;
        let mut suffixes = StringsOut::new();
        suffixes.charge_to(self.budget)?;
        for (vector, start) in prefixes.chunks(VECTOR).zip(rows.step_by(VECTOR)) {
            suffixes.clear();
            self.suffixes.decode(start..start + vector.len(), &mut suffixes)?;
            join(vector, &suffixes, out)?;
        }
        Ok(())
    }

    /// Appends the lengths of values; false, with nothing done, where those of suffixes are not
    /// known.
    pub(super) fn lengths(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<bool> {
        let start = out.len();
        if !self.suffixes.lengths(rows.clone(), out)? {
            return Ok(false);
        }
        let mut prefixes = Vec::with_capacity(rows.len());
        self.prefixes.decode(rows, &mut prefixes)?;
        for (length, prefix) in out.iter_mut().skip(start).zip(prefixes) {
            *length = length.saturating_add(prefix);
        }
        Ok(true)
    }

    /// All values before it in its vector are decoded with it.
    pub(super) fn get(&self, row: usize) -> Result<Vec<u8>> {
        let mut values = StringsOut::new();
        values.charge_to(self.budget)?;
        self.decode(row / VECTOR * VECTOR..row + 1, &mut values)?;
        Ok(values.value(row % VECTOR).to_vec())
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("front(");
        self.prefixes.describe(out);
        out.push_str(", ");
        self.suffixes.describe(out);
        out.push(')');
    }
}

/// Appends the values of a vector, or of its first rows.
fn join(prefixes: &[u32], suffixes: &StringsOut, out: &mut StringsOut) -> Result<()> {
    let common: u64 = prefixes.iter().map(|prefix| u64::from(*prefix)).sum();
    let bytes = common + suffixes.data.len() as u64;
    if bytes > MAX_CHUNK_BYTES as u64 {
        return Err(Error::corrupt(0, format!("{bytes} bytes of front-coded strings in a vector")));
    }
    out.reserve(bytes, 0)?;
    let (mut start, mut length) = (out.data.len(), 0);
    for (row, prefix) in prefixes.iter().enumerate() {
        let (prefix, suffix) = (*prefix as usize, suffixes.value(row));
        if prefix > length || prefix + suffix.len() > MAX_VALUE_BYTES {
            let what = format!("a common prefix of {prefix} bytes after a string of {length}");
            return Err(Error::corrupt(0, what));
        }
        let next = out.data.len();
        out.data.extend_from_within(start..start + prefix);
        out.data.extend_from_slice(suffix);
        (start, length) = (next, prefix + suffix.len());
        out.ends.push(out.data.len() as u32);
    }
    Ok(())
}
