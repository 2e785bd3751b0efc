//! Expressions free of any engine's types: scalar expressions over Arrow arrays, and predicates, a
//! small closed tree that statistics and kernels on encoded data can evaluate.
//!
//! `sql/convert` lowers the part of a filter that zone maps can decide into a [`Predicate`];
//! `query::prune` evaluates it on statistics. Conditions that a predicate cannot express become
//! [`Predicate::Unknown`], which is always safe: it may be true, false or null.

pub(crate) mod arithmetic;
pub(crate) mod date_part;
pub(crate) mod division;
pub(crate) mod expression;
pub(crate) mod integer_set;
pub(crate) mod outcomes;
pub(crate) mod pattern;
pub(crate) mod predicate;
pub(crate) mod sample;

pub(crate) use date_part::{DatePart, Part};
pub(crate) use expression::Choice;
pub use expression::{Expression, Function, Traits};
pub(crate) use integer_set::IntegerSet;
pub(crate) use outcomes::{Outcome, Outcomes};
pub(crate) use pattern::Pattern;
pub use predicate::{Comparison, Operand, Predicate};
pub(crate) use sample::{Choosing, MAX_SAMPLE_ROWS, Sample, SamplePart};
