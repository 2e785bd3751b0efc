//! SQL over the tables of a store, and over files by name: the only folder that knows DataFusion.
//!
//! Where this stands on the road of a query, room by room:
//!
//! - [`session`]: configuration, memory, threads; a text becomes statements, a statement an answer, batch by batch.
//! - [`syntax`]: what is put right in a statement between the parser and the planner.
//! - [`names`]: what the names in it are: tables of the store, views of the session, files.
//! - [`types`]: what its types mean: decimals, times, intervals, zeros. Plans are made over them.
//! - [`rules`]: rules over plans, before and in place of those of DataFusion that answer wrongly.
//! - [`functions`]: functions and aggregates in place of DataFusion's, or which it does not have.
//! - [`plan`]: expressions and parts of plans in the terms of our executor.
//! - [`run`]: those parts, and scans of ours under the rest, as operators of DataFusion.
//! - [`write`]: INSERT, CREATE TABLE, DELETE and UPDATE; what they store goes into the road of an ingest.
//! - [`walks`]: walks over statements, plans and expressions, for all of them.
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
