//! Expressions free of any engine's types: scalar expressions over Arrow arrays, and predicates, a
//! small closed tree that statistics and kernels on encoded data can evaluate.
//!
//! `sql/convert` lowers the part of a filter that zone maps can decide into a [`Predicate`];
//! `query::prune` evaluates it on statistics. Conditions that a predicate cannot express become
//! [`Predicate::Unknown`], which is always safe: it may be true, false or null.

pub mod arithmetic;
pub mod date_part;
pub mod division;
pub mod expression;
pub mod outcomes;
pub mod pattern;
pub mod predicate;

pub use arithmetic::Arithmetic;
pub use date_part::{DatePart, Part};
pub use division::Divisor;
pub use expression::{Choice, Expression, Function, Traits};
pub use outcomes::{Outcome, Outcomes};
pub use pattern::Pattern;
pub use predicate::{Comparison, Operand, Predicate};
