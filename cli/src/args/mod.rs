//! Arguments that several commands share, with their parsers.

pub(crate) mod arrange;
pub(crate) mod choices;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub(crate) mod columns;
pub(crate) mod commit_every;
pub(crate) mod csv;
pub(crate) mod dry_run;
pub(crate) mod names;
pub(crate) mod output;
pub(crate) mod permissions;
pub(crate) mod resources;
pub(crate) mod session;
pub(crate) mod statements;
pub(crate) mod table;
pub(crate) mod text;
