//! Running queries on stored columns.
//!
//! Where this stands on the road of a query: `sql/plan` makes a fragment of a part of a plan; here
//! it runs over one generation of its table. The modules from the bottom; each imports only from
//! those before it:
//!
//! | module | what it does |
//! | --- | --- |
//! | `fragment` | what is asked: conditions, keys, aggregates, an order |
//! | `words` | Arrow arrays as 64-bit words and back |
//! | `stats` | counters of what is read, pruned and let through |
//! | `context` | what a run has: threads, memory, limits |
//! | `memory` | what it reserves of the session's memory |
//! | `spill` | what it has no memory for, in a temporary file |
//! | `prune` | statistics tell which segments and blocks may hold a matching row |
//! | `open` | those segments and blocks, open; prefetching |
//! | `slice` | some rows of a block, and which of them are selected |
//! | `filter` | conditions on encoded data leave fewer rows selected |
//! | `walk` | all threads take blocks, filter them, and hand slices to workers |
//! | `sample` | about how many rows pass, for planners |
//! | `select` | the rows that pass, for those who change them |
//! | `aggregate` | the values of rows added to the states of groups |
//! | `group` | rows → numbers of groups → columns of the answer |
//! | `merged_groups` | groups whose states come from several machines |
//! | `group_top` | the first rows of each group |
//! | `order` | the first rows of an order |
//! | `group_bounds` | stored rows that are not among the first of their groups, left out |
//! | `metadata` | answers from the manifest alone |
//! | `forecast` | what would be read, by statistics alone |
//! | `run` | a fragment to the one of these that answers it |

mod aggregate;
mod context;
#[cfg(test)]
mod distinct_tests;
pub(crate) mod filter;
#[cfg(feature = "sql")]
pub(crate) mod forecast;
pub(crate) mod fragment;
mod group;
#[cfg(test)]
mod group_tests;
#[cfg(feature = "sql")]
pub(crate) mod group_bounds;
#[cfg(test)]
#[cfg(feature = "sql")]
mod group_bounds_tests;
#[cfg(feature = "sql")]
pub(crate) mod group_top;
#[cfg(test)]
#[cfg(feature = "sql")]
mod group_top_tests;
pub(crate) mod memory;
#[cfg(feature = "cluster")]
pub(crate) mod merged_groups;
pub(crate) mod metadata;
pub(crate) mod open;
pub(crate) mod order;
#[cfg(test)]
mod order_tests;
pub(crate) mod prune;
pub mod run;
#[cfg(feature = "sql")]
pub(crate) mod sample;
pub(crate) mod select;
pub(crate) mod slice;
mod some_groups;
mod spill;
pub(crate) mod stats;
#[cfg(test)]
mod picked_tests;
#[cfg(test)]
mod stats_tests;
#[cfg(test)]
mod tests;
pub(crate) mod walk;
pub(crate) mod words;

#[cfg(feature = "sql")]
pub(crate) use aggregate::{add_checked, mean, sum_overflow};
pub use context::{Context, GroupLimits};
pub use fragment::{Aggregate, AggregateFunction, Condition, Fragment, Output};
pub(crate) use fragment::{ByColumn, FirstGroups, OrderBy};
pub use run::run;
pub use stats::Recorder;
