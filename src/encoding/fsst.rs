//! FSST (Boncz, Neumann, Leis 2020): text as one-byte codes for up to 255 frequent sequences of 1
//! to 8 bytes, trained for each block; other bytes follow an escape code. For text that repeats too
//! little for a dictionary.
//!
//! ```text
//! n u8 · n lengths u8 · symbols back to back · lengths, starts, codes (see ragged)
//! ```
//!
//! Each value is compressed separately, but starts are stored only for vectors. The symbol table is
//! copied out of the mapping and checked before use.

use std::fmt;
use std::ops::Range;

use fsst::Compressor;

use super::kernels::fsst::SymbolTable;
use super::ragged::{self, Ragged, Vector};
use super::strings::StringsOut;
use super::{Compression, Encoding, Options, Sink, Source};
use crate::error::Result;
use crate::limits::{MAX_CHUNK_BYTES, VECTOR};

/// An encoded stream.
pub struct Fsst<'a> {
    table: Box<SymbolTable>,
    codes: Ragged<'a>,
}

impl fmt::Debug for Fsst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fsst").field("codes", &self.codes).finish_non_exhaustive()
    }
}

/// A symbol table trained on `sample`; `None` for blocks so large that codes, which may be twice as
/// many as the bytes, could exceed the limits.
pub(super) fn train(bytes: usize, sample: &[&[u8]]) -> Option<Box<Compressor>> {
    (bytes <= MAX_CHUNK_BYTES / 2).then(|| Box::new(Compressor::train(&sample.to_vec())))
}

/// Appends `values`.
pub(super) fn encode(
    compressor: &Compressor,
    values: &[&[u8]],
    options: &Options,
    sink: &mut Sink,
) {
    sink.head().u8(Encoding::Fsst as u8);
    let lengths = compressor.symbol_lengths();
    sink.head().u8(lengths.len() as u8);
    sink.head().put(lengths);
    for (symbol, &length) in compressor.symbol_table().iter().zip(lengths) {
        sink.head().put(&symbol.to_u64().to_le_bytes()[..usize::from(length)]);
    }
    let (mut codes, mut ends) = (Vec::new(), Vec::new());
    let mut starts = Vec::with_capacity(values.len().div_ceil(VECTOR));
    for vector in values.chunks(VECTOR) {
        starts.push(codes.len() as u32);
        ends.clear();
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(
            vector, &mut codes, &mut ends,
        );
    }
    // zstd over codes beats zstd over text in size and time; LZ4 finds few repetitions in codes.
    let compression = if options.heavy { Compression::Plain } else { Compression::Packed };
    ragged::encode(values, &starts, &codes, compression, options, sink);
}

impl<'a> Fsst<'a> {
    pub(super) fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        let symbols = usize::from(source.cursor.u8()?);
        let lengths = source.cursor.take(symbols)?;
        let bytes = source.cursor.take(lengths.iter().map(|&l| usize::from(l)).sum())?;
        let table = SymbolTable::new(lengths, bytes)
            .ok_or_else(|| source.cursor.corrupt("unsound FSST symbol table"))?;
        Ok(Fsst { table: Box::new(table), codes: Ragged::parse(source, rows)? })
    }

    pub(super) fn rows(&self) -> usize {
        self.codes.rows()
    }

    pub(super) fn decode(&self, rows: Range<usize>, out: &mut StringsOut) -> Result<()> {
        self.codes.vectors(rows, |vector| {
            if vector.total > 8 * vector.bytes.len() as u64 {
                return Err(Vector::mismatch());
            }
            // Decompression stores up to 8 bytes for each code before it is known how many stay.
            out.reserve(vector.rest, 8 * (vector.bytes.len() + 1))?;
            out.push_ends(vector.lengths);
            let start = out.data.len();
            let total = vector.total as usize;
            // Decoding one byte more than expected shows whether the codes decode to too much.
            let enough = if vector.whole { total.saturating_add(1) } else { total };
            self.table
                .decompress(vector.bytes, enough, &mut out.data)
                .ok_or_else(Vector::mismatch)?;
            let decoded = out.data.len() - start;
            if decoded < total || vector.whole && decoded > total {
                return Err(Vector::mismatch());
            }
            out.data.truncate(start + total);
            Ok(())
        })
    }

    pub(super) fn lengths(&self, rows: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        self.codes.lengths(rows, out)
    }

    pub(super) fn get(&self, row: usize) -> Result<Vec<u8>> {
        let (place, codes) = self.codes.locate(row)?;
        if place.end > 8 * codes.len() {
            return Err(Vector::mismatch());
        }
        // All values before it in the vector are decoded with it.
        let _charge = self.codes.budget().charge(place.end)?;
        let mut text = Vec::new();
        self.table.decompress(&codes, place.end, &mut text).ok_or_else(Vector::mismatch)?;
        Ok(text.get(place).ok_or_else(Vector::mismatch)?.to_vec())
    }

    pub(super) fn describe(&self, out: &mut String) {
        out.push_str("fsst(");
        self.codes.describe(out);
        out.push(')');
    }
}
