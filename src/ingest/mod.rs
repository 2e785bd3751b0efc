//! Ingest: the first half of the road of a byte.
//!
//! Input bytes become typed Arrow batches (`sources`, `infer`, `text`), batches become the rows of
//! a segment (`columns`), and a parallel pipeline keeps every core parsing and encoding in bounded
//! memory (`pipeline`). Rows that cannot be stored are set aside by the parser, counted
//! (`accounting`) and written to a file (`rejects_file`).

pub mod text; // numbers, dates and times in text
pub(crate) mod timestamp_text; // timestamps in short forms, completed
pub mod infer; // types from a sample
pub mod rejects; // rows that cannot be stored
mod rejects_file; // the file of rejected rows
pub mod accounting; // counts of stored and rejected rows
pub mod sources; // CSV, TSV, JSON, Arrow, Parquet
pub mod assign; // exact conversion of values to a column's type
pub mod columns; // batches into the rows of a segment
pub mod arrange; // partitioning and sort order
pub mod partition; // the partition of each row
pub mod partitioned; // rows buffered per partition
pub mod sort; // sorts the rows of a segment
pub mod resume; // which inputs were loaded before, and how far
pub mod options; // load options and memory budgets
pub mod task; // a parsing task and its result
mod feed; // tasks in flight
pub mod pipeline; // the parallel pipeline
pub mod rewrite; // stored segments as input
mod segment_files; // writes encoded segments to files
pub mod tiers; // merges small segments at the end of a table
mod batch_checks; // checks on batches of typed inputs
mod input_tasks; // turns inputs into tasks
pub mod report; // the report of a load
pub mod load; // a whole load, up to its commit
pub(crate) mod widening; // refuses wider types that would lose values
