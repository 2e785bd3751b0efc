//! Blocks: up to 65,536 rows of one column, encoded, compressed where it pays, checksummed.
//!
//! `encoding` turns values into a descriptor and buffers; this folder frames them, measures their
//! statistics and reads them back; `segment` places blocks in a file.

mod measure;
mod reader;
pub mod stats;
mod values;
mod writer;

pub use measure::measure;
pub use reader::{Dictionary, Reader, Stream, Validity, null_array};
pub use stats::{Bound, Order, Stats};
pub use values::{Gathered, Piece, Values, canonical, coded, gather};
pub use writer::{EncodedBlock, encode, encode_codes, placed_crc};
