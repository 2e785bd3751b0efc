//! Streams of f32 and f64: the closed set of their encodings, and the choice among them.
//!
//! `ingest` hands a block's values to [`encode`]; every bit round-trips, including −0.0 and NaN
//! payloads. Most encodings turn floats into streams of integers, which `ints` packs; one with a
//! buffer of its own finds a model of vector starts in `ragged.rs`.

use std::ops::Range;

pub(crate) use super::alp::Alp;
pub(crate) use super::alp_rd::AlpRd;
pub(crate) use super::bits::Bits;
pub(crate) use super::dyadic::Dyadic;
pub use super::float::Float;
use super::scaled::{Scaled, StoredExceptions, StoredInts};
use super::{Encoding, Options, Sink, Source, Word, alp, alp_rd, bits, dyadic};
use crate::error::{Error, Result};

/// The sample on which encodings compete is this many stretches of neighbouring values, so that
/// runs and differences show.
const STRETCHES: usize = 8;
/// Values of a stretch.
const STRETCH: usize = 256;

/// An encoded stream of floats, borrowing the block's bytes.
#[derive(Debug)]
pub enum Floats<'a, F: Float> {
    /// Their bits as integers.
    Bits(Bits<'a, F>),
    /// Decimals as integers.
    Alp(Alp<'a, F>),
    /// Decimals and multiples of a power of two as integers.
    Dyadic(Dyadic<'a, F>),
    /// Left and right bits in separate streams.
    AlpRd(AlpRd<'a, F>),
}

/// An encoding and its parameters.
enum FloatEncoder {
    Bits,
    Alp(Option<alp::Scale>),
    Dyadic(dyadic::Grid),
    AlpRd(alp_rd::Cut),
}

/// Appends `values` to the sink under the smallest encoding that the options allow.
pub fn encode<F: Float>(values: &[F], options: &Options, sink: &mut Sink) {
    let child = options.child();
    match options.force {
        Some(Encoding::Bits) => bits::encode(values, &child, sink),
        Some(Encoding::Alp) => apply(&FloatEncoder::Alp(alp::fit(values)), values, &child, sink),
        Some(Encoding::Dyadic) => match dyadic::fit_any(values) {
            Some(grid) => apply(&FloatEncoder::Dyadic(grid), values, &child, sink),
            None => bits::encode(values, &child, sink),
        },
        Some(Encoding::AlpRd) => {
            apply(&FloatEncoder::AlpRd(alp_rd::fit(values)), values, &child, sink)
        }
        // An encoding of integers is applied to the bits.
        Some(_) => bits::encode(values, options, sink),
        None => apply(&choose(values, &child), values, &child, sink),
    }
}

fn apply<F: Float>(choice: &FloatEncoder, values: &[F], child: &Options, sink: &mut Sink) {
    match choice {
        FloatEncoder::Bits => bits::encode(values, child, sink),
        FloatEncoder::Alp(scale) => alp::encode(values, *scale, child, sink),
        FloatEncoder::Dyadic(grid) => dyadic::encode(values, *grid, child, sink),
        FloatEncoder::AlpRd(cut) => alp_rd::encode(values, cut, child, sink),
    }
}

/// Encodes a sample with each encoding and takes the smallest, or the simplest of equal ones.
fn choose<F: Float>(values: &[F], child: &Options) -> FloatEncoder {
    let sample = sample(values);
    let size = |choice: &FloatEncoder| {
        let mut sink = Sink::new();
        apply(choice, &sample, child, &mut sink);
        sink.len()
    };
    let mut best = (size(&FloatEncoder::Bits), FloatEncoder::Bits);
    if let Some(scale) = alp::fit(values) {
        let alp = FloatEncoder::Alp(Some(scale));
        let bytes = size(&alp);
        if bytes < best.0 {
            best = (bytes, alp);
        }
        if let Some(grid) = dyadic::fit(values, scale) {
            let dyadic = FloatEncoder::Dyadic(grid);
            let bytes = size(&dyadic);
            // On a tie it wins, because exceptions cost more to decode.
            if bytes <= best.0 {
                best = (bytes, dyadic);
            }
        }
    }
    // ALP-RD takes at least this much for the right bits, so it is not tried on decimals.
    let least = sample.len() * (F::Bits::BITS - alp_rd::MAX_LEFT) as usize / 8;
    if best.0 > least {
        let cut = FloatEncoder::AlpRd(alp_rd::fit(values));
        // It decodes at half the speed, so it must save something.
        if size(&cut) < best.0 - best.0 / 32 {
            return cut;
        }
    }
    best.1
}

/// Stretches spread evenly over `values`, or all values if they are few.
fn sample<F: Float>(values: &[F]) -> Vec<F> {
    if values.len() <= STRETCHES * STRETCH {
        return values.to_vec();
    }
    let step = (values.len() - STRETCH) / (STRETCHES - 1);
    (0..STRETCHES).flat_map(|i| values[i * step..][..STRETCH].iter().copied()).collect()
}

/// About `n` values, one from each of `n` equal parts, at pseudo-random positions so that periodic
/// data is sampled fairly.
pub(super) fn scattered<F: Float>(values: &[F], n: usize) -> Vec<F> {
    let step = values.len().div_ceil(n).max(1);
    let hash = |part: usize| (part as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    values
        .chunks(step)
        .enumerate()
        .map(|(part, chunk)| chunk[hash(part) as usize % chunk.len()])
        .collect()
}

impl<'a, F: Float> Floats<'a, F> {
    /// Parses the stream of `rows` values at the source's position.
    pub fn parse(source: &mut Source<'a>, rows: usize) -> Result<Self> {
        match Encoding::from_u8(source.cursor.u8()?)? {
            Encoding::Bits => Bits::parse(source, rows).map(Floats::Bits),
            Encoding::Alp => Alp::parse(source, rows).map(Floats::Alp),
            Encoding::Dyadic => Dyadic::parse(source, rows).map(Floats::Dyadic),
            Encoding::AlpRd => AlpRd::parse(source, rows).map(Floats::AlpRd),
            other => Err(source.cursor.corrupt(format!("{} cannot hold floats", other.name()))),
        }
    }

    /// How many values the stream has.
    pub fn rows(&self) -> usize {
        match self {
            Floats::Bits(bits) => bits.words.rows(),
            Floats::Alp(alp) => alp.stored.ints.rows(),
            Floats::Dyadic(dyadic) => dyadic.stored.ints.rows(),
            Floats::AlpRd(cut) => cut.rights.rows(),
        }
    }

    /// The encoding at the top.
    pub fn encoding(&self) -> Encoding {
        match self {
            Floats::Bits(_) => Encoding::Bits,
            Floats::Alp(_) => Encoding::Alp,
            Floats::Dyadic(_) => Encoding::Dyadic,
            Floats::AlpRd(_) => Encoding::AlpRd,
        }
    }

    /// Appends the values of `rows` (whose start is a multiple of [`crate::limits::VECTOR`]) to
    /// `out`.
    pub fn decode(&self, rows: Range<usize>, out: &mut Vec<F>) -> Result<()> {
        check(&rows, self.rows())?;
        match self {
            Floats::Bits(bits) => bits.decode(rows, out),
            Floats::Alp(alp) => alp.decode(rows, out),
            Floats::Dyadic(dyadic) => dyadic.decode(rows, out),
            Floats::AlpRd(cut) => cut.decode(rows, out),
        }
    }

    /// The value of one row.
    pub fn get(&self, row: usize) -> Result<F> {
        check(&(row..row.saturating_add(1)), self.rows())?;
        match self {
            Floats::Bits(bits) => bits.get(row),
            Floats::Alp(alp) => alp.get(row),
            Floats::Dyadic(dyadic) => dyadic.get(row),
            Floats::AlpRd(cut) => cut.get(row),
        }
    }

    /// Appends the values of single rows, in ascending order.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<F>) -> Result<()> {
        let end = rows.last().map_or(0, |row| *row as usize + 1);
        check(&(0..end), self.rows())?;
        match self {
            Floats::Bits(bits) => bits::gather_words(&bits.words, rows, out),
            Floats::Alp(alp) => alp.gather(rows, out),
            Floats::Dyadic(dyadic) => dyadic.gather(rows, out),
            Floats::AlpRd(cut) => {
                for row in rows {
                    out.push(cut.get(*row as usize)?);
                }
                Ok(())
            }
        }
    }

    /// Whether gathering many rows of a vector is about as fast as decoding the vector.
    pub fn gathers_by_vector(&self) -> bool {
        match self {
            Floats::Bits(bits) => bits.words.gathers_by_vector(),
            Floats::Alp(alp) => alp.stored.ints.gathers_by_vector(),
            Floats::Dyadic(dyadic) => dyadic.stored.ints.gathers_by_vector(),
            Floats::AlpRd(_) => false,
        }
    }

    /// Whether a value can be read without decoding those before it.
    pub fn is_light(&self) -> bool {
        match self {
            Floats::Bits(bits) => bits.words.is_light(),
            Floats::Alp(alp) => alp.stored.ints.is_light(),
            Floats::Dyadic(dyadic) => dyadic.stored.ints.is_light(),
            Floats::AlpRd(_) => true,
        }
    }

    /// Appends a short description for `sty inspect`, such as `alp 2 decimals(frame 12 bit, 0
    /// exceptions)`.
    pub fn describe(&self, out: &mut String) {
        match self {
            Floats::Bits(bits) => bits.describe(out),
            Floats::Alp(alp) => alp.describe(out),
            Floats::Dyadic(dyadic) => dyadic.describe(out),
            Floats::AlpRd(cut) => cut.describe(out),
        }
    }
}

impl<'a> Floats<'a, f32> {
    /// The floats as integers, where they are stored so.
    pub(crate) fn scaled(&self) -> Option<Scaled<'_, 'a>> {
        match self {
            Floats::Bits(bits) => Some(Scaled::bits(StoredInts::Singles(&bits.words))),
            Floats::Alp(Alp { stored, scale }) => Some(Scaled::decimals(
                *scale,
                StoredInts::Singles(&stored.ints),
                StoredExceptions::Singles(&stored.exceptions),
            )),
            // A grid is for doubles that were floats of 32 bits.
            Floats::Dyadic(_) | Floats::AlpRd(_) => None,
        }
    }
}

impl<'a> Floats<'a, f64> {
    /// The doubles as integers, where they are stored so.
    pub(crate) fn scaled(&self) -> Option<Scaled<'_, 'a>> {
        match self {
            Floats::Bits(bits) => Some(Scaled::bits(StoredInts::Doubles(&bits.words))),
            Floats::Alp(Alp { stored, scale }) => Some(Scaled::decimals(
                *scale,
                StoredInts::Doubles(&stored.ints),
                StoredExceptions::Doubles(&stored.exceptions),
            )),
            Floats::Dyadic(Dyadic { stored, grid }) => {
                Some(Scaled::grid(*grid, &stored.ints, &stored.exceptions))
            }
            Floats::AlpRd(_) => None,
        }
    }
}

fn check(rows: &Range<usize>, all: usize) -> Result<()> {
    if rows.start > rows.end || rows.end > all {
        return Err(Error::InvalidInput(format!(
            "rows {}..{} of a stream of {all}",
            rows.start, rows.end
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
