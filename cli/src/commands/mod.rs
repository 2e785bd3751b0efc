//! The commands of `sty`: one file each, with its arguments and its `run`. No command imports
//! another.

pub(crate) mod alter;
pub(crate) mod bench;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
#[cfg(feature = "gen")]
pub(crate) mod demo;
pub(crate) mod drop_partition;
pub(crate) mod export;
pub(crate) mod gc;
#[cfg(feature = "gen")]
pub(crate) mod r#gen;
pub(crate) mod ingest;
pub(crate) mod inspect;
pub(crate) mod man;
pub(crate) mod manifest;
pub(crate) mod partitions;
pub(crate) mod query;
pub(crate) mod repair;
pub(crate) mod schema;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod tables;
pub(crate) mod verify;
