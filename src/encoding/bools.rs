//! Booleans and validity: constant, run ends, or one bit per row.
//!
//! ```text
//! constant:   │ 1 │ value u8 │
//! run-length: │ 2 │ first value u8 │ runs u32 │ ends: stream of u32 │      values alternate
//! bitmap:     │ 13 │ buffer: one bit per row, low bit first │
//! ```

use std::cell::OnceCell;
use std::ops::Range;

use arrow_buffer::BooleanBuffer;

use super::{Buffer, Compression, Cuts, Encoding, Ints, Options, Sink, Source, ints, run_length};
use crate::budget::{Budget, Charge};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// An encoded stream of booleans, borrowing the block's bytes.
#[derive(Debug)]
pub enum Bools<'a> {
    /// One value for all rows.
    Constant {
        /// Rows of the stream.
        rows: usize,
        /// Their value.
        value: bool,
    },
    /// Alternating runs.
    Runs {
        /// Rows of the stream.
        rows: usize,
        /// The value of the first run.
        first: bool,
        /// Where runs end (exclusive), ascending up to the number of rows.
        ends: Ints<'a, u32>,
        /// The ends, once decoded.
        decoded: OnceCell<(Vec<u32>, Charge)>,
        /// What they are charged to.
        budget: &'a Budget,
    },
    /// One bit per row.
    Bitmap {
        /// Rows of the stream.
        rows: usize,
        /// The bits, low bit first.
        bits: Buffer<'a>,
    },
}

/// Appends `values` to the sink under the smallest encoding.
pub fn encode(values: &BooleanBuffer, options: &Options, sink: &mut Sink) {
    let (rows, ones) = (values.len(), values.count_set_bits());
    if ones == 0 || ones == rows {
        sink.head().u8(Encoding::Constant as u8);
        return sink.head().u8(u8::from(ones > 0));
    }
    let forced = options.force;
    let ends = run_ends(values);
    let runs = ends.len() as f64;
    let plausible = runs * (1.0 + (rows as f64 / runs).log2()) < rows as f64;
    if forced == Some(Encoding::RunLength) || (plausible && forced.is_none()) {
        let start = sink.mark();
        sink.head().u8(Encoding::RunLength as u8);
        sink.head().u8(u8::from(values.value(0)));
        sink.head().count(ends.len());
        ints::encode(&ends, false, &options.child(), sink);
        if forced.is_some() || sink.bytes_since(start) < rows / 8 + 32 {
            return;
        }
        sink.rollback(start);
    }
    sink.head().u8(Encoding::Bitmap as u8);
    let mut bytes = values.sliced().as_slice().to_vec();
    bytes.truncate(rows.div_ceil(8));
    if let (Some(last), true) = (bytes.last_mut(), rows % 8 > 0) {
        *last &= (1 << (rows % 8)) - 1;
    }
    let compression = if options.heavy { Compression::Entropy } else { Compression::Packed };
    sink.buffer(&bytes, Cuts::Every(VECTOR / 8), compression, options);
}

/// Exclusive ends of the runs of equal values.
fn run_ends(values: &BooleanBuffer) -> Vec<u32> {
    let rows = values.len();
    let first = !values.is_empty() && values.value(0);
    let mut ends = Vec::new();
    let mut last = if first { u64::MAX } else { 0 };
    let mut base = 0;
    for word in values.bit_chunks().iter_padded() {
        // A bit is set where a row differs from the one before it.
        let mut changes = word ^ (word << 1 | last >> 63);
        while changes != 0 {
            let at = base + changes.trailing_zeros() as usize;
            if at < rows {
                ends.push(at as u32);
            }
            changes &= changes - 1;
        }
        last = word;
        base += 64;
    }
    ends.push(rows as u32);
    ends
}

impl<'a> Bools<'a> {
    /// Parses the stream of `rows` values at the source's position.
    pub fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        match Encoding::from_u8(source.cursor.u8()?)? {
            Encoding::Constant => Ok(Bools::Constant { rows, value: flag(source)? }),
            Encoding::RunLength => {
                let first = flag(source)?;
                let runs = source.cursor.u32()? as usize;
                if runs > rows {
                    return Err(source.cursor.corrupt(format!("{runs} runs in {rows} rows")));
                }
                // The decoded ends are kept in addition to what the stream itself keeps.
                source.count_words(runs, size_of::<u32>())?;
                let ends = source.child(|source| Ints::parse(source, runs))?;
                let budget = source.budget();
                Ok(Bools::Runs { rows, first, ends, decoded: OnceCell::new(), budget })
            }
            Encoding::Bitmap => {
                let bits = source.buffer()?;
                if bits.len() != rows.div_ceil(8) {
                    return Err(source.cursor.corrupt("bitmap has the wrong length"));
                }
                Ok(Bools::Bitmap { rows, bits })
            }
            other => Err(source.cursor.corrupt(format!("{} cannot hold booleans", other.name()))),
        }
    }

    /// How many values the stream has.
    pub fn rows(&self) -> usize {
        match self {
            Bools::Constant { rows, .. }
            | Bools::Runs { rows, .. }
            | Bools::Bitmap { rows, .. } => *rows,
        }
    }

    /// The encoding at the top.
    pub fn encoding(&self) -> Encoding {
        match self {
            Bools::Constant { .. } => Encoding::Constant,
            Bools::Runs { .. } => Encoding::RunLength,
            Bools::Bitmap { .. } => Encoding::Bitmap,
        }
    }

    /// The values of `rows`.
    pub fn decode(&self, rows: Range<usize>) -> Result<BooleanBuffer> {
        ints::check_range(&rows, self.rows())?;
        match self {
            Bools::Constant { value: true, .. } => Ok(BooleanBuffer::new_set(rows.len())),
            Bools::Constant { value: false, .. } => Ok(BooleanBuffer::new_unset(rows.len())),
            Bools::Runs { rows: all, first, ends, decoded, budget } => {
                let len = rows.len();
                let mut words = vec![u64::MAX; len.div_ceil(64)];
                let ends = decoded_ends(*all, ends, decoded, budget)?;
                each_run(*first, ends, rows, |run, value| {
                    if !value {
                        clear(&mut words, run);
                    }
                })?;
                Ok(BooleanBuffer::new(words.into(), 0, len))
            }
            Bools::Bitmap { bits, .. } => {
                let bytes = bits.range(rows.start / 8..rows.end.div_ceil(8))?;
                Ok(BooleanBuffer::new(bytes.into_owned().into(), rows.start % 8, rows.len()))
            }
        }
    }

    /// Calls `found` with every range of indices in `rows` whose values are false, in ascending
    /// order.
    pub fn each_unset(
        &self,
        rows: Range<usize>,
        mut found: impl FnMut(Range<usize>),
    ) -> Result<()> {
        ints::check_range(&rows, self.rows())?;
        match self {
            Bools::Constant { value: true, .. } => {}
            Bools::Constant { value: false, .. } => found(0..rows.len()),
            Bools::Runs { rows: all, first, ends, decoded, budget } => {
                let ends = decoded_ends(*all, ends, decoded, budget)?;
                each_run(*first, ends, rows, |run, value| {
                    if !value {
                        found(run);
                    }
                })?;
            }
            Bools::Bitmap { .. } => {
                let values = self.decode(rows)?;
                for (start, bits) in
                    (0..values.len()).step_by(64).zip(values.bit_chunks().iter_padded())
                {
                    let mut unset = !bits & (u64::MAX >> (64 - (values.len() - start).min(64)));
                    while unset != 0 {
                        let at = start + unset.trailing_zeros() as usize;
                        found(at..at + 1);
                        unset &= unset - 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// The value of one row.
    pub fn get(&self, row: usize) -> Result<bool> {
        ints::check_range(&(row..row.saturating_add(1)), self.rows())?;
        match self {
            Bools::Constant { value, .. } => Ok(*value),
            Bools::Runs { rows: all, first, ends, decoded, budget } => {
                let before = decoded_ends(*all, ends, decoded, budget)?
                    .partition_point(|end| *end as usize <= row);
                Ok(*first ^ (before % 2 == 1))
            }
            Bools::Bitmap { bits, .. } => {
                let byte = bits.range(row / 8..row / 8 + 1)?;
                Ok(byte.first().is_some_and(|byte| byte >> (row % 8) & 1 == 1))
            }
        }
    }

    /// Appends a short description for `sty inspect`.
    pub fn describe(&self, out: &mut String) {
        out.push_str(self.encoding().name());
        if let Bools::Runs { ends, .. } = self {
            out.push('(');
            ends.describe(out);
            out.push(')');
        }
    }
}

fn flag(source: &mut Source<'_>) -> Result<bool> {
    match source.cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(source.cursor.corrupt(format!("boolean of value {other}"))),
    }
}

fn decoded_ends<'c>(
    rows: usize,
    ends: &Ints<'_, u32>,
    decoded: &'c OnceCell<(Vec<u32>, Charge)>,
    budget: &Budget,
) -> Result<&'c [u32]> {
    if decoded.get().is_none() {
        let charge = budget.charge(ends.rows() * size_of::<u32>())?;
        let mut all = Vec::new();
        ends.decode(0..ends.rows(), &mut all)?;
        run_length::check_ends(&all, rows)?;
        let _ = decoded.set((all, charge));
    }
    Ok(decoded.get().map_or(&[], |(all, _)| all))
}

/// Packs a mask of bytes that are 0 or 1 into bits.
pub(crate) fn from_mask(mask: &[u8]) -> BooleanBuffer {
    let mut bits = Vec::with_capacity(mask.len().div_ceil(8));
    let (eights, rest) = mask.as_chunks::<8>();
    // The multiplication collects the lowest bit of each byte in the top byte.
    let byte = |eight: &[u8; 8]| {
        (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    };
    bits.extend(eights.iter().map(byte));
    let mut last = [0; 8];
    for (slot, byte) in last.iter_mut().zip(rest) {
        *slot = *byte;
    }
    bits.push(byte(&last));
    BooleanBuffer::new(bits.into(), 0, mask.len())
}

/// Sets a range of bits to 0.
fn clear(words: &mut [u64], bits: Range<usize>) {
    let mut at = bits.start;
    while at < bits.end {
        let upto = bits.end.min(at / 64 * 64 + 64);
        let mask = u64::MAX >> (64 - (upto - at)) << (at % 64);
        if let Some(word) = words.get_mut(at / 64) {
            *word &= !mask;
        }
        at = upto;
    }
}

/// Calls `found` with the range of indices in `rows` and the value of each run; fails unless the
/// runs cover the rows.
fn each_run(
    first: bool,
    ends: &[u32],
    rows: Range<usize>,
    mut found: impl FnMut(Range<usize>, bool),
) -> Result<()> {
    let mut at = rows.start;
    let skipped = ends.partition_point(|&end| end as usize <= at);
    let mut value = first ^ (skipped % 2 == 1);
    for &end in ends.iter().skip(skipped) {
        let end = (end as usize).min(rows.end);
        if at >= rows.end {
            break;
        }
        if end <= at {
            return Err(Error::corrupt(0, "run ends are not ascending"));
        }
        found(at - rows.start..end - rows.start, value);
        (at, value) = (end, !value);
    }
    if at == rows.end { Ok(()) } else { Err(Error::corrupt(0, "runs end before the rows do")) }
}

#[cfg(test)]
#[path = "bools_tests.rs"]
mod tests;
