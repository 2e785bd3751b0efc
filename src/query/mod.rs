//! Running queries on stored columns.
//!
//! Where this stands on the road of a query: after the manifest is read, `prune` decides from
//! statistics alone which segments and blocks can hold a matching row; only those are mapped and
//! decoded.
//!
//! ```text
//! fragment ─ prune ─ scan ─► per thread, block by block, slice by slice:
//!            filter (on codes) ─► group (codes as numbers) ─► aggregate (slot by slot)   ─┐
//!                              └► order (threshold, best blocks first) ──────────────────┴─► merge ─► Arrow columns
//! ```
//!
//! Beside all of it, `stats` counts what is read, pruned and let through.

mod aggregate;
pub(crate) mod filter;
pub mod fragment;
mod group;
#[cfg(test)]
mod distinct_tests;
#[cfg(test)]
mod group_tests;
pub(crate) mod memory;
pub(crate) mod metadata;
pub(crate) mod order;
pub mod prune;
pub mod run;
pub(crate) mod scan;
pub(crate) mod slice;
pub mod stats;
#[cfg(test)]
mod tests;
mod words;

#[cfg(feature = "sql")]
pub(crate) use aggregate::mean;
pub use fragment::{Aggregate, AggregateFunction, Condition, Fragment, OrderBy, Output};
pub use run::{Answer, Context, GroupLimits, refusal, run};
pub(crate) use scan::matching_segments;
pub use stats::{Counters, Recorder};
