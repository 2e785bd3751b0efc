//! Our fragments and scans as leaf operators of DataFusion plans, result streams, run-time
//! counters.
//!
//! | module | what it has |
//! | --- | --- |
//! | `parts` | where the parts of a table are, if they are on other machines |
//! | `homes` | on which machine rows are, by the values of a column |
//! | `table` | one generation of a table, as scans, fragments and planners know it |
//! | `task` | what another machine does with its part of a table |
//! | `stream` | an answer as an iterator of batches, and how to stop it |
//! | `settings` | the session's own settings, `SET sty.…` |
//! | `stops` | joins that notice that their statement was cancelled |
//! | `dynamic` | filters that operators above a scan fill in while the query runs |
//! | `in_numbers` | whether a column's value is one of some numbers, such as those of a join's key |
//! | `number_sets` | hints on a column of whole numbers as sets of numbers |
//! | `provider` | a table of the store as DataFusion sees it |
//! | `progress` | how far a statement is, for whoever looks on |
//! | `report` | what a statement has done, for `--stats` |
//! | `cut` | where keys change among sorted rows |
//! | `describe` | fragments as EXPLAIN shows them |
//! | `resources` | what groups and first rows take while they are made, and how they come out |
//! | `exec` | fragments as leaf operators |
//! | `generate` | a stream of batches from straight-line code |
//! | `coalesce` | small batches, held until they make a large one |
//! | `held` | rows that wait in memory, or in files |
//! | `leaf` | what all leaf operators have in common |
//! | `unary` | what operators over one input have in common |
//! | `asof` | ASOF JOIN, over ordered sides |
//! | `node` | a fragment as a node of logical plans |
//! | `executions` | the executions of a leaf, each with what its partitions share |
//! | `key_sets` | the keys of a join's hash table as sets of numbers |
//! | `first_rows` | the first rows of each group, before a window numbers them |
//! | `running_windows` | windows whose frames end with their row |
//! | `scan` | scans as leaf operators: blocks filtered and decoded to Arrow |
//! | `shared` | parts of a plan that are computed once and read at several places |
//! | `sort` | sorts of all rows, in as little memory as there is |
//! | `summary` | the answer of SUMMARIZE |
//! | `statistics` | counters of an operator, also as metrics for `EXPLAIN ANALYZE` |
//! | `width` | how many bytes the widest row of a batch may have |
//! | `window_texts` | which texts pass running windows as bytes of their own |
//! | `join_conditions` | what joins of sorted inputs test after the join |
//! | `not_in` | NOT IN of rows that do not fit a hash table |
//! | `waiting_joins` | joins that would wait for rows that nobody asks for |
//! | `wide_rows` | rows so wide that a batch of them does not fit into memory |
//! | `whole_partitions` | windows whose frames reach the end of their partition |

#[cfg(feature = "cluster")]
pub(in crate::sql) mod parts;
#[cfg(feature = "cluster")]
pub(in crate::sql) mod homes;
pub(in crate::sql) mod asof;
pub(in crate::sql) mod table;
#[cfg(feature = "cluster")]
pub(in crate::sql) mod task;
pub(in crate::sql) mod stream;
pub(in crate::sql) mod settings;
pub(in crate::sql) mod stops;
mod in_numbers;
mod number_sets;
pub(in crate::sql) mod dynamic;
pub(in crate::sql) mod provider;
pub(in crate::sql) mod progress;
pub(in crate::sql) mod range_join;
pub(in crate::sql) mod report;
mod cut;
pub(in crate::sql) mod describe;
pub(in crate::sql) mod generate;
pub(in crate::sql) mod coalesce;
pub(in crate::sql) mod resources;
pub(in crate::sql) mod exec;
pub(in crate::sql) mod held;
pub(in crate::sql) mod leaf;
pub(in crate::sql) mod unary;
pub(in crate::sql) mod node;
pub(in crate::sql) mod executions;
pub(in crate::sql) mod join_conditions;
pub(in crate::sql) mod key_sets;
pub(in crate::sql) mod not_in;
pub(in crate::sql) mod first_rows;
pub(in crate::sql) mod running_windows;
pub(in crate::sql) mod scan;
pub(in crate::sql) mod shared;
pub(in crate::sql) mod sort;
pub(in crate::sql) mod statistics;
pub(in crate::sql) mod summary;
mod width;
mod window_texts;
pub(in crate::sql) mod waiting_joins;
pub(in crate::sql) mod wide_rows;
pub(in crate::sql) mod whole_partitions;
