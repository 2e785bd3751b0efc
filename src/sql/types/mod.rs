//! The meaning of types in statements: booleans, decimals and numbers, times and zones, intervals,
//! UUIDs, zeros.

pub(in crate::sql) mod booleans;
pub(in crate::sql) mod decimals;
pub(in crate::sql) mod integer_means;
pub(in crate::sql) mod intervals;
pub(in crate::sql) mod list_texts;
pub(in crate::sql) mod names;
pub(in crate::sql) mod nested_keys;
pub(in crate::sql) mod nested_order;
mod nested_sorts;
pub(in crate::sql) mod nested_zeros;
pub(in crate::sql) mod outer_columns;
pub(in crate::sql) mod rounding;
pub(in crate::sql) mod times;
pub(in crate::sql) mod uuids;
pub(in crate::sql) mod zeros;
pub(in crate::sql) mod zones;
