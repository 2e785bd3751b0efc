//! Blocks: up to 65,536 rows of one column, encoded, compressed where it pays, checksummed.
//!
//! Where this stands on the road: `encoding` turns values into a descriptor and buffers; this folder frames them,
//! measures their statistics and reads them back; `segment` places blocks in a file.

pub mod stats;

pub use stats::{Bound, Order, Stats};
