//! SQL over the tables of a store, and over files by name: the only folder that knows DataFusion.
//!
//! Its rooms, from the bottom; each imports only from those before it (`tests/it/layers.rs` holds
//! them to that):
//!
//! - `convert`: between DataFusion's terms and ours: errors, values, expressions, filters,
//!   statistics.
//! - `walks`: walks over statements, plans and expressions.
//! - `types`: what types mean in statements: decimals, times, intervals, zeros.
//! - `functions`: functions and aggregates in place of DataFusion's, or which it does not have.
//! - `syntax`: what is put right in a statement between the parser and the planner.
//! - `rules`: rules over plans, before and in place of those of DataFusion that answer wrongly.
//! - `keys`: expressions that tables are partitioned by, and filters over them.
//! - `run`: fragments and scans of ours as operators of DataFusion; the answer, batch by batch;
//!   what was counted.
//! - `plan`: which parts of a plan our executor runs, and physical plans.
//! - `write`: INSERT, CREATE TABLE, DELETE and UPDATE; what they store goes into the road of an
//!   ingest.
//! - `names`: what names are: tables of the store, views and parameters of the session, files.
//! - `session`: configuration, memory, threads; a text becomes statements, and a statement an
//!   answer.
//!
//! The road of a query goes through `session`, `syntax`, `names`, DataFusion's planner with
//! `types`, `functions` and `rules`, then `plan` and `run`.
//!
//! `docs/datafusion-faults.md` has a row for each thing that DataFusion gets wrong.
//!
//! - [`Session`]: configuration, memory, threads; parses and runs statements.
//! - [`BatchStream`]: an answer; dropping it, or [`Canceller::cancel`], stops the work.
//! - [`Statistics`]: what a statement has read, and what it has not.
//! - [`Parameters`]: values for `$name`.

mod convert;
mod functions;
mod keys;
mod names;
mod plan;
mod rules;
mod run;
mod session;
mod syntax;
mod types;
mod walks;
mod write;

pub use keys::expressions::SqlExpressions;
pub use names::parameters::Parameters;
pub use run::cancel::Canceller;
pub use run::report::{Operator, Statistics};
pub use run::statistics::StoreOperator;
pub use run::stream::BatchStream;
pub use session::{Session, SessionOptions, Statement};

#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;
