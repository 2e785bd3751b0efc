//! From DataFusion's optimized plans to physical ones: the parts that our executor runs, and the
//! rules that know stored tables.

pub(in crate::sql) mod planner;
pub(in crate::sql) mod semi_joins;
pub(in crate::sql) mod lower;
