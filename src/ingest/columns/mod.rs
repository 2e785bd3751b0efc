//! Column builders: batches in row order → the rows of one segment.
//!
//! A segment closes at 2²⁰ rows or a bound in bytes, whichever comes first, if need be within a
//! batch; one row always fits. Both are counted on the values alone, so the cut does not depend on
//! threads or timing. A batch may bring a column under a narrower or wider type than the one before
//! it; the segment stores the join, and the table keeps the join of all segments.

mod builder;
mod layouts;
mod matching;

pub use builder::{SegmentBuilder, SegmentLimits};
pub use layouts::{MAX_EXACT_IN_F64, to_stored_layouts};
pub(super) use layouts::{value_bytes, widened, without_dictionary_nulls};
pub use matching::{join, match_columns, stored_type};

#[cfg(test)]
mod tests;
