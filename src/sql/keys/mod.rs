//! Expressions that tables are partitioned by, compiled as queries understand them, and filters
//! over them.

mod allowed;
mod bounded;
pub(in crate::sql) mod expressions;
pub(in crate::sql) mod partition_keys;
