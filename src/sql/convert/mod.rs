//! Conversions between DataFusion's types and ours: errors, values, expressions, filters,
//! statistics.

mod advice;
mod arithmetic;
mod error;
mod function;
mod parts;
mod predicate;
mod scalar;
mod statistics;
mod types;

pub(crate) use arithmetic::{to_arithmetic, to_decimal_steps};
pub(crate) use error::{copied, engine_failed, from_arrow, listed, suggestion};
pub(crate) use function::PhysicalFunction;
pub(in crate::sql) use parts::{LONG_CONSTANT, in_parts, is_text, text_bytes};
pub(crate) use predicate::{KeyOperand, to_key_predicate, to_predicate};
pub(crate) use scalar::to_scalar;
pub(crate) use statistics::to_statistics;
pub(in crate::sql) use types::{field_type_name, type_name};
