//! What reads a table with `query/` and writes it with `ingest/`: compaction, deletion, update, and
//! changes of columns.
//!
//! Where this stands: beside the two roads. Each operation takes the writer's lock, writes new
//! segments beside the old ones, and commits edits of the list of segments; readers go on with the
//! generation that they hold.

pub mod alter; // columns added, dropped, renamed, widened
pub mod compact; // small and overlapping segments into large, sorted ones
pub mod modify; // rows out or changed, by a condition
pub mod read; // a whole table, block by block
pub mod partitions; // whole partitions: listing and dropping

pub use alter::{Alteration, alter};
pub use compact::{CompactOptions, CompactReport, compact};
pub use modify::{Modification, ModifyOptions, ModifyReport, modify};
pub use partitions::{Partition, drop_partitions, partitions};
pub use read::{BlockPlace, blocks, read_block};

#[cfg(test)]
mod tests;
