//! Running queries on stored columns.
//!
//! Where this stands on the road of a query: after the manifest is read, `prune` decides from statistics alone which
//! segments and blocks can hold a matching row; only those are mapped and decoded.

pub mod fragment;
pub mod prune;
pub mod run;

pub use fragment::{Aggregate, AggregateFunction, Condition, Fragment, OrderBy, Output};
