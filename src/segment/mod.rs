//! Segments: all columns of up to 2²⁰ rows, in one run of bytes of a file.
//!
//! ```text
//! ┌───────────┬──────────────┬──────────────┬───┬──────────┬──────────┬───┬────────┬──────┐
//! │ magic  8  │ column 0:    │ column 1:    │ … │ record 0 │ record 1 │ … │ footer │ tail │
//! │ "STYSEG1" │ dict, blocks │ dict, blocks │   │          │          │   │        │  16  │
//! └───────────┴──────────────┴──────────────┴───┴──────────┴──────────┴───┴────────┴──────┘
//!   footer: fixed-width column directory (id, place and checksum of its record),
//!           optional typed sections
//!   record: type, statistics, dictionary's place, and for every block its place,
//!           checksum and zone map
//!   tail:   footer length u32, footer CRC32 u32, magic 8
//! ```
//!
//! `ingest` hands a segment's rows to [`writer`], which encodes columns in parallel and returns
//! bytes to be written at once; `query` opens a mapped segment with [`reader`], which touches only
//! the footer and the records of the columns it is asked for. Offsets are relative to the segment's
//! first byte, so that several segments can share a file.

mod dictionary;
pub(crate) mod footer;
pub(crate) mod open_block;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod scaled;
mod tally;
#[cfg(test)]
mod bomb_tests;
#[cfg(test)]
mod tests;
pub(crate) mod verify;
pub(crate) mod writer;

pub(crate) use dictionary::with_null;
pub use footer::Footer;
pub use reader::{Column, Segment};
pub use record::{BlockPlace, ColumnRecord};
pub(crate) use tally::contradictions;
pub use writer::EncodedSegment;
pub(crate) use writer::SegmentInput;

/// What is wrong with something stored, by what puts it right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DamageKind {
    /// Values cannot be read.
    Unreadable,
    /// Statistics or a dictionary are false, of values that can be read: those tell what is true.
    Derived,
    /// Rows are not in the table's sort order.
    Order,
    /// Rows are not in the partition that they belong to.
    Partition,
    /// A column is said to be NOT NULL, and rows have no value in it.
    Required,
    /// Something else is false, which does not follow from readable values: a value is not one of
    /// its type, or an entry of the ledger cannot be.
    Other,
}
