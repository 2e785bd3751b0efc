//! Streams of whole numbers: the closed set of their encodings, and the choice among them.

use std::ops::Range;

use super::{Compression, Cuts, Encoding, Options, Sink, Source, Word, buffer::Buffer};
use crate::error::{Error, Result};
use crate::limits::VECTOR;

/// An encoded stream of whole numbers, borrowing the block's bytes.
#[derive(Debug)]
pub enum Ints<'a, W: Word> {
    /// Values as they lie in memory.
    Plain { rows: usize, values: Buffer<'a>, word: std::marker::PhantomData<W> },
    /// One value for all rows.
    Constant { rows: usize, value: W },
}

/// Appends `values` to the sink under the smallest encoding that the options allow. `signed` says how values
/// compare.
pub fn encode<W: Word>(values: &[W], signed: bool, options: &Options, sink: &mut Sink) {
    let _ = signed;
    match values.first() {
        Some(&value) if values.iter().all(|&v| v == value) => {
            sink.head().u8(Encoding::Constant as u8);
            sink.head().u64(value.to_u64());
        }
        _ => {
            sink.head().u8(Encoding::Plain as u8);
            sink.buffer(bytemuck::cast_slice(values), Cuts::Every(VECTOR * W::BYTES), Compression::Plain, options);
        }
    }
}

impl<'a, W: Word> Ints<'a, W> {
    /// Parses the stream of `rows` values at the source's position.
    pub fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        match Encoding::from_u8(source.cursor.u8()?)? {
            Encoding::Constant => Ok(Ints::Constant { rows, value: W::from_u64(source.cursor.u64()?) }),
            Encoding::Plain => {
                let values = source.buffer()?;
                if values.len() != rows * W::BYTES {
                    return Err(source.cursor.corrupt("plain stream has the wrong length"));
                }
                Ok(Ints::Plain { rows, values, word: std::marker::PhantomData })
            }
            other => Err(source.cursor.corrupt(format!("{} cannot hold whole numbers", other.name()))),
        }
    }

    /// How many values the stream has.
    pub fn rows(&self) -> usize {
        match self {
            Ints::Plain { rows, .. } | Ints::Constant { rows, .. } => *rows,
        }
    }

    /// Appends the values of `rows` (whose start is a multiple of [`VECTOR`]) to `out`.
    pub fn decode(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        check(&rows, self.rows())?;
        match self {
            Ints::Constant { value, .. } => out.resize(out.len() + rows.len(), *value),
            Ints::Plain { values, .. } => {
                let bytes = values.range(rows.start * W::BYTES..rows.end * W::BYTES)?;
                out.extend(bytes.chunks_exact(W::BYTES).map(bytemuck::pod_read_unaligned::<W>));
            }
        }
        Ok(())
    }

    /// The value of one row.
    pub fn get(&self, row: usize) -> Result<W> {
        check(&(row..row + 1), self.rows())?;
        match self {
            Ints::Constant { value, .. } => Ok(*value),
            Ints::Plain { values, .. } => {
                Ok(bytemuck::pod_read_unaligned(&values.range(row * W::BYTES..(row + 1) * W::BYTES)?))
            }
        }
    }

    /// Appends a short description for `sty inspect`, such as `run-length(constant, frame 12 bit)`.
    pub fn describe(&self, out: &mut String) {
        out.push_str(match self {
            Ints::Plain { .. } => "plain",
            Ints::Constant { .. } => "constant",
        });
    }
}

fn check(rows: &Range<usize>, all: usize) -> Result<()> {
    if rows.start > rows.end || rows.end > all {
        return Err(Error::InvalidInput(format!("rows {}..{} of a stream of {all}", rows.start, rows.end)));
    }
    Ok(())
}
