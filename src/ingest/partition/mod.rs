//! Assigns rows to partitions: evaluates the partition expressions and names the directory of each
//! partition.
//!
//! In a partitioned table, batches pass through here after their columns are matched and before
//! their rows are collected for segments. Expressions come as functions from a [`Compile`]; plain
//! columns need none.
//!
//! A directory is named `key=value/key=value`, as in Hive: the value as SQL prints it, bytes other
//! than letters, digits and `_ - . : +` as `%XX`, and null as `__HIVE_DEFAULT_PARTITION__`. The
//! text of a value does not depend on the width of its type, so a column may widen.

mod keys;
mod partitions;
pub(crate) mod path;

pub(crate) use keys::ColumnsOnly;
pub use keys::{Compile, partition_keys};
pub use partitions::Partitions;
pub(crate) use path::parse_path;

#[cfg(test)]
mod tests;
