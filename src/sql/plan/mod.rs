//! From DataFusion's optimized logical plans to physical ones: the parts that our executor runs,
//! and rules that use our operators or what is known about stored tables.

pub(in crate::sql) mod asof;
pub(in crate::sql) mod distinct_on;
pub(in crate::sql) mod first_rows;
pub(in crate::sql) mod grouping_sets;
pub(in crate::sql) mod join_order;
pub(in crate::sql) mod planner;
pub(in crate::sql) mod pushdown;
pub(in crate::sql) mod samples;
pub(in crate::sql) mod semi_joins;
mod share;
pub(in crate::sql) mod summarize;
pub(in crate::sql) mod lower;
