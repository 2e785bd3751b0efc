//! Blocks: up to 65,536 rows of one column, encoded, compressed where it pays, checksummed.
//!
//! `encoding` turns values into a descriptor and buffers; this folder frames them, measures their
//! statistics and reads them back; `segment` places blocks in a file.

mod measure;
mod reader;
pub(crate) mod stats;
mod values;
mod writer;

pub(crate) use measure::measure;
pub use reader::Reader;
pub(crate) use reader::{CHARGED_BUFFER, Dictionary, Stream, Validity, null_array};
pub(crate) use stats::Order;
pub use stats::{Bound, Stats};
pub(crate) use values::{Gathered, Piece, Values, canonical, coded, gather};
pub(crate) use writer::{EncodedBlock, encode, encode_codes, placed_crc};
