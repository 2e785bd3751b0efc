//! Byte strings of varying length, as plain, FSST and packed strings store them: a stream of
//! lengths, the offset at which each vector's bytes start, and the bytes themselves, cut into
//! chunks at vector boundaries.
//!
//! Lengths are those of the decoded values. They are not trusted: a decoder compares the sum of a
//! vector's lengths with the bytes that it decoded.

use std::ops::Range;

use super::ints::{self, Ints};
use super::{Buffer, Compression, Cuts, Options, Sink, Source};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::limits::{MAX_CHUNK_BYTES, MAX_VALUE_BYTES, VECTOR};

/// The reading end.
#[derive(Debug)]
pub(super) struct Ragged<'a> {
    rows: usize,
    lengths: Ints<'a, u32>,
    starts: Ints<'a, u32>,
    data: Buffer<'a>,
}

/// A vector, or its first rows, as a decoder sees it.
pub(super) struct Vector<'b> {
    /// The lengths of the requested values.
    pub(super) lengths: &'b [u32],
    /// Their sum.
    pub(super) total: u64,
    /// The sum of these and of all that follow.
    pub(super) rest: u64,
    /// The bytes of the whole vector.
    pub(super) bytes: &'b [u8],
    /// Whether all values of the vector are requested, so that all its bytes must be used.
    pub(super) whole: bool,
}

impl Vector<'_> {
    /// The error for lengths that disagree with the bytes.
    pub(super) fn mismatch() -> Error {
        Error::corrupt(0, "string lengths do not fit their bytes")
    }
}

/// Refuses a vector whose values or bytes are longer than a writer allows.
fn check(lengths: &[u32], total: u64, bytes: &Range<usize>) -> Result<()> {
    let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
    if longest > MAX_VALUE_BYTES || total > MAX_CHUNK_BYTES as u64 || bytes.len() > MAX_CHUNK_BYTES
    {
        let what = format!(
            "{total} bytes of strings, the longest of {longest}, stored in {}",
            bytes.len()
        );
        return Err(Error::corrupt(0, what));
    }
    Ok(())
}

/// Refuses bytes before those of the first vector.
fn check_first(start: Option<u32>) -> Result<()> {
    match start {
        None | Some(0) => Ok(()),
        Some(start) => {
            Err(Error::corrupt(0, format!("the first vector of strings starts at byte {start}")))
        }
    }
}

/// Appends the lengths of `values`, and `data`, in which vector `i` starts at `starts[i]`.
pub(super) fn encode(
    values: &[&[u8]],
    starts: &[u32],
    data: &[u8],
    compression: Compression,
    options: &Options,
    sink: &mut Sink,
) {
    let lengths: Vec<u32> = values.iter().map(|v| v.len() as u32).collect();
    ints::encode(&lengths, false, &options.child(), sink);
    ints::encode(starts, false, &options.child(), sink);
    sink.buffer(data, Cuts::At(starts), compression, options);
}

impl<'a> Ragged<'a> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let lengths = source.child(|s| Ints::parse(s, rows))?;
        let starts = source.child(|s| Ints::parse(s, rows.div_ceil(VECTOR)))?;
        let data = source.buffer()?;
        Ok(Ragged { rows, lengths, starts, data })
    }

    /// What decoding is charged to.
    pub(super) fn budget(&self) -> &'a Budget {
        self.data.budget()
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends the lengths in bytes of some values, without a look at them.
    pub(super) fn lengths(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        self.lengths.decode(rows, out)
    }

    /// Calls `f` with each vector of `rows`, in order.
    pub(super) fn vectors(
        &self,
        rows: Range<usize>,
        mut f: impl FnMut(Vector<'_>) -> Result<()>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut lengths = Vec::with_capacity(rows.len());
        self.lengths.decode(rows.clone(), &mut lengths)?;
        let mut starts = Vec::with_capacity(self.starts.rows());
        self.starts.decode(0..self.starts.rows(), &mut starts)?;
        check_first(starts.first().copied())?;
        let mut rest: u64 = lengths.iter().map(|&l| u64::from(l)).sum();
        for (lengths, vector) in lengths.chunks(VECTOR).zip(rows.start / VECTOR..) {
            let last_row = vector * VECTOR + lengths.len();
            let start = starts.get(vector).map_or(0, |&s| s as usize);
            let end = starts.get(vector + 1).map_or(self.data.len(), |&s| s as usize);
            let total = lengths.iter().map(|&l| u64::from(l)).sum();
            check(lengths, total, &(start..end))?;
            f(Vector {
                lengths,
                total,
                rest,
                bytes: &self.data.range(start..end)?,
                whole: lengths.len() == VECTOR || last_row == self.rows,
            })?;
            rest -= total;
        }
        Ok(())
    }

    /// The range of `row`'s value in the decoded bytes of its vector, and the stored bytes of that
    /// vector.
    pub(super) fn locate(&self, row: usize) -> Result<(Range<usize>, std::borrow::Cow<'_, [u8]>)> {
        let vector = row / VECTOR;
        let mut lengths = Vec::with_capacity(row % VECTOR + 1);
        self.lengths.decode(vector * VECTOR..row + 1, &mut lengths)?;
        let end: u64 = lengths.iter().map(|&l| u64::from(l)).sum();
        let start = end - lengths.last().map_or(0, |&l| u64::from(l));
        let first = self.starts.get(vector)? as usize;
        if vector == 0 {
            check_first(Some(first as u32))?;
        }
        let behind = if vector + 1 < self.starts.rows() {
            self.starts.get(vector + 1)? as usize
        } else {
            self.data.len()
        };
        check(&lengths, end, &(first..behind))?;
        Ok((start as usize..end as usize, self.data.range(first..behind)?))
    }

    /// Appends a short description, such as `lengths constant, lz4`.
    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("lengths ");
        self.lengths.describe(out);
        if self.data.codec_name() != "none" {
            out.push_str(", ");
            out.push_str(self.data.codec_name());
        }
    }
}
