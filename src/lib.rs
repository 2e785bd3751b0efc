//! Stylobate: a disk-backed, memory-mapped columnar store.
//!
//! The modules, in the order in which a byte travels from a file of rows to a segment and back to
//! an answer; each imports only from those before it:

pub mod error; // the eight kinds of failure
pub mod limits; // every maximum that a reader believes
pub mod bytes; // checked little-endian cursor and writer
pub mod disk; // the only folder that touches the operating system
pub mod model; // data types, schema, scalars
pub mod encoding; // values <-> bytes
pub mod block; // framed, checksummed, measured
pub mod segment; // all columns of up to 2^20 rows in one run of bytes
pub mod manifest; // generations: which segments there are
pub mod store; // tables, snapshots, the writer
pub mod expr; // predicates free of any engine's types
pub mod ingest; // rows in: sources, column builders, the pipeline
pub mod query; // the executor: pruning, filters, groups, orders
pub mod maintain; // compaction, deletion, partitions
#[cfg(feature = "sql")]
pub mod sql; // DataFusion, which nothing else knows

pub use error::{Error, Result};

#[cfg(target_endian = "big")]
compile_error!(
    "the format is little-endian and read in place; big-endian machines are not supported"
);
