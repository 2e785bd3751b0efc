//! SQL over the tables of a store, and over files by name. Only this folder knows DataFusion.
//!
//! Its folders, from the bottom. Each imports only from those before it, as `tests/it/layers.rs`
//! checks:
//!
//! - `convert`: conversions between DataFusion's errors, values, expressions, filters and
//!   statistics, and ours.
//! - `walks`: walks over statements, plans and expressions; `stack`: what deep ones need.
//! - `work`: the threads of sessions, how to stop them, and what plans know of their session.
//! - `types`: the meaning of types in statements: decimals, times, intervals, zeros.
//! - `functions`: functions and aggregates that replace DataFusion's, or that it lacks.
//! - `syntax`: corrections to a statement between the parser and the planner.
//! - `rules`: rules over plans, before and in place of those of DataFusion that give wrong answers.
//! - `keys`: expressions that tables are partitioned by, and filters over them.
//! - `run`: our fragments and scans as DataFusion's operators, the stream of the answer,
//!   statistics.
//! - `plan`: which parts of a plan our executor runs, and physical plans.
//! - `write`: INSERT, CREATE TABLE, DELETE and UPDATE; rows to be stored take the road of an
//!   ingest.
//! - `names`: what names mean: tables of the store and of attached ones, views and parameters of
//!   the session, files.
//! - `cluster`: tables whose parts are on several machines (cargo feature `cluster`).
//! - `session`: configuration, memory, threads; turns a text into statements, and a statement into
//!   an answer.
//!
//! The road of a query goes through `session`, `syntax`, `names`, DataFusion's planner with
//! `types`, `functions` and `rules`, then `plan` and `run`.
//!
//! `docs/datafusion-faults.md` lists what DataFusion gets wrong.
//!
//! - [`Engine`]: what sessions share: memory, threads, open tables, and what plans are made with.
//! - [`Session`]: parses and runs statements; has views, settings and parameters of its own.
//! - [`BatchStream`]: an answer. Dropping it, or [`Canceller::cancel`], stops the work.
//! - [`Statistics`]: what a statement has read, and what it could skip.
//! - [`Parameters`]: values for `$name`.

#[cfg(feature = "cluster")]
mod cluster;
mod convert;
mod functions;
mod keys;
mod names;
mod plan;
mod rules;
mod run;
mod session;
mod stack;
mod syntax;
mod types;
mod walks;
mod work;
mod write;

#[cfg(feature = "cluster")]
pub use cluster::copies::{Copied, copy_table};
#[cfg(feature = "cluster")]
pub use cluster::description::{ClusterDescription, PlacedTable, Placement};
#[cfg(feature = "cluster")]
pub use cluster::loads::{ClusterLoad, ClusterRound};
#[cfg(feature = "cluster")]
pub use cluster::moves::{Moved, move_partition};
#[cfg(feature = "cluster")]
pub use cluster::status::{OfNodes, TableOnNode, cluster_partitions, cluster_tables};
#[cfg(feature = "cluster")]
pub use cluster::storing::NodeStored;
pub use keys::expressions::SqlExpressions;
pub use names::parameters::Parameters;
#[cfg(feature = "cluster")]
pub use run::parts::Node;
pub use run::progress::{ReadSoFar, StatementProgress};
pub use run::report::{NodeWork, Operator, Statistics};
pub use run::statistics::{StoreOperator, TableForecast};
pub use run::stream::BatchStream;
#[cfg(feature = "cluster")]
pub use session::NodeService;
pub use session::describe::Described;
pub use session::divided::DividedAnswer;
pub use session::dry_run::{DryRun, PlannedChange};
pub use session::known::{KnownColumn, KnownFunction};
pub use session::pool::StatementMemory;
pub use session::selection::SqlSelect;
pub use session::{Engine, Session, SessionOptions, Statement};
pub use syntax::lexemes::{Lexeme, LexemeKind, is_complete, lexemes, text_of_literal};
pub use syntax::parse::CopyTarget;
pub use types::list_texts::items_of_array;
pub use work::cancel::Canceller;

#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod progress_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;
#[cfg(test)]
mod writers_tests;
