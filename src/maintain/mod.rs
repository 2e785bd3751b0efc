//! Operations on a stored table: compaction, deletion, update, changes of columns, partitions;
//! reading a whole table for exports; verification, and repair.
//!
//! These stand beside the two roads. Each operation that changes something takes the writer's lock
//! and commits. Compaction and changes of rows write new segments beside the old ones and commit
//! edits of the list of segments; the others change the manifest alone. Readers keep the generation
//! that they hold.

pub(crate) mod alter; // columns added, dropped, renamed, widened
pub(crate) mod drop; // drops and replaces tables
pub(crate) mod files; // whether the data files are there
pub(crate) mod compact; // merges small and overlapping segments
pub(crate) mod modify; // deletes or updates rows by a condition
pub(crate) mod cast; // gives a column another type
pub(crate) mod read; // reads a whole table, block by block
pub(crate) mod partitions; // lists and drops partitions
pub(crate) mod repair; // restores what can be restored of a damaged table
#[cfg(feature = "cluster")]
pub(crate) mod replica; // a generation as its files, for a copy on another machine
#[cfg(feature = "cluster")]
pub(crate) mod transfer; // whole segments from one table into another
pub(crate) mod verify; // compares everything stored with the values

pub use alter::{Alteration, alter, would_alter};
pub use cast::{Cast, CastOptions, CastReport, cast, would_cast};
pub use compact::{CompactForecast, CompactOptions, CompactReport, compact, would_compact};
#[cfg(feature = "cluster")]
pub(crate) use drop::Dropping;
pub use drop::drop_table;
#[cfg(feature = "sql")]
pub(crate) use drop::{abandon, replace_table, replacement, restore_replaced};
pub use files::check_files;
#[cfg(feature = "cluster")]
pub(crate) use modify::prepare;
pub(crate) use modify::{Modification, ModifyOptions, ModifyReport, foresee, modify};
pub use partitions::{Partition, drop_partitions, partitions, would_drop};
pub use read::{BlockPlace, blocks, read_block};
pub use repair::{Lost, RepairOptions, RepairReport, Rewritten, repair};
pub use verify::{
    Damage, DamageKind, VerifyOptions, VerifyReport, skip_damaged, verify, verify_kept, verify_with,
};

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
