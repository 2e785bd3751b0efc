//! Plain byte strings, with LZ4 or zstd on top where it pays.

use std::ops::Range;

use super::ragged::{self, Ragged, Vector};
use super::strings::StringsOut;
use super::{Compression, Encoding, Options, Sink, Source};
use crate::error::Result;
use crate::limits::VECTOR;

/// An encoded stream.
#[derive(Debug)]
pub struct Plain<'a>(Ragged<'a>);

/// Appends `values`, of less than 4 GiB together.
pub(super) fn encode(values: &[&[u8]], options: &Options, sink: &mut Sink) {
    sink.head().u8(Encoding::Plain as u8);
    if let [value] = values {
        // It may be long.
        return ragged::encode(values, &[0], value, Compression::Plain, options, sink);
    }
    let mut data = Vec::with_capacity(values.iter().map(|v| v.len()).sum());
    let mut starts = Vec::with_capacity(values.len().div_ceil(VECTOR));
    for vector in values.chunks(VECTOR) {
        starts.push(data.len() as u32);
        vector.iter().for_each(|v| data.extend_from_slice(v));
    }
    ragged::encode(values, &starts, &data, Compression::Plain, options, sink);
}

impl<'a> Plain<'a> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        Ragged::parse(source, rows).map(Plain)
    }

    pub(super) fn rows(&self) -> usize {
        self.0.rows()
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        out.ends.reserve(rows.len());
        self.0.vectors(rows, |vector| {
            let bytes =
                usize::try_from(vector.total).ok().and_then(|total| vector.bytes.get(..total));
            let bytes = bytes.filter(|b| !vector.whole || b.len() == vector.bytes.len());
            let bytes = bytes.ok_or_else(Vector::mismatch)?;
            out.reserve(vector.rest, 0)?;
            out.push_ends(vector.lengths);
            out.data.extend_from_slice(bytes);
            Ok(())
        })
    }

    pub(super) fn lengths(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        self.0.lengths(rows, out)
    }

    pub(super) fn get(&self, row: usize) -> Result<Vec<u8>> {
        let (place, bytes) = self.0.locate(row)?;
        Ok(bytes.get(place).ok_or_else(Vector::mismatch)?.to_vec())
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("plain(");
        self.0.describe(out);
        out.push(')');
    }
}
