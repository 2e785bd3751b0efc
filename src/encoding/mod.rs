//! Encodings: values ↔ bytes, and nothing else (no files, no checksums, no types beyond the
//! physical).
//!
//! `ingest` hands the values of one column and one block to an encoder, which appends a
//! *descriptor* (a small tree in pre-order: encoding number, parameters, children) and *buffers* to
//! a [`Sink`]; `block` frames, places and checksums them. A reader parses the descriptor from a
//! [`Source`] into a tree of closed enums that borrows the mapped bytes:
//!
//! | stream | enum | encodings |
//! | --- | --- | --- |
//! | integers of 8 to 64 bits | [`ints::Ints`] | plain, constant, run-length, sequence, frame, delta, planes |
//! | f32, f64 | [`floats::Floats`] | their bits as integers, ALP, dyadic, ALP-RD |
//! | booleans and validity | [`bools::Bools`] | constant, runs, bitmap |
//! | text, binary | [`strings::Strings`] | plain, constant, FSST, packed alphabets, hexadecimal words, front coding |
//! | 128-bit decimals | [`wide::Wide`] | two streams of integers, the high one mostly constant |
//! | dictionary codes | [`ints::Ints`] of `u32` | as integers; the dictionary's values are a stream of their own |
//!
//! Each encoding has one file, and all have the same anatomy: what it is for, an estimate of its
//! size or a fit of its parameters, encode, parse, decode (any range that starts at a vector), get
//! (one row), describe. A hub file per stream (`ints.rs`, …) holds the enum and the choice. Every
//! decoder is memory-safe on any bytes: `block` verifies checksums, but safety never depends on
//! them.

mod alp;
mod alp_rd;
mod bits;
pub(crate) mod bools;
pub(crate) mod buffer;
mod choose;
pub(crate) mod constant;
#[cfg(test)]
mod crafted_tests;
pub(crate) mod delta;
pub(crate) mod dictionary;
mod dictionary_words;
mod dyadic;
mod exceptions;
mod factor;
mod float;
pub(crate) mod floats;
pub(crate) mod frame;
pub(crate) mod front;
pub(crate) mod fsst;
pub(crate) mod hexadecimal;
pub(crate) mod ints;
pub(crate) mod kernels;
pub(crate) mod packed;
pub(crate) mod plain;
pub(crate) mod plain_strings;
pub(crate) mod planes;
pub(crate) mod profile;
mod ragged;
pub(crate) mod run_length;
pub(crate) mod scaled;
#[cfg(test)]
mod scaled_tests;
pub(crate) mod sequence;
pub(crate) mod strings;
mod strings_choice;
mod symbols;
pub(crate) mod wide;
pub(crate) mod word;

pub(crate) use buffer::{Buffer, Compression, Cuts};
pub use buffer::{Sink, Source};
pub(crate) use ints::Ints;
pub use profile::{Options, Profile};
pub use word::Word;

use crate::error::{Error, Result};

macro_rules! encodings {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The closed set of encodings. Numbers are part of the format and never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Encoding { $($(#[$doc])* $name = $number),* }

        impl Encoding {
            /// Every encoding, for tests and fuzzing.
            pub const ALL: &'static [Encoding] = &[$(Encoding::$name),*];

            /// The name that `sty inspect` prints.
            pub fn name(self) -> &'static str {
                match self { $(Encoding::$name => $text),* }
            }

            /// The encoding of a stored number.
            pub fn from_u8(number: u8) -> Result<Self> {
                match number {
                    $($number => Ok(Encoding::$name),)*
                    _ => Err(Error::Unsupported(format!(
                        "encoding number {number}, from a newer version?"
                    ))),
                }
            }
        }
    };
}

encodings! {
    /// Values as in memory.
    Plain = 0, "plain";
    /// One value for all rows.
    Constant = 1, "constant";
    /// Run ends and run values, each a stream of its own.
    RunLength = 2, "run-length";
    /// `first + step · row`.
    Sequence = 3, "sequence";
    /// `base + factor · code`, codes bit-packed, outliers patched.
    Frame = 4, "frame";
    /// Differences of neighbours, restarted in every vector.
    Delta = 5, "delta";
    /// Decimal floats as integers (Afroozeh et al. 2023).
    Alp = 6, "alp";
    /// Real doubles: skewed left bits in a small dictionary, right bits packed.
    AlpRd = 7, "alp-rd";
    /// Codes into the sorted dictionary of the segment; code 0 is null.
    Dictionary = 8, "dictionary";
    /// Fast static symbol table (Boncz et al. 2020).
    Fsst = 9, "fsst";
    /// Strings over a small alphabet, bit-packed; by position where all have one length.
    Packed = 10, "packed";
    /// Hexadecimal text of one length as 8-byte words.
    Hexadecimal = 11, "hexadecimal";
    /// Byte planes of codes, entropy-coded.
    Planes = 12, "planes";
    /// One bit per row.
    Bitmap = 13, "bitmap";
    /// The bits of floats as integers.
    Bits = 14, "bits";
    /// Doubles that were decimals or f32 values, as integers that sort in the same order.
    Dyadic = 15, "dyadic";
    /// What each string has in common with the one before it, and the rest.
    Front = 16, "front";
}
