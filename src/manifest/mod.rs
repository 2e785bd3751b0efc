//! The manifest: which segments a table has, and their statistics, so that none need be opened for
//! these.
//!
//! ```text
//! CURRENT ──▶ manifest/<generation>.root ──▶ manifest/<uuid>.chunk, … ──▶ data/[<partition>/]<uuid>.sty, …
//! one line     schema, options, rows,         up to 4,096 segments each,   one or more segments
//!              list of chunks,                 statistics column by column
//!              ledger of sources ──▶ manifest/<uuid>.ledger, …: its older entries
//! ```
//!
//! Writing it is the last step of an ingest ([`commit`]), reading it the first step of a query.
//! Roots and chunks are immutable; generations share chunks, so that an append writes one chunk
//! (merged with small ones before it, see [`tiers`]) and a root, never the whole
//! list. Each structure has its reader and writer side by side and does no I/O; only `commit`,
//! `listing`, `presence` and `recover` touch the disk.

mod arrangement;
pub(crate) mod chunk;
pub(crate) mod codec;
mod columns;
pub(crate) mod commit;
mod fixed;
pub(crate) mod layout;
pub(crate) mod ledger;
pub(crate) mod listing;
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "only nodes mark tables"))]
pub(crate) mod moving;
pub(crate) mod presence;
pub(crate) mod recover;
pub(crate) mod root;
pub(crate) mod tiers;

pub use chunk::{Chunk, SegmentEntry};
pub(crate) use chunk::{ChunkBuilder, SegmentKey};
pub use columns::ColumnStats;
pub(crate) use layout::TableDir;
pub(crate) use ledger::Ledger;
pub use ledger::{LedgerRef, LoadedSource};
pub(crate) use root::History;
pub use root::{ChunkRef, Root, TableOptions, WriteVolume};

/// An identifier as its 16 bytes.
pub(crate) type Id = [u8; 16];
