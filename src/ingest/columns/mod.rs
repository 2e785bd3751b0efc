//! Column builders: batches in row order → the rows of one segment.
//!
//! A segment closes at 2²⁰ rows, at a bound in bytes, or before a vector of long texts would exceed
//! what a reader should have to decode at once; within a batch if necessary. A single row always
//! fits. The bounds count values alone, so the cut does not depend on threads or timing. A
//! batch may have a column in a narrower or wider type than the one before; the segment stores the
//! join of both types, and the table keeps the join of all segments.

mod builder;
mod intervals;
mod layouts;
mod matching;
mod uuids;

pub(in crate::ingest) use builder::VECTOR_BYTES;
pub use builder::{SegmentBuilder, SegmentLimits};
pub(crate) use intervals::intervals;
pub(crate) use layouts::{KeptCodes, to_stored_layouts};
pub(super) use layouts::{value_bytes, widened, without_dictionary_nulls};
pub use matching::match_columns;
pub(crate) use matching::{join, stored_type, typed};
pub(crate) use uuids::{texts_of, uuid_texts};

#[cfg(test)]
mod tests;
