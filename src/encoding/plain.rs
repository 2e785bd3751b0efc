//! Plain: values as in memory, little-endian, for streams that nothing shrinks. Reading one row is
//! one load.

use std::ops::Range;

use super::{Buffer, Compression, Cuts, Encoding, Options, Sink, Source, Word};
use crate::error::Result;
use crate::limits::VECTOR;

/// Bits of a plain stream.
pub(super) fn estimate<W: Word>(rows: usize) -> f64 {
    (rows * W::BITS as usize + 8 * 34) as f64
}

/// Appends a plain stream.
pub(super) fn encode<W: Word>(values: &[W], options: &Options, sink: &mut Sink) {
    sink.head().u8(Encoding::Plain as u8);
    sink.buffer(
        bytemuck::cast_slice(values),
        Cuts::Every(VECTOR * W::BYTES),
        Compression::Plain,
        options,
    );
}

/// A plain stream.
#[derive(Debug)]
pub struct Plain<'a> {
    rows: usize,
    values: Buffer<'a>,
}

impl<'a> Plain<'a> {
    pub(super) fn parse<W: Word>(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let values = source.buffer()?;
        if Some(values.len()) != rows.checked_mul(W::BYTES) {
            return Err(source.cursor.corrupt("plain stream has the wrong length"));
        }
        Ok(Plain { rows, values })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The stored bytes.
    pub fn values(&self) -> &Buffer<'a> {
        &self.values
    }

    pub(super) fn decode<W: Word>(&self, rows: Range<usize>, out: &mut Vec<W>) -> Result<()> {
        let bytes = self.values.range(rows.start * W::BYTES..rows.end * W::BYTES)?;
        match bytemuck::try_cast_slice(&bytes) {
            Ok(words) => out.extend_from_slice(words),
            Err(_) => {
                out.extend(bytes.chunks_exact(W::BYTES).map(bytemuck::pod_read_unaligned::<W>))
            }
        }
        Ok(())
    }

    pub(super) fn get<W: Word>(&self, row: usize) -> Result<W> {
        Ok(bytemuck::pod_read_unaligned(&self.values.range(row * W::BYTES..(row + 1) * W::BYTES)?))
    }
}
