//! SQL over the tables of a store, and over files by name: the only folder that knows DataFusion.
//!
//! Where this stands on the road of a query: DataFusion parses a statement (`parse`) and plans it (`statement`);
//! `catalog` resolves the names in it, to tables of the store, views of the session (`views`), or files; `lower` gives the
//! parts that our executor can run to `exec`, and the scans under the rest are ours too and give decoded Arrow batches to
//! DataFusion's operators; `stream` hands the answer out, batch by batch, without async. What CREATE TABLE and INSERT store
//! comes out of such an answer and goes into the road of an ingest (`write`).
//!
//! What DataFusion gets wrong is put right before planning (`parse`, `prepared`, `stars` with `inner_names`, `using_names`,
//! `order_names`, `rewrite`), by analyzer rules (`dependencies`, `using`, `frames`, `intervals`, `rounding`, `decimals`, `lists`,
//! `set_operations`, `times`, `zeros`, `zones`, `decorrelate`, `opaque` with `guards`), and by rules and functions in place of its own
//! (`literal_sides`, `null_joins`, `empty_groups`, `semi_joins`, `pushdown`, `null_rows`, `filter_projections`, `orders`, `top_keys`,
//! `kept_limits`, `aggregates` with `extremes`, `percentiles` and `sliding`, `lead`, `text_functions`). `docs/datafusion-faults.md` has
//! a row for each. Rules that a plan does not concern are left out of its planning (`resting`). They walk with the functions of
//! `walks`, and `rules` has what rewrites of expressions share.
//!
//! - [`Session`]: configuration, memory, threads; parses and runs statements.
//! - [`BatchStream`]: an answer; dropping it, or [`Canceller::cancel`], stops the work.
//! - [`Statistics`]: what a statement has read, and what it has not.
//! - [`Parameters`]: values for `$name`.

mod aggregates;
mod assignments;
mod catalog;
mod convert;
mod date_functions;
mod decimals;
mod decorrelate;
mod dependencies;
mod dialect;
mod dynamic;
mod empty_groups;
mod exec;
mod expressions;
mod extremes;
mod files;
mod filter_projections;
mod frames;
mod from_first;
mod generate;
mod guards;
mod held;
mod inner_names;
mod integer_means;
mod intervals;
mod kept_limits;
mod lead;
mod lists;
mod literal_sides;
mod lower;
mod modify;
mod nesting;
mod node;
mod null_joins;
mod null_keys;
mod null_rows;
mod opaque;
mod order_names;
mod orders;
mod ordinals;
mod other_names;
mod parameters;
mod parse;
mod partition_keys;
mod percentiles;
mod precedence;
mod prepared;
mod pushdown;
mod quantified;
mod queue;
mod repeated;
mod resting;
mod rewrite;
mod rounding;
mod row_answers;
mod row_values;
mod rules;
mod runs;
mod scan;
mod semi_joins;
mod session;
mod set_operations;
mod settings;
mod similar;
mod sliding;
mod standard;
mod stars;
mod statement;
mod statistics;
mod subqueries;
mod stream;
mod table;
mod text;
mod text_functions;
mod times;
mod top_keys;
mod types;
mod underscores;
mod using;
mod using_names;
mod values;
mod views;
mod walks;
mod write;
mod zeros;
mod zones;

pub use expressions::SqlExpressions;
pub use parameters::Parameters;
pub use session::{Session, SessionOptions, Statement};
pub use statistics::{Operator, Statistics, StoreOperator};
pub use stream::{BatchStream, Canceller};

#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod write_tests;
