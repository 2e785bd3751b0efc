//! Rules over plans, which run before or in place of those rules of DataFusion that give wrong
//! answers, or take too long, or miss something.
//!
//! Where this stands on the road of a query: analyzer rules before types are coerced and after,
//! logical rules, physical rules, in the order in which `session` lists them.

pub(in crate::sql) mod chosen_rows;
pub(in crate::sql) mod column_names;
pub(in crate::sql) mod computed_limits;
pub(in crate::sql) mod concatenations;
pub(in crate::sql) mod decorrelate;
pub(in crate::sql) mod dependencies;
pub(in crate::sql) mod empty_groups;
pub(in crate::sql) mod empty_sorts;
pub(in crate::sql) mod filter_projections;
pub(in crate::sql) mod frames;
pub(in crate::sql) mod guards;
pub(in crate::sql) mod inner_orders;
pub(in crate::sql) mod kept_limits;
pub(in crate::sql) mod large_limits;
pub(in crate::sql) mod last_branches;
pub(in crate::sql) mod lists;
pub(in crate::sql) mod literal_sides;
pub(in crate::sql) mod null_joins;
pub(in crate::sql) mod null_keys;
pub(in crate::sql) mod null_rows;
pub(in crate::sql) mod opaque;
pub(in crate::sql) mod orders;
pub(in crate::sql) mod outer_joins;
pub(in crate::sql) mod patterns;
pub(in crate::sql) mod set_keys;
pub(in crate::sql) mod set_operations;
pub(in crate::sql) mod set_types;
pub(in crate::sql) mod skipped;
pub(in crate::sql) mod top_keys;
pub(in crate::sql) mod totals;
pub(in crate::sql) mod window_keys;
pub(in crate::sql) mod wrapped;
