//! 128-bit decimals as streams of 64-bit words.
//!
//! ```text
//! │ 0 │ words: signed │                      every value fits 64 bits
//! │ 1 │ low words: unsigned │ high words: signed │
//! ```
//!
//! Nearly all decimals in practice fit 64 bits, and then cost no more than integers.

use std::ops::Range;

use super::{Ints, Options, Sink, Source, ints};
use crate::error::{Error, Result};

const NARROW: u8 = 0;
const SPLIT: u8 = 1;

/// An encoded stream of 128-bit values, borrowing the block's bytes.
#[derive(Debug)]
pub struct Wide<'a> {
    low: Ints<'a, u64>,
    /// Absent when every value is its low word, sign-extended.
    high: Option<Ints<'a, u64>>,
}

/// Appends `values` to the sink.
pub fn encode(values: &[i128], options: &Options, sink: &mut Sink) {
    let low: Vec<u64> = values.iter().map(|&v| v as u64).collect();
    if values.iter().all(|&v| i64::try_from(v).is_ok()) {
        sink.head().u8(NARROW);
        return ints::encode(&low, true, options, sink);
    }
    let high: Vec<u64> = values.iter().map(|&v| (v >> 64) as u64).collect();
    sink.head().u8(SPLIT);
    ints::encode(&low, false, options, sink);
    ints::encode(&high, true, options, sink);
}

fn join(low: u64, high: u64) -> i128 {
    i128::from(high as i64) << 64 | i128::from(low)
}

impl<'a> Wide<'a> {
    /// Parses the stream of `rows` values at the source's position.
    pub fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let kind = source.cursor.u8()?;
        if kind > SPLIT {
            return Err(Error::Unsupported(format!(
                "128-bit stream of kind {kind}, from a newer version?"
            )));
        }
        let low = source.child(|source| Ints::parse(source, rows))?;
        let high = if kind == SPLIT {
            Some(source.child(|source| Ints::parse(source, rows))?)
        } else {
            None
        };
        Ok(Wide { low, high })
    }

    /// The values as 64-bit integers, if all are stored so.
    pub(crate) fn words(&self) -> Option<&Ints<'a, u64>> {
        self.high.is_none().then_some(&self.low)
    }

    /// How many values the stream has.
    pub fn rows(&self) -> usize {
        self.low.rows()
    }

    /// Appends the values of `rows` (whose start is a multiple of
    /// [`VECTOR`](crate::limits::VECTOR)) to `out`.
    pub fn decode(&self, rows: Range<usize>, out: &mut Vec<i128>) -> Result<()> {
        let mut low = Vec::with_capacity(rows.len().min(self.rows()));
        self.low.decode(rows.clone(), &mut low)?;
        let Some(high) = &self.high else {
            out.extend(low.iter().map(|&low| i128::from(low as i64)));
            return Ok(());
        };
        let mut highs = Vec::with_capacity(low.len());
        high.decode(rows, &mut highs)?;
        out.extend(low.iter().zip(&highs).map(|(&low, &high)| join(low, high)));
        Ok(())
    }

    /// The value of one row.
    pub fn get(&self, row: usize) -> Result<i128> {
        let low = self.low.get(row)?;
        match &self.high {
            Some(high) => Ok(join(low, high.get(row)?)),
            None => Ok(i128::from(low as i64)),
        }
    }

    /// Appends a short description for `sty inspect`.
    pub fn describe(&self, out: &mut String) {
        out.push_str("wide(");
        self.low.describe(out);
        if let Some(high) = &self.high {
            out.push_str(", ");
            high.describe(out);
        }
        out.push(')');
    }
}

#[cfg(test)]
#[path = "wide_tests.rs"]
mod tests;
