//! Operations that read a table with `query/` and rewrite it with `ingest/`: compaction, deletion,
//! update, and column changes.
//!
//! These stand beside the two roads. Each operation takes the writer's lock, writes new segments
//! beside the old ones, and commits edits of the segment list; readers keep the generation that
//! they hold.

pub(crate) mod alter; // columns added, dropped, renamed, widened
pub(crate) mod compact; // merges small and overlapping segments
pub(crate) mod modify; // deletes or updates rows by a condition
pub(crate) mod read; // reads a whole table, block by block
pub(crate) mod partitions; // lists and drops partitions

pub use alter::{Alteration, alter};
pub use compact::{CompactOptions, CompactReport, compact};
pub(crate) use modify::{Modification, ModifyOptions, modify};
pub use partitions::{Partition, drop_partitions, partitions};
pub use read::{BlockPlace, blocks, read_block};

#[cfg(test)]
mod tests;
