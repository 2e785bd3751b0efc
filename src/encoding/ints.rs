//! Streams of integers: the closed set of their encodings. The choice among them is in `choose.rs`,
//! each encoding in the file of its name.

use std::ops::Range;

use super::choose::{self, Scope};
use super::constant::Constant;
use super::delta::Delta;
use super::frame::Frame;
use super::plain::Plain;
use super::planes::{MANY_SINGLES, Planes};
use super::run_length::RunLength;
use super::sequence::Sequence;
use super::word::limits;
use super::{Encoding, Options, Sink, Source, Word};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// An encoded stream of integers, borrowing the block's bytes.
#[derive(Debug)]
pub enum Ints<'a, W: Word> {
    /// Values as in memory.
    Plain(Plain<'a>),
    /// One value for all rows.
    Constant(Constant<W>),
    /// Run ends and run values.
    RunLength(Box<RunLength<'a, W>>),
    /// `first + step · row`.
    Sequence(Sequence<W>),
    /// `base + factor · code`.
    Frame(Box<Frame<'a, W>>),
    /// Differences of neighbours.
    Delta(Box<Delta<'a, W>>),
    /// Byte planes of codes.
    Planes(Box<Planes<'a, W>>),
}

/// Appends `values` to the sink under the smallest encoding that the options allow. `signed` says
/// how values compare.
pub fn encode<W: Word>(values: &[W], signed: bool, options: &Options, sink: &mut Sink) {
    choose::encode(values, signed, Scope::top(options), sink);
}

impl<'a, W: Word> Ints<'a, W> {
    /// Parses the stream of `rows` values at the source's position.
    pub fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        source.count_words(rows, W::BYTES)?;
        Ok(match Encoding::from_u8(source.cursor.u8()?)? {
            Encoding::Plain => Ints::Plain(Plain::parse::<W>(source, rows)?),
            Encoding::Constant => Ints::Constant(Constant::parse(source, rows)?),
            Encoding::RunLength => Ints::RunLength(Box::new(RunLength::parse(source, rows)?)),
            Encoding::Sequence => Ints::Sequence(Sequence::parse(source, rows)?),
            Encoding::Frame => Ints::Frame(Box::new(Frame::parse(source, rows)?)),
            Encoding::Delta => Ints::Delta(Box::new(Delta::parse(source, rows)?)),
            Encoding::Planes => Ints::Planes(Box::new(Planes::parse(source, rows)?)),
            other => {
                return Err(source
                    .cursor
                    .corrupt(format!("{} cannot hold integers", other.name())));
            }
        })
    }

    /// How many values the stream has.
    pub fn rows(&self) -> usize {
        match self {
            Ints::Plain(stream) => stream.rows(),
            Ints::Constant(stream) => stream.rows(),
            Ints::RunLength(stream) => stream.rows(),
            Ints::Sequence(stream) => stream.rows(),
            Ints::Frame(stream) => stream.rows(),
            Ints::Delta(stream) => stream.rows(),
            Ints::Planes(stream) => stream.rows(),
        }
    }

    /// The encoding at the top.
    pub fn encoding(&self) -> Encoding {
        match self {
            Ints::Plain(_) => Encoding::Plain,
            Ints::Constant(_) => Encoding::Constant,
            Ints::RunLength(_) => Encoding::RunLength,
            Ints::Sequence(_) => Encoding::Sequence,
            Ints::Frame(_) => Encoding::Frame,
            Ints::Delta(_) => Encoding::Delta,
            Ints::Planes(_) => Encoding::Planes,
        }
    }

    /// Appends the values of `rows` (whose start is a multiple of
    /// [`VECTOR`](crate::limits::VECTOR)) to `out`.
    pub fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        check_range(&rows, self.rows())?;
        if !rows.start.is_multiple_of(crate::limits::VECTOR) {
            return Err(Error::InvalidInput(format!(
                "row {} is not the start of a vector",
                rows.start
            )));
        }
        if rows.is_empty() {
            return Ok(());
        }
        match self {
            Ints::Plain(stream) => stream.decode(rows, out),
            Ints::Constant(stream) => {
                out.resize(out.len() + rows.len(), stream.value());
                Ok(())
            }
            Ints::RunLength(stream) => stream.decode(rows, out),
            Ints::Sequence(stream) => {
                stream.decode(rows, out);
                Ok(())
            }
            Ints::Frame(stream) => stream.decode(rows, out),
            Ints::Delta(stream) => stream.decode(rows, out),
            Ints::Planes(stream) => stream.decode(rows, out),
        }
    }

    /// Appends `value - bias` of `rows` (whose start is a multiple of
    /// [`VECTOR`](crate::limits::VECTOR)) as words of another width: exact where the differences
    /// fit that width, else modulo 2^BITS. `signed` says how values are extended where `N` is
    /// wider.
    ///
    /// This is for keys and ranges: a column whose values span a few hundred decodes to bytes.
    pub fn decode_narrow<N: Word>(
        &self,
        rows: Range<usize>,
        bias: u64,
        signed: bool,
        out: &mut Vec<N>,
    ) -> Result<()> {
        check_range(&rows, self.rows())?;
        if !rows.start.is_multiple_of(crate::limits::VECTOR) {
            return Err(Error::InvalidInput(format!(
                "row {} is not the start of a vector",
                rows.start
            )));
        }
        let extend = |v: W| if signed { Word::to_i64(v) as u64 } else { Word::to_u64(v) };
        let narrow = |v: W| N::from_u64(extend(v).wrapping_sub(bias));
        match self {
            _ if rows.is_empty() => Ok(()),
            Ints::Constant(stream) => {
                out.resize(out.len() + rows.len(), narrow(stream.value()));
                Ok(())
            }
            Ints::RunLength(stream) => stream.decode_with(rows, out, narrow),
            Ints::Frame(stream) if N::BITS <= W::BITS => stream.decode_narrow(rows, bias, out),
            Ints::Delta(stream) if N::BITS <= W::BITS => stream.decode_narrow(rows, bias, out),
            Ints::Sequence(stream) => {
                out.extend(rows.map(|row| narrow(stream.value(row))));
                Ok(())
            }
            _ => {
                let mut wide = Vec::with_capacity(rows.len());
                self.decode(rows, &mut wide)?;
                out.extend(wide.into_iter().map(narrow));
                Ok(())
            }
        }
    }

    /// The value of one row.
    pub fn get(&self, row: usize) -> Result<W> {
        check_range(&(row..row.saturating_add(1)), self.rows())?;
        match self {
            Ints::Plain(stream) => stream.get(row),
            Ints::Constant(stream) => Ok(stream.value()),
            Ints::RunLength(stream) => stream.get(row),
            Ints::Sequence(stream) => Ok(stream.value(row)),
            Ints::Frame(stream) => stream.get(row),
            Ints::Delta(stream) => stream.get(row),
            Ints::Planes(stream) => stream.get(row),
        }
    }

    /// Appends the values of single rows, in ascending order.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<W>) -> Result<()> {
        let end = rows.last().map_or(0, |row| *row as usize + 1);
        check_range(&(0..end), self.rows())?;
        match self {
            Ints::Frame(stream) => stream.gather(rows, out),
            _ if self.is_light() || self.looks_up(rows.len()) => {
                for row in rows {
                    out.push(self.get(*row as usize)?);
                }
                Ok(())
            }
            _ => {
                let mut vector = Vec::with_capacity(VECTOR);
                for near in rows.chunk_by(|a, b| *a as usize / VECTOR == *b as usize / VECTOR) {
                    let start = near.first().map_or(0, |row| *row as usize / VECTOR * VECTOR);
                    let end = near.last().map_or(start, |row| *row as usize + 1);
                    vector.clear();
                    self.decode(start..end, &mut vector)?;
                    let value = |row: &u32| {
                        (*row as usize).checked_sub(start).and_then(|at| vector.get(at)).copied()
                    };
                    out.extend(near.iter().map(|row| value(row).unwrap_or_default()));
                }
                Ok(())
            }
        }
    }

    /// Whether few rows are looked up one by one though their values are not light.
    fn looks_up(&self, rows: usize) -> bool {
        matches!(self, Ints::Planes(_)) && rows <= MANY_SINGLES
    }

    /// About what decoding costs, as a multiple of unpacking; of runs, asking each of them.
    pub fn decoding_cost(&self) -> f64 {
        match self {
            Ints::RunLength(_) => 0.25,
            Ints::Planes(_) => 4.0,
            _ => 1.0,
        }
    }

    /// Bits of the packed codes on which [`Ints::select_range`] works.
    pub fn packed_bits(&self) -> Option<u32> {
        match self {
            Ints::Frame(stream) => Some(stream.width()),
            _ => None,
        }
    }

    /// Sets the mask for all rows to what `passes` says of their values, 0 or 1; with `refine`,
    /// rows whose mask is 0 stay 0. Returns false, and leaves the mask alone, where values are not
    /// stored as runs, so that each row would have to be asked for.
    pub fn select_runs(
        &self,
        rows: Range<usize>,
        refine: bool,
        mask: &mut [u8],
        passes: impl Fn(W) -> u8,
    ) -> Result<bool> {
        check_range(&rows, self.rows())?;
        match self {
            Ints::RunLength(stream) => {
                stream.select_runs(rows, refine, mask, passes).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Sets the mask to 1 for rows whose value lies from `low` to `high`, and to 0 for the others;
    /// with `refine`, only rows whose mask is 1 are tested. `signed` says how values compare.
    /// Returns false, and leaves the mask alone, where the test needs decoded values.
    pub fn select_range(
        &self,
        rows: Range<usize>,
        (low, high): (i128, i128),
        signed: bool,
        refine: bool,
        mask: &mut [u8],
    ) -> Result<bool> {
        check_range(&rows, self.rows())?;
        match self {
            Ints::Frame(stream) => stream.select_range(rows, (low, high), signed, refine, mask),
            Ints::RunLength(stream) => {
                let (least, most) = limits::<W>(signed);
                let (low, high) = (low.max(least), high.min(most));
                if low > high {
                    return Ok(false);
                }
                let range = (W::from_u64(low as u64), W::from_u64((high - low) as u64));
                stream.select(rows, range, refine, mask).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Whether only a few outliers may have a value from `low` to `high`;
    /// [`Ints::outliers_in_range`] finds them without reading the other rows. `signed` says how
    /// values compare.
    pub fn only_outliers(&self, low: i128, high: i128, signed: bool) -> bool {
        match self {
            Ints::Frame(stream) => stream.only_patched(low, high, signed),
            _ => false,
        }
    }

    /// Calls `found` with the index in `rows` of each outlier whose value lies from `low` to
    /// `low + span`.
    pub fn outliers_in_range(
        &self,
        rows: Range<usize>,
        low: W,
        span: W,
        found: impl FnMut(usize),
    ) -> Result<()> {
        check_range(&rows, self.rows())?;
        match self {
            Ints::Frame(stream) => stream.patched_in_range(rows, low, span, found),
            _ => Ok(()),
        }
    }

    /// Whether gathering many rows of a vector is about as fast as decoding the vector.
    pub fn gathers_by_vector(&self) -> bool {
        matches!(self, Ints::Frame(_) | Ints::Constant(_))
    }

    /// Whether a value can be read without decoding those before it.
    pub fn is_light(&self) -> bool {
        !matches!(self, Ints::Delta(_) | Ints::Planes(_))
    }

    /// Appends a short description for `sty inspect`, such as `run-length(delta(frame 6 bit), frame
    /// 12 bit)`.
    pub fn describe(&self, out: &mut String) {
        out.push_str(self.encoding().name());
        match self {
            Ints::Plain(stream) if stream.values().codec_name() != "none" => {
                *out += " ";
                *out += stream.values().codec_name();
            }
            Ints::Plain(_) | Ints::Constant(_) | Ints::Sequence(_) => {}
            Ints::RunLength(stream) => {
                let (ends, values) = stream.children();
                pair(ends, values, out);
            }
            Ints::Frame(stream) => {
                *out += &format!(" {} bit", stream.width());
                if stream.patch_count() > 0 {
                    *out += &format!(" + {} patches", stream.patch_count());
                }
            }
            Ints::Delta(stream) => {
                *out += "(";
                stream.children().1.describe(out);
                *out += ")";
            }
            Ints::Planes(stream) => *out += &format!(" {}", stream.count()),
        }
    }
}

fn pair<A: Word, B: Word>(a: &Ints<'_, A>, b: &Ints<'_, B>, out: &mut String) {
    *out += "(";
    a.describe(out);
    *out += ", ";
    b.describe(out);
    *out += ")";
}

/// Refuses rows that the stream does not have.
pub(super) fn check_range(rows: &Range<usize>, all: usize) -> Result<()> {
    if rows.start > rows.end || rows.end > all {
        return Err(Error::InvalidInput(format!(
            "rows {}..{} of a stream of {all}",
            rows.start, rows.end
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "ints_tests.rs"]
mod tests;
